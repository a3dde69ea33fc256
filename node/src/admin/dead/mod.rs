//! Dead letters: volumes that failed for good, because their tries were used up, no further try could help, or they kept costing
//! their nodes.

mod list;
mod redrive;
mod show;

use parkhang_core::domain::{Job, JobKey, Task, VolumeId};
use parkhang_core::policy::transition::is_terminal;
use serde::Serialize;
use utoipa::ToSchema;

use super::tasks::find as find_task;
use super::{Admin, Refusal};

pub use self::list::List;
pub use self::redrive::Redrive;
pub use self::show::Show;

/// A volume that failed for good.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DeadLetter {
    /// `W-I`
    volume: String,
    task: i64,
    /// Where it failed.
    stage: String,
    category: String,
    /// Why its last try failed.
    error: String,
    /// Failed tries.
    attempts: i32,
    /// Nodes that it lost in a row.
    interruptions: i32,
}

impl DeadLetter {
    fn of(task: &Task) -> Self {
        let error = task.last_error.as_ref();
        Self {
            volume: task.volume.to_string(),
            task: task.id.0,
            stage: task.position.to_string(),
            category: error
                .map_or("unknown", |error| error.category.as_str())
                .to_owned(),
            error: error.map(|error| error.message.clone()).unwrap_or_default(),
            attempts: task.attempts,
            interruptions: task.interruptions,
        }
    }
}

async fn find(admin: &Admin, job: &JobKey, volume: &VolumeId) -> Result<(Job, Task), Refusal> {
    let (job, task) = find_task(admin, job, volume).await?;
    match is_terminal(&task, job.config.retry_scope) {
        true => Ok((job, task)),
        false => Err(Refusal::Conflict(format!("{volume} has not failed for good"))),
    }
}

#[cfg(test)]
mod tests;
