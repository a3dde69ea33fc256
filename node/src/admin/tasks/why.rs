use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::{JobKey, PoolInfo, Position, VolumeId};
use parkhang_core::policy::why::{Blocker, why};
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::{State, find};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::jobs::Hands;
use crate::admin::text::away;
use crate::admin::{Admin, Refusal};
use crate::words::counted;

/// Say what keeps a volume from going on: the first thing that would have to change.
#[derive(Debug, Args)]
pub struct Why {
    #[arg(value_name = "JOB")]
    job: JobKey,
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
}

/// Why a volume does not go on.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reason {
    volume: String,
    state: State,
    /// A word for programs: finished, failed, running, overdue, job, backing_off, no_leader, no_pool, no_model, limit, suspect, no_slot or nothing.
    blocker: &'static str,
    reason: String,
    /// What to do about it, if there is something.
    advice: Option<String>,
}

#[async_trait]
impl Command for Why {
    const NAME: [&'static str; 2] = ["tasks", "why"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/tasks/{volume}/why";
    type Answer = Reason;

    async fn run(self, admin: &Admin) -> Result<Reason, Refusal> {
        let (job, task) = find(admin, &self.job, &self.volume).await?;
        let now = Utc::now();
        let nodes = admin.store.nodes().await?;
        let led = admin.store.leader().await?.is_some();
        let served = Hands::new(admin, led, &nodes).are_there(now);
        let there = nodes.iter().filter(|node| node.state.is_there());
        let pools: Vec<PoolInfo> = there
            .flat_map(|node| &node.workers)
            .map(|worker| PoolInfo {
                worker: worker.worker.clone(),
                stage: worker.stage.clone(),
                slots: usize::try_from(worker.slots).unwrap_or(usize::MAX),
                models: worker.models.clone(),
            })
            .collect();
        let leases = admin.store.leases(now).await?;
        let blocker = why(&task, &job, &pools, &leases.held, now);
        let told = Told::of(&blocker, &job.key, &task.position, served, now, &admin.stages);
        Ok(Reason {
            volume: task.volume.to_string(),
            state: State::of(&task, &job),
            blocker: told.word,
            reason: told.reason,
            advice: told.advice,
        })
    }
}

/// A blocker in words.
struct Told {
    word: &'static str,
    reason: String,
    advice: Option<String>,
}

impl Told {
    /// `at` is where the volume stands.
    fn of(
        blocker: &Blocker,
        job: &JobKey,
        at: &Position,
        served: bool,
        now: DateTime<Utc>,
        stages: &StageTable,
    ) -> Self {
        let told = |word, reason: String, advice: Option<String>| Self { word, reason, advice };
        // What is known of nodes and slots is of the time when somebody led.
        if !served && let Some(stage) = blocker.waits_to_be_placed() {
            let reason = format!("no orchestrator leads, and {stage} waits for one that does");
            return told("no_leader", reason, Some(no_orchestrator()));
        }
        match blocker {
            Blocker::Finished => told("finished", "all stages are done".to_owned(), None),
            Blocker::Failed { error } => {
                let error = error
                    .as_ref()
                    .map_or("no reason recorded".to_owned(), ToString::to_string);
                let stage = at.as_str();
                let advice =
                    format!("once the cause is gone: node job rerun {job} --from {stage} --status failed");
                told("failed", format!("failed for good: {error}"), Some(advice))
            }
            Blocker::Running { stage, worker, until } => {
                let reason = format!(
                    "{worker} runs {stage}; its lease is to be renewed {}",
                    away(*until, now)
                );
                told("running", reason, None)
            }
            Blocker::Overdue { stage, worker, since } => {
                let reason = format!(
                    "{worker} held {stage} and let its lease run out {}",
                    away(*since, now)
                );
                let advice = if served {
                    "the next pass ends it".to_owned()
                } else {
                    no_orchestrator()
                };
                told("overdue", reason, Some(advice))
            }
            Blocker::Job { status } => {
                let reason = format!("job {job} is {}", status.as_str());
                let advice = match status.as_str() {
                    "paused" => Some(format!("node job resume {job}")),
                    _ => None,
                };
                told("job", reason, advice)
            }
            Blocker::BackingOff { stage, until, error } => {
                let error = error
                    .as_ref()
                    .map_or(String::new(), |error| format!(" after: {}", error.message));
                told(
                    "backing_off",
                    format!("{stage} is tried again {}{error}", away(*until, now)),
                    None,
                )
            }
            Blocker::NoPool { stage } => {
                let reason = format!("no node that is there runs {stage}");
                let advice = stages.hardware_of(stage).map(|hardware| {
                    let role = hardware.as_str();
                    format!("start a node that does: node --role {role}")
                });
                told("no_pool", reason, advice)
            }
            Blocker::NoModel {
                stage,
                wanted,
                loaded,
            } => {
                let loaded = match loaded[..] {
                    [] => "none".to_owned(),
                    _ => loaded.join(", "),
                };
                let reason = format!(
                    "the job wants {stage} done with {}, and no node that is there has loaded that; those that run {stage} have {loaded}",
                    wanted.join(" and ")
                );
                let advice = format!(
                    "start a node with it: node --role gpu --set node.models=FOLDER, the folder with its model.json; or, with the job paused: node job update {job} models={stage}=NAME"
                );
                told("no_model", reason, Some(advice))
            }
            Blocker::Limit {
                stage,
                key,
                limit,
                held,
            } => {
                let reason = format!(
                    "the job holds {}, and its {key} is {limit}, so that {stage} waits",
                    counted(*held, "lease")
                );
                told(
                    "limit",
                    reason,
                    Some(format!("node job limits {job} {key}=N, where 0 is no limit")),
                )
            }
            Blocker::Suspect { stage } => {
                let reason = format!(
                    "it lost its node several times in a row, and waits for an empty one to run {stage} alone"
                );
                told("suspect", reason, None)
            }
            Blocker::NoSlot { stage, slots } => {
                let reason = format!("all of {} of {stage} are in use", counted(*slots, "slot"));
                let advice =
                    "it comes up when a slot is free; more nodes or more node.slots make that sooner";
                told("no_slot", reason, Some(advice.to_owned()))
            }
            Blocker::Nothing { stage, free } => {
                let reason = format!(
                    "nothing: {} of {stage} free, and the next pass fills them",
                    counted(*free, "slot")
                );
                told("nothing", reason, None)
            }
        }
    }
}

fn no_orchestrator() -> String {
    "start one: node --role orchestrator".to_owned()
}

impl Answer for Reason {
    fn text(&self) -> String {
        let advice = self
            .advice
            .as_ref()
            .map_or(String::new(), |advice| format!("\n{advice}"));
        format!("{}: {}{advice}", self.volume, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::StageName;

    use super::*;

    #[test]
    fn without_an_orchestrator_nothing_else_is_in_the_way() {
        let blocker = Blocker::NoSlot {
            stage: StageName::new("ocr").unwrap(),
            slots: 1,
        };
        let job: JobKey = "press".parse().unwrap();
        let at = Position::At("ocr".parse().unwrap());
        let stages = StageTable::built_in();
        let told = |served| Told::of(&blocker, &job, &at, served, Utc::now(), &stages);
        assert_eq!(told(true).word, "no_slot");
        let unled = told(false);
        assert_eq!(unled.word, "no_leader");
        assert!(unled.advice.unwrap().contains("node --role orchestrator"));
    }
}
