//! Work goes through queues, and processes die between any two side effects on them.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use parkhang_core::failpoint::Failpoint;
use parkhang_queue::{NewMessage, QueueServer, Receive, SqsOptions, SqsServer, TaskQueue};
use parkhang_test_s3::external::{Server, ministack};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::{Cluster, Plan};
use crate::library::{Library, SHELF};
use crate::link::{Link, Upstream};
use crate::support::finish;

const STAGES: [&str; 4] = ["line-detection", "line-extraction", "ocr", "reduce"];
/// Log line of a publisher that misses messages.
const LOST: &str = "the queue has lost messages";

/// A server of queues that may die, behind a link that may go dark.
struct Queues {
    server: Option<Server>,
    listens: watch::Sender<Option<SocketAddr>>,
    link: Link,
}

impl Queues {
    async fn start() -> Self {
        let listens = watch::Sender::new(None);
        let link = Link::to(Upstream::Process(listens.subscribe())).await;
        let mut queues = Self {
            server: None,
            listens,
            link,
        };
        queues.start_server().await;
        queues
    }

    /// Starts the server, which has no queues then.
    async fn start_server(&mut self) {
        let server = tokio::task::spawn_blocking(|| Server::start(ministack("sqs")))
            .await
            .unwrap();
        let address = server.url.trim_start_matches("http://").parse().unwrap();
        self.listens.send_replace(Some(address));
        self.server = Some(server);
    }

    /// Kills the server; what is in its queues is lost.
    async fn kill_server(&mut self) {
        let server = self.server.take();
        tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
        self.listens.send_replace(None);
    }

    /// A cluster whose processes find the queues, and all of whose processes run.
    async fn cluster(&self, plan: Plan) -> Cluster {
        let mut cluster = Cluster::prepare(self.plan(plan)).await;
        create_queues(&cluster).await;
        cluster.start_orchestrator(0, "").await;
        for worker in 0..cluster.workers.len() {
            cluster.start_worker(worker, "").await;
        }
        cluster
    }

    fn plan(&self, plan: Plan) -> Plan {
        let endpoint: &'static str = format!("http://{}", self.link.address()).leak();
        plan.with(&[
            ("source.kind", "sqs"),
            ("source.poll", "500ms"),
            ("source.sqs.endpoint", endpoint),
            ("source.sqs.region", "us-east-1"),
            ("source.sqs.visibility", "20s"),
            ("source.sqs.wait", "1s"),
            ("cluster.idle_timeout", "6s"),
            ("cluster.lease", "8s"),
            ("orchestrator.max_interruptions", "100"),
        ])
    }

    /// A client of this test's own.
    async fn client(&self) -> SqsServer {
        let options = SqsOptions {
            endpoint: Some(format!("http://{}", self.link.address())),
            region: Some("us-east-1".to_owned()),
            ..SqsOptions::default()
        };
        SqsServer::open_with_keys(&options, "test", "test").await.unwrap()
    }

    async fn of_stages(&self) -> Vec<Arc<dyn TaskQueue>> {
        let client = self.client().await;
        let mut queues = Vec::new();
        for stage in STAGES {
            queues.push(client.open(&format!("ocr-{stage}.fifo")).await.unwrap());
        }
        queues
    }
}

async fn create_queues(cluster: &Cluster) {
    let create = cluster.command(["queue", "create"]);
    tokio::task::spawn_blocking(move || finish(create).exits(0))
        .await
        .unwrap();
}

/// The one that publishes dies between each two of its side effects, and so do the nodes that receive; then everything is done once.
/// Rows: D5.
#[tokio::test(flavor = "multi_thread")]
async fn publishers_and_receivers_die_at_every_failpoint_of_queues() {
    let queues = Queues::start().await;
    let library = Library { volumes: 6, pages: 2 };
    let mut cluster = Cluster::prepare(queues.plan(Plan::small(library))).await;
    create_queues(&cluster).await;
    cluster.start_orchestrator(0, "").await;
    cluster.create_job("kangyur").await;
    cluster.kill_orchestrator(0);
    for point in [Failpoint::PublicationIntended, Failpoint::MessagesSent] {
        let begin = cluster.journal.end();
        cluster
            .start_orchestrator(0, &format!("{point}=return(abort)"))
            .await;
        let process = cluster.orchestrators[0].process.as_mut().unwrap();
        assert_eq!(process.said(begin, "failpoint ").await, point.name());
        let status = process.end().await;
        assert_eq!(status.signal(), Some(Signal::SIGABRT as i32), "{point}");
    }
    cluster.start_orchestrator(0, "").await;
    for point in [Failpoint::MessageClaimed, Failpoint::ResultCommitted] {
        for _ in 0..2 {
            let begin = cluster.journal.end();
            cluster.start_worker(0, &format!("{point}=return(abort)")).await;
            let mut process = cluster.workers[0].process.take().unwrap();
            assert_eq!(process.said(begin, "failpoint ").await, point.name());
            let status = process.end().await;
            assert_eq!(status.signal(), Some(Signal::SIGABRT as i32), "{point}");
        }
    }
    cluster.start_worker(0, "").await;
    cluster.all_is_well().await;
}

