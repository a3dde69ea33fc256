use super::*;
use crate::domain::testing::{at, leased_task};

fn running(interruptions: i32) -> Task {
    Task {
        interruptions,
        ..leased_task(1, "read", "gone", at(0))
    }
}

fn reason(event: Event) -> Option<String> {
    match event {
        Event::Quarantined { error } => {
            assert_eq!(error.category, ErrorCategory::Poison);
            Some(error.message)
        }
        Event::Interrupted => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_volume_that_keeps_losing_its_workers_is_set_aside_with_the_reason() {
    assert_eq!(reason(lost_lease(&running(3), Loss::Worker, 5)), None);
    assert_eq!(
        reason(lost_lease(&running(4), Loss::Node, 5)).unwrap(),
        "lost its worker 5 times in a row at read, the last time alone on its node"
    );
    assert_eq!(
        reason(lost_lease(&running(0), Loss::Worker, 1)).unwrap(),
        "lost its worker 1 times in a row at read"
    );
}

#[test]
fn a_node_lost_with_neighbours_is_no_evidence() {
    for losses in 0..SUSPECT_AFTER {
        assert!(!is_suspect(&running(losses)));
        assert_eq!(reason(lost_lease(&running(losses), Loss::Node, 1)), None);
    }
    assert!(is_suspect(&running(SUSPECT_AFTER)));
    assert!(reason(lost_lease(&running(SUSPECT_AFTER), Loss::Node, 1)).is_some());
}
