//! Judgement of a history: what must hold of every one.

use std::collections::{BTreeMap, BTreeSet};

use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{FailureKind, JobStatus, Position, StageRun, StageRunStatus, Task, TaskStatus};
use parkhang_state::{ServiceStore, StateStore};
use parkhang_store::artifact::ArtifactLayout;
use parkhang_store::storage::ArtifactStore;
use serde_json::Value;

use super::script::{Answer, End, History};
use super::simulated::{Known, Tried, result_of};
use super::world::{LIMITS, Past, STAGES};

/// Tries of a task at a stage between two reruns.
type Tries<'a> = BTreeMap<(usize, &'a str), Vec<&'a StageRun>>;

/// Panics at the first breach.
pub(crate) async fn judge(history: &History, past: &Past) {
    let known = past.service.tries();
    let mut held = BTreeSet::new();
    for task in &past.tasks {
        let runs = past.store.stage_runs(task.id).await.unwrap();
        let mut tries = Tries::new();
        for run in &runs {
            let tried = tried(run);
            held.insert(tried.clone());
            judge_run(history, past, run, known.get(&tried)).await;
            let segment = segment(past, task, run);
            let of_stage = tries.entry((segment, run.fence.stage.as_str())).or_default();
            of_stage.push(run);
        }
        judge_tries(&tries, &known);
        judge_end(past, task, &tries);
        let jobs = past.store.service_jobs(task.id).await.unwrap();
        let named: BTreeSet<&str> = jobs.iter().map(|job| job.job.as_str()).collect();
        assert_eq!(named.len(), jobs.len(), "a job is of one lease: {jobs:?}");
    }
    let strays: Vec<&Tried> = known.keys().filter(|tried| !held.contains(tried)).collect();
    assert!(strays.is_empty(), "submitted without a lease: {strays:?}");
    let told = past.service.cancelled();
    let unique: BTreeSet<&String> = told.iter().collect();
    assert_eq!(unique.len(), told.len(), "a job is cancelled once: {told:?}");
    assert!(past.is_cancelled || told.is_empty() || !past.reruns.is_empty());
}

fn tried(run: &StageRun) -> Tried {
    Tried {
        task: run.fence.task.0,
        stage: run.fence.stage.to_string(),
        attempt: run.fence.attempt.0.into(),
        generation: run.fence.generation.0,
    }
}

/// Number of reruns of a task before a run of it began.
fn segment(past: &Past, task: &Task, run: &StageRun) -> usize {
    let from = past.reruns.iter().filter_map(|rerun| rerun.get(&task.id));
    from.filter(|from| run.fence.generation >= **from).count()
}

/// A run has an end, and a reason for it that the service gave.
async fn judge_run(history: &History, past: &Past, run: &StageRun, known: Option<&Known>) {
    let nothing = Known::default();
    let known = known.unwrap_or(&nothing);
    let ended_at = run
        .ended_at
        .unwrap_or_else(|| panic!("in flight for ever: {run:?}"));
    match run.status {
        StageRunStatus::Running => panic!("in flight for ever: {run:?}"),
        StageRunStatus::Done => {
            let (job, conduct) = known.job.as_ref().unwrap();
            assert!(
                known.is_told_done && conduct.end == End::Result,
                "{run:?}: {known:?}"
            );
            let task = past.store.task(run.fence.task).await.unwrap().unwrap();
            let layout = ArtifactLayout::new(past.job.config.layout, &past.job.key).volume(&task.volume);
            let bytes = past.artifacts.get(&layout.service_result(&run.fence)).await;
            let object: Value = serde_json::from_slice(&bytes.unwrap()).unwrap();
            assert_eq!(object["result"], result_of(&tried(run), job), "{run:?}");
        }
        StageRunStatus::Failed => {
            let error = run.error.as_ref().unwrap();
            let kind = if error.retryable {
                FailureKind::Retriable
            } else {
                FailureKind::Hard
            };
            let silent = (ended_at - run.started_at).to_std().unwrap() >= LIMITS.stuck_timeout;
            let is_stuck = silent && error.message.starts_with("ETIMEDOUT: no end of the job");
            assert!(
                is_stuck || known.failures.contains(&kind),
                "without a reason: {run:?}: {known:?}"
            );
            // With nothing in its way, a job that has an end is heard of in time.
            let is_heard = known
                .job
                .as_ref()
                .is_some_and(|(_, conduct)| conduct.end != End::Never);
            assert!(
                !is_stuck || !is_heard || has_trouble(history),
                "missed: {run:?}: {known:?}"
            );
        }
        // The lease was given back before anything was sent, or a rerun has ended it.
        StageRunStatus::Interrupted => {
            let task = past.store.task(run.fence.task).await.unwrap().unwrap();
            let reruns = past.reruns.iter().filter(|rerun| rerun.contains_key(&task.id));
            let is_ended_by_rerun = segment(past, &task, run) < reruns.count();
            assert!(known.keys.is_empty() || is_ended_by_rerun, "{run:?}: {known:?}");
        }
        StageRunStatus::Cancelled => assert!(past.is_cancelled, "{run:?}"),
    }
}

