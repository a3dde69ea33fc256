use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use parkhang_core::domain::StageName;

/// Who may work in a shard during one of its terms. The object of a term is made only if it is absent, by which of several
/// takers one wins; the latest term is the one in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum ShardLease {
    /// The holder writes the object again to move the deadline.
    Held { worker: String, until: DateTime<Utc> },
    /// The holder of the term before let go. For each stage that volumes wait for: since when, or from when on.
    Free {
        worker: String,
        waiting: BTreeMap<StageName, DateTime<Utc>>,
    },
}

impl ShardLease {
    /// Whether the shard may be taken, and is worth taking for whoever runs `stages`. Of a holder that died nobody knows what
    /// it left.
    pub fn invites(&self, stages: &BTreeSet<&StageName>, now: DateTime<Utc>) -> bool {
        match self {
            Self::Held { until, .. } => *until <= now,
            Self::Free { waiting, .. } => waiting
                .iter()
                .any(|(stage, due)| stages.contains(stage) && *due <= now),
        }
    }

    /// Whether the object may have changed since it was read, as far as that matters at `now`: a deadline only moves away.
    pub(super) fn may_have_changed(&self, now: DateTime<Utc>) -> bool {
        matches!(self, Self::Held { until, .. } if *until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: 106.
    #[test]
    fn a_shard_is_free_when_its_holder_let_go_or_fell_silent() {
        let at = |seconds: i64| DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap();
        let [detect, read] = ["detect", "read"].map(|name| StageName::new(name).unwrap());
        let (cpu, both) = (BTreeSet::from([&read]), BTreeSet::from([&detect, &read]));
        let worker = "w".to_owned();
        let held = ShardLease::Held {
            worker: worker.clone(),
            until: at(60),
        };
        assert!(!held.invites(&both, at(59)));
        assert!(held.invites(&cpu, at(60)));
        let free = ShardLease::Free {
            worker,
            waiting: BTreeMap::from([(detect.clone(), at(10))]),
        };
        assert!(!free.invites(&both, at(9)));
        assert!(free.invites(&both, at(10)));
        assert!(!free.invites(&cpu, at(500)));
    }
}
