use proptest::prelude::*;

use super::*;
use crate::domain::{Generation, JobConfig, JobId, JobKey, JobStatus, Lease, Pipeline, Position, VolumeId};

const STAGES: [&str; 3] = ["detect", "read", "reduce"];

fn stage(name: &str) -> StageName {
    StageName::new(name).unwrap()
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000, 0).unwrap()
}

fn seconds(count: i64) -> chrono::Duration {
    chrono::Duration::seconds(count)
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

fn task(id: i64, position: Position, status: TaskStatus) -> Task {
    Task {
        id: TaskId(id),
        job_id: JobId(1),
        volume: VolumeId::new("W1", format!("I{id}")).unwrap(),
        position,
        status,
        attempts: 0,
        max_attempts: 3,
        allowance: 3,
        stage_attempts: 0,
        generation: Generation(0),
        interruptions: 0,
        not_before: None,
        lease: None,
        last_error: None,
        started_at: None,
        done_at: None,
    }
}

fn fresh(id: i64) -> Task {
    task(id, Position::Pending, TaskStatus::Pending)
}

fn done_with(id: i64, name: &str) -> Task {
    task(id, Position::At(stage(name)), TaskStatus::Done)
}

fn leased(id: i64, name: &str, worker: &str, until: DateTime<Utc>) -> Task {
    Task {
        lease: Some(Lease {
            worker: WorkerId(worker.to_owned()),
            until,
        }),
        ..task(id, Position::At(stage(name)), TaskStatus::Running)
    }
}

fn pool(worker: &str, name: &str, slots: usize) -> Pool {
    Pool {
        worker: WorkerId(worker.to_owned()),
        stage: stage(name),
        slots,
    }
}

fn decide_all(tasks: &[Task], pools: &[Pool]) -> Vec<Decision> {
    let job = job();
    decide(now(), tasks.iter().map(|task| (task, &job)), pools, 5)
}

fn lease(id: i64, name: &str, worker: &str) -> Decision {
    Decision::Lease {
        task: TaskId(id),
        stage: stage(name),
        worker: WorkerId(worker.to_owned()),
    }
}

#[test]
fn tasks_nearest_to_their_end_go_first_and_then_the_older() {
    let tasks = [fresh(1), done_with(2, "detect"), fresh(3), done_with(4, "read")];
    let pools = [
        pool("d", "detect", 1),
        pool("r", "read", 1),
        pool("s", "reduce", 1),
    ];
    assert_eq!(
        decide_all(&tasks, &pools),
        [
            lease(4, "reduce", "s"),
            lease(2, "read", "r"),
            lease(1, "detect", "d")
        ]
    );
}

#[test]
fn the_roomiest_pool_of_the_stage_takes_the_next_task() {
    let tasks = [fresh(1), fresh(2), fresh(3), fresh(4)];
    let pools = [
        pool("a", "detect", 1),
        pool("b", "detect", 2),
        pool("c", "read", 9),
    ];
    assert_eq!(
        decide_all(&tasks, &pools),
        [
            lease(1, "detect", "b"),
            lease(2, "detect", "a"),
            lease(3, "detect", "b")
        ]
    );
}

#[test]
fn a_lease_in_force_takes_a_slot() {
    let tasks = [leased(1, "detect", "d", now() + seconds(1)), fresh(2)];
    assert_eq!(decide_all(&tasks, &[pool("d", "detect", 1)]), []);
}

#[test]
fn a_lease_that_ran_out_is_ended_and_its_slot_is_free() {
    let tasks = [leased(1, "detect", "d", now()), fresh(2)];
    assert_eq!(
        decide_all(&tasks, &[pool("d", "detect", 1)]),
        [
            Decision::End {
                task: TaskId(1),
                event: Event::Interrupted
            },
            lease(2, "detect", "d"),
        ]
    );
}

#[test]
fn a_volume_that_keeps_losing_its_workers_is_set_aside_with_the_reason() {
    let mut poison = leased(1, "read", "gone", now());
    poison.interruptions = 3;
    assert_eq!(lost_lease(&poison, 5), Event::Interrupted);
    poison.interruptions = 4;
    let Event::Quarantined { error } = lost_lease(&poison, 5) else {
        panic!("not set aside");
    };
    assert_eq!(error.category, ErrorCategory::Poison);
    assert_eq!(error.message, "lost its worker 5 times in a row at read");
}

#[test]
fn a_task_waits_out_its_backoff() {
    let mut failed = task(1, Position::At(stage("read")), TaskStatus::Failed);
    failed.attempts = 1;
    failed.not_before = Some(now() + seconds(7));
    let pools = [pool("r", "read", 1)];
    assert_eq!(decide_all(std::slice::from_ref(&failed), &pools), []);
    assert_eq!(next_due([&failed], now()), Some(now() + seconds(7)));

    failed.not_before = Some(now());
    assert_eq!(
        decide_all(std::slice::from_ref(&failed), &pools),
        [lease(1, "read", "r")]
    );
    assert_eq!(next_due([&failed], now()), None);
}

fn any_task(id: i64) -> impl Strategy<Value = Task> {
    let positions = prop::sample::select(STAGES.to_vec());
    (positions, 0..5_u8, -5..5_i64, 0..3_usize).prop_map(move |(name, kind, offset, worker)| match kind {
        0 => fresh(id),
        1 => done_with(id, name),
        2 => leased(id, name, ["a", "b", "gone"][worker], now() + seconds(offset)),
        3 => Task {
            attempts: 1,
            not_before: Some(now() + seconds(offset)),
            ..task(id, Position::At(stage(name)), TaskStatus::Failed)
        },
        _ => task(id, Position::Done, TaskStatus::Done),
    })
}

proptest! {
    #[test]
    fn no_pool_gets_more_than_its_slots_and_no_free_slot_is_left_to_a_waiting_task(
        tasks in prop::collection::vec(any::<()>(), 0..12).prop_flat_map(|ids| {
            (0..ids.len() as i64).map(any_task).collect::<Vec<_>>()
        }),
        slots in prop::collection::vec((prop::sample::select(STAGES.to_vec()), 0..4_usize), 2),
    ) {
        let pools: Vec<Pool> = slots.iter().zip(["a", "b"]).map(|(&(name, slots), worker)| pool(worker, name, slots)).collect();
        let decisions = decide_all(&tasks, &pools);
        let job = job();
        for pool in &pools {
            let held = tasks.iter().filter(|task| {
                task.lease.as_ref().is_some_and(|lease| lease.worker == pool.worker && lease.until > now())
            });
            let given: Vec<_> = decisions.iter().filter_map(|decision| match decision {
                Decision::Lease { task, stage, worker } if *worker == pool.worker => Some((task, stage)),
                _ => None,
            }).collect();
            prop_assert!(given.iter().all(|(_, stage)| **stage == pool.stage));
            let free = pool.slots.saturating_sub(held.count());
            prop_assert!(given.len() <= free);
            if given.len() < free {
                let left = tasks.iter().filter(|task| due_stage(task, &job, now()) == Some(&pool.stage));
                for task in left {
                    let placed = decisions.iter().any(|decision| matches!(decision, Decision::Lease { task: id, .. } if *id == task.id));
                    prop_assert!(placed, "task {} waits beside a free slot", task.id);
                }
            }
        }
        let mut touched: Vec<TaskId> = decisions.iter().map(|decision| match decision {
            Decision::End { task, .. } | Decision::Lease { task, .. } => *task,
        }).collect();
        let count = touched.len();
        touched.sort();
        touched.dedup();
        prop_assert_eq!(touched.len(), count);
    }
}
