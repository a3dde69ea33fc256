//! Views of a diagnosis: its reasons in words, with what to do about them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::{
    Hardware, Job, JobId, JobKey, JobStatus, MOST_IN_FRONT, NamedModel, NamedModels, NodeRecord, Pipeline,
    StageName, Task,
};
use parkhang_core::policy::diagnosis::{ClusterFacts, Message, Reason, Unsent, of_job, of_stages};
use parkhang_core::policy::placement::next_fence;
use parkhang_state::{JobTaskCount, Outbox, PostgresStore, ServiceStore, StateError, StateStore};

use super::jobs::waiting_stages;
use super::text::{away, lasting};
use crate::config::ClusterConfig;
use crate::heartbeat::timeout;
use crate::queues::{CREATE_QUEUES, queue_of};
use crate::words::pluralize;

pub const NO_LEADER: &str = "no orchestrator leads";
pub const START_ORCHESTRATOR: &str =
    "`node --role orchestrator` starts one (nodes that need none: `node --role cpu,gpu --source postgres`)";

/// Reads what a diagnosis needs of the cluster with this configuration. It is as patient with silent nodes as the cluster.
pub async fn cluster_facts(
    store: &PostgresStore,
    config: &ClusterConfig,
) -> Result<ClusterFacts, StateError> {
    facts_about(store, &store.nodes().await?, config).await
}

/// Reads what a diagnosis needs beside the records of the nodes, for callers that have read those.
pub async fn facts_about(
    store: &PostgresStore,
    nodes: &[NodeRecord],
    config: &ClusterConfig,
) -> Result<ClusterFacts, StateError> {
    let now = Utc::now();
    let has_leader = store.leader().await?.is_some();
    let held = store.leases(now).await?.held;
    let silence = timeout(config.cluster.heartbeat);
    let facts = ClusterFacts::of_records(has_leader, nodes, held, silence, now);
    // Nodes take what is published, which the leader alone does.
    let is_published = config.source.kind.properties().is_published;
    Ok(ClusterFacts {
        services: store.services().await?,
        is_led: if is_published { has_leader } else { facts.is_led },
        ..facts
    })
}

/// Reads the state of the message for the next lease of a task, where work goes through queues and the task waits.
pub async fn message_of(
    store: &PostgresStore,
    config: &ClusterConfig,
    (task, job): (&Task, &Job),
    cluster: &ClusterFacts,
) -> Result<Option<Message>, StateError> {
    if !config.source.kind.properties().is_published {
        return Ok(None);
    }
    // Also one that is not due: its queue is known.
    let Some(fence) = next_fence(task, job, DateTime::<Utc>::MAX_UTC) else {
        return Ok(None);
    };
    let looks = store.queue_records().await?;
    Ok(Some(Message {
        queue: queue_of(&config.source.sqs, &fence.stage),
        publication: store.publication(job, &fence, cluster.now).await?,
        look: looks
            .into_iter()
            .find(|look| look.purpose.stage() == Some(&fence.stage)),
        has_publisher: cluster.is_led,
    }))
}

/// Reason that a stage of a job misses a model, for each stage of these jobs that does.
pub fn missing_models<'a>(
    jobs: impl IntoIterator<Item = &'a Job>,
    counts: &BTreeMap<JobId, Vec<JobTaskCount>>,
    cluster: &ClusterFacts,
) -> Vec<(&'a Job, Reason)> {
    let mut missing = Vec::new();
    for job in jobs {
        let counts = counts.get(&job.id).map_or(&[][..], Vec::as_slice);
        let reasons = of_job(job, &waiting_stages(&job.pipeline, counts), cluster);
        let models = reasons
            .into_iter()
            .filter(|reason| matches!(reason, Reason::NoModel { .. }));
        missing.extend(models.map(|reason| (job, reason)));
    }
    missing
}

/// Warnings for whoever makes a job of these stages with these models: models that no node has loaded, and those to choose from.
pub fn creation_warnings(pipeline: &Pipeline, models: &NamedModels, cluster: ClusterFacts) -> Vec<String> {
    // A job may be made before anybody leads.
    let cluster = ClusterFacts {
        is_led: true,
        ..cluster
    };
    let mut warnings = Vec::new();
    for reason in of_stages(pipeline.stages(), models, &cluster) {
        let words = in_words(&reason, cluster.now);
        match &reason {
            // Nodes may come after the job, and where it names no model every node will do.
            Reason::NoPool { wanted, .. } if wanted.is_empty() => {}
            Reason::MixedModels { stage, .. } => {
                warnings.push(format!("{words}; --model {stage}=NAME chooses one"));
            }
            _ => warnings.push(words),
        }
    }
    warnings
}

