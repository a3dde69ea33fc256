//! Volumes come by messages of other programs, and the leader dies while it takes them in.

use std::process::Command;

use parkhang_core::failpoint::Failpoint;
use parkhang_queue::{NewMessage, QueueServer, SqsOptions, SqsServer};
use parkhang_state::StateStore;
use parkhang_test_s3::external::{Server, ministack};

use crate::cluster::{Cluster, Plan};
use crate::library::Library;
use crate::support::finish;

const QUEUE: &str = "bec_kangyur_tasks";

async fn carried_out(command: Command) {
    // The links are tasks of this thread's runtime.
    let finished = tokio::task::spawn_blocking(move || finish(command).exits(0));
    finished.await.unwrap();
}

/// A request is committed and its message is not deleted: the next leader receives it again, and nothing is done twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_dies_between_taking_requests_and_deleting_their_messages() {
    let server = Server::start(ministack("sqs"));
    let settings = [
        ("intake.queues", "kangyur=bec_kangyur_tasks"),
        ("source.poll", "500ms"),
        ("source.sqs.endpoint", server.url.clone().leak() as &str),
        ("source.sqs.region", "us-east-1"),
        ("source.sqs.wait", "1s"),
        ("cluster.idle_timeout", "6s"),
        ("cluster.lease", "8s"),
    ];
    let library = Library::alike(6, 2);
    let mut cluster = Cluster::prepare(Plan::small(library).with(&settings)).await;
    carried_out(cluster.command(["queue", "create"])).await;
    carried_out(cluster.command(["job", "create", "kangyur", "--standing", "--force"])).await;
    let options = SqsOptions {
        endpoint: Some(server.url.clone()),
        region: Some("us-east-1".to_owned()),
        ..SqsOptions::default()
    };
    let sqs = SqsServer::open_with_keys(&options, "test", "test").await.unwrap();
    let queue = sqs.open(QUEUE).await.unwrap();
    let messages: Vec<NewMessage> = (0..6)
        .map(|number| {
            let volume = Library::volume(number);
            let (w_id, i_id) = volume.split_once('-').unwrap();
            NewMessage::new(format!("{{\"w_id\": \"{w_id}\", \"i_id\": \"{i_id}\"}}"))
        })
        .collect();
    for sent in queue.send_all(&messages).await {
        sent.unwrap();
    }
    cluster.start_worker(0, "").await;
    cluster.leader_dies_at(Failpoint::RequestsTaken).await;
    let counts = queue.counts().await.unwrap();
    assert_eq!(counts.visible + counts.in_flight, 6, "no message was deleted");

    cluster.start_orchestrator(0, "").await;
    cluster
        .until("every message is deleted", async |_| {
            let counts = queue.counts().await.unwrap();
            counts.visible + counts.in_flight == 0
        })
        .await;
    let job = cluster.store.job(&"kangyur".parse().unwrap()).await.unwrap();
    cluster.jobs.push(job.unwrap());
    assert_eq!(cluster.tasks().await.len(), 6);
    carried_out(cluster.command(["job", "close", "kangyur"])).await;
    cluster.all_is_well().await;
}
