//! Work goes through queues, and processes die between any two side effects on them.

use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;
use parkhang_core::failpoint::Failpoint;
use parkhang_test_s3::external::{Server, ministack};

use crate::cluster::{Cluster, Plan};
use crate::library::Library;
use crate::support::finish;

/// Starts a server of queues, and returns the settings by which processes find it.
fn queues() -> (Server, Vec<(&'static str, &'static str)>) {
    let server = Server::start(ministack("sqs"));
    let settings = vec![
        ("source.kind", "sqs"),
        ("source.poll", "500ms"),
        ("source.sqs.endpoint", server.url.clone().leak() as &str),
        ("source.sqs.region", "us-east-1"),
        ("source.sqs.visibility", "20s"),
        ("source.sqs.wait", "1s"),
        ("cluster.idle_timeout", "6s"),
        ("cluster.lease", "8s"),
        ("orchestrator.max_interruptions", "100"),
    ];
    (server, settings)
}

/// The one that publishes dies between each two of its side effects, and so do the nodes that receive; then everything is done once.
#[tokio::test(flavor = "multi_thread")]
async fn publishers_and_receivers_die_at_every_failpoint_of_queues() {
    let (_server, settings) = queues();
    let library = Library { volumes: 6, pages: 2 };
    let mut cluster = Cluster::prepare(Plan::small(library).with(&settings)).await;
    let create = cluster.command(["queue", "create"]);
    tokio::task::spawn_blocking(move || finish(create).exits(0))
        .await
        .unwrap();
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
