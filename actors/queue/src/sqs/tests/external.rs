//! The conformance suite on SQS servers of other people, each a process of its own.

use std::sync::Arc;
use std::time::Duration;

use parkhang_test_s3::external::{Server, ministack, moto};

use super::super::{SqsOptions, SqsServer};
use super::{BOTH, PACE};
use crate::QueueKind;
use crate::conformance::{Deviation, Site, sampled_histories, suite};

/// Longest time by which an answer may be late on a busy machine: they are slower than what runs in this process.
const SLACK: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs ministack beside $PYTHON: tests/python/requirements.txt"]
async fn ministack_conforms() {
    let server = Server::start(ministack("sqs"));
    let deviations = &[
        Deviation::NoMoveTask,
        Deviation::PurgesAtOnce,
        Deviation::HonoursExpiredReceipts,
    ];
    conforms(&server.url, BOTH, deviations).await;
}

/// Standard queues alone: moto's FIFO queues deliver out of order once a visibility is over, forget deduplication ids with their
/// messages and take stale receipts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs moto_server beside $PYTHON: tests/python/requirements.txt"]
async fn moto_conforms() {
    let server = Server::start(moto());
    let deviations = &[
        Deviation::NoMoveTask,
        Deviation::HonoursExpiredReceipts,
        Deviation::HonoursReplacedReceipts,
        Deviation::ForgetsSource,
        Deviation::RacesReceives,
    ];
    conforms(&server.url, &[QueueKind::Standard], deviations).await;
}

/// SQS itself has none of the deviations; `PARKHANG_TEST_SQS_ENDPOINT=https://sqs.eu-west-1.amazonaws.com`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn another_server_conforms() {
    match std::env::var("PARKHANG_TEST_SQS_ENDPOINT") {
        Ok(url) => conforms(&url, BOTH, &[]).await,
        Err(_) => eprintln!("skipped: PARKHANG_TEST_SQS_ENDPOINT names no SQS server to test against"),
    }
}

async fn conforms(url: &str, kinds: &'static [QueueKind], deviations: &'static [Deviation]) {
    let mut options = SqsOptions::for_queue(url).with_endpoint(url);
    options.region.get_or_insert_with(|| "us-east-1".to_owned());
    options.backoff = Duration::from_millis(50);
    let server = match std::env::var_os("AWS_ACCESS_KEY_ID") {
        Some(_) => SqsServer::open_account(&options).await,
        None => SqsServer::open_with_keys(&options, "test", "test").await,
    };
    let site = Site::new(Arc::new(server.unwrap()), kinds, deviations, SLACK);
    tokio::join!(suite(&site), sampled_histories(&site, 24, PACE));
}
