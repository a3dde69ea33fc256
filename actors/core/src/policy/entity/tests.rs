use proptest::prelude::*;

use super::*;
use crate::domain::testing::at;

const JOBS: [&str; 2] = ["j1", "j2"];

fn limits(max_retries: u32) -> StageLimits {
    StageLimits {
        max_retries,
        ..StageLimits::default()
    }
}

fn started(job: Option<&str>) -> EntityState {
    EntityState {
        status: EntityStatus::Started,
        retry_count: 0,
        job: job.map(str::to_owned),
        started_at: Some(at(0)),
    }
}

fn failed(of: EntityFence, kind: FailureKind) -> EntityEvent {
    EntityEvent::Failed { of, kind }
}

fn job(name: &str) -> EntityFence {
    EntityFence::Job(name.to_owned())
}

/// Rows: 236.
#[test]
fn a_retriable_failure_is_queued_again_until_its_retries_are_used_up() {
    let mut state = started(Some("j1"));
    for tries in 1..=3 {
        let queued = state
            .after(&failed(job("j1"), FailureKind::Retriable), &limits(3), at(1))
            .unwrap();
        assert_eq!((queued.status, queued.retry_count), (EntityStatus::Queued, tries));
        state = EntityState {
            retry_count: tries,
            ..started(Some("j1"))
        };
    }
    let end = state
        .after(&failed(job("j1"), FailureKind::Retriable), &limits(3), at(1))
        .unwrap();
    assert_eq!((end.status, end.retry_count), (EntityStatus::Failed, 3));
}

/// Rows: 234.
#[test]
fn a_hard_failure_is_final_at_once() {
    for of in [job("j1"), EntityFence::Claim(at(0))] {
        let state = started(matches!(of, EntityFence::Job(_)).then_some("j1"));
        let end = state
            .after(&failed(of, FailureKind::Hard), &limits(3), at(1))
            .unwrap();
        assert_eq!((end.status, end.retry_count), (EntityStatus::Failed, 0));
    }
}

/// Rows: 237, D11.
#[test]
fn a_stuck_job_goes_by_the_retries_of_its_own_stage() {
    let (early, late) = (at(600), at(601));
    for (max_retries, count, status) in [
        (3, 2, EntityStatus::Queued),
        (3, 3, EntityStatus::Failed),
        (1, 1, EntityStatus::Failed),
        (5, 3, EntityStatus::Queued),
    ] {
        for job in [None, Some("j1")] {
            let state = EntityState {
                retry_count: count,
                ..started(job)
            };
            assert_eq!(
                state.after(&EntityEvent::Checked, &limits(max_retries), early),
                None
            );
            let after = state
                .after(&EntityEvent::Checked, &limits(max_retries), late)
                .unwrap();
            let expected = EntityState {
                status,
                retry_count: count + 1,
                job: None,
                started_at: None,
            };
            assert_eq!(after, expected);
        }
    }
}

fn events() -> impl Strategy<Value = EntityEvent> {
    let claim = (0..3_i64).prop_map(at);
    let name = prop::sample::select(JOBS.to_vec()).prop_map(str::to_owned);
    let kind = prop::sample::select(vec![FailureKind::Hard, FailureKind::Retriable]);
    let fence = prop_oneof![
        claim.clone().prop_map(EntityFence::Claim),
        name.clone().prop_map(EntityFence::Job),
    ];
    prop_oneof![
        (claim.clone(), name.clone()).prop_map(|(claim, job)| EntityEvent::Submitted { claim, job }),
        claim.prop_map(|claim| EntityEvent::Released { claim }),
        name.prop_map(|job| EntityEvent::Completed { job }),
        (fence, kind).prop_map(|(of, kind)| EntityEvent::Failed { of, kind }),
        Just(EntityEvent::Checked),
        Just(EntityEvent::Preceded),
        Just(EntityEvent::Triggered),
    ]
}

/// Ends of jobs.
fn ends() -> impl Strategy<Value = EntityEvent> {
    let name = || prop::sample::select(JOBS.to_vec()).prop_map(str::to_owned);
    let kind = prop::sample::select(vec![FailureKind::Hard, FailureKind::Retriable]);
    prop_oneof![
        name().prop_map(|job| EntityEvent::Completed { job }),
        (name(), kind).prop_map(|(job, kind)| failed(EntityFence::Job(job), kind)),
    ]
}

fn states() -> impl Strategy<Value = EntityState> {
    let status = prop::sample::select(EntityStatus::ALL.to_vec());
    let job = prop::option::of(prop::sample::select(JOBS.to_vec()));
    (status, 0..6_u32, job, prop::option::of(0..3_i64)).prop_map(|(status, retry_count, job, started)| {
        EntityState {
            status,
            retry_count,
            job: job.map(str::to_owned),
            started_at: started.map(at),
        }
    })
}

proptest! {
    /// Rows: 233.
    #[test]
    fn an_event_that_comes_again_changes_nothing(
        state in states(), event in events(), max_retries in 0..5_u32, now in 0..2000_i64,
    ) {
        if let Some(after) = state.after(&event, &limits(max_retries), at(now)) {
            prop_assert_eq!(after.after(&event, &limits(max_retries), at(now)), None);
        }
    }

    /// Rows: 233.
    #[test]
    fn of_two_ends_of_a_job_the_first_stands(
        state in states(), first in ends(), second in ends(), max_retries in 0..5_u32,
    ) {
        if let Some(after) = state.after(&first, &limits(max_retries), at(1)) {
            prop_assert_eq!(after.after(&second, &limits(max_retries), at(1)), None);
        }
    }

    /// Rows: 219.
    #[test]
    fn every_step_is_one_of_the_flow(
        state in states(), event in events(), max_retries in 0..5_u32, now in 0..2000_i64,
    ) {
        use EntityStatus::{Completed, Failed, Pending, Queued, Started};
        if let Some(after) = state.after(&event, &limits(max_retries), at(now)) {
            let asked_for = matches!(event, EntityEvent::Triggered | EntityEvent::Preceded);
            let legal = match (state.status, after.status) {
                (Pending | Completed | Failed, Queued) => asked_for,
                (Started, Started | Queued | Completed | Failed) => true,
                _ => false,
            };
            prop_assert!(legal, "{state:?} -> {after:?} by {event:?}");
        }
    }

    #[test]
    fn a_stage_is_tried_once_and_as_often_as_it_has_retries(
        ends in prop::collection::vec(any::<bool>(), 1..20), max_retries in 0..5_u32,
    ) {
        let mut state = EntityState { status: EntityStatus::Queued, retry_count: 0, job: None, started_at: None };
        let mut tries = 0;
        for is_silent in ends {
            if state.status != EntityStatus::Queued {
                break;
            }
            tries += 1;
            state = EntityState { retry_count: state.retry_count, ..started(Some("j1")) };
            let event = match is_silent {
                true => EntityEvent::Checked,
                false => failed(job("j1"), FailureKind::Retriable),
            };
            state = state.after(&event, &limits(max_retries), at(601)).unwrap();
        }
        prop_assert!(tries <= max_retries + 1);
        prop_assert!(tries <= max_retries || state.status == EntityStatus::Failed);
    }
}
