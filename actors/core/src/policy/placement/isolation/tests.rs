use std::collections::HashMap;

use proptest::prelude::*;

use super::super::{Conduct, Held, place};
use super::*;
use crate::domain::testing::{self, at, pipeline, pool, stage, task_at};
use crate::domain::{ErrorCategory, JobConfig, JobId, PoolInfo, Task, TaskStatus, WorkerId};
use crate::policy::poison::{Loss, SUSPECT_AFTER, is_suspect, lost_lease};
use crate::policy::transition::{Event, is_finished, next};

const STAGES: [&str; 2] = ["detect", "read"];

fn job(id: i64, config: JobConfig) -> Job {
    Job {
        id: JobId(id),
        pipeline: pipeline(&STAGES),
        config,
        ..testing::job()
    }
}

fn fresh(job: i64, id: i64) -> Task {
    Task {
        job_id: JobId(job),
        ..testing::task(id)
    }
}

fn suspect(job: i64, id: i64) -> Task {
    Task {
        job_id: JobId(job),
        interruptions: SUSPECT_AFTER,
        ..task_at(id, "detect", TaskStatus::Pending)
    }
}

fn worker(node: &str, name: &str) -> WorkerId {
    WorkerId(format!("{node}/{name}/1"))
}

fn node(name: &str, slots: usize) -> [PoolInfo; 2] {
    STAGES.map(|stage_name| pool(&worker(name, stage_name).0, stage_name, slots))
}

fn held(node: &str, leases: usize, suspects: usize) -> Held {
    Held {
        worker: worker(node, "read"),
        job: JobId(1),
        stage: stage("read"),
        leases,
        suspects,
    }
}

/// Task and node of each placement.
fn placed(tasks: &[(Task, &Job)], pools: &[PoolInfo], held: &[Held]) -> Vec<(i64, String)> {
    let tasks = tasks.iter().map(|(task, job)| (task, *job));
    let placements = place(at(0), tasks, FreeSlots::of(pools, held), held);
    let node = |worker: &WorkerId| worker.node().to_owned();
    placements
        .iter()
        .map(|placement| (placement.task.0, node(&placement.worker)))
        .collect()
}

fn on(placements: &[(i64, &str)]) -> Vec<(i64, String)> {
    let owned = placements.iter().map(|(task, node)| (*task, (*node).to_owned()));
    owned.collect()
}

#[test]
fn a_suspect_gets_an_empty_node_and_nothing_joins_it_there() {
    let job = job(1, JobConfig::default());
    let tasks = [(fresh(1, 1), &job), (suspect(1, 2), &job), (fresh(1, 3), &job)];
    let pools = [node("a", 2), node("b", 1)].concat();
    assert_eq!(
        placed(&tasks, &pools, &[held("a", 1, 0)]),
        on(&[(2, "b"), (1, "a"), (3, "a")])
    );
    assert_eq!(
        placed(&tasks[..1], &pools, &[held("a", 1, 1)]),
        on(&[(1, "b")]),
        "whatever stage the suspect runs there"
    );
    assert!(
        !FreeSlots::of(&pools[..2], &[held("a", 1, 1)])
            .room()
            .contains_key(&stage("detect"))
    );
}

#[test]
fn work_goes_to_pools_that_are_proven_and_suspects_above_all() {
    let job = job(1, JobConfig::default());
    let conduct = Conduct {
        proven: STAGES.map(|stage| worker("b", stage)).into(),
        ..Conduct::default()
    };
    let placed = |tasks: &[Task], pools: &[PoolInfo], held: &[Held]| -> Vec<(i64, String)> {
        let waiting = tasks.iter().map(|task| (task, &job));
        let placements = place(at(0), waiting, FreeSlots::in_view_of(&conduct, pools, held), held);
        let node = |worker: &WorkerId| worker.node().to_owned();
        placements
            .iter()
            .map(|placement| (placement.task.0, node(&placement.worker)))
            .collect()
    };
    let both = [node("a", 2), node("b", 2)].concat();
    let busy = [held("b", 1, 0)];
    assert_eq!(placed(&[fresh(1, 1)], &both, &[]), on(&[(1, "b")]));
    let at_read = Task {
        job_id: JobId(1),
        ..task_at(1, "read", TaskStatus::Pending)
    };
    assert_eq!(
        placed(&[at_read], &both, &busy),
        on(&[(1, "a")]),
        "it has more room"
    );
    let tasks = [suspect(1, 1), fresh(1, 2)];
    assert_eq!(placed(&tasks, &both, &[]), on(&[(1, "b"), (2, "a")]));
    assert_eq!(placed(&tasks, &both, &busy), on(&[(2, "a")]), "b is emptied");
    assert_eq!(
        placed(&tasks, &node("a", 2), &[]),
        on(&[(1, "a")]),
        "there is no other"
    );
}

