use proptest::prelude::*;

use super::*;
use crate::domain::{ErrorCategory, JobConfig, JobId, JobKey, Lease, Pipeline, TaskId, VolumeId};
use crate::policy::placement::{FreeSlots, place};

const STAGES: [&str; 2] = ["read", "reduce"];

fn stage(name: &str) -> StageName {
    StageName::new(name).unwrap()
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000, 0).unwrap()
}

fn job() -> Job {
    Job {
        id: JobId(1),
        key: JobKey::new("job").unwrap(),
        operation: "ocr".to_owned(),
        pipeline: Pipeline::new(STAGES.map(stage).to_vec()).unwrap(),
        config: JobConfig::default(),
        status: JobStatus::Running,
        created_at: now(),
        finished_at: None,
    }
}

fn fresh() -> Task {
    Task::fresh(TaskId(1), JobId(1), VolumeId::new("W1", "I1").unwrap(), 3)
}

fn worker(name: &str) -> WorkerId {
    WorkerId(name.to_owned())
}

fn pool(name: &str, stage_name: &str, slots: usize) -> PoolInfo {
    PoolInfo {
        worker: worker(name),
        stage: stage(stage_name),
        slots,
        models: Vec::new(),
    }
}

fn held(name: &str, job: i64, stage_name: &str, leases: usize) -> Held {
    Held {
        worker: worker(name),
        job: JobId(job),
        stage: stage(stage_name),
        leases,
        suspects: 0,
    }
}

fn failed(retryable: bool, not_before: Option<DateTime<Utc>>) -> Task {
    let error = StageError::new("read", ErrorCategory::Network, "no route");
    Task {
        position: Position::At(stage("read")),
        status: TaskStatus::Failed,
        attempts: 1,
        not_before,
        last_error: Some(StageError { retryable, ..error }),
        ..fresh()
    }
}

#[test]
fn the_first_blocker_is_named() {
    let pools = [pool("a", "read", 2)];
    let of = |task: &Task, job: &Job, pools: &[PoolInfo], held: &[Held]| why(task, job, pools, held, now());
    assert_eq!(
        of(&fresh(), &job(), &pools, &[]),
        Blocker::Nothing {
            stage: stage("read"),
            free: 2
        }
    );
    assert_eq!(
        of(&fresh(), &job(), &[], &[]),
        Blocker::NoPool { stage: stage("read") }
    );
    let busy = [held("a", 2, "read", 2)];
    assert_eq!(
        of(&fresh(), &job(), &pools, &busy),
        Blocker::NoSlot {
            stage: stage("read"),
            slots: 2
        }
    );
    let paused = Job {
        status: JobStatus::Paused,
        ..job()
    };
    assert_eq!(
        of(&fresh(), &paused, &[], &[]),
        Blocker::Job {
            status: JobStatus::Paused
        }
    );
    let limited = Job {
        config: JobConfig {
            max_running: 1,
            ..JobConfig::default()
        },
        ..job()
    };
    let own = [held("gone", 1, "reduce", 1)];
    let limit = Blocker::Limit {
        stage: stage("read"),
        key: "max_running",
        limit: 1,
        held: 1,
    };
    assert_eq!(of(&fresh(), &limited, &pools, &own), limit);
    let suspect = Task {
        interruptions: 2,
        ..fresh()
    };
    let beside = [held("a", 2, "read", 1)];
    let alone = Blocker::Suspect { stage: stage("read") };
    assert_eq!(of(&suspect, &job(), &pools, &beside), alone);
    let due = now() + chrono::Duration::seconds(5);
    assert!(matches!(of(&failed(true, Some(due)), &job(), &pools, &[]),
        Blocker::BackingOff { until, error: Some(_), .. } if until == due));
    assert!(matches!(
        of(&failed(false, None), &job(), &pools, &[]),
        Blocker::Failed { error: Some(_) }
    ));
    let finished = Task {
        position: Position::Done,
        status: TaskStatus::Done,
        ..fresh()
    };
    assert_eq!(of(&finished, &job(), &pools, &[]), Blocker::Finished);
}

#[test]
fn a_lease_is_in_force_until_its_deadline() {
    let leased = |seconds| Task {
        position: Position::At(stage("read")),
        status: TaskStatus::Running,
        lease: Some(Lease {
            worker: worker("a"),
            until: now() + chrono::Duration::seconds(seconds),
        }),
        ..fresh()
    };
    assert!(matches!(
        why(&leased(1), &job(), &[], &[], now()),
        Blocker::Running { .. }
    ));
    assert!(matches!(
        why(&leased(0), &job(), &[], &[], now()),
        Blocker::Overdue { .. }
    ));
}

