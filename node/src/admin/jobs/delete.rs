//! `job delete`: deletes a job in bounded transactions, so that an interrupted deletion can be continued.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use parkhang_core::domain::{Job, JobKey, NodeCommand, NodeRecord, Task, TaskId};
use parkhang_state::StateStore;
use parkhang_store::artifact::ArtifactLayout;
use serde::Serialize;
use utoipa::ToSchema;

use super::{JobSummary, find};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// Longest time of one deletion: longer, and an HTTP client would time out. The next `job delete` continues.
const TIMEOUT: Duration = Duration::from_secs(40);
/// Lifetime of the order by which a node deletes its manifests of the job. A node that is disconnected for longer keeps them until
/// they expire.
const ORDER_STANDS: Duration = Duration::from_secs(3600);
/// Volumes deleted in one transaction.
const BATCH: u32 = 500;
/// Concurrent requests to the storage.
const AT_ONCE: usize = 16;

/// Delete a job that has ended or was cancelled, with its volumes and their history.
///
/// The artifacts stay unless --artifacts is given. A large job takes several calls: when the answer says that volumes are left, or
/// the command was interrupted, give it again and it continues.
#[derive(Debug, Args)]
pub struct Delete {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// Delete the job's artifacts as well.
    #[arg(long)]
    artifacts: bool,
    /// Confirm the deletion; without it nothing is deleted.
    #[arg(long)]
    yes: bool,
}

/// Result of a deletion.
#[derive(Debug, Serialize, ToSchema)]
pub struct Deleted {
    job: String,
    /// Number of volumes deleted.
    volumes: u64,
    /// Number of files deleted.
    artifacts: u64,
    /// Number of volumes that are left; the job stays until there are none.
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
            let what = pluralize(volumes, "volume");
            return Err(Refusal::Invalid(format!(
                "this would delete job {} with {what} for good; --yes confirms it",
                job.key
            )));
        }
        if self.artifacts {
            refuse_if_combined(admin, &job).await?;
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
            let stages = pluralize(running, "stage");
            return Err(Refusal::Conflict(format!(
                "job {}: {stages} still running; they stop at their next checkpoint",
                job.key
            )));
        }
        // The job is closed now, so its tasks only become fewer. It is deleted last: a deletion that was interrupted finds it again.
        let mut deleted = Deleted {
            job: job.key.to_string(),
            volumes: 0,
            artifacts: 0,
            left: volumes,
        };
        let began = Instant::now();
        while began.elapsed() < TIMEOUT {
            let tasks = admin.store.first_tasks(job.id, BATCH).await?;
            if tasks.is_empty() {
                // Before the job itself goes: a deletion that is cut off between the two finds the job again
                // and repeats this.
                forget_on_nodes(admin, &job).await?;
                admin.store.finish_deletion(&job).await?;
                deleted.left = 0;
                break;
            }
            // The artifacts go before their tasks, which are the only record of which volumes still have
            // some.
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

/// Orders the nodes that are there to delete their manifests of the job. Those on other machines expire
/// (`node.keep_manifests`).
async fn forget_on_nodes(admin: &Admin, job: &Job) -> Result<(), Refusal> {
    let order = NodeCommand::ForgetJob { job: job.key.clone() };
    // Orchestrators keep no manifests and would refuse the command.
    let leads = |node: &NodeRecord| node.roles == ["orchestrator"];
    for node in admin.store.nodes().await? {
        if node.state.is_there() && !leads(&node) {
            let (name, by) = (&node.name, &admin.asked_by);
            admin.store.issue_command(name, &order, by, ORDER_STANDS).await?;
        }
    }
    Ok(())
}

/// Refuses where another job shows the pictures and lines of this one.
async fn refuse_if_combined(admin: &Admin, job: &Job) -> Result<(), Refusal> {
    let jobs = admin.store.jobs().await?;
    let by = jobs
        .iter()
        .find(|other| other.config.inputs.jobs().any(|input| *input == job.key));
    match by {
        Some(by) => Err(Refusal::Conflict(format!(
            "job {} combines what job {} has read, and shows its pages; delete that one first, or leave --artifacts out",
            by.key, job.key
        ))),
        None => Ok(()),
    }
}

/// Deletes all artifacts of the job for these volumes; returns the number of files.
///
/// # Errors
///
/// [`Refusal::Conflict`] if the job's layout shares folders with other jobs, whose files cannot be told from its own.
async fn delete_artifacts(admin: &Admin, job: &Job, tasks: &[Task]) -> Result<u64, Refusal> {
    let store = admin.library.store().await?;
    let layout = ArtifactLayout::of(&job.config, &job.key);
    let mut deleted = 0;
    for task in tasks {
        let volume = layout.volume(&task.volume);
        let folder = volume.own_folder().ok_or_else(|| {
            let key = &job.key;
            Refusal::Conflict(format!(
                "job {key}: its layout shares folders with other jobs, so its artifacts cannot be deleted; leave --artifacts out"
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
        let mut text = format!("{}: {} deleted", self.job, pluralize(self.volumes, "volume"));
        if self.artifacts > 0 {
            text.push_str(&format!(", and {}", pluralize(self.artifacts, "file")));
        }
        if self.left > 0 {
            text.push_str(&format!(
                "; {} are left, repeat the command to continue",
                self.left
            ));
        }
        text
    }
}
