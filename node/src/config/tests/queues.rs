//! Settings of queues.

use std::time::Duration;

use parkhang_queue::limits::MAX_IN_FLIGHT_FIFO;

use super::*;

/// Rows: 139, 140, C15.
#[test]
fn times_of_queues_are_those_of_the_design_unless_somebody_says_otherwise() {
    let sqs = Loaded::apart(&BucketArgs::default()).unwrap().config.source.sqs;
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    assert_eq!(sqs.wait, Duration::from_secs(20));
    assert_eq!(sqs.visibility, minutes(10));
    assert_eq!(sqs.visibility_max_total, minutes(240));
    assert_eq!(sqs.max_age, minutes(15));
    assert_eq!(sqs.max_in_flight.get(), MAX_IN_FLIGHT_FIFO as u64);
}

/// Rows: D12.
#[test]
fn no_time_is_over_what_queues_allow() {
    for (flag, expected) in [
        ("source.sqs.wait=21s", "source.sqs.wait: must be 20s at most"),
        (
            "source.sqs.visibility=13h",
            "source.sqs.visibility: must be 1s to 12h",
        ),
        (
            "source.sqs.visibility_max_total=13h",
            "source.sqs.visibility_max_total: must be source.sqs.visibility or more, and 12h at most",
        ),
    ] {
        let problems = problems(None, &[], &[flag]);
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{problems:?}"
        );
    }
}
