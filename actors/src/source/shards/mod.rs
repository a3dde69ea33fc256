//! Work from manifests in the artifact store: a job is divided into shards, lists of volumes; a process leases a shard for as
//! long as it has work there, and all state is objects of the store. No database is needed.
//!
//! Two things keep writers apart, both made of nothing but creating an object if it is absent. A shard's lease has a term,
//! and who creates the object of the next term has the shard. Each change of a volume is an object with the number of the
//! change, so that whoever acts on a state that is no longer the latest cannot write. The first saves work, the second is the
//! fence.

mod done;
mod error;
mod held;
mod lease;
mod manifest;
mod record;
mod survey;
mod work;

pub use done::{ShardDone, VolumeDone, VolumeFailed};
pub use error::ShardError;
pub use lease::ShardLease;
pub use manifest::JobManifest;
pub use record::TaskRecord;
pub use survey::{ShardState, ShardSurvey};
pub use work::{ShardOptions, Shards};

use crate::domain::TaskId;
#[cfg(test)]
use crate::domain::{JobId, Task, VolumeId};

/// A shard of one of the jobs that a process works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ShardId {
    /// Place of the job among them.
    job: usize,
    shard: u32,
}

/// Bits of a task's id for its line; shards have a million, and jobs what is left.
const LINE_BITS: u32 = 20;
const SHARD_BITS: u32 = 20;

/// A task's id says where its volume stands. It means something within this process only: records name volumes.
fn task_id(id: ShardId, line: u32) -> TaskId {
    let job = id.job as i64 + 1;
    TaskId((((job << SHARD_BITS) | i64::from(id.shard)) << LINE_BITS) | i64::from(line))
}

/// A volume to which nothing has happened.
#[cfg(test)]
pub(in crate::source) fn fresh_task(manifest: &JobManifest, volume: VolumeId) -> Task {
    record::VolumeLog::new(TaskId(0), JobId(0), volume, manifest.params.max_attempts).task
}

/// The shard of a task.
fn shard_of(task: TaskId) -> Option<ShardId> {
    let place = task.0 >> LINE_BITS;
    Some(ShardId {
        job: usize::try_from((place >> SHARD_BITS) - 1).ok()?,
        shard: u32::try_from(place & ((1 << SHARD_BITS) - 1)).ok()?,
    })
}
