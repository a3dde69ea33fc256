//! Jobs of a cluster. The orchestrator hears of every change through the database.

mod config;
mod create;
mod delete;
mod errors;
mod limits;
mod list;
mod models;
mod plan;
mod rerun;
mod stats;
mod status;
mod steer;
mod summary;
mod tally;

pub use self::config::{Config, Update};
pub use self::create::{Create, models_pair};
pub use self::delete::Delete;
pub use self::errors::Errors;
pub use self::limits::{Limits, Priority};
pub use self::list::List;
pub use self::plan::Plan;
pub use self::rerun::Rerun;
pub use self::stats::{StageStats, Stats, stage_table};
pub use self::status::Status;
pub use self::steer::{Cancel, Pause, Resume};
pub use self::summary::{JobSummary, by_job, counts_by_job};
pub use self::tally::{tallies, waiting_stages};

use parkhang_core::domain::{Job, JobKey};
use parkhang_state::StateStore;

use super::{Admin, Refusal};

pub async fn find(admin: &Admin, key: &JobKey) -> Result<Job, Refusal> {
    let job = admin.store.job(key).await?;
    job.ok_or_else(|| {
        let place = admin.database.as_ref();
        let place = place.map_or(String::new(), |place| format!(" in {place}"));
        Refusal::NotFound(format!("there is no job {key}{place}"))
    })
}
