//! Queues of SQS against a server in this process, with faults, against servers of other people and, where the environment names one,
//! against another.

mod external;
mod faults;
mod protocol;
mod server;

use std::sync::Arc;
use std::time::Duration;

use super::{SqsOptions, SqsServer};
use crate::QueueKind;
use crate::conformance::{Pace, Site, sampled_histories, suite};
use server::{Endpoint, Fault};

const BOTH: &[QueueKind] = &[QueueKind::Standard, QueueKind::Fifo];

/// Short waits, as the time of these servers is real.
const PACE: Pace = Pace {
    deeds: 25,
    longest_wait: Duration::from_secs(2),
    longest_hold: 3,
};

/// Longest time by which an answer may be late on a busy machine.
const SLACK: Duration = Duration::from_secs(1);

/// Quick to try again, and patient enough for a busy machine.
fn options(endpoint: &Endpoint) -> SqsOptions {
    let mut options = SqsOptions::for_queue(&endpoint.url);
    options.region = Some("us-east-1".to_owned());
    options.backoff = Duration::from_millis(1);
    options
}

async fn connect(options: &SqsOptions) -> SqsServer {
    SqsServer::open_with_keys(options, "test", "test").await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_like_aws_conforms() {
    let endpoint = Endpoint::start().await;
    let server = connect(&options(&endpoint)).await;
    let site = Site::new(Arc::new(server), BOTH, &[], SLACK);
    tokio::join!(suite(&site), sampled_histories(&site, 16, PACE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_keeps_failing_conforms() {
    let endpoint = Endpoint::start().await;
    let faults = vec![
        Fault::Refuse(400, "RequestThrottled"),
        Fault::FailEntries,
        Fault::Refuse(500, "InternalFailure"),
        Fault::Refuse(503, "ServiceUnavailable"),
    ];
    endpoint.faults().come_round(3, faults);
    let server = connect(&options(&endpoint)).await;
    let site = Site::new(Arc::new(server), BOTH, &[], SLACK);
    tokio::join!(suite(&site), sampled_histories(&site, 16, PACE));
}

/// A FIFO queue hides lost answers from who asks again: by deduplication ids, and by the ids of receives.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_loses_answers_conforms() {
    let endpoint = Endpoint::start().await;
    endpoint
        .faults()
        .come_round(4, vec![Fault::LoseAnswer, Fault::CutAnswer]);
    let server = connect(&options(&endpoint)).await;
    let site = Site::new(Arc::new(server), &[QueueKind::Fifo], &[], SLACK).losing_answers();
    sampled_histories(&site, 24, PACE).await;
}
