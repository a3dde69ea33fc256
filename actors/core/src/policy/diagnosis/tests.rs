use proptest::prelude::*;

use super::*;
use crate::domain::testing::{
    self, at, leased_task, node_record, pipeline, pool, stage, task_at, worker, worker_record,
};
use crate::domain::{ErrorCategory, JobConfig, WorkerRecord};

fn job() -> Job {
    Job {
        pipeline: pipeline(&["read", "reduce"]),
        ..testing::job()
    }
}

fn fresh() -> Task {
    testing::task(1)
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

/// Cluster that is led, with these pools and leases.
fn cluster(pools: &[PoolInfo], held: &[Held]) -> ClusterFacts {
    ClusterFacts {
        is_led: true,
        pools: pools.to_vec(),
        held: held.to_vec(),
        services: Vec::new(),
        engines: BTreeMap::new(),
        spending: Vec::new(),
        now: at(0),
    }
}

fn no_pool(stage_name: &str, wanted: &[&str]) -> Reason {
    Reason::NoPool {
        stage: stage(stage_name),
        wanted: wanted.iter().map(ToString::to_string).collect(),
    }
}

fn failed(retryable: bool, not_before: Option<DateTime<Utc>>) -> Task {
    let error = StageError::new("read", ErrorCategory::Network, "no route");
    Task {
        attempts: 1,
        not_before,
        last_error: Some(StageError { retryable, ..error }),
        ..task_at(1, "read", TaskStatus::Failed)
    }
}

#[test]
fn the_first_blocker_is_named() {
    let pools = [pool("a", "read", 2)];
    let of = |task: &Task, job: &Job, pools: &[PoolInfo], held: &[Held]| {
        of_task(task, job, &cluster(pools, held), None)
    };
    assert_eq!(
        of(&fresh(), &job(), &pools, &[]),
        Reason::Nothing {
            stage: stage("read"),
            free: 2
        }
    );
    assert_eq!(of(&fresh(), &job(), &[], &[]), no_pool("read", &[]));
    let busy = [held("a", 2, "read", 2)];
    assert_eq!(
        of(&fresh(), &job(), &pools, &busy),
        Reason::NoSlot {
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
        Reason::Job {
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
    let limit = Reason::Limit {
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
    let alone = Reason::Suspect { stage: stage("read") };
    assert_eq!(of(&suspect, &job(), &pools, &beside), alone);
    let due = at(5);
    assert!(matches!(of(&failed(true, Some(due)), &job(), &pools, &[]),
        Reason::BackingOff { until, error: Some(_), .. } if until == due));
    assert!(matches!(
        of(&failed(false, None), &job(), &pools, &[]),
        Reason::Failed { error: Some(_), .. }
    ));
    let finished = Task {
        position: Position::Done,
        status: TaskStatus::Done,
        ..fresh()
    };
    assert_eq!(of(&finished, &job(), &pools, &[]), Reason::Finished);
}

#[test]
fn without_an_orchestrator_nothing_else_is_in_the_way() {
    let pools = [pool("a", "read", 1)];
    let busy = [held("a", 2, "read", 1)];
    let led = cluster(&pools, &busy);
    assert_eq!(of_task(&fresh(), &job(), &led, None).as_str(), "no_slot");
    let unled = ClusterFacts { is_led: false, ..led };
    assert_eq!(of_task(&fresh(), &job(), &unled, None).as_str(), "no_leader");
}

#[test]
fn a_lease_is_in_force_until_its_deadline() {
    let leased = |seconds| leased_task(1, "read", "a", at(seconds));
    assert!(matches!(
        of_task(&leased(1), &job(), &cluster(&[], &[]), None),
        Reason::Running { .. }
    ));
    assert!(matches!(
        of_task(&leased(0), &job(), &cluster(&[], &[]), None),
        Reason::Overdue { .. }
    ));
}

fn status() -> impl Strategy<Value = JobStatus> {
    prop::sample::select(JobStatus::ALL.to_vec())
}

fn task() -> impl Strategy<Value = Task> {
    let due = prop::option::of(-5..5_i64);
    (any::<bool>(), any::<bool>(), due, 0..3_u8).prop_map(|(retryable, has_failed, due, place)| {
        let due = due.map(at);
        let at_end = Task {
            position: Position::Done,
            status: TaskStatus::Done,
            ..fresh()
        };
        match (has_failed, place) {
            (true, _) => failed(retryable, due),
            (false, 0) => fresh(),
            (false, 1) => task_at(1, "read", TaskStatus::Done),
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
    let of = |pools: &[PoolInfo]| of_task(&fresh(), &job, &cluster(pools, &held), None);
    let stage = stage("read");
    assert_eq!(
        of_task(&fresh(), &job, &cluster(&[], &[]), None),
        no_pool("read", &["m"])
    );
    assert_eq!(
        of(&[with(&["z", "y"], "a"), with(&["y"], "c")]),
        Reason::NoModel {
            stage: stage.clone(),
            wanted: vec!["m".to_owned()],
            loaded: vec!["y".to_owned(), "z".to_owned()],
        }
    );
    let busy = [with(&["m"], "b"), with(&["y"], "a")];
    let slots = 1;
    assert_eq!(
        of(&busy),
        Reason::NoSlot {
            stage: stage.clone(),
            slots
        },
        "the free one has another"
    );
    let free = 1;
    assert_eq!(of(&[with(&["y", "m"], "a")]), Reason::Nothing { stage, free });
}

#[test]
fn a_stage_at_which_others_hold_leases_is_run() {
    let held = [held("of nobody known", 2, "read", 3)];
    let cluster = cluster(&[], &held);
    let waiting = [stage("read"), stage("reduce")].into();
    assert_eq!(of_job(&job(), &waiting, &cluster), [no_pool("reduce", &[])]);
    let all = Reason::NoSlot {
        stage: stage("read"),
        slots: 3,
    };
    assert_eq!(of_task(&fresh(), &job(), &cluster, None), all);
}

#[test]
fn a_model_is_not_missed_by_a_job_whose_volumes_are_read_with_it() {
    let config = JobConfig::default().with_overrides(["models=read=m"]).unwrap();
    let job = Job { config, ..job() };
    let pools = [pool("a", "read", 1)];
    let waiting = [stage("read")].into();
    let of = |number| {
        let held = [held("gone", number, "read", 1)];
        of_job(&job, &waiting, &cluster(&pools, &held))
    };
    assert_eq!(of(1), []);
    assert!(matches!(of(2)[..], [Reason::NoModel { .. }]));
}

#[test]
fn a_job_that_is_not_worked_on_has_a_reason_only_if_somebody_waits_for_it() {
    let unled = ClusterFacts {
        is_led: false,
        ..cluster(&[], &[])
    };
    let of = |status, waiting: &[&str], finished_at| {
        let job = Job {
            status,
            finished_at,
            ..job()
        };
        let waiting = waiting.iter().copied().map(stage).collect();
        of_job(&job, &waiting, &unled)
    };
    let read = ["read"];
    assert_eq!(of(JobStatus::Running, &read, None), [Reason::NoLeader]);
    assert_eq!(of(JobStatus::Running, &[], None), []);
    let status = JobStatus::Paused;
    assert_eq!(of(status, &read, None), [Reason::Job { status }]);
    assert_eq!(of(status, &[], None), []);
    assert_eq!(of(JobStatus::Cancelled, &read, None), [Reason::NoLeader]);
    assert_eq!(of(JobStatus::Cancelled, &read, Some(at(0))), []);
    assert_eq!(of(JobStatus::Failed, &read, Some(at(0))), []);
}

fn record(seconds_ago: i64, state: NodeState, stages: &[&str]) -> NodeRecord {
    let workers = stages.iter().map(|name| WorkerRecord {
        slots: 2,
        ..worker_record(name, name)
    });
    NodeRecord {
        last_seen: at(-seconds_ago),
        state,
        workers: workers.collect(),
        ..node_record("node")
    }
}

#[test]
fn only_nodes_that_are_heard_of_count() {
    let of = |has_leader, node: NodeRecord| {
        let limit = TimeDelta::seconds(20);
        let facts = ClusterFacts::of_records(has_leader, &[node], Vec::new(), limit, at(0));
        (facts.is_led, facts.pools)
    };
    let joined = NodeState::Joined;
    let read = vec![pool("read", "read", 2)];
    assert_eq!(of(true, record(20, joined, &["read"])), (true, read.clone()));
    assert_eq!(of(true, record(21, joined, &["read"])), (true, Vec::new()));
    assert_eq!(
        of(true, record(0, NodeState::Draining, &["read"])),
        (true, Vec::new())
    );
    assert_eq!(of(false, record(20, joined, &["read"])), (true, read));
    assert_eq!(of(false, record(21, joined, &["read"])), (false, Vec::new()));
    let standby = record(0, joined, &[]);
    assert_eq!(of(false, standby), (false, Vec::new()), "it takes no work");
}

/// Clusters of up to three pools, led or not, with leases of two jobs.
fn any_cluster() -> impl Strategy<Value = ClusterFacts> {
    let stages = || prop::sample::select(vec!["read", "reduce"]);
    let pools = prop::collection::vec((stages(), 0..3_usize, any::<bool>()), 0..3);
    let leases = prop::collection::vec((0..4_usize, 1..3_i64, stages(), 1..3_usize), 0..4);
    (pools, leases, any::<bool>()).prop_map(|(pools, leases, is_led)| {
        let name = |number: usize| format!("worker-{number}");
        let pools: Vec<PoolInfo> = pools
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
            .filter(|held| {
                pools
                    .iter()
                    .all(|pool| pool.worker != held.worker || pool.stage == held.stage)
            })
            .collect();
        ClusterFacts {
            is_led,
            ..cluster(&pools, &held)
        }
    })
}

fn any_job() -> impl Strategy<Value = Job> {
    let models = prop::sample::select(vec!["models=", "models=read=m", "models=read=m,reduce=m"]);
    (status(), 0..3_usize, 0..3_usize, models).prop_map(
        |(status, max_running, max_running_per_stage, models)| {
            let config = JobConfig {
                max_running,
                max_running_per_stage,
                ..JobConfig::default()
            };
            let config = config.with_overrides([models]).unwrap();
            Job {
                config,
                status,
                ..job()
            }
        },
    )
}

proptest! {
    /// The answer is true: nothing stands in the way of exactly those tasks that a pass would place, were they alone.
    #[test]
    fn nothing_is_in_the_way_of_what_would_be_placed(task in task(), job in any_job(), cluster in any_cluster()) {
        let runs = cluster.is_led && job.status == JobStatus::Running;
        let waiting = runs.then_some((&task, &job));
        let placed = place(at(0), waiting, FreeSlots::of(&cluster.pools, &cluster.held), &cluster.held);
        let free = matches!(of_task(&task, &job, &cluster, None), Reason::Nothing { .. });
        prop_assert_eq!(free, !placed.is_empty());
    }

    /// The views agree: what a job is told of a stage is what a task is told that waits for it.
    #[test]
    fn a_job_is_told_what_its_task_is(job in any_job(), cluster in any_cluster()) {
        let reported = of_task(&fresh(), &job, &cluster, None);
        let mut of_job = of_job(&job, &[stage("read")].into(), &cluster);
        of_job.retain(|reason| !matches!(reason, Reason::MixedModels { .. }));
        match &reported {
            Reason::NoLeader | Reason::NoPool { .. } | Reason::NoModel { .. } => prop_assert_eq!(of_job, [reported]),
            // Nobody waits for a job that has ended or has not begun.
            Reason::Job { status } if *status != JobStatus::Paused => {
                prop_assert!(matches!(of_job[..], [] | [Reason::NoLeader]), "{:?}", of_job);
            }
            Reason::Budget { .. } | Reason::Job { .. } => prop_assert_eq!(of_job, [reported]),
            _ => prop_assert_eq!(of_job, []),
        }
    }

    /// The order is that in which to mend: what a reason asks for, done, leaves neither it nor one before it.
    #[test]
    fn what_is_mended_is_not_named_again(task in task(), job in any_job(), cluster in any_cluster()) {
        let (mut job, mut task, mut cluster) = (job, task, cluster);
        let mut last = None;
        loop {
            let reason = of_task(&task, &job, &cluster, None);
            let rank = ORDER.iter().position(|name| *name == reason.as_str()).unwrap();
            prop_assert!(last.is_none_or(|last| last < rank), "{} after {:?}", reason.as_str(), last);
            last = Some(rank);
            let another = |stage: &StageName, models| PoolInfo {
                models,
                ..pool(&format!("new-{rank}"), stage.as_str(), 1)
            };
            match reason {
                Reason::Budget { budget, .. } => job.config.budget = budget.plus(budget),
                Reason::Job { .. } => job.status = JobStatus::Running,
                Reason::BackingOff { .. } => task.not_before = None,
                Reason::NoLeader => cluster.is_led = true,
                // A node that has not the models, so that these are asked for next.
                Reason::NoPool { stage, .. } => cluster.pools.push(another(&stage, Vec::new())),
                Reason::NoModel { stage, wanted, .. } => cluster.pools.push(another(&stage, wanted)),
                Reason::Limit { .. } => (job.config.max_running, job.config.max_running_per_stage) = (0, 0),
                Reason::NoSlot { stage, .. } => cluster.pools.push(another(&stage, vec!["m".to_owned()])),
                Reason::Nothing { .. } | Reason::Finished | Reason::Failed { .. } => break,
                other => return Err(TestCaseError::fail(format!("{other:?} of a task that is not leased"))),
            }
        }
    }
}

/// Names of the reasons of a task that is not leased, in the order in which they have to go.
const ORDER: [&str; 11] = [
    "finished",
    "failed",
    "budget",
    "job",
    "backing_off",
    "no_leader",
    "no_pool",
    "no_model",
    "limit",
    "no_slot",
    "nothing",
];

mod messages;
mod services;