/// True if the services or the leaders may be out of reach for long.
fn has_trouble(history: &History) -> bool {
    let refuses = |answer: &Answer| !matches!(answer, Answer::InTime | Answer::Empty | Answer::Nameless);
    !history.outages.is_empty()
        || !history.steps.is_empty()
        || history.submits.iter().any(|conduct| refuses(&conduct.answer))
}

/// A try has one key, a stage as many tries as it grants, and one good end.
fn judge_tries(tries: &Tries<'_>, known: &BTreeMap<Tried, Known>) {
    for ((_, name), runs) in tries {
        let count = |status: StageRunStatus| runs.iter().filter(|run| run.status == status).count();
        let failed = count(StageRunStatus::Failed);
        assert!(failed <= LIMITS.max_retries as usize + 1, "{name}: {runs:?}");
        assert!(count(StageRunStatus::Done) <= 1, "done twice: {runs:?}");
        let mut keys: BTreeMap<i64, BTreeSet<&String>> = BTreeMap::new();
        for run in runs {
            let tried = tried(run);
            let of_attempt = keys.entry(tried.attempt).or_default();
            of_attempt.extend(known.get(&tried).into_iter().flat_map(|known| &known.keys));
        }
        for (attempt, keys) in keys {
            assert!(
                keys.len() <= 1,
                "try {attempt} of {name} has several keys: {keys:?}"
            );
        }
        for run in &runs[..runs.len() - 1] {
            let is_hopeless = run.error.as_ref().is_some_and(|error| !error.retryable);
            assert!(!is_hopeless, "tried again: {run:?}");
        }
    }
}

/// A task is done, has failed for good, or was cancelled.
fn judge_end(past: &Past, task: &Task, tries: &Tries<'_>) {
    assert!(task.lease.is_none());
    if past.job.status == JobStatus::Cancelled {
        return assert!(past.is_cancelled);
    }
    let last = |name: &str| {
        let of_stage = tries.iter().filter(|((_, stage), _)| *stage == name);
        let (_, runs) = of_stage.max_by_key(|((segment, _), _)| *segment)?;
        runs.last().copied()
    };
    let ended = match (&task.position, task.status) {
        (Position::Done, TaskStatus::Done) => STAGES.len(),
        (Position::At(at), TaskStatus::Failed) => STAGES.iter().position(|name| stage(name) == *at).unwrap(),
        other => panic!("not over: {other:?}"),
    };
    for name in &STAGES[..ended] {
        assert_eq!(last(name).unwrap().status, StageRunStatus::Done, "{name}");
    }
    let Some(name) = STAGES.get(ended) else { return };
    let run = last(name).unwrap();
    assert_eq!(run.status, StageRunStatus::Failed, "{run:?}");
    let segments = tries.iter().filter(|((_, stage), _)| stage == name);
    let (_, runs) = segments.max_by_key(|((segment, _), _)| *segment).unwrap();
    let failed = runs.iter().filter(|run| run.status == StageRunStatus::Failed);
    let error = run.error.as_ref().unwrap();
    assert!(
        !error.retryable || failed.count() == LIMITS.max_retries as usize + 1,
        "a retry is left: {runs:?}"
    );
}