/// Words for a reason.
pub fn in_words(reason: &Reason, now: DateTime<Utc>) -> String {
    match reason {
        Reason::Finished => "all stages are done".to_owned(),
        Reason::Failed { error, .. } => match error {
            Some(error) => format!("failed for good: {error}"),
            None => "failed for good: no reason recorded".to_owned(),
        },
        Reason::Running { stage, worker, until } => format!(
            "{worker} runs {stage}; its lease is to be renewed {}",
            away(*until, now)
        ),
        Reason::AtService {
            stage,
            service,
            since,
            until,
        } => format!(
            "waiting for {service} to do {stage} since {}, stuck {}",
            lasting(now - since),
            away(*until, now)
        ),
        Reason::Overdue {
            stage, worker, since, ..
        } => format!(
            "{worker} held {stage} and let its lease run out {}",
            away(*since, now)
        ),
        Reason::Budget { spent, budget } => {
            format!("the job is paused, as it has spent its budget: {spent} of {budget}")
        }
        Reason::Job { status } => format!("the job is {}", status.as_str()),
        Reason::BackingOff {
            stage,
            until,
            error,
            queue,
        } => {
            let when = away(*until, now);
            let unsent = queue
                .as_ref()
                .map_or(String::new(), |queue| format!("not published in {queue}: "));
            match error {
                Some(error) => format!("{unsent}{stage} is tried again {when} after: {}", error.message),
                None => format!("{unsent}{stage} is tried again {when}"),
            }
        }
        Reason::NoLeader => NO_LEADER.to_owned(),
        Reason::NoPool { stage, wanted } => no_pool(&[(stage, wanted)]),
        Reason::NoModel {
            stage,
            wanted,
            loaded,
        } => {
            let loaded = match loaded[..] {
                [] => "none".to_owned(),
                _ => loaded.join(", "),
            };
            format!(
                "no node that runs {stage} has loaded {}; they have {loaded}",
                wanted.join(" and ")
            )
        }
        Reason::MixedModels { stage, loaded } => format!(
            "nodes have loaded different models for {stage} ({}), and a volume is read with what its node has",
            loaded.join(", ")
        ),
        Reason::ServicePaused {
            stage,
            service,
            until,
            error,
        } => {
            let error = error.as_ref().map_or(String::new(), |error| format!(": {error}"));
            format!(
                "{service}, which does {stage}, is left alone and tried again {}{error}",
                away(*until, now)
            )
        }
        Reason::Limit {
            stage,
            key,
            limit,
            held,
        } => {
            let held = pluralize(*held, "lease");
            format!("the job holds {held}, and its {key} is {limit}, so that {stage} waits")
        }
        Reason::Suspect { stage } => format!(
            "it lost its node several times in a row, and waits for an empty one to run {stage} alone"
        ),
        Reason::NoSlot { stage, slots } => {
            format!("all of {} of {stage} are in use", pluralize(*slots, "slot"))
        }
        Reason::NoQueue {
            stage,
            queue,
            looked_at,
        } => format!(
            "the queue {queue} of stage {stage} does not exist, as was seen {}",
            away(*looked_at, now)
        ),
        Reason::Unpublished { queue, until, .. } => match until {
            Unsent::Due(due) => format!(
                "withdrawn from {queue}, as nobody could work on it; published again {}",
                away(*due, now)
            ),
            Unsent::Limits => format!(
                "not published in {queue}: the job has as many messages out and leases as its limits allow"
            ),
            Unsent::NextRound => format!("not published in {queue}: the next round of publishing does it"),
        },
        Reason::InQueue {
            stage,
            queue,
            since,
            in_front,
            free,
        } => {
            let more = if *in_front >= MOST_IN_FRONT {
                " or more"
            } else {
                ""
            };
            let slots = match free {
                0 => format!("all slots of {stage} are in use"),
                free => format!("{} of {stage} free", pluralize(*free, "slot")),
            };
            let waits = lasting(now - since);
            format!("published, waiting in queue {queue} for {waits}, {in_front}{more} in front; {slots}")
        }
        Reason::Received {
            queue,
            since,
            looked_at,
            ..
        } => format!(
            "its message is held by a receive: published in queue {queue} {}, all of whose messages were held {}",
            away(*since, now),
            away(*looked_at, now)
        ),
        Reason::Missing {
            queue,
            since,
            looked_at,
            ..
        } => format!(
            "published in queue {queue} {}, which said {} that it has no messages",
            away(*since, now),
            away(*looked_at, now)
        ),
        Reason::Nothing { stage, free } => {
            let free = pluralize(*free, "slot");
            format!("nothing: {free} of {stage} free, and the next pass fills them")
        }
    }
}

