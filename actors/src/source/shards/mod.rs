//! Work from manifests in the artifact store: a job is divided into shards, lists of volumes; a process leases a shard for as
//! long as it has work there, and all state is objects of the store. No database is needed.
//!
//! Two things keep writers apart, and both need nothing from the store but creating an object if it is absent, which every object
//! store can do. A shard's lease has a term, and the process that creates the object of the next term has the shard. Each change of
//! a volume is an object with the number of the change, so that a process which acts on a state that is no longer the latest
//! cannot write; these objects are the volume's history, too. The first saves work, the second is the fence.
//!
//! A shard is leased and not each volume, because a lease costs requests: a process that holds a shard reads its state once, and
//! renews one object for all its volumes.

mod control;
mod done;
mod error;
mod held;
mod lease;
mod manifest;
mod place;
mod record;
mod search;
mod survey;
mod work;

#[cfg(test)]
mod tests;

pub use control::ShardOrder;
pub use done::ShardDone;
pub use error::ShardError;
pub use lease::ShardLease;
pub use manifest::JobManifest;
pub use place::{InvalidShardSize, ShardSize};
pub use record::TaskRecord;
pub use survey::{ShardState, ShardSurvey};
pub use work::{ShardOptions, Shards};

#[cfg(test)]
use parkhang_core::domain::{JobId, Task, TaskId, VolumeId};

/// A volume to which nothing has happened.
#[cfg(test)]
pub(in crate::source) fn fresh_task(manifest: &JobManifest, volume: VolumeId) -> Task {
    record::VolumeLog::new(TaskId(0), JobId(0), volume, manifest.params.max_attempts).task
}