fn status() -> impl Strategy<Value = JobStatus> {
    prop::sample::select(JobStatus::ALL.to_vec())
}

fn task() -> impl Strategy<Value = Task> {
    let due = prop::option::of(-5..5_i64);
    (any::<bool>(), any::<bool>(), due, 0..3_u8).prop_map(|(retryable, has_failed, due, place)| {
        let due = due.map(|seconds| now() + chrono::Duration::seconds(seconds));
        let at_end = Task {
            position: Position::Done,
            status: TaskStatus::Done,
            ..fresh()
        };
        let between = Task {
            position: Position::At(stage("read")),
            status: TaskStatus::Done,
            ..fresh()
        };
        match (has_failed, place) {
            (true, _) => failed(retryable, due),
            (false, 0) => fresh(),
            (false, 1) => between,
            (false, _) => at_end,
        }
    })
}

/// Rows: 102.
#[test]
fn a_model_that_nobody_has_is_named() {
    let job = Job {
        config: JobConfig::default()
            .with_overrides(["models=read=m,reduce=n"])
            .unwrap(),
        ..job()
    };
    let with = |models: &[&str], name| PoolInfo {
        models: models.iter().map(ToString::to_string).collect(),
        ..pool(name, "read", 1)
    };
    let held = [held("b", 2, "read", 1)];
    let of = |pools: &[PoolInfo]| why(&fresh(), &job, pools, &held, now());
    let stage = stage("read");
    assert_eq!(of(&[]), Blocker::NoPool { stage: stage.clone() });
    assert_eq!(
        of(&[with(&["z", "y"], "a"), with(&["y"], "c")]),
        Blocker::NoModel {
            stage: stage.clone(),
            wanted: vec!["m".to_owned()],
            loaded: vec!["y".to_owned(), "z".to_owned()],
        }
    );
    let busy = [with(&["m"], "b"), with(&["y"], "a")];
    let slots = 1;
    assert_eq!(
        of(&busy),
        Blocker::NoSlot {
            stage: stage.clone(),
            slots
        },
        "the free one has another"
    );
    let free = 1;
    assert_eq!(of(&[with(&["y", "m"], "a")]), Blocker::Nothing { stage, free });
}

proptest! {
    /// The answer is true: nothing stands in the way of exactly those tasks that a pass would place, were they alone.
    #[test]
    fn nothing_is_in_the_way_of_what_would_be_placed(
        task in task(),
        status in status(),
        limits in (0..3_usize, 0..3_usize),
        models in prop::sample::select(vec!["models=", "models=read=m", "models=read=m,reduce=m"]),
        slots in prop::collection::vec((prop::sample::select(vec!["read", "reduce"]), 0..3_usize, any::<bool>()), 0..3),
        leases in prop::collection::vec((0..4_usize, 1..3_i64, prop::sample::select(vec!["read", "reduce"]), 1..3_usize), 0..4),
    ) {
        let config = JobConfig { max_running: limits.0, max_running_per_stage: limits.1, ..JobConfig::default() };
        let config = config.with_overrides([models]).unwrap();
        let job = Job { config, status, ..job() };
        let name = |number: usize| format!("worker-{number}");
        let pools: Vec<PoolInfo> = slots
            .iter()
            .enumerate()
            .map(|(number, (stage, slots, has_model))| PoolInfo {
                models: has_model.then(|| "m".to_owned()).into_iter().collect(),
                ..pool(&name(number), stage, *slots)
            })
            .collect();
        let held: Vec<Held> = leases
            .iter()
            .map(|(number, job, stage, leases)| held(&name(*number), *job, stage, *leases))
            // A worker runs one stage.
            .filter(|held| pools.iter().all(|pool| pool.worker != held.worker || pool.stage == held.stage))
            .collect();
        let runs = matches!(job.status, JobStatus::Running);
        let waiting = runs.then_some((&task, &job));
        let placed = place(now(), waiting, FreeSlots::of(&pools, &held), &held);
        let free = matches!(why(&task, &job, &pools, &held, now()), Blocker::Nothing { .. });
        prop_assert_eq!(free, !placed.is_empty());
    }
}