/// Advice for whoever looks after the job; none where nothing is to be done.
pub fn advice(reason: &Reason, job: &JobKey, stages: &StageTable) -> Option<String> {
    let advice = match reason {
        Reason::Failed { at, .. } => {
            let stage = at.as_str();
            format!("once the cause is gone: node job rerun {job} --from {stage} --status failed")
        }
        Reason::Overdue { is_led: true, .. } => "the next pass ends it".to_owned(),
        Reason::Overdue { is_led: false, .. } => format!("{NO_LEADER}; {START_ORCHESTRATOR}"),
        Reason::NoLeader => START_ORCHESTRATOR.to_owned(),
        Reason::Budget { .. } => format!(
            "`node job limits {job} budget=AMOUNT` raises it, where 0 is any, and `node job resume {job}` lets the job go on"
        ),
        Reason::Job {
            status: JobStatus::Paused,
        } => format!("`node job resume {job}` lets it go on"),
        Reason::NoPool { stage, .. } if stages.is_external(stage.as_str()) => {
            format!("the orchestrator that leads needs the section [stage.{stage}] in its configuration, and the storage")
        }
        Reason::NoPool { stage, .. } => return stages.hardware_of(stage).map(starts_one),
        Reason::NoModel { stage, .. } => format!(
            "start a node with it: node --role gpu --set node.models=FOLDER, the folder with its model.json; or, with the job paused: \
             node job update {job} models={stage}=NAME"
        ),
        Reason::MixedModels { stage, .. } => {
            format!("`node job pause {job}` and `node job update {job} models={stage}=NAME` choose one")
        }
        Reason::Limit { key, .. } => format!("node job limits {job} {key}=N, where 0 is no limit"),
        Reason::NoSlot { stage, .. } => {
            let hardware = stages.hardware_of(stage);
            let more = hardware.map_or(String::new(), |hardware| format!(" or a greater node.slots.{}", hardware.as_str()));
            format!("it comes up when a slot is free; more nodes{more} make that sooner")
        }
        Reason::NoQueue { .. } => CREATE_QUEUES.to_owned(),
        Reason::Received { .. } => {
            "it is leased in a moment, or, where its holder has died, visible again after source.sqs.visibility"
                .to_owned()
        }
        Reason::Missing { stage, .. } => format!(
            "an empty queue has its messages published again once they are older than source.sqs.visibility; `node queue purge {stage}` does it at once"
        ),
        Reason::Unpublished {
            until: Unsent::Limits,
            ..
        } => format!("node job limits {job} max_running=N max_running_per_stage=N, where 0 is no limit"),
        Reason::ServicePaused { service, .. } => format!("look after {service}; it is tried by itself"),
        Reason::Finished
        | Reason::Running { .. }
        | Reason::AtService { .. }
        | Reason::Job { .. }
        | Reason::BackingOff { .. }
        | Reason::Suspect { .. }
        | Reason::Unpublished { .. }
        | Reason::InQueue { .. }
        | Reason::Nothing { .. } => return None,
    };
    Some(advice)
}

/// One line for each reason, with the advice. Stages that no node runs and one more node would are named together.
pub fn in_lines(reasons: &[Reason], job: &JobKey, table: &StageTable, now: DateTime<Utc>) -> Vec<String> {
    let mut unserved: BTreeMap<Option<&str>, Vec<(&StageName, &Vec<String>)>> = BTreeMap::new();
    let mut others = Vec::new();
    for reason in reasons {
        match reason {
            Reason::NoPool { stage, wanted } => {
                let hardware = table.hardware_of(stage).map(Hardware::as_str);
                unserved.entry(hardware).or_default().push((stage, wanted));
            }
            _ => others.push(line(in_words(reason, now), advice(reason, job, table))),
        }
    }
    let mut lines = Vec::new();
    for stages in unserved.values() {
        let advice = stages.first().and_then(|(stage, _)| table.hardware_of(stage));
        lines.push(line(no_pool(stages), advice.map(starts_one)));
    }
    lines.extend(others);
    lines
}

fn line(reason: String, advice: Option<String>) -> String {
    match advice {
        Some(advice) => format!("{reason}; {advice}"),
        None => reason,
    }
}

fn starts_one(hardware: Hardware) -> String {
    format!("`node --role {}` starts one", hardware.as_str())
}

/// Words for stages that no node runs, with the models that the job names for each.
fn no_pool(stages: &[(&StageName, &Vec<String>)]) -> String {
    let names: Vec<&str> = stages.iter().map(|(stage, _)| stage.as_str()).collect();
    let mut models = Vec::new();
    for (stage, wanted) in stages {
        for model in *wanted {
            let (stage, model) = ((*stage).clone(), model.clone());
            models.push(NamedModel { stage, model }.to_string());
        }
    }
    let named = match models[..] {
        [] => String::new(),
        _ => format!(" (the job names {})", models.join(", ")),
    };
    format!("no node that is there runs {}{named}", names.join(" or "))
}

#[cfg(test)]
mod tests;
