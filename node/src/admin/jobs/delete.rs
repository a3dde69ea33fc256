use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use parkhang_core::domain::{Job, JobKey, NodeOrder, NodeRecord, Task, TaskId};
use parkhang_state::StateStore;
use parkhang_store::artifact::ArtifactLayout;
use serde::Serialize;
use utoipa::ToSchema;

use super::{JobSummary, find};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};
use crate::words::counted;

/// A deletion stops after so long, where whoever asked for it would have given up soon; the next one goes on.
const PATIENCE: Duration = Duration::from_secs(40);
/// A node that is out of touch for longer keeps what it has.
const ORDER_STANDS: Duration = Duration::from_secs(3600);
/// Volumes of a transaction.
const BATCH: u32 = 500;
/// Requests to the storage under way at once.
const AT_ONCE: usize = 16;

/// Delete a job that has ended or was cancelled, with its volumes and their history; the artifacts stay unless --artifacts is given.
///
/// A large job takes a while. A deletion that was cut off, or that says that some are left, goes on when the command is given again.
#[derive(Debug, Args)]
pub struct Delete {
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// Delete what the job has written as well.
    #[arg(long)]
    artifacts: bool,
    /// Really delete it.
    #[arg(long)]
    yes: bool,
}

/// What was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub struct Deleted {
    job: String,
    /// Volumes that are gone.
    volumes: u64,
    /// Files that are gone.
    artifacts: u64,
    /// Volumes that are still there; the job is too while there are any.
    left: u64,
}

#[async_trait]
impl Command for Delete {
    const NAME: [&'static str; 2] = ["job", "delete"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/delete";
    type Answer = Deleted;

    async fn run(self, admin: &Admin) -> Result<Deleted, Refusal> {
        let job = find(admin, &self.job).await?;
        let volumes = JobSummary::of(admin, &job).await?.volumes;
        if !self.yes {
            let what = counted(volumes, "volume");
            return Err(Refusal::Invalid(format!(
                "job {} with {what} would be deleted for good: --yes says that this is meant",
                job.key
            )));
        }
        let about = |error| Refusal::about(&format!("job {}", job.key), error);
        let running = admin
            .store
            .begin_deletion(job.id, Utc::now())
            .await
            .map_err(|error| match about(error) {
                Refusal::Conflict(why) => {
                    Refusal::Conflict(format!("{why}; cancel it first: node job cancel {}", job.key))
                }
                refusal => refusal,
            })?;
        if running > 0 {
            let stages = counted(running, "stage");
            return Err(Refusal::Conflict(format!(
                "job {}: {stages} of it still run; they stop at their next checkpoint",
                job.key
            )));
        }
        let mut deleted = Deleted {
            job: job.key.to_string(),
            volumes: 0,
            artifacts: 0,
            left: volumes,
        };
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let tasks = admin.store.first_tasks(job.id, BATCH).await?;
            if tasks.is_empty() {
                forget_on_nodes(admin, &job).await?;
                admin.store.finish_deletion(&job).await?;
                deleted.left = 0;
                break;
            }
            if self.artifacts {
                deleted.artifacts += delete_artifacts(admin, &job, &tasks).await?;
            }
            let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
            admin.store.delete_tasks(job.id, &ids).await?;
            deleted.volumes += ids.len() as u64;
            deleted.left = volumes.saturating_sub(deleted.volumes);
        }
        Ok(deleted)
    }
}

/// Has the nodes that are there remove what they recorded of the job for themselves. What lies on machines that are not goes
/// after a while.
async fn forget_on_nodes(admin: &Admin, job: &Job) -> Result<(), Refusal> {
    let order = NodeOrder::ForgetJob { job: job.key.clone() };
    let leads = |node: &NodeRecord| node.roles == ["orchestrator"];
    for node in admin.store.nodes().await? {
        if node.state.is_there() && !leads(&node) {
            let (name, by) = (&node.name, &admin.asked_by);
            admin.store.place_order(name, &order, by, ORDER_STANDS).await?;
        }
    }
    Ok(())
}

/// Everything that the job has written for the volumes; returns how many files there were.
async fn delete_artifacts(admin: &Admin, job: &Job, tasks: &[Task]) -> Result<u64, Refusal> {
    let store = admin.library.store().await?;
    let layout = ArtifactLayout::new(job.config.layout, &job.key);
    let mut deleted = 0;
    for task in tasks {
        let volume = layout.volume(&task.volume);
        let folder = volume.own_folder().ok_or_else(|| {
            let key = &job.key;
            Refusal::Conflict(format!(
                "job {key}: its layout shares folders with other jobs; leave --artifacts out"
            ))
        })?;
        let keys = store.list(folder).await.map_err(anyhow::Error::from)?;
        deleted += keys.len() as u64;
        let deletions = stream::iter(keys).map(|(key, _)| async move { store.delete(&key).await });
        deletions
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await
            .map_err(anyhow::Error::from)?;
    }
    Ok(deleted)
}

impl Answer for Deleted {
    fn text(&self) -> String {
        let mut text = format!("{}: {} deleted", self.job, counted(self.volumes, "volume"));
        if self.artifacts > 0 {
            text.push_str(&format!(", and {}", counted(self.artifacts, "file")));
        }
        if self.left > 0 {
            text.push_str(&format!("; {} are left: give the command again", self.left));
        }
        text
    }
}
