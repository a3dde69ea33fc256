//! Why a job does not get on, as far as the database can tell, and what to do about it.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::{
    Hardware, Job, JobKey, JobStatus, NodeRecord, NodeState, StageName, WorkerRecord,
};
use parkhang_state::JobTaskCount;
use serde::Serialize;

use super::models::{mixed, mixed_in_words};
use super::tally::tallies;
use crate::admin::Admin;
use crate::heartbeat::patience;

/// What keeps volumes waiting that could go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "obstacle", rename_all = "snake_case")]
pub enum Obstacle {
    Paused,
    /// No orchestrator leads, and no node that does without one has taken anything.
    NoLeader,
    /// Nobody who is there runs these stages.
    NoNode {
        /// That they run on, where this program knows the stages.
        hardware: Option<Hardware>,
        stages: Vec<StageName>,
    },
    /// Nodes run this stage, and none of them has loaded the models that the job names for it.
    NoModel {
        stage: StageName,
        models: Vec<String>,
    },
    /// Not in the way, and surely not meant: nodes have loaded different models for this stage, and the job names none.
    MixedModels {
        stage: StageName,
        models: Vec<String>,
    },
}

/// Who could take the work.
#[derive(Debug, Clone, Copy)]
pub struct Hands<'a> {
    /// Whether an orchestrator leads.
    pub led: bool,
    pub nodes: &'a [NodeRecord],
    /// How long a node may be silent and still count.
    pub patience: TimeDelta,
    /// Hardware of the stages that nobody runs.
    pub stages: &'a StageTable,
}

impl<'a> Hands<'a> {
    /// As patient as the cluster's configuration is.
    pub fn new(admin: &'a Admin, led: bool, nodes: &'a [NodeRecord]) -> Self {
        let patience = patience(admin.loaded.config.cluster.heartbeat);
        Self {
            led,
            nodes,
            patience,
            stages: &admin.stages,
        }
    }

    /// Pools that may take work at `now`.
    pub fn pools(&self, now: DateTime<Utc>) -> impl Iterator<Item = &'a WorkerRecord> + use<'a> {
        let patience = self.patience;
        let is_there =
            move |node: &&NodeRecord| node.state == NodeState::Joined && now - node.last_seen <= patience;
        self.nodes.iter().filter(is_there).flat_map(|node| &node.workers)
    }

    /// Whether anybody gives or takes work: an orchestrator that leads, or a node that takes it for itself.
    pub fn are_there(&self, now: DateTime<Utc>) -> bool {
        // A leader writes down the nodes that it has work for; others write themselves down, so they alone are heard of now.
        let is_heard_of = |node: &NodeRecord| {
            node.state.is_there() && !node.workers.is_empty() && now - node.last_seen <= self.patience
        };
        self.led || self.nodes.iter().any(is_heard_of)
    }
}

/// What is in the way of the job at `now`.
pub fn obstacles(job: &Job, counts: &[JobTaskCount], hands: Hands<'_>, now: DateTime<Utc>) -> Vec<Obstacle> {
    let tallies = tallies(&job.pipeline, counts);
    let stages = || tallies.iter().zip(job.pipeline.stages());
    let waits = stages().filter(|(tally, _)| tally.waiting + tally.retrying > 0);
    let waiting: BTreeSet<&StageName> = waits.map(|(_, stage)| stage).collect();
    let works = stages().filter(|(tally, _)| tally.running > 0);
    let running: BTreeSet<&StageName> = works.map(|(_, stage)| stage).collect();
    let open = match job.status {
        JobStatus::Running => !waiting.is_empty(),
        // Its end is still to be written down.
        JobStatus::Cancelled => job.finished_at.is_none(),
        JobStatus::Paused if !waiting.is_empty() => return vec![Obstacle::Paused],
        JobStatus::Paused | JobStatus::Created | JobStatus::Completed | JobStatus::Failed => false,
    };
    if !open {
        return Vec::new();
    }
    if !hands.are_there(now) {
        return vec![Obstacle::NoLeader];
    }
    if job.status == JobStatus::Cancelled {
        return Vec::new();
    }
    let pools = || hands.pools(now);
    let suits = |pool: &WorkerRecord| job.config.models.are_loaded(&pool.stage, &pool.models);
    let suited = pools().filter(|pool| suits(pool)).map(|pool| &pool.stage);
    let suited: BTreeSet<&StageName> = suited.chain(running.iter().copied()).collect();
    let served: BTreeSet<&StageName> = pools().map(|pool| &pool.stage).chain(running).collect();
    let mut missing: BTreeMap<Option<&str>, Obstacle> = BTreeMap::new();
    for stage in job.pipeline.stages() {
        if !waiting.contains(stage) || served.contains(stage) {
            continue;
        }
        let hardware = hands.stages.hardware_of(stage);
        let missing = missing
            .entry(hardware.map(Hardware::as_str))
            .or_insert(Obstacle::NoNode {
                hardware,
                stages: Vec::new(),
            });
        if let Obstacle::NoNode { stages, .. } = missing {
            stages.push(stage.clone());
        }
    }
    let mixed = mixed(&job.config.models, hands, now)
        .into_iter()
        .filter(|(stage, _)| waiting.contains(stage));
    let mixed = mixed.map(|(stage, models)| Obstacle::MixedModels { stage, models });
    let without_model = waiting
        .intersection(&served)
        .filter(|stage| !suited.contains(*stage));
    let without_model = without_model.map(|stage| Obstacle::NoModel {
        stage: (*stage).clone(),
        models: job.config.models.of(stage).map(str::to_owned).collect(),
    });
    missing.into_values().chain(without_model).chain(mixed).collect()
}