#[test]
fn one_node_at_a_time_is_emptied_for_suspects() {
    let job = job(1, JobConfig::default());
    let tasks = [
        (suspect(1, 1), &job),
        (suspect(1, 2), &job),
        (fresh(1, 3), &job),
        (fresh(1, 4), &job),
    ];
    let pools = [node("a", 2), node("b", 2), node("c", 2)].concat();
    let busy = [held("a", 2, 0), held("b", 1, 0), held("c", 2, 0)];
    assert_eq!(placed(&tasks, &pools, &busy), on(&[(3, "a"), (4, "c")]));
    let emptied = [held("a", 2, 0), held("c", 2, 0)];
    assert_eq!(
        placed(&tasks, &pools, &emptied),
        on(&[(1, "b"), (3, "c"), (4, "c")])
    );
}

#[test]
fn a_suspect_does_not_wait_for_a_job_whose_model_nobody_has_nor_go_where_its_own_is_not() {
    let naming = |id, priority, models| {
        let config = JobConfig {
            priority,
            ..JobConfig::default()
        };
        job(id, config.with_overrides([models]).unwrap())
    };
    let (high, low) = (naming(1, 1, "models=detect=z"), naming(2, 0, "models=detect=x"));
    let tasks = [(fresh(1, 1), &high), (suspect(2, 2), &low)];
    let mut pools = [node("a", 1), node("b", 1)].concat();
    assert_eq!(placed(&tasks, &pools, &[]), on(&[]));
    pools[2].models = vec!["x".to_owned()];
    assert_eq!(placed(&tasks, &pools, &[]), on(&[(2, "b")]));
}

#[test]
fn a_suspect_waits_for_jobs_before_its_own_and_for_its_limits() {
    let high = job(
        1,
        JobConfig {
            priority: 1,
            ..JobConfig::default()
        },
    );
    let low = job(2, JobConfig::default());
    let tasks = [(fresh(1, 1), &high), (suspect(2, 2), &low)];
    assert_eq!(placed(&tasks, &node("a", 2), &[]), on(&[(1, "a")]));

    let limited = job(
        1,
        JobConfig {
            max_running: 2,
            ..JobConfig::default()
        },
    );
    let tasks = [
        (suspect(1, 1), &limited),
        (fresh(1, 2), &limited),
        (fresh(1, 3), &limited),
    ];
    let pools = [node("a", 4), node("b", 4)].concat();
    assert_eq!(placed(&tasks, &pools, &[held("a", 1, 0), held("b", 1, 0)]), []);
    // The place of the suspect that a node is emptied for is kept.
    assert_eq!(placed(&tasks, &node("a", 4), &[held("a", 1, 0)]), []);
    assert_eq!(placed(&tasks, &pools, &[held("a", 1, 0)]), on(&[(1, "b")]));
}

#[test]
fn a_suspect_is_tried_where_the_fewest_others_stood_still() {
    let job = job(1, JobConfig::default());
    let tried = |stood_still: &[(&str, &[i64])], held: &[Held]| -> Option<String> {
        let tasks = |tasks: &[i64]| tasks.iter().copied().map(TaskId).collect();
        let conduct = Conduct {
            // It has brought a stage to its end, as one that hangs at times does, too.
            proven: STAGES.map(|stage| worker("a", stage)).into(),
            stood_still: stood_still
                .iter()
                .map(|(node, of)| ((*node).to_owned(), tasks(of)))
                .collect(),
            ..Conduct::default()
        };
        let pools = [node("a", 2), node("b", 2)].concat();
        let tasks = [suspect(1, 1)];
        let waiting = tasks.iter().map(|task| (task, &job));
        let free = FreeSlots::in_view_of(&conduct, &pools, held);
        let placements = place(at(0), waiting, free, held);
        placements
            .first()
            .map(|placement| placement.worker.node().to_owned())
    };
    let (a, b) = (Some("a".to_owned()), Some("b".to_owned()));
    assert_eq!(tried(&[], &[]), a);
    assert_eq!(
        tried(&[("a", &[1])], &[]),
        a,
        "its own losses say nothing of the node"
    );
    assert_eq!(tried(&[("a", &[1, 2])], &[]), b);
    assert_eq!(tried(&[("a", &[2]), ("b", &[2, 3])], &[]), a);
    assert_eq!(tried(&[("a", &[2])], &[held("b", 1, 0)]), None, "b is emptied");
}

mod world;
