use std::time::Duration;

use parkhang_core::domain::FailureKind;
use secrecy::SecretString;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use crate::testing::{Answering, Frame, Streaming};

fn known_client(service: &Answering) -> JobsClient {
    client(JobsSettings {
        token: Some(SecretString::from("hunter2")),
        max_body: 1000,
        ..JobsSettings::at(&service.url)
    })
}

fn client(settings: JobsSettings) -> JobsClient {
    JobsClient::new(settings, Transport::new().unwrap()).unwrap()
}

/// Rows: 238, 241.
#[tokio::test]
async fn a_submit_says_who_asks_and_which_try_it_is() {
    let service = Answering::with(202, &[], "{\"jobId\": \"a/b\"}").await;
    let client = known_client(&service);
    assert_eq!(client.submit("leads-7-1", "{}".to_owned()).await.unwrap(), "a/b");
    let (line, headers, body) = service.seen.lock().unwrap().pop().unwrap();
    assert_eq!((line.as_str(), body.as_str()), ("POST /jobs", "{}"));
    assert_eq!(headers["idempotency-key"], "leads-7-1");
    assert_eq!(headers["authorization"], "Bearer hunter2");
    assert!(!format!("{client:?}").contains("hunter2"));
}

/// Rows: 229.
#[tokio::test]
async fn a_job_is_asked_for_by_its_id() {
    let service = Answering::with(200, &[], "{\"status\": \"completed\", \"result\": {\"a\": 1}}").await;
    let look = known_client(&service).look("a/../b").await.unwrap();
    assert_eq!(look, JobLook::Completed(json!({"a": 1})));
    assert_eq!(service.seen.lock().unwrap()[0].0, "GET /jobs/a%2F%2E%2E%2Fb");
    let empty = Answering::with(200, &[], "{\"status\": \"completed\"}").await;
    let JobLook::Failed(failure) = known_client(&empty).look("a").await.unwrap() else {
        panic!("a job without a result has failed");
    };
    assert_eq!(failure.kind, FailureKind::Hard);
    let forgotten = Answering::with(404, &[], "").await;
    assert_eq!(known_client(&forgotten).look("a").await.unwrap(), JobLook::Lost);
}

#[tokio::test]
async fn a_job_is_cancelled_where_the_service_can() {
    let told = async |status: u16, cancel: Option<&str>| {
        let service = Answering::with(status, &[], "").await;
        let settings = JobsSettings {
            paths: crate::Paths {
                cancel: cancel.map(str::to_owned),
                ..crate::Paths::default()
            },
            ..JobsSettings::at(&service.url)
        };
        let told = client(settings).cancel("a/b").await;
        let seen = service
            .seen
            .lock()
            .unwrap()
            .iter()
            .map(|seen| seen.0.clone())
            .collect::<Vec<_>>();
        (told.is_ok(), seen)
    };
    let asked = vec!["DELETE /jobs/a%2Fb".to_owned()];
    assert_eq!(told(204, Some("/jobs/{job}")).await, (true, asked.clone()));
    assert_eq!(told(404, Some("/jobs/{job}")).await, (true, asked.clone()));
    assert_eq!(told(500, Some("/jobs/{job}")).await, (false, asked));
    assert_eq!(told(204, None).await, (true, Vec::new()));
}

/// Rows: 234, 235.
#[tokio::test]
async fn what_goes_wrong_is_known_by_its_kind() {
    let submit = async |client: JobsClient| client.submit("key", "{}".to_owned()).await.unwrap_err();
    let busy = Answering::with(429, &[("retry-after", "7")], "slow  down").await;
    let error = submit(known_client(&busy)).await;
    assert_eq!(
        (error.kind(), error.is_of_the_service()),
        (FailureKind::Retriable, true)
    );
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(error.to_string(), "HTTP 429: slow down");
    let missing = submit(known_client(&Answering::with(404, &[], "").await)).await;
    assert_eq!(
        (missing.kind(), missing.is_of_the_service()),
        (FailureKind::Hard, false)
    );
    let empty = Answering::with(204, &[], "").await;
    assert_eq!(submit(known_client(&empty)).await, ServiceError::NoContent);
    let long = Answering::with(200, &[], &" ".repeat(2000)).await;
    assert_eq!(
        submit(known_client(&long)).await,
        ServiceError::TooLarge { limit: 1000 }
    );
    let words = Answering::with(200, &[], "<html>").await;
    assert!(matches!(
        submit(known_client(&words)).await,
        ServiceError::Malformed(_)
    ));

    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = client(JobsSettings::at(format!(
        "http://{}",
        unused.local_addr().unwrap()
    )));
    drop(unused);
    let error = submit(nobody.clone()).await;
    assert!(matches!(error, ServiceError::Refused { .. }), "{error:?}");
    assert!(nobody.reach().await.is_err() && known_client(&busy).reach().await.is_err());
    assert!(
        known_client(&Answering::with(404, &[], "").await)
            .reach()
            .await
            .is_ok()
    );

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = submit(client(JobsSettings {
        timeout: Duration::from_millis(50),
        ..JobsSettings::at(format!("http://{}", silent.local_addr().unwrap()))
    }))
    .await;
    assert_eq!(error.kind(), FailureKind::Retriable);
    assert!(matches!(error, ServiceError::Timeout { .. }), "{error:?}");
    let nowhere = submit(client(JobsSettings::at("http://nowhere.invalid"))).await;
    assert!(matches!(nowhere, ServiceError::Dns { .. }), "{nowhere:?}");
    assert_eq!(nowhere.kind(), FailureKind::Hard);
}

/// A service sends 100 MiB, in whatever frame: the connection is closed behind the bound, and no more of it is read.
/// Rows: 234, 235.
#[tokio::test]
async fn a_body_without_bound_is_read_up_to_its_bound() {
    // What the kernel holds of a connection, on both sides.
    const BUFFERS: usize = 24 << 20;
    let limit = 1 << 20;
    for frame in [Frame::Length, Frame::Chunks, Frame::Connection] {
        for status in [200, 500] {
            let service = Streaming::with(status, frame).await;
            let settings = JobsSettings {
                max_body: limit,
                ..JobsSettings::at(&service.url)
            };
            let error = client(settings).submit("key", "{}".to_owned()).await.unwrap_err();
            match &error {
                ServiceError::TooLarge { limit: bound } => assert_eq!((status, *bound), (200, limit)),
                ServiceError::Status {
                    status: 500, message, ..
                } => assert_eq!(message, ""),
                error => panic!("{frame:?} {status}: {error:?}"),
            }
            let written = service.written().await;
            assert!(
                written < limit + BUFFERS,
                "{frame:?} {status}: {written} bytes were taken"
            );
        }
    }
}
