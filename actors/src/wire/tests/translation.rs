use std::sync::Arc;

use chrono::DateTime;
use proptest::prelude::*;
use serde_json::json;

use super::strategies;
use crate::wire::{
    Assign, AssignDocument, Envelope, NodeAbout, NodeNotice, NodePhase, Notice, Peer, PoolAbout, Report,
    ReportedOutcome,
};
use parkhang_core::domain::testing::{fence, stage, worker};
use parkhang_core::domain::{
    Assignment, DocumentKey, EngineRecord, Epoch, ErrorCategory, JobConfig, LeaseReport, StageError,
    StageReport, StageVerdict, VolumeResults,
};

fn assignment() -> impl Strategy<Value = Assignment> {
    (
        strategies::fence(),
        0..4_000_000_000_000_000_i64,
        strategies::volume(),
        strategies::job(),
        0.1_f32..10.0,
        0..1000_usize,
    )
        .prop_map(|(fence, until, volume, job, k_factor, limit)| Assignment {
            fence,
            lease_until: DateTime::from_timestamp_micros(until).unwrap(),
            volume,
            document: None,
            job,
            config: Arc::new(JobConfig {
                k_factor,
                limit,
                ..JobConfig::default()
            }),
        })
}

proptest! {
    /// Rows: F12.
    #[test]
    fn assignments_arrive_as_they_were(
        assignment in assignment(), epoch in any::<i64>(), document in "[a-z/報]{1,40}",
    ) {
        let message = Assign::new(&assignment, Epoch(epoch)).unwrap();
        prop_assert_eq!(message.epoch, Epoch(epoch));
        let received: Assign = Envelope::seal(&message).unwrap().open().unwrap();
        prop_assert_eq!(&received.into_assignment().unwrap(), &assignment);

        let with_document = Assignment {
            document: Some(DocumentKey::new(document.clone()).unwrap()),
            ..assignment
        };
        let message = AssignDocument { assign: message, document };
        let received: AssignDocument = Envelope::seal(&message).unwrap().open().unwrap();
        prop_assert_eq!(received.into_assignment().unwrap(), with_document);
    }
}

fn returned(verdict: Option<StageVerdict>) -> Option<StageVerdict> {
    let fence = fence(1, "ocr");
    let message = Report::new(&LeaseReport { fence, verdict }).unwrap();
    let received: Report = Envelope::seal(&message).unwrap().open().unwrap();
    received.into_report().unwrap().verdict
}

#[test]
fn verdicts_arrive_as_they_were() {
    let success = StageReport {
        metrics: json!({ "pages": 7, "rate": 0.25, "note": null, "parts": [1, 2] }),
        fingerprint: Some("f".repeat(64)),
        results: Some(VolumeResults {
            total_lines: 3,
            confidence_mean: Some(0.1),
            ..VolumeResults::default()
        }),
    };
    let failure = StageError::new("ocr", ErrorCategory::Network, "store away").at_item("I1.jpg");
    for verdict in [
        None,
        Some(StageVerdict::Interrupted),
        Some(StageVerdict::Failed(failure)),
        Some(StageVerdict::Succeeded(success)),
        Some(StageVerdict::Succeeded(StageReport::default())),
    ] {
        assert_eq!(returned(verdict.clone()), verdict);
    }
}

#[test]
fn long_error_texts_are_clipped_between_characters() {
    let error = StageError::new("ocr", ErrorCategory::Runtime, "ཀ".repeat(100_000));
    let Some(StageVerdict::Failed(error)) = returned(Some(StageVerdict::Failed(error))) else {
        panic!("another verdict");
    };
    assert!(error.message.starts_with("ཀཀ"));
    assert!(error.message.len() <= 4096);
}

#[test]
fn a_category_of_a_later_release_is_unknown() {
    let outcome = ReportedOutcome::Failed {
        stage: "ocr".to_owned(),
        item: None,
        category: "cosmic".to_owned(),
        message: "ray".to_owned(),
        retryable: true,
    };
    let fence = proptest::strategy::ValueTree::current(
        &strategies::fence()
            .new_tree(&mut proptest::test_runner::TestRunner::deterministic())
            .unwrap(),
    );
    let report = Report { fence, outcome }.into_report().unwrap();
    match report.verdict {
        Some(StageVerdict::Failed(error)) => {
            assert_eq!(error.category, ErrorCategory::Unknown);
            assert!(error.retryable);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_configuration_that_this_build_does_not_understand_is_refused() {
    let good = Assignment {
        fence: fence(1, "ocr"),
        lease_until: DateTime::from_timestamp_micros(0).unwrap(),
        volume: "W1-I1".parse().unwrap(),
        document: None,
        job: parkhang_core::domain::JobKey::new("J1").unwrap(),
        config: Arc::new(JobConfig::default()),
    };
    let message = Assign::new(&good, Epoch(1)).unwrap();
    for (config, complaint) in [
        (r#"{"speed":9}"#, "speed"),
        ("{", "EOF"),
        (r#"{"beam_width":0}"#, "beam_width"),
    ] {
        let wrong = Assign {
            config: config.to_owned(),
            ..message.clone()
        };
        let error = wrong.into_assignment().unwrap_err().to_string();
        assert!(
            error.contains(complaint) && error.contains("configuration"),
            "{error}"
        );
    }
    let endless = Assign {
        lease_until: i64::MAX,
        ..message
    };
    assert!(
        endless
            .into_assignment()
            .unwrap_err()
            .to_string()
            .contains("lease")
    );
}

#[test]
fn what_a_node_of_another_build_tells_of_itself_is_read_as_far_as_it_is_known() {
    let notice = Notice {
        peer: introduction(),
        phase: NodePhase::Working,
        about: NodeAbout {
            roles: vec!["gpu".to_owned()],
            host: Some("host".to_owned()),
            started_at: Some(7),
            health: None,
            pools: vec![PoolAbout {
                worker: worker("gpu-1/ocr/1"),
                stage: stage("ocr"),
                slots: 2,
                in_use: 1,
                models: vec!["dbu-med".to_owned()],
            }],
            tags: vec!["spot".to_owned()],
            resident: Some(1 << 30),
            actors: Vec::new(),
            engines: vec![EngineRecord {
                service: "vision".to_owned(),
                in_flight: 4,
                answers_lately: 90,
                answers: 1000,
                errors: [("busy".to_owned(), 2)].into(),
                failures: 1,
                paused_until: DateTime::from_timestamp(1_700_000_000, 0),
                error: Some("HTTP 429".to_owned()),
            }],
        },
    };
    let message = NodeNotice::try_from(&notice).unwrap();
    let received: NodeNotice = Envelope::seal(&message).unwrap().open().unwrap();
    assert_eq!(Notice::try_from(received).unwrap(), notice);

    let message = |about: &str| NodeNotice {
        about: about.to_owned(),
        ..message.clone()
    };
    let other = Notice::try_from(message("{\"host\": \"host\", \"colour\": \"red\"}")).unwrap();
    assert_eq!(other.about.host.as_deref(), Some("host"));
    assert!(Notice::try_from(message("no json")).is_err());
}

fn introduction() -> Peer {
    Peer {
        protocol: 1,
        build: "0.1.0".to_owned(),
        node: "gpu-1.0badcafe".to_owned(),
    }
}
