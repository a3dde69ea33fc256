use std::collections::HashMap;

use chrono::{DateTime, Utc};
use proptest::prelude::*;

use super::super::{Held, Pool, place};
use super::*;
use crate::domain::{
    ErrorCategory, JobConfig, JobId, JobKey, JobStatus, Pipeline, Position, Task, TaskStatus, VolumeId,
    WorkerId,
};
use crate::policy::poison::{Loss, SUSPECT_AFTER, is_suspect, lost_lease};
use crate::policy::transition::{Event, is_finished, next};

const STAGES: [&str; 2] = ["detect", "read"];

fn stage(name: &str) -> StageName {
    StageName::new(name).unwrap()
}

fn now() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH
}

fn job(id: i64, config: JobConfig) -> Job {
    Job {
        id: JobId(id),
        key: JobKey::new(format!("J{id}")).unwrap(),
        operation: "ocr".to_owned(),
        pipeline: Pipeline::new(STAGES.map(stage).to_vec()).unwrap(),
        config,
        status: JobStatus::Running,
        created_at: now(),
        finished_at: None,
    }
}

fn fresh(job: i64, id: i64) -> Task {
    let volume = VolumeId::new("W1", format!("I{id}")).unwrap();
    Task::fresh(TaskId(id), JobId(job), volume, 3)
}

fn suspect(job: i64, id: i64) -> Task {
    Task {
        position: Position::At(stage("detect")),
        status: TaskStatus::Pending,
        interruptions: SUSPECT_AFTER,
        ..fresh(job, id)
    }
}

fn worker(node: &str, name: &str) -> WorkerId {
    WorkerId(format!("{node}/{name}/1"))
}

fn node(name: &str, slots: usize) -> [Pool; 2] {
    STAGES.map(|stage_name| Pool {
        worker: worker(name, stage_name),
        stage: stage(stage_name),
        slots,
        models: Vec::new(),
    })
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
fn placed(tasks: &[(Task, &Job)], pools: &[Pool], held: &[Held]) -> Vec<(i64, String)> {
    let tasks = tasks.iter().map(|(task, job)| (task, *job));
    let placements = place(now(), tasks, FreeSlots::of(pools, held), held);
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

/// Volumes of one job that nodes run until the poison among them kills its node.
struct World {
    job: Job,
    tasks: Vec<Task>,
    pools: Vec<Pool>,
    deaths: usize,
}

impl World {
    fn held(&self) -> Vec<Held> {
        let mut held: HashMap<(WorkerId, StageName), Held> = HashMap::new();
        for task in &self.tasks {
            let (Some(lease), Position::At(stage)) = (&task.lease, &task.position) else {
                continue;
            };
            let entry = held
                .entry((lease.worker.clone(), stage.clone()))
                .or_insert_with(|| Held {
                    worker: lease.worker.clone(),
                    job: self.job.id,
                    stage: stage.clone(),
                    leases: 0,
                    suspects: 0,
                });
            entry.leases += 1;
            entry.suspects += usize::from(is_suspect(task));
        }
        held.into_values().collect()
    }

    fn apply(&mut self, index: usize, event: &Event) {
        let task = &self.tasks[index];
        let scope = self.job.config.retry_scope;
        self.tasks[index] = next(task, &self.job.pipeline, scope, event, now()).unwrap();
    }

    fn pass(&mut self) {
        let held = self.held();
        let tasks = self.tasks.iter().map(|task| (task, &self.job));
        let placements = place(now(), tasks, FreeSlots::of(&self.pools, &held), &held);
        for Placement { task, stage, worker } in placements {
            let index = self.tasks.iter().position(|known| known.id == task).unwrap();
            let until = now();
            self.apply(index, &Event::Leased { stage, worker, until });
        }
        for task in self.tasks.iter().filter(|task| is_suspect(task)) {
            let beside = self.running_on(task.lease.as_ref().map(|lease| lease.worker.node()));
            assert!(beside.len() <= 1, "a suspect is not alone");
        }
    }

    fn running_on(&self, node: Option<&str>) -> Vec<usize> {
        let on_node = |task: &Task| {
            task.lease
                .as_ref()
                .is_some_and(|lease| Some(lease.worker.node()) == node)
        };
        (0..self.tasks.len())
            .filter(|index| on_node(&self.tasks[*index]))
            .collect()
    }

    /// The poison kills its node, if it runs.
    fn kill(&mut self, poison: usize, max_interruptions: i32) {
        let Some(lease) = self.tasks[poison].lease.clone() else {
            return;
        };
        self.deaths += 1;
        for index in self.running_on(Some(lease.worker.node())) {
            let event = lost_lease(&self.tasks[index], Loss::Node, max_interruptions);
            self.apply(index, &event);
        }
    }

    /// Some healthy volume ends its stage, if one runs.
    fn succeed(&mut self, poison: usize, choice: usize) {
        let healthy = |index: &usize| *index != poison && self.tasks[*index].lease.is_some();
        let running: Vec<usize> = (0..self.tasks.len()).filter(healthy).collect();
        if let Some(place) = choice.checked_rem(running.len()) {
            self.apply(running[place], &Event::Succeeded);
        }
    }
}

proptest! {
    #[test]
    fn the_poison_is_set_aside_and_never_its_neighbours(
        nodes in 1..4_usize,
        slots in 1..4_usize,
        volumes in 1..12_usize,
        poison in any::<prop::sample::Index>(),
        max_running in 0..4_usize,
        max_interruptions in 1..6_i32,
        chances in prop::collection::vec((any::<bool>(), any::<usize>()), 1..200),
    ) {
        let poison = poison.index(volumes);
        let config = JobConfig { max_running, ..JobConfig::default() };
        let mut world = World {
            job: job(1, config),
            tasks: (0..volumes).map(|id| fresh(1, id as i64)).collect(),
            pools: (0..nodes).flat_map(|name| node(&name.to_string(), slots)).collect(),
            deaths: 0,
        };
        for (kills, choice) in &chances {
            world.pass();
            match kills {
                true => world.kill(poison, max_interruptions),
                false => world.succeed(poison, *choice),
            }
        }
        // Whoever runs comes to an end.
        for round in 0..10 * volumes {
            world.pass();
            world.kill(poison, max_interruptions);
            world.succeed(poison, round);
        }
        for (index, task) in world.tasks.iter().enumerate() {
            prop_assert!(is_finished(task, world.job.config.retry_scope), "{task:?}");
            let category = task.last_error.as_ref().map(|error| error.category);
            prop_assert_eq!(category, (index == poison).then_some(ErrorCategory::Poison));
        }
        let bound = max_interruptions.max(SUSPECT_AFTER + 1);
        prop_assert_eq!(world.deaths as i32, bound);
    }
}
