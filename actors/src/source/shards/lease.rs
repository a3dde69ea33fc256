use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use parkhang_core::domain::StageName;

/// Lease of a shard for one of its terms. The object of a term is made only if it is absent, so that of several takers one wins;
/// the latest term is the one in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum ShardLease {
    /// Held until the deadline, which the holder moves by writing the object again.
    Held { worker: String, until: DateTime<Utc> },
    /// Released by the holder of the term before. For each stage that volumes wait for, the time since or from which they do.
    Free {
        worker: String,
        waiting: BTreeMap<StageName, DateTime<Utc>>,
    },
}

impl ShardLease {
    /// Returns whether the shard may be taken at `now`, and is worth taking for a process that runs `stages`. A holder that died
    /// left no note of the stages that are waited for, so its shard is worth a look.
    pub fn is_claimable(&self, stages: &BTreeSet<&StageName>, now: DateTime<Utc>) -> bool {
        match self {
            Self::Held { until, .. } => *until <= now,
            Self::Free { waiting, .. } => waiting
                .iter()
                .any(|(stage, due)| stages.contains(stage) && *due <= now),
        }
    }

    /// Returns whether the object may have changed since it was read, as far as that matters at `now`: before the deadline it
    /// does not, as a deadline only moves forward, and a released term never changes.
    pub(super) fn may_have_changed(&self, now: DateTime<Utc>) -> bool {
        matches!(self, Self::Held { until, .. } if *until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::{at, stage};

    /// Rows: 106.
    #[test]
    fn a_shard_is_free_when_its_holder_let_go_or_fell_silent() {
        let [detect, read] = ["detect", "read"].map(stage);
        let (cpu, both) = (BTreeSet::from([&read]), BTreeSet::from([&detect, &read]));
        let worker = "w".to_owned();
        let held = ShardLease::Held {
            worker: worker.clone(),
            until: at(60),
        };
        assert!(!held.is_claimable(&both, at(59)));
        assert!(held.is_claimable(&cpu, at(60)));
        let free = ShardLease::Free {
            worker,
            waiting: BTreeMap::from([(detect.clone(), at(10))]),
        };
        assert!(!free.is_claimable(&both, at(9)));
        assert!(free.is_claimable(&both, at(10)));
        assert!(!free.is_claimable(&cpu, at(500)));
    }
}
