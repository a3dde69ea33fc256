use chrono::TimeDelta;
use parkhang_actors::stage::ocr_pipeline;
use parkhang_core::domain::testing::{self, at, node_record, worker_record};
use parkhang_core::domain::{JobConfig, NodeRecord, NodeState, TaskStatus};
use parkhang_core::policy::diagnosis::of_task;

use super::*;

fn job(status: JobStatus) -> Job {
    Job {
        key: "press".parse().unwrap(),
        pipeline: ocr_pipeline(),
        status,
        ..testing::job()
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
    let pools = stages
        .iter()
        .map(|stage| worker_record(&format!("node/{stage}/1"), stage));
    NodeRecord {
        last_seen: at(seen),
        state,
        workers: pools.collect(),
        ..node_record("node")
    }
}

fn facts(has_leader: bool, nodes: &[NodeRecord]) -> ClusterFacts {
    ClusterFacts::of_records(has_leader, nodes, Vec::new(), TimeDelta::seconds(20), at(100))
}

/// What the job is told when these nodes are there.
fn told_of(job: &Job, counts: &[JobTaskCount], has_leader: bool, nodes: &[NodeRecord]) -> Vec<String> {
    let waiting = waiting_stages(&job.pipeline, counts);
    let reasons = of_job(job, &waiting, &facts(has_leader, nodes));
    in_lines(&reasons, &job.key, &StageTable::built_in(), at(100))
}

fn found(status: JobStatus, counts: &[JobTaskCount], has_leader: bool, nodes: &[NodeRecord]) -> Vec<String> {
    told_of(&job(status), counts, has_leader, nodes)
}

const FRESH: (&str, TaskStatus) = ("pending", TaskStatus::Pending);

#[test]
fn stages_that_nobody_runs_are_named_with_the_role_that_does() {
    let counts = [
        count(FRESH.0, FRESH.1),
        count("line_extraction", TaskStatus::Done),
    ];
    let gpu = "no node that is there runs line_detection or ocr; `node --role gpu` starts one";
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
    let waiting = [count(FRESH.0, FRESH.1)];
    let found = |node: &NodeRecord| told_of(&job, &waiting, true, std::slice::from_ref(node));
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
    let message = |nodes: &[NodeRecord], overrides: &[&str]| {
        let mut job = job(JobStatus::Running);
        job.config = JobConfig::default()
            .with_overrides(overrides.iter().copied())
            .unwrap();
        let counts = [count("line_extraction", TaskStatus::Done)];
        told_of(&job, &counts, true, nodes)
    };
    let (older, newer) = (with(&["older"]), with(&["newer"]));
    let mixed = message(&[older.clone(), newer.clone()], &[]);
    assert_eq!(mixed.len(), 1, "{mixed:?}");
    assert!(
        mixed[0].starts_with("nodes have loaded different models for ocr (newer, older)"),
        "{mixed:?}"
    );
    assert_eq!(message(&[older.clone(), older.clone()], &[]), [""; 0]);
    assert_eq!(message(&[older, newer], &["models=ocr=older"]), [""; 0]);
    assert_eq!(message(&[with(&["a", "b"]), with(&["b", "a"])], &[]), [""; 0]);
}

#[test]
fn a_model_that_nobody_has_loaded_is_warned_of_when_a_job_is_made() {
    let mut node = node(&["ocr"], 90, NodeState::Joined);
    let warned = |nodes: &[NodeRecord], models: &str| {
        let config = JobConfig::default().with_overrides([models]).unwrap();
        creation_warnings(&ocr_pipeline(), &config.models, facts(false, nodes))
    };
    assert_eq!(
        warned(&[node.clone()], "models=ocr=reader"),
        ["no node that runs ocr has loaded reader; they have none"]
    );
    node.workers[0].models = vec!["older".to_owned(), "oldest".to_owned()];
    assert_eq!(
        warned(&[node.clone()], "models=ocr=reader"),
        ["no node that runs ocr has loaded reader; they have older, oldest"]
    );
    assert_eq!(warned(&[node.clone()], "models=ocr=older"), [""; 0]);
    assert_eq!(
        warned(&[], "models=ocr=older"),
        ["no node that is there runs ocr (the job names ocr=older)"]
    );
    let mut other = node.clone();
    other.workers[0].models = vec!["newer".to_owned()];
    let mixed = warned(&[node, other], "models=");
    assert_eq!(mixed.len(), 1, "{mixed:?}");
    assert!(mixed[0].ends_with("; --model ocr=NAME chooses one"), "{mixed:?}");
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
    let cluster = facts(true, std::slice::from_ref(&node));
    let missed = |job: &Job| missing_models([job], &counts, &cluster).len();
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

#[test]
fn what_is_missing_is_told_of_a_volume_as_of_its_job() {
    let mut job = job(JobStatus::Running);
    let config = JobConfig::default().with_overrides(["models=line_detection=finder"]);
    job.config = config.unwrap();
    let task = testing::task(1);
    let waiting = [count(FRESH.0, FRESH.1)];
    let nodes = [node(&["line_detection"], 90, NodeState::Joined)];
    for (has_leader, nodes) in [(false, &nodes[..0]), (true, &nodes[..0]), (true, &nodes[..])] {
        let reason = of_task(&task, &job, &facts(has_leader, nodes), None);
        let advice = advice(&reason, &job.key, &StageTable::built_in());
        let line = line(in_words(&reason, at(100)), advice);
        assert_eq!(told_of(&job, &waiting, has_leader, nodes), [line]);
    }
}

#[test]
fn more_slots_are_advised_by_the_key_for_the_hardware_of_the_stage() {
    let advice = |stage: &str| {
        let stage = stage.parse().unwrap();
        let reason = Reason::NoSlot { stage, slots: 1 };
        advice(&reason, &"press".parse().unwrap(), &StageTable::built_in()).unwrap()
    };
    assert!(advice("ocr").contains(" node.slots.gpu "));
    assert!(advice("reduce").contains(" node.slots.cpu "));
    assert!(!advice("of_another_build").contains("node.slots"));
}

#[test]
fn what_a_service_has_is_told_with_its_times() {
    let stage = StageName::new("proofread").unwrap();
    let at_service = Reason::AtService {
        stage: stage.clone(),
        service: "llm".to_owned(),
        since: at(0),
        until: at(600),
    };
    assert_eq!(
        in_words(&at_service, at(40)),
        "waiting for llm to do proofread since 40s, stuck in 9m 20s"
    );
    let paused = Reason::ServicePaused {
        stage: stage.clone(),
        service: "llm".to_owned(),
        until: at(60),
        error: Some("HTTP 503".to_owned()),
    };
    assert_eq!(
        in_words(&paused, at(40)),
        "llm, which does proofread, is left alone and tried again in 20s: HTTP 503"
    );
    let nobody = Reason::NoPool {
        stage: stage.clone(),
        wanted: Vec::new(),
    };
    let table = StageTable::built_in().with_external([stage]);
    let advice = advice(&nobody, &"job".parse().unwrap(), &table).unwrap();
    assert!(advice.contains("[stage.proofread]"), "{advice}");
}