impl Obstacle {
    /// One line for whoever looks after the job.
    pub fn advice(&self, job: &JobKey) -> String {
        match self {
            Self::Paused => format!("the job is paused; `node job resume {job}` lets it go on"),
            Self::NoLeader => "no orchestrator leads; `node --role orchestrator` starts one \
                               (nodes that need none: `node --role cpu,gpu --source postgres`)"
                .to_owned(),
            Self::NoNode { hardware, stages } => {
                let stages: Vec<&str> = stages.iter().map(StageName::as_str).collect();
                let stages = stages.join(" or ");
                match hardware {
                    Some(hardware) => format!(
                        "no node is there that runs {stages}; `node --role {}` starts one",
                        hardware.as_str()
                    ),
                    None => format!("no node is there that runs {stages}"),
                }
            }
            Self::NoModel { stage, models } => format!(
                "no node that runs {stage} has loaded {}; start one that does (node.models: the folder with its model.json), or name \
                 another model",
                models.join(" and ")
            ),
            Self::MixedModels { stage, models } => format!(
                "{}; `node job pause {job}` and `node job update {job} models={stage}=NAME` choose one",
                mixed_in_words(stage, models)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use parkhang_actors::stage::ocr_pipeline;
    use parkhang_core::domain::{JobConfig, JobId, TaskStatus, WorkerId};

    use super::*;
    use crate::admin::jobs::models;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000 + second, 0).unwrap()
    }

    fn job(status: JobStatus) -> Job {
        Job {
            id: JobId(1),
            key: "press".parse().unwrap(),
            operation: "ocr".to_owned(),
            pipeline: ocr_pipeline(),
            config: JobConfig::default(),
            status,
            created_at: at(0),
            finished_at: None,
        }
    }

    fn count(position: &str, status: TaskStatus) -> JobTaskCount {
        let position = position.parse().unwrap();
        JobTaskCount {
            job: JobId(1),
            position,
            status,
            terminal: false,
            tasks: 1,
        }
    }

    fn node(stages: &[&str], seen: i64, state: NodeState) -> NodeRecord {
        let pools = stages.iter().map(|stage| WorkerRecord {
            worker: WorkerId(format!("node/{stage}/1")),
            stage: stage.parse().unwrap(),
            models: Vec::new(),
            slots: 1,
            in_use: 0,
            generation: 1,
            last_heartbeat: None,
            pages: None,
            pages_finished: None,
        });
        NodeRecord {
            name: "node".to_owned(),
            roles: Vec::new(),
            tags: Vec::new(),
            host: None,
            build: "0".to_owned(),
            protocol: 1,
            health: None,
            started_at: None,
            resident: None,
            last_seen: at(seen),
            state,
            workers: pools.collect(),
        }
    }

    fn found(status: JobStatus, counts: &[JobTaskCount], led: bool, nodes: &[NodeRecord]) -> Vec<String> {
        let (job, patience) = (job(status), TimeDelta::seconds(20));
        let stages = &StageTable::built_in();
        let hands = Hands {
            led,
            nodes,
            patience,
            stages,
        };
        let found = obstacles(&job, counts, hands, at(100));
        found.iter().map(|obstacle| obstacle.advice(&job.key)).collect()
    }

    const FRESH: (&str, TaskStatus) = ("pending", TaskStatus::Pending);

    #[test]
    fn stages_that_nobody_runs_are_named_with_the_role_that_does() {
        let counts = [
            count(FRESH.0, FRESH.1),
            count("line_extraction", TaskStatus::Done),
        ];
        let gpu = "no node is there that runs line_detection or ocr; `node --role gpu` starts one";
        let found = |nodes: &[NodeRecord]| found(JobStatus::Running, &counts, true, nodes);
        assert_eq!(found(&[]), [gpu]);
        let stages = ["line_detection", "ocr"];
        assert_eq!(found(&[node(&stages, 90, NodeState::Lost)]), [gpu]);
        assert_eq!(
            found(&[node(&stages, 70, NodeState::Joined)]),
            [gpu],
            "silent for long"
        );
        assert_eq!(found(&[node(&stages, 90, NodeState::Joined)]), [""; 0]);
        let half = found(&[node(&["ocr"], 90, NodeState::Joined)]);
        assert_eq!(half.len(), 1);
        assert!(half[0].contains("runs line_detection;"), "{half:?}");
    }

    /// Rows: 102.
    #[test]
    fn a_model_that_no_node_has_is_an_obstacle() {
        let mut job = job(JobStatus::Running);
        let config = JobConfig::default().with_overrides(["models=line_detection=finder"]);
        job.config = config.unwrap();
        let mut node = node(&["line_detection"], 90, NodeState::Joined);
        let found = |node: &NodeRecord| {
            let (nodes, patience) = (std::slice::from_ref(node), TimeDelta::seconds(20));
            let led = true;
            let stages = &StageTable::built_in();
            let hands = Hands {
                led,
                nodes,
                patience,
                stages,
            };
            let found = obstacles(&job, &[count(FRESH.0, FRESH.1)], hands, at(100));
            let advice = found.iter().map(|obstacle| obstacle.advice(&job.key));
            advice.collect::<Vec<String>>()
        };
        let without = found(&node);
        assert_eq!(without.len(), 1);
        assert!(
            without[0].starts_with("no node that runs line_detection has loaded finder;"),
            "{without:?}"
        );
        node.workers[0].models = vec!["finder".to_owned()];
        assert_eq!(found(&node), [""; 0]);
    }

    #[test]
    fn models_that_differ_between_nodes_are_told_unless_the_job_names_one() {
        let with = |models: &[&str]| {
            let mut node = node(&["ocr"], 90, NodeState::Joined);
            node.workers[0].models = models.iter().map(|model| (*model).to_owned()).collect();
            node
        };
        let told = |nodes: &[NodeRecord], overrides: &[&str]| {
            let mut job = job(JobStatus::Running);
            job.config = JobConfig::default()
                .with_overrides(overrides.iter().copied())
                .unwrap();
            let (led, patience) = (true, TimeDelta::seconds(20));
            let stages = &StageTable::built_in();
            let hands = Hands {
                led,
                nodes,
                patience,
                stages,
            };
            let counts = [count("line_extraction", TaskStatus::Done)];
            let found = obstacles(&job, &counts, hands, at(100));
            found
                .iter()
                .map(|obstacle| obstacle.advice(&job.key))
                .collect::<Vec<_>>()
        };
        let (older, newer) = (with(&["older"]), with(&["newer"]));
        let mixed = told(&[older.clone(), newer.clone()], &[]);
        assert_eq!(mixed.len(), 1, "{mixed:?}");
        assert!(
            mixed[0].starts_with("nodes have loaded different models for ocr (newer, older)"),
            "{mixed:?}"
        );
        assert_eq!(told(&[older.clone(), older.clone()], &[]), [""; 0]);
        assert_eq!(told(&[older, newer], &["models=ocr=older"]), [""; 0]);
        assert_eq!(told(&[with(&["a", "b"]), with(&["b", "a"])], &[]), [""; 0]);
    }

    #[test]
    fn a_name_that_nobody_has_loaded_is_warned_of_and_one_that_is_a_path_refused() {
        let config = |models: &str| JobConfig::default().with_overrides([models]).unwrap();
        let mut node = node(&["ocr"], 90, NodeState::Joined);
        let warned = |node: &NodeRecord, models: &str| {
            let (nodes, patience) = (std::slice::from_ref(node), TimeDelta::seconds(20));
            let hands = Hands {
                led: true,
                nodes,
                patience,
                stages: &StageTable::built_in(),
            };
            models::warnings(&config(models).models, hands, at(100))
        };
        let none = warned(&node, "models=ocr=reader");
        assert_eq!(
            none,
            ["no node that is there has loaded reader for ocr, nor any other model"]
        );
        node.workers[0].models = vec!["older".to_owned(), "oldest".to_owned()];
        assert_eq!(
            warned(&node, "models=ocr=reader"),
            ["no node that is there has loaded reader for ocr; there is older, oldest"]
        );
        assert_eq!(warned(&node, "models=ocr=older"), [""; 0]);

        let check = |models: &str| {
            models::check(&config(models), &ocr_pipeline(), &StageTable::built_in())
                .map_err(|refusal| refusal.to_string())
        };
        assert_eq!(check("models=ocr=older"), Ok(()));
        let path = check("models=ocr=/srv/models/older").unwrap_err();
        assert!(path.starts_with("/srv/models/older is a path"), "{path}");
        assert_eq!(
            check("models=reed=x").unwrap_err(),
            "reed=x: there is no stage reed"
        );
        assert_eq!(
            check("models=reduce=x").unwrap_err(),
            "reduce=x: reduce has no model; stages that have are line_detection and ocr"
        );
    }

    #[test]
    fn jobs_that_wait_for_a_model_are_found() {
        let mut waits = job(JobStatus::Running);
        let config = JobConfig::default().with_overrides(["models=line_detection=finder"]);
        waits.config = config.unwrap();
        let paused = Job {
            status: JobStatus::Paused,
            ..waits.clone()
        };
        let node = node(&["line_detection"], 90, NodeState::Joined);
        let counts = BTreeMap::from([(JobId(1), vec![count(FRESH.0, FRESH.1)])]);
        let missed = |job: &Job| {
            let hands = Hands {
                led: true,
                nodes: std::slice::from_ref(&node),
                patience: TimeDelta::seconds(20),
                stages: &StageTable::built_in(),
            };
            models::missed([job], &counts, hands, at(100)).len()
        };
        assert_eq!(missed(&waits), 1);
        assert_eq!(missed(&paused), 0);
        assert_eq!(missed(&job(JobStatus::Running)), 0, "it names none");
    }

    #[test]
    fn without_a_leader_a_node_that_is_heard_of_takes_work_for_itself() {
        let waiting = [count(FRESH.0, FRESH.1)];
        let found = |nodes: &[NodeRecord]| found(JobStatus::Running, &waiting, false, nodes);
        let idle = found(&[]);
        assert!(
            idle[0].contains("`node --role orchestrator` starts one"),
            "{idle:?}"
        );
        let stages = ["line_detection"];
        assert_eq!(found(&[node(&stages, 90, NodeState::Joined)]), [""; 0]);
        assert_eq!(
            found(&[node(&stages, 70, NodeState::Joined)]),
            idle,
            "led until then"
        );
        assert_eq!(
            found(&[node(&[], 90, NodeState::Joined)]),
            idle,
            "a standby takes nothing"
        );
        let other = found(&[node(&["ocr"], 90, NodeState::Joined)]);
        assert!(other[0].contains("`node --role gpu` starts one"), "{other:?}");
    }

    #[test]
    fn a_job_in_which_nothing_waits_has_no_obstacle() {
        let counts = [count("ocr", TaskStatus::Running), count("done", TaskStatus::Done)];
        assert_eq!(found(JobStatus::Running, &counts, false, &[]), [""; 0]);
        let fresh = [count(FRESH.0, FRESH.1)];
        assert_eq!(found(JobStatus::Cancelled, &fresh, true, &[]), [""; 0]);
        let paused = found(JobStatus::Paused, &fresh, false, &[]);
        assert_eq!(
            paused,
            ["the job is paused; `node job resume press` lets it go on"]
        );
    }
}
