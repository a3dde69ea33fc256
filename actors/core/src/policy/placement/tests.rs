use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::domain::testing::{at, job, leased_task, pool, stage, task, task_at, worker};
use crate::domain::{JobConfig, PoolInfo, Position, TaskStatus};

const STAGES: [&str; 3] = ["detect", "read", "reduce"];

fn done_with(id: i64, name: &str) -> Task {
    task_at(id, name, TaskStatus::Done)
}

fn held(holder: &str, leases: usize) -> Held {
    Held {
        worker: worker(holder),
        job: JobId(1),
        stage: stage("detect"),
        leases,
        suspects: 0,
    }
}

fn place_all(tasks: &[Task], held: &[Held], pools: &[PoolInfo]) -> Vec<Placement> {
    let job = job();
    place(
        at(0),
        tasks.iter().map(|task| (task, &job)),
        FreeSlots::of(pools, held),
        held,
    )
}

fn placement(id: i64, name: &str, holder: &str) -> Placement {
    Placement {
        task: TaskId(id),
        stage: stage(name),
        worker: worker(holder),
    }
}

#[test]
fn tasks_nearest_to_their_end_go_first_and_then_the_older() {
    let tasks = [task(1), done_with(2, "detect"), task(3), done_with(4, "read")];
    let pools = [
        pool("d", "detect", 1),
        pool("r", "read", 1),
        pool("s", "reduce", 1),
    ];
    assert_eq!(
        place_all(&tasks, &[], &pools),
        [
            placement(4, "reduce", "s"),
            placement(2, "read", "r"),
            placement(1, "detect", "d")
        ]
    );
}

#[test]
fn the_roomiest_pool_of_the_stage_takes_the_next_task() {
    let tasks = [task(1), task(2), task(3), task(4)];
    let pools = [
        pool("a", "detect", 1),
        pool("b", "detect", 2),
        pool("c", "read", 9),
    ];
    assert_eq!(
        place_all(&tasks, &[], &pools),
        [
            placement(1, "detect", "b"),
            placement(2, "detect", "a"),
            placement(3, "detect", "b")
        ]
    );
}

#[test]
fn a_lease_in_force_takes_a_slot() {
    let (tasks, pools) = ([task(1)], [pool("d", "detect", 2), pool("r", "read", 1)]);
    let of_two_jobs = [
        held("d", 1),
        Held {
            job: JobId(2),
            ..held("d", 1)
        },
        held("gone", 7),
    ];
    assert_eq!(place_all(&tasks, &of_two_jobs, &pools), []);
    let room = FreeSlots::of(&pools, &of_two_jobs).room();
    assert_eq!(room, BTreeMap::from([(stage("read"), 1)]));
    assert_eq!(
        place_all(&tasks, &of_two_jobs[..1], &pools),
        [placement(1, "detect", "d")]
    );
}

#[test]
fn a_task_that_runs_is_not_placed() {
    let tasks = [leased_task(1, "detect", "d", at(1)), task(2)];
    let pools = [pool("d", "detect", 2)];
    assert_eq!(
        place_all(&tasks, &[held("d", 1)], &pools),
        [placement(2, "detect", "d")]
    );
}

#[test]
fn a_task_waits_out_its_backoff() {
    let mut failed = task_at(1, "read", TaskStatus::Failed);
    failed.attempts = 1;
    failed.not_before = Some(at(7));
    let pools = [pool("r", "read", 1)];
    assert_eq!(place_all(std::slice::from_ref(&failed), &[], &pools), []);

    failed.not_before = Some(at(0));
    assert_eq!(
        place_all(std::slice::from_ref(&failed), &[], &pools),
        [placement(1, "read", "r")]
    );
}

/// A job of its own with `tasks` fresh tasks, whose ids begin at a thousand times the job's.
fn job_of(id: i64, config: JobConfig, tasks: i64) -> (Job, Vec<Task>) {
    let job = Job {
        id: JobId(id),
        config,
        ..job()
    };
    let tasks = (0..tasks).map(|n| Task {
        job_id: JobId(id),
        ..task(id * 1000 + n)
    });
    (job, tasks.collect())
}

/// The tasks placed, in order.
fn placed(jobs: &[(Job, Vec<Task>)], held: &[Held], pools: &[PoolInfo]) -> Vec<i64> {
    let tasks = jobs
        .iter()
        .flat_map(|(job, tasks)| tasks.iter().map(move |task| (task, job)));
    let placements = place(at(0), tasks, FreeSlots::of(pools, held), held);
    placements.iter().map(|placement| placement.task.0).collect()
}

fn config(change: impl FnOnce(&mut JobConfig)) -> JobConfig {
    let mut config = JobConfig::default();
    change(&mut config);
    config
}

