//! What can be asked of jobs and done to them, as functions that return data: whoever asks shows it in its own way.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use chrono::{DateTime, TimeDelta, Utc};
use parkhang_actors::domain::{
    ADJUSTABLE, Adjustment, Job, JobId, JobKey, JobStatus, NewJob, Position, StageName, Task, TaskStatus,
};
use parkhang_actors::policy::job_action::{self, JobAction};
use parkhang_actors::policy::rerun::Rerun;
use parkhang_actors::policy::task_state::TaskState;
use parkhang_actors::state::{JobTaskCount, PostgresStore, StateStore};
use serde::Serialize;
use serde_json::Value;

use super::obstacles::{Hands, Obstacle, obstacles};

/// A job in one line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobSummary {
    pub job: JobKey,
    pub status: JobStatus,
    pub priority: i32,
    /// 0 is any number.
    pub max_running: usize,
    pub created_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
    pub volumes: u64,
    pub done: u64,
    /// Failed for good.
    pub failed: u64,
    pub running: u64,
}

/// A job with all its volumes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobDetails {
    #[serde(flatten)]
    pub summary: JobSummary,
    /// What keeps it from getting on.
    pub obstacles: Vec<Obstacle>,
    pub tasks: Vec<TaskDetails>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskDetails {
    pub volume: String,
    pub state: TaskState,
    /// A stage, or `pending` before the first and `done` after the last.
    pub stage: String,
    pub status: TaskStatus,
    pub attempts: i32,
    pub interruptions: i32,
    pub worker: Option<String>,
    pub error: Option<String>,
}

/// What a rerun did, or would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RerunAnswer {
    pub job: JobKey,
    pub from: StageName,
    pub force: bool,
    /// To be done again.
    pub volumes: Vec<String>,
    /// Meant too, but these have not come as far as the stage and will run it anyway.
    pub not_reached: Vec<String>,
}

pub async fn find(store: &dyn StateStore, name: &JobKey) -> Result<Job> {
    let job = store.job(name).await?;
    job.with_context(|| format!("there is no job {name}"))
}

pub async fn create(store: &dyn StateStore, new: &NewJob) -> Result<JobSummary> {
    let job = store.create_job(new, Utc::now()).await?;
    summarised(store, job).await
}

/// All jobs, the oldest first.
pub async fn list(store: &dyn StateStore) -> Result<Vec<JobSummary>> {
    let jobs = store.jobs().await?;
    let mut counts: BTreeMap<JobId, Vec<JobTaskCount>> = BTreeMap::new();
    for count in store.job_task_counts(None).await? {
        counts.entry(count.job).or_default().push(count);
    }
    let counts_of = |job: &Job| counts.get(&job.id).map_or(&[][..], Vec::as_slice);
    Ok(jobs
        .iter()
        .map(|job| JobSummary::new(job, counts_of(job)))
        .collect())
}

pub async fn summary(store: &dyn StateStore, name: &JobKey) -> Result<JobSummary> {
    let job = find(store, name).await?;
    summarised(store, job).await
}

/// `patience` is how long a node may be silent and still count as there.
pub async fn status(store: &PostgresStore, name: &JobKey, patience: TimeDelta) -> Result<JobDetails> {
    let job = find(store, name).await?;
    let tasks = store.tasks(job.id).await?;
    let hands = Hands {
        led: store.leader().await?.is_some(),
        nodes: &store.nodes().await?,
        patience,
    };
    Ok(JobDetails {
        obstacles: obstacles(&job, &tasks, hands, Utc::now()),
        tasks: tasks.iter().map(|task| TaskDetails::new(task, &job)).collect(),
        summary: summarised(store, job).await?,
    })
}

pub async fn act(store: &dyn StateStore, name: &JobKey, action: JobAction) -> Result<JobSummary> {
    let job = find(store, name).await?;
    let after = store.act_on_job(job.id, action).await;
    summarised(store, after.with_context(|| format!("job {name}"))?).await
}

/// Changes limits, as `key=value`.
pub async fn adjust(store: &dyn StateStore, name: &JobKey, pairs: &[String]) -> Result<JobSummary> {
    let adjustment = Adjustment::new(pairs)?;
    let job = find(store, name).await?;
    let after = store.adjust_job(job.id, &adjustment).await?;
    summarised(store, after).await
}

