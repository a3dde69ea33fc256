//! Commands about jobs.
//!
//! A command writes to the database and does nothing else: the orchestrator is notified of the change by the database, and its next
//! pass acts on it. So a command works the same from any process, whether an orchestrator runs or not, and one that dies halfway leaves
//! nothing that a pass would not find. No module here may therefore talk to a node or an orchestrator directly; the orders that a
//! node must carry out are rows of the database too.

mod config;
mod counts;
mod create;
mod delete;
mod errors;
mod limits;
mod list;
mod models;
mod plan;
mod quality;
mod rerun;
mod stats;
mod status;
mod steer;
mod summary;

pub use self::config::{Config, Update};
pub use self::counts::{tallies, waiting_stages};
pub use self::create::{Create, models_pair};
pub use self::delete::Delete;
pub use self::errors::Errors;
pub use self::limits::{Limits, Priority};
pub use self::list::List;
pub use self::plan::Plan;
pub use self::quality::Quality;
pub use self::rerun::Rerun;
pub use self::stats::{StageStats, Stats, stage_table};
pub use self::status::Status;
pub use self::steer::{Cancel, Close, Pause, Resume};
pub use self::summary::{JobSummary, ServiceSpending, by_job, counts_by_job};

use parkhang_core::domain::{Job, JobKey};
use parkhang_state::StateStore;

use super::{Admin, Refusal};

/// Returns the job of a name.
///
/// # Errors
///
/// [`Refusal::NotFound`] if there is none; on a command line the message names the database, which may be the wrong one.
pub async fn find(admin: &Admin, key: &JobKey) -> Result<Job, Refusal> {
    admin.store.job(key).await?.ok_or_else(|| {
        let place = admin
            .database
            .as_ref()
            .map_or(String::new(), |place| format!(" in {place}"));
        Refusal::NotFound(format!("there is no job {key}{place}"))
    })
}