#[test]
fn a_job_of_higher_priority_goes_first() {
    let jobs = [
        job_of(1, JobConfig::default(), 3),
        job_of(2, config(|config| config.priority = 5), 2),
        job_of(3, config(|config| config.priority = -5), 2),
    ];
    assert_eq!(
        placed(&jobs, &[], &[pool("d", "detect", 4)]),
        [2000, 2001, 1000, 1001]
    );
}

#[test]
fn jobs_of_equal_priority_share() {
    let jobs = [
        job_of(1, JobConfig::default(), 5),
        job_of(2, JobConfig::default(), 5),
        job_of(3, JobConfig::default(), 1),
    ];
    let pools = [pool("d", "detect", 6)];
    assert_eq!(placed(&jobs, &[], &pools), [1000, 2000, 3000, 1001, 2001, 1002]);
    let ahead = [held("d", 2)];
    assert_eq!(placed(&jobs, &ahead, &pools), [2000, 3000, 2001, 1000]);
    let elsewhere = [Held {
        stage: stage("read"),
        ..held("r", 2)
    }];
    assert_eq!(
        placed(&jobs, &elsewhere, &pools)[..2],
        [1000, 2000],
        "shares are per stage"
    );
}

#[test]
fn a_job_keeps_to_its_limits() {
    let pools = [pool("d", "detect", 4), pool("r", "read", 4)];
    let limited = |config| {
        let (job, mut tasks) = job_of(1, config, 3);
        let detected = (5..8).map(|id| done_with(id, "detect"));
        tasks.extend(detected);
        placed(&[(job, tasks)], &[], &pools)
    };
    let at_once = limited(config(|config| config.max_running = 4));
    assert_eq!(at_once, [5, 6, 7, 1000], "nearest to the end first");
    let per_stage = limited(config(|config| config.max_running_per_stage = 2));
    assert_eq!(per_stage, [5, 6, 1000, 1001]);
    let both = limited(config(|config| {
        config.max_running = 3;
        config.max_running_per_stage = 2;
    }));
    assert_eq!(both, [5, 6, 1000]);
}

#[test]
fn a_lease_counts_against_the_limit_wherever_it_is_held() {
    let jobs = [job_of(1, config(|config| config.max_running = 1), 2)];
    let elsewhere = [held("a pool that left", 1)];
    let pools = [pool("d", "detect", 4)];
    assert_eq!(placed(&jobs, &elsewhere, &pools), [] as [i64; 0]);
    assert_eq!(placed(&jobs, &[], &pools), [1000]);
}

#[test]
fn a_job_at_its_limit_leaves_its_turn_to_others() {
    let high = config(|config| {
        config.priority = 9;
        config.max_running = 1;
    });
    let jobs = [job_of(1, high, 5), job_of(2, JobConfig::default(), 5)];
    assert_eq!(placed(&jobs, &[], &[pool("d", "detect", 3)]), [1000, 2000, 2001]);
}

fn pool_with(worker: &str, name: &str, slots: usize, models: &[&str]) -> PoolInfo {
    PoolInfo {
        models: models.iter().map(ToString::to_string).collect(),
        ..pool(worker, name, slots)
    }
}

fn naming(models: &str) -> JobConfig {
    JobConfig::default().with_overrides([models]).unwrap()
}

/// Rows: 102.
#[test]
fn a_job_that_names_a_model_gets_slots_of_pools_that_have_it() {
    let pools = [
        pool_with("a", "detect", 3, &["x"]),
        pool_with("b", "detect", 1, &["x", "y"]),
        pool("c", "read", 2),
    ];
    let jobs = [
        job_of(1, naming("models=detect=y"), 3),
        job_of(2, JobConfig::default(), 3),
    ];
    let tasks = || {
        jobs.iter()
            .flat_map(|(job, tasks)| tasks.iter().map(move |task| (task, job)))
    };
    let placements = place(at(0), tasks(), FreeSlots::of(&pools, &[]), &[]);
    assert_eq!(
        placements,
        [
            placement(1000, "detect", "b"),
            placement(2000, "detect", "a"),
            placement(2001, "detect", "a"),
            placement(2002, "detect", "a")
        ]
    );
    let nobody_has = [
        job_of(1, naming("models=detect=z"), 2),
        job_of(2, JobConfig::default(), 1),
    ];
    assert_eq!(
        placed(&nobody_has, &[], &pools),
        [2000],
        "it leaves its turn to others"
    );
    let of_another_stage = [job_of(1, naming("models=read=z"), 1)];
    assert_eq!(placed(&of_another_stage, &[], &pools), [1000]);
    let free = FreeSlots::of(&pools, &[]);
    assert_eq!(free.room_for(&stage("detect"), &jobs[0].0), 1);
    assert_eq!(free.room_for(&stage("detect"), &jobs[1].0), 4);
}

