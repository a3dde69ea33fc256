//! Work goes through queues, and processes die between any two side effects on them. The pages are real ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use parkhang_core::domain::Task;
use parkhang_core::failpoint::Failpoint;
use parkhang_queue::limits::MOST_RECEIVES;
use parkhang_queue::{
    DeadLetters, NewMessage, QueueServer, QueueSpec, Receive, SqsOptions, SqsServer, TaskQueue,
};
use parkhang_test_s3::external::{Server, ministack};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::{Cluster, Plan};
use crate::library::{JOBS, Library, SAMPLE};
use crate::link::{Link, Upstream};
use crate::stages::{all_but_the_poison_is_done, with_poison};
use crate::support::finish;

const STAGES: [&str; 4] = ["line-detection", "line-extraction", "ocr", "reduce"];
/// Log line of a publisher that misses messages.
const LOST: &str = "the queue has lost messages";
/// Log lines of a publisher that cannot reach the queues.
const GIVEN_UP: [&str; 2] = ["tasks cannot be published now", "messages not taken"];
/// Variable with the seconds for which the queues are out of reach. Without it they are until publishing was given up, for about a minute.
const OUTAGE: &str = "PARKHANG_CHAOS_OUTAGE_S";
/// Visibility of the queues.
const VISIBILITY: Duration = Duration::from_secs(20);

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
            let failpoints = cluster.plan.failpoints.clone();
            cluster.start_worker(worker, &failpoints).await;
        }
        cluster
    }

    /// A server with the same queues and without messages takes the place of this one.
    async fn replace_server(&mut self) {
        let queues = self.client().await.list("ocr-").await.unwrap();
        self.kill_server().await;
        self.start_server().await;
        let client = self.client().await;
        // They are made with their dead-letter queues.
        for name in queues.iter().filter(|name| !name.contains("-dlq")) {
            let spec = QueueSpec::new(name);
            let visibility = VISIBILITY;
            client.create(&QueueSpec { visibility, ..spec }).await.unwrap();
        }
    }

    fn plan(&self, mut plan: Plan) -> Plan {
        let endpoint: &'static str = format!("http://{}", self.link.address()).leak();
        // The last value of a key counts.
        let own = std::mem::take(&mut plan.settings);
        let plan = plan.with(&[
            ("source.kind", "sqs"),
            ("source.poll", "500ms"),
            ("source.sqs.endpoint", endpoint),
            ("source.sqs.region", "us-east-1"),
            ("source.sqs.visibility", "20s"),
            ("source.sqs.wait", "1s"),
            ("cluster.idle_timeout", "6s"),
            ("cluster.lease", "8s"),
            ("orchestrator.max_interruptions", "100"),
        ]);
        plan.with(&own)
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
            queues.push(client.open(&queue_of(stage)).await.unwrap());
        }
        queues
    }

    /// Receives messages before those whom they are for and sends copies of them, until the handle is dropped.
    async fn echo(&self) -> AbortOnDropHandle<()> {
        let stages = self.of_stages().await;
        for queue in &stages {
            // A message that is received too often is a dead letter, and the work with it is set aside: this is not about that.
            let mut settings = queue.facts().await.unwrap();
            settings.dead_letters = settings.dead_letters.map(|letters| DeadLetters {
                max_receives: MOST_RECEIVES,
                ..letters
            });
            queue.configure(&settings).await.unwrap();
        }
        AbortOnDropHandle::new(tokio::spawn(async move {
            for round in 0.. {
                for queue in &stages {
                    echo(&**queue, round).await;
                }
            }
        }))
    }
}

fn queue_of(stage: &str) -> String {
    format!("ocr-{stage}.fifo")
}

/// Stops a node at work, and returns the task that it has.
async fn freeze(cluster: &mut Cluster, worker: usize) -> Task {
    // A stage may end in the moment between the look and the signal: then the node sleeps without work, and is tried again.
    loop {
        cluster.until_busy(worker).await;
        cluster.worker(worker).signal(Signal::SIGSTOP);
        if let Some(frozen) = cluster.task_at(worker).await {
            return frozen;
        }
        cluster.worker(worker).signal(Signal::SIGCONT);
    }
}

/// Waits until the queues cannot be reached and the publisher knows.
async fn until_given_up(cluster: &Cluster, begin: usize) {
    cluster
        .until("publishing was given up", async |cluster| {
            let found = |part: &&str| cluster.journal.find(begin, part).is_some();
            GIVEN_UP.iter().any(found)
        })
        .await;
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
    let mut cluster = Cluster::prepare(queues.plan(Plan::small(SAMPLE))).await;
    create_queues(&cluster).await;
    cluster.start_orchestrator(0, "").await;
    cluster.create_job("kangyur").await;
    cluster.kill_orchestrator(0);
    for point in [Failpoint::PublicationIntended, Failpoint::MessagesSent] {
        cluster.leader_dies_at(point).await;
    }
    cluster.start_orchestrator(0, "").await;
    for point in [Failpoint::MessageClaimed, Failpoint::ResultCommitted] {
        for _ in 0..2 {
            let place = cluster.worker_dies_at(&[point.to_string()]).await;
            assert_eq!(place, point.name());
        }
    }
    cluster.start_worker(0, "").await;
    cluster.all_is_well().await;
}

