//! Task ids within a process, made of the positions of volumes in the manifests.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use parkhang_core::domain::TaskId;

/// Bits of a task's id for its line and for its shard; the remaining ones are for the job.
const LINE_BITS: u32 = 20;
const SHARD_BITS: u32 = 20;

/// Limit on the shards of a job.
pub(super) const MAX_SHARDS: u32 = 1 << SHARD_BITS;

/// A shard of one of the jobs that a process works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ShardId {
    /// Index of the job among them.
    pub job: usize,
    pub shard: u32,
}

/// Makes the id of a task from the position of its volume. It has a meaning within this process only: records name volumes.
///
/// The shard is below [`MAX_SHARDS`] and the line below [`ShardSize::MAX`]: manifests that say otherwise are refused.
pub(super) fn task_id(id: ShardId, line: u32) -> TaskId {
    // From 1 on, so that no id is 0, and a small one that comes from elsewhere is in no shard.
    let job = id.job as i64 + 1;
    TaskId((((job << SHARD_BITS) | i64::from(id.shard)) << LINE_BITS) | i64::from(line))
}

/// The shard of a task; `None` for an id that was not made here.
pub(super) fn shard_of(task: TaskId) -> Option<ShardId> {
    let place = task.0 >> LINE_BITS;
    Some(ShardId {
        // The part for the job counts from 1; an id from elsewhere has 0 there, and -1 is no index.
        job: usize::try_from((place >> SHARD_BITS) - 1).ok()?,
        shard: u32::try_from(place & i64::from(MAX_SHARDS - 1)).ok()?,
    })
}

/// Number of volumes in a shard, which one process takes at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardSize(NonZeroU32);

/// A number of volumes that a shard cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a shard has from 1 to {} volumes, not {given}", ShardSize::MAX)]
pub struct InvalidShardSize {
    pub given: String,
}

impl InvalidShardSize {
    pub(super) fn of(given: impl fmt::Display) -> Self {
        Self {
            given: given.to_string(),
        }
    }
}

impl ShardSize {
    /// Limit on volumes in a shard.
    pub const MAX: u32 = 1 << LINE_BITS;

    /// A size of so many volumes.
    ///
    /// # Errors
    ///
    /// When it is 0 or above [`ShardSize::MAX`].
    pub fn new(volumes: u32) -> Result<Self, InvalidShardSize> {
        NonZeroU32::new(volumes)
            .filter(|size| size.get() <= Self::MAX)
            .map(Self)
            .ok_or_else(|| InvalidShardSize::of(volumes))
    }

    pub(super) fn get(self) -> usize {
        self.0.get() as usize
    }
}

impl FromStr for ShardSize {
    type Err = InvalidShardSize;

    fn from_str(text: &str) -> Result<Self, InvalidShardSize> {
        Self::new(text.parse().map_err(|_| InvalidShardSize::of(text))?)
    }
}

impl fmt::Display for ShardSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As many as a positive id has room for.
    const MAX_JOBS: usize = (1 << (i64::BITS - 1 - SHARD_BITS - LINE_BITS)) - 1;

    /// Any number below `end`, its neighbourhood above all.
    fn below(end: u32) -> impl Strategy<Value = u32> {
        prop_oneof![0..end, end - 2..end, 0..2u32]
    }

    proptest! {
        #[test]
        fn an_id_says_where_its_volume_stands(
            job in prop_oneof![0..MAX_JOBS, MAX_JOBS - 2..MAX_JOBS, 0..2usize],
            shard in below(MAX_SHARDS),
            line in below(ShardSize::MAX),
        ) {
            let id = ShardId { job, shard };
            let task = task_id(id, line);
            prop_assert!(task.0 > 0);
            prop_assert_eq!(shard_of(task), Some(id));
            prop_assert_eq!(task.0 & i64::from(ShardSize::MAX - 1), i64::from(line));
        }
    }

    #[test]
    fn a_size_is_what_ids_have_room_for() {
        assert_eq!("1".parse(), ShardSize::new(1));
        assert_eq!("1048576".parse(), ShardSize::new(ShardSize::MAX));
        for refused in ["0", "1048577", "4294967296", "-1", "many"] {
            let error = refused.parse::<ShardSize>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("a shard has from 1 to 1048576 volumes, not {refused}")
            );
        }
    }

    #[test]
    fn ids_of_other_sources_are_no_place() {
        assert_eq!(shard_of(TaskId(0)), None);
        assert_eq!(shard_of(TaskId(7)), None);
        assert_eq!(shard_of(TaskId(-1)), None);
    }
}