fn any_task(id: i64) -> impl Strategy<Value = Task> {
    let positions = prop::sample::select(STAGES.to_vec());
    (positions, 0..5_u8, -5..5_i64, 0..3_usize).prop_map(move |(name, kind, offset, worker)| match kind {
        0 => task(id),
        1 => done_with(id, name),
        2 => leased_task(id, name, ["a", "b", "gone"][worker], at(offset)),
        3 => Task {
            attempts: 1,
            not_before: Some(at(offset)),
            ..task_at(id, name, TaskStatus::Failed)
        },
        _ => Task {
            position: Position::Done,
            status: TaskStatus::Done,
            ..task(id)
        },
    })
}

proptest! {
    #[test]
    fn no_pool_gets_what_it_has_no_model_for_and_none_that_has_it_is_left_idle(
        jobs in prop::collection::vec((prop::sample::subsequence(vec!["x", "y"], 0..=2), 0..4_i64), 1..4),
        pools in prop::collection::vec((prop::sample::subsequence(vec!["x", "y"], 0..=2), 0..4_usize), 1..4),
    ) {
        let config = |models: &[&str]| {
            let named: Vec<String> = models.iter().map(|model| format!("detect={model}")).collect();
            naming(&format!("models={}", named.join(",")))
        };
        let jobs: Vec<(Job, Vec<Task>)> = jobs
            .iter()
            .zip(1..)
            .map(|((models, tasks), id)| job_of(id, config(models), *tasks))
            .collect();
        let pools: Vec<PoolInfo> = pools
            .iter()
            .zip(["a", "b", "c"])
            .map(|((models, slots), worker)| pool_with(worker, "detect", *slots, models))
            .collect();
        let tasks = jobs.iter().flat_map(|(job, tasks)| tasks.iter().map(move |task| (task, job)));
        let placements = place(at(0), tasks, FreeSlots::of(&pools, &[]), &[]);
        let job_of_task = |task: TaskId| jobs.iter().map(|(job, _)| job).find(|job| job.id.0 == task.0 / 1000).unwrap();
        for pool in &pools {
            let given = placements.iter().filter(|placement| placement.worker == pool.worker);
            let given: Vec<&Job> = given.map(|placement| job_of_task(placement.task)).collect();
            prop_assert!(given.iter().all(|job| pool.suits(job)));
            prop_assert!(given.len() <= pool.slots);
            let waits = |(job, tasks): &(Job, Vec<Task>)| {
                let placed = placements.iter().filter(|placement| job_of_task(placement.task).id == job.id);
                pool.suits(job) && placed.count() < tasks.len()
            };
            prop_assert!(given.len() == pool.slots || !jobs.iter().any(waits), "a slot of {} is left idle", pool.worker);
        }
    }

    /// Rows: F16.
    #[test]
    fn no_pool_gets_more_than_its_slots_and_no_free_slot_is_left_to_a_waiting_task(
        tasks in prop::collection::vec(any::<()>(), 0..12).prop_flat_map(|ids| {
            (0..ids.len() as i64).map(any_task).collect::<Vec<_>>()
        }),
        slots in prop::collection::vec((prop::sample::select(STAGES.to_vec()), 0..4_usize), 2),
    ) {
        let pools: Vec<PoolInfo> = slots.iter().zip(["a", "b"]).map(|(&(name, slots), worker)| pool(worker, name, slots)).collect();
        let in_force = |pool: &PoolInfo| {
            let leases = tasks.iter().filter(|task| task.lease.as_ref().is_some_and(|lease| lease.worker == pool.worker));
            leases.count()
        };
        let held: Vec<Held> = pools.iter().map(|pool| held(&pool.worker.0, in_force(pool))).collect();
        let placements = place_all(&tasks, &held, &pools);
        let job = job();
        for pool in &pools {
            let given: Vec<&Placement> = placements.iter().filter(|placement| placement.worker == pool.worker).collect();
            prop_assert!(given.iter().all(|placement| placement.stage == pool.stage));
            let free = pool.slots.saturating_sub(in_force(pool));
            prop_assert!(given.len() <= free);
            if given.len() < free {
                let left = tasks.iter().filter(|task| due_stage(task, &job, at(0)) == Some(&pool.stage));
                for task in left {
                    let placed = placements.iter().any(|placement| placement.task == task.id);
                    prop_assert!(placed, "task {} waits beside a free slot", task.id);
                }
            }
        }
        let mut touched: Vec<TaskId> = placements.iter().map(|placement| placement.task).collect();
        touched.sort();
        touched.dedup();
        prop_assert_eq!(touched.len(), placements.len());
    }
}