/// The limits in force: the keys that [`adjust`] can change.
pub async fn limits(store: &dyn StateStore, name: &JobKey) -> Result<BTreeMap<&'static str, Value>> {
    let job = find(store, name).await?;
    let config = serde_json::to_value(&job.config)?;
    let limits = ADJUSTABLE
        .iter()
        .filter_map(|key| Some((*key, config.get(key)?.clone())));
    Ok(limits.collect())
}

pub async fn rerun(store: &dyn StateStore, name: &JobKey, rerun: &Rerun) -> Result<RerunAnswer> {
    let job = find(store, name).await?;
    check(&job, rerun, &store.tasks(job.id).await?)?;
    let done = store.rerun(job.id, rerun, Utc::now()).await;
    let done = done.with_context(|| format!("job {name}"))?;
    Ok(RerunAnswer::new(&job, rerun, &done.tasks, &done.not_reached))
}

/// What [`rerun`] would do.
pub async fn rerun_plan(store: &dyn StateStore, name: &JobKey, rerun: &Rerun) -> Result<RerunAnswer> {
    let job = find(store, name).await?;
    let tasks = store.tasks(job.id).await?;
    check(&job, rerun, &tasks)?;
    let split = rerun.split(&job, &tasks);
    Ok(RerunAnswer::new(&job, rerun, split.reached, split.not_reached))
}

/// A stage or a volume that the job does not have was written wrongly.
fn check(job: &Job, rerun: &Rerun, tasks: &[Task]) -> Result<()> {
    job_action::after(job.status, JobAction::Rerun).with_context(|| format!("job {}", job.key))?;
    for stage in [Some(&rerun.from), rerun.tasks.stage.as_ref()]
        .into_iter()
        .flatten()
    {
        let stages = job.pipeline.stages();
        if !stages.contains(stage) {
            let stages: Vec<&str> = stages.iter().map(StageName::as_str).collect();
            bail!(
                "job {} has no stage {stage}; its stages are {}",
                job.key,
                stages.join(", ")
            );
        }
    }
    let names: Vec<String> = tasks.iter().map(|task| task.volume.to_string()).collect();
    for pattern in &rerun.tasks.volumes {
        if !names.iter().any(|name| pattern.matches(name)) {
            bail!("job {} has no volume {pattern}", job.key);
        }
    }
    Ok(())
}

async fn summarised(store: &dyn StateStore, job: Job) -> Result<JobSummary> {
    let counts = store.job_task_counts(Some(job.id)).await?;
    Ok(JobSummary::new(&job, &counts))
}

impl JobSummary {
    fn new(job: &Job, counts: &[JobTaskCount]) -> Self {
        let count = |wanted: &dyn Fn(&JobTaskCount) -> bool| -> u64 {
            let counts = counts.iter().filter(|count| wanted(count));
            counts.map(|count| count.tasks).sum()
        };
        Self {
            job: job.key.clone(),
            status: job.status,
            priority: job.config.priority,
            max_running: job.config.max_running,
            created_at: job.created_at,
            finished_at: job.finished_at,
            volumes: count(&|_| true),
            done: count(&|count| count.position == Position::Done),
            failed: count(&|count| count.terminal),
            running: count(&|count| count.status == TaskStatus::Running),
        }
    }
}

impl TaskDetails {
    fn new(task: &Task, job: &Job) -> Self {
        Self {
            volume: task.volume.to_string(),
            state: TaskState::of(task, job),
            stage: task.position.to_string(),
            status: task.status,
            attempts: task.attempts,
            interruptions: task.interruptions,
            worker: task.lease.as_ref().map(|lease| lease.worker.to_string()),
            error: task.last_error.as_ref().map(|error| error.message.clone()),
        }
    }
}

impl RerunAnswer {
    fn new<'a>(
        job: &Job,
        rerun: &Rerun,
        again: impl IntoIterator<Item = &'a Task>,
        not_reached: impl IntoIterator<Item = &'a Task>,
    ) -> Self {
        let name = |task: &Task| task.volume.to_string();
        Self {
            job: job.key.clone(),
            from: rerun.from.clone(),
            force: rerun.force,
            volumes: again.into_iter().map(name).collect(),
            not_reached: not_reached.into_iter().map(name).collect(),
        }
    }
}