/// The server keeps nothing: what was in its queues is published again once somebody has made them anew.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_of_the_queues_dies_and_comes_back_empty() {
    let mut queues = Queues::start().await;
    let mut cluster = queues.cluster(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    queues.kill_server().await;
    let killed = cluster.journal.end();
    cluster.until_said(killed, "tasks cannot be published now").await;
    queues.start_server().await;
    create_queues(&cluster).await;
    cluster.until_said(killed, LOST).await;
    cluster.all_is_well().await;
}

/// An outage of several leases and visibilities, during which work in progress goes on.
#[tokio::test(flavor = "multi_thread")]
async fn queues_are_out_of_reach_for_long() {
    let queues = Queues::start().await;
    let mut cluster = queues.cluster(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    queues.link.darken();
    // A minute of tries: what is held has come back, and what is published is taken for lost.
    let begin = cluster.journal.end();
    cluster
        .until("publishing was given up", async |cluster| {
            let said = ["tasks cannot be published now", "messages not taken"];
            said.iter()
                .any(|part| cluster.journal.find(begin, part).is_some())
        })
        .await;
    queues.link.restore();
    cluster.all_is_well().await;
}

/// A node sleeps until its message has come back and somebody else has its work; awake, it changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_worker_wakes_after_its_visibility_is_over() {
    let queues = Queues::start().await;
    let mut cluster = queues.cluster(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    let mut frozen = None;
    // A stage may end in the moment between the look and the signal: then the node sleeps without work, and another one is tried.
    while frozen.is_none() {
        cluster.until_busy(0).await;
        cluster.worker(0).signal(Signal::SIGSTOP);
        frozen = cluster.task_at(0).await;
        if frozen.is_none() {
            cluster.worker(0).signal(Signal::SIGCONT);
        }
    }
    let frozen = frozen.unwrap();
    cluster
        .until("the frozen node's work is taken from it", async |cluster| {
            let tasks = cluster.tasks().await;
            let now = tasks.into_iter().find(|task| task.id == frozen.id);
            now.is_some_and(|now| now.fence() != frozen.fence())
        })
        .await;
    let stage = frozen.fence().unwrap().stage.as_str().replace('_', "-");
    let queue = queues
        .client()
        .await
        .open(&format!("ocr-{stage}.fifo"))
        .await
        .unwrap();
    cluster
        .until("its message has come back and was deleted", async |_| {
            let counts = queue.counts().await.unwrap();
            counts.visible + counts.in_flight == 0
        })
        .await;
    cluster.worker(0).signal(Signal::SIGCONT);
    cluster.all_is_well().await;
}

/// Everything in a queue is deleted by mistake, by somebody who tells nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_purged_by_mistake() {
    let queues = Queues::start().await;
    let library = Library { volumes: 6, pages: 2 };
    let mut cluster = queues.cluster(Plan::small(library)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    let purged = cluster.journal.end();
    for queue in queues.of_stages().await {
        queue.purge().await.unwrap();
    }
    cluster.until_said(purged, LOST).await;
    cluster.all_is_well().await;
}

/// Rows: 145.
#[tokio::test(flavor = "multi_thread")]
async fn messages_come_twice_late_and_after_their_end() {
    let queues = Queues::start().await;
    let mut cluster = queues.cluster(Plan::full(SHELF)).await;
    let stages = queues.of_stages().await;
    let echo = AbortOnDropHandle::new(tokio::spawn(async move {
        for round in 0.. {
            for queue in &stages {
                echo(&**queue, round).await;
            }
        }
    }));
    cluster.create_jobs().await;
    cluster.settle().await;
    drop(echo);
    cluster.all_is_well().await;
}

/// Receives messages before those whom they are for, which delays them, and sends copies of them.
async fn echo(queue: &dyn TaskQueue, round: u32) {
    let taken = queue
        .receive(
            Receive::one(Duration::from_secs(2))
                .up_to(3)
                .waiting(Duration::from_secs(1)),
        )
        .await
        .unwrap();
    let copies: Vec<NewMessage> = taken
        .iter()
        // One that was received too often is a dead letter, and the work with it is set aside: this test is not about that.
        .filter(|delivery| delivery.receives < 2)
        .map(|delivery| {
            let id = format!("echo-{round}-{}", delivery.id);
            NewMessage::new(delivery.body.clone()).in_group(id.clone(), id)
        })
        .collect();
    for sent in queue.send_all(&copies).await {
        sent.unwrap();
    }
}
