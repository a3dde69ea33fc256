//! The process dies between any two side effects, and nothing is lost or done twice.

use parkhang_core::failpoint::Failpoint;

use crate::cluster::{Cluster, Plan};
use crate::library::Library;

/// Who passes a failpoint.
#[derive(Debug, PartialEq, Eq)]
enum Passer {
    Leader,
    /// A node, in these stages.
    Node(&'static [&'static str]),
    /// Where work goes through queues: see the tests of those.
    Queues,
    /// Where services do it, for tasks and for rows: see the tests of those.
    Services,
    /// Not a place to die at.
    Nobody,
}

const PAGED: &[&str] = &["line_detection", "line_extraction", "ocr"];
const ALL: &[&str] = &["line_detection", "line_extraction", "ocr", "reduce"];
/// Stages of documents that go page by page, and those that take a volume as a whole.
const PAGED_OF_DOCUMENTS: &[&str] = &["doctags", "chunk", "embed"];
const WHOLE_OF_DOCUMENTS: &[&str] = &["index", "reduce"];

fn passer(point: Failpoint) -> Passer {
    match point {
        Failpoint::LeadershipTaken
        | Failpoint::EpochBegun
        | Failpoint::PassDecided
        | Failpoint::LeasesWritten
        | Failpoint::JobsUnsettled
        | Failpoint::AssignmentTaken
        | Failpoint::ReportReceived
        | Failpoint::ChangesWritten
        | Failpoint::ChangesCommitted
        | Failpoint::ReportCommitted => Passer::Leader,
        Failpoint::AssignAccepted
        | Failpoint::StageStarted
        | Failpoint::StageEnded
        | Failpoint::ReportAnswered => Passer::Node(ALL),
        Failpoint::PageDone
        | Failpoint::PartImagesFlushed
        | Failpoint::PartWritten
        | Failpoint::ImagesFlushed
        | Failpoint::ErrorsWritten
        | Failpoint::TableWritten
        | Failpoint::PartDeleted => Passer::Node(PAGED),
        Failpoint::IndexWritten => Passer::Node(&["index"]),
        Failpoint::PublicationIntended
        | Failpoint::MessagesSent
        | Failpoint::MessageClaimed
        | Failpoint::ResultCommitted
        | Failpoint::RequestsTaken => Passer::Queues,
        Failpoint::SubmitIntended
        | Failpoint::JobSubmitted
        | Failpoint::JobLooked
        | Failpoint::WebhookCame
        | Failpoint::WebhookWritten
        | Failpoint::ResultWritten
        | Failpoint::RowsClaimed
        | Failpoint::StepWritten
        | Failpoint::StepCommitted => Passer::Services,
        Failpoint::DevicePass | Failpoint::StoreWrite => Passer::Nobody,
    }
}

/// Places at which a leader may die.
pub(crate) fn of_leaders() -> Vec<Failpoint> {
    of(|passer| *passer == Passer::Leader)
}

/// Places at which a node of the pipeline `ocr` may die.
pub(crate) fn of_nodes() -> Vec<Failpoint> {
    of(|passer| matches!(passer, Passer::Node(stages) if *stages == PAGED || *stages == ALL))
}

fn of(is_so: impl Fn(&Passer) -> bool) -> Vec<Failpoint> {
    Failpoint::ALL
        .iter()
        .copied()
        .filter(|point| is_so(&passer(*point)))
        .collect()
}

/// Each volume has a failpoint of its own, in one of the stages. Whatever node comes by dies there, once.
/// Rows: 138.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_dies_at_every_failpoint() {
    let mut armed = Vec::new();
    for point in Failpoint::ALL {
        if let Passer::Node(stages) = passer(*point)
            && stages != ["index"]
        {
            let number = armed.len();
            let (volume, stage) = (Library::volume(number), stages[number % stages.len()]);
            armed.push(format!("{point}@{volume}/{stage}"));
        }
    }
    all_are_passed(Library::alike(armed.len(), 2), armed).await;
}

/// Around every side effect of each stage that makes documents of pages.
/// Rows: 138.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_dies_around_every_side_effect_of_the_stages_of_documents() {
    let volumes = 4;
    let mut armed = Vec::new();
    let mut arm = |point: Failpoint, stage: &str| {
        let volume = Library::volume(armed.len() % volumes);
        armed.push(format!("{point}@{volume}/{stage}"));
    };
    for point in Failpoint::ALL {
        match passer(*point) {
            Passer::Node(stages) if stages == PAGED => {
                PAGED_OF_DOCUMENTS.iter().for_each(|stage| arm(*point, stage));
            }
            Passer::Node(["index"]) => arm(*point, "index"),
            Passer::Node(_) => WHOLE_OF_DOCUMENTS.iter().for_each(|stage| arm(*point, stage)),
            _ => {}
        }
    }
    all_are_passed(Library::alike(volumes, 2).as_documents(), armed).await;
}

/// Every node that comes by an armed place dies there, until all have been passed; then nothing is lost or done twice.
async fn all_are_passed(library: Library, mut armed: Vec<String>) {
    let plan = Plan::small(library).with(&[
        ("orchestrator.max_interruptions", "100"),
        // One volume at a time: a death in one of several would keep another, whose report was recorded already, from coming by its place.
        ("job.max_running", "1"),
    ]);
    let mut cluster = Cluster::prepare(plan).await;
    cluster.start_orchestrator(0, "").await;
    cluster.create_job("kangyur").await;
    while !armed.is_empty() {
        let place = cluster.worker_dies_at(&armed).await;
        let before = armed.len();
        armed.retain(|name| *name != place);
        assert_eq!(armed.len() + 1, before, "{place} was passed twice");
    }
    cluster.all_is_well().await;
}

/// One leader after the other dies, each at another failpoint, while a node goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_dies_at_every_failpoint() {
    let plan = Plan::small(Library::alike(11, 2)).with(&[
        ("cluster.idle_timeout", "6s"),
        ("cluster.lease", "8s"),
        ("orchestrator.max_interruptions", "100"),
    ]);
    let mut cluster = Cluster::prepare(plan).await;
    cluster.start_worker(0, "").await;
    cluster.start_orchestrator(0, "").await;
    cluster.create_job("kangyur").await;
    cluster.kill_orchestrator(0);
    for point in Failpoint::ALL {
        if passer(*point) == Passer::Leader {
            cluster.leader_dies_at(*point).await;
        }
    }
    cluster.start_orchestrator(0, "").await;
    cluster.all_is_well().await;
}