/// The server dies between each two side effects of the one that publishes and of a node that receives, who sleep meanwhile: awake,
/// they go on with a server that knows nothing of what was sent and received.
/// Rows: D5.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_of_the_queues_dies_between_any_two_side_effects() {
    let mut queues = Queues::start().await;
    let mut cluster = Cluster::prepare(queues.plan(Plan::small(SAMPLE))).await;
    create_queues(&cluster).await;
    let publishing = [Failpoint::PublicationIntended, Failpoint::MessagesSent];
    for (point, job) in publishing.into_iter().zip(JOBS) {
        // Made while nobody publishes, so that the next round has something to publish.
        cluster.create_job(job).await;
        let begin = cluster.journal.end();
        cluster.start_orchestrator(0, &stop_at(point)).await;
        let process = cluster.orchestrators[0].process.as_mut().unwrap();
        assert_eq!(process.said(begin, "failpoint ").await, point.name());
        queues.replace_server().await;
        cluster.orchestrator(0).signal(Signal::SIGCONT);
        let first = &queues.of_stages().await[0];
        // Messages that were sent before are lost with the server, and sent again in time.
        cluster
            .until("messages are in the queue", async |_| {
                first.counts().await.unwrap().total() > 0
            })
            .await;
        if point == Failpoint::PublicationIntended {
            cluster.kill_orchestrator(0);
        }
    }
    for point in [Failpoint::MessageClaimed, Failpoint::ResultCommitted] {
        let begin = cluster.journal.end();
        cluster.start_worker(0, &stop_at(point)).await;
        let process = cluster.workers[0].process.as_mut().unwrap();
        assert_eq!(process.said(begin, "failpoint ").await, point.name());
        let before = cluster.tasks().await;
        queues.replace_server().await;
        cluster.worker(0).signal(Signal::SIGCONT);
        cluster
            .until("the node goes on", async |cluster| {
                let tasks = cluster.tasks().await;
                let moved = |(before, now): (&Task, &Task)| before.position != now.position;
                before.iter().zip(&tasks).any(moved)
            })
            .await;
        cluster.kill_worker(0);
    }
    cluster.start_worker(0, "").await;
    cluster.all_is_well().await;
}

/// Orders to stop at a place for once.
fn stop_at(point: Failpoint) -> String {
    format!("{point}=1*return(stop)")
}

/// The server keeps nothing: what was in its queues is published again once somebody has made them anew.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_of_the_queues_dies_and_comes_back_empty() {
    let mut queues = Queues::start().await;
    let mut cluster = queues.cluster(Plan::full(SAMPLE)).await;
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
    let mut cluster = queues.cluster(Plan::full(SAMPLE)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    queues.link.darken();
    // A minute of tries: what is held has come back, and what is published is taken for lost.
    let (dark, begin) = (Instant::now(), cluster.journal.end());
    until_given_up(&cluster, begin).await;
    let seconds = std::env::var(OUTAGE).map_or(0, |seconds| seconds.parse().unwrap());
    let outage = Duration::from_secs(seconds);
    cluster
        .until_after(outage, "the outage is over", async |_| dark.elapsed() >= outage)
        .await;
    eprintln!("the queues were out of reach for {} s", dark.elapsed().as_secs());
    queues.link.restore();
    cluster.all_is_well().await;
}

/// A node sleeps until its message has come back and somebody else has its work; awake, it changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_worker_wakes_after_its_visibility_is_over() {
    let queues = Queues::start().await;
    let mut cluster = queues.cluster(Plan::full(SAMPLE)).await;
    cluster.create_jobs().await;
    let frozen = freeze(&mut cluster, 0).await;
    cluster.until_taken(&frozen).await;
    let stage = frozen.fence().unwrap().stage.as_str().replace('_', "-");
    let client = queues.client().await;
    let queue = client.open(&queue_of(&stage)).await.unwrap();
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
    let mut cluster = queues.cluster(Plan::small(SAMPLE)).await;
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
    let mut cluster = queues.cluster(Plan::full(SAMPLE)).await;
    let echo = queues.echo().await;
    cluster.create_jobs().await;
    cluster.settle().await;
    drop(echo);
    cluster.all_is_well().await;
}

/// Each time that a node dies of the volume its message comes back, until the volume is set aside with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_kills_its_nodes_is_set_aside_over_queues() {
    let queues = Queues::start().await;
    let cluster = queues.cluster(with_poison(Plan::full(SAMPLE))).await;
    all_but_the_poison_is_done(cluster).await;
}

/// Three jobs over volumes of real collections, and one fault after the other.
/// Rows: 138.
#[tokio::test(flavor = "multi_thread")]
async fn real_collections_are_read_whatever_happens() {
    let Some(library) = Library::of_collections() else {
        eprintln!(
            "SKIPPED: volumes of real collections are read only when PARKHANG_SHARED names their folder"
        );
        return;
    };
    let mut queues = Queues::start().await;
    let mut cluster = queues.cluster(Plan::full(library)).await;
    cluster.start_orchestrator(1, "").await;
    let echo = queues.echo().await;
    // Enough that every worker has some until it is killed.
    cluster.create_job("kangyur").await;
    cluster.create_job("tengyur").await;
    for worker in [0, 2, 1, 3] {
        cluster.until_busy(worker).await;
        cluster.kill_worker(worker);
        cluster.start_worker(worker, "").await;
    }
    drop(echo);

    let frozen = freeze(&mut cluster, 0).await;
    cluster.kill_orchestrator(0);
    cluster.until_taken(&frozen).await;
    cluster.worker(0).signal(Signal::SIGCONT);
    cluster.start_orchestrator(0, "").await;

    cluster.create_job("bon").await;
    cluster.until_busy(1).await;
    let begin = cluster.journal.end();
    queues.link.darken();
    until_given_up(&cluster, begin).await;
    queues.link.restore();
    for queue in queues.of_stages().await {
        queue.purge().await.unwrap();
    }
    cluster.until_busy(0).await;
    queues.replace_server().await;
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
        // Copies of copies without end would leave no time for the work.
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
