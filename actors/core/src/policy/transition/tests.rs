use std::collections::HashSet;
use std::fmt::Write as _;

use parkhang_test_support::assert_documented;
use proptest::prelude::*;

use super::*;
use crate::domain::testing::{at, job, stage, task, worker};

fn pipeline() -> Pipeline {
    job().pipeline
}

fn fresh() -> Task {
    Task {
        max_attempts: 2,
        retry_budget: 2,
        ..task(1)
    }
}

fn lease(name: &str) -> Event {
    Event::Leased {
        stage: stage(name),
        worker: worker("w"),
        until: at(60),
    }
}

fn failure(category: ErrorCategory) -> Event {
    Event::Failed {
        error: StageError::new("read", category, "no"),
        not_before: Some(at(30)),
    }
}

fn service_failure(tries: i32) -> Event {
    Event::ServiceFailed {
        error: StageError::new("read", ErrorCategory::Transient, "HTTP 503"),
        not_before: Some(at(30)),
        tries,
    }
}

fn rerun_of(name: &str) -> Event {
    Event::Rerun {
        stage: stage(name),
        force: false,
    }
}

fn outage() -> Event {
    Event::Deferred {
        error: StageError::new("read", ErrorCategory::Network, "no answer"),
        not_before: Some(at(30)),
    }
}

fn quarantine() -> Event {
    Event::Quarantined {
        error: StageError::new("read", ErrorCategory::Network, "killed 3 workers"),
    }
}

fn walk(scope: RetryScope, events: &[Event]) -> Result<Task, Illegal> {
    events.iter().try_fold(fresh(), |task, event| {
        next(&task, &pipeline(), scope, event, at(0))
    })
}

#[test]
fn the_whole_way_ends_at_done() {
    let task = walk(
        RetryScope::Task,
        &[
            lease("detect"),
            Event::Succeeded,
            lease("read"),
            Event::Succeeded,
            lease("reduce"),
            Event::Succeeded,
        ],
    )
    .unwrap();
    assert_eq!((task.position, task.status), (Position::Done, TaskStatus::Done));
    assert_eq!(task.done_at, Some(at(0)));
    assert_eq!(task.lease, None);
}

#[test]
fn only_the_next_stage_can_be_leased() {
    assert!(matches!(
        walk(RetryScope::Task, &[lease("read")]),
        Err(Illegal::NotNext {
            runnable: Some(stage),
            ..
        }) if stage.as_str() == "detect"
    ));
    assert!(
        walk(
            RetryScope::Task,
            &[lease("detect"), Event::Succeeded, lease("detect")]
        )
        .is_err()
    );
    assert!(
        walk(
            RetryScope::Task,
            &[lease("detect"), Event::Succeeded, lease("reduce")]
        )
        .is_err()
    );
}

/// Rows: F2, F20.
#[test]
fn a_failure_is_charged_and_backs_off_until_the_tries_are_used_up() {
    let once = walk(
        RetryScope::Task,
        &[lease("detect"), failure(ErrorCategory::Network)],
    )
    .unwrap();
    assert_eq!(
        (once.attempts, once.not_before, once.status),
        (1, Some(at(30)), TaskStatus::Failed)
    );
    assert!(!is_terminal(&once, RetryScope::Task));

    let twice = walk(
        RetryScope::Task,
        &[
            lease("detect"),
            failure(ErrorCategory::Network),
            lease("detect"),
            failure(ErrorCategory::Network),
        ],
    )
    .unwrap();
    assert!(is_terminal(&twice, RetryScope::Task) && is_finished(&twice, RetryScope::Task));
    assert_eq!(twice.not_before, None);
    assert!(next(&twice, &pipeline(), RetryScope::Task, &lease("detect"), at(0)).is_err());
}

/// Rows: F20.
#[test]
fn an_error_not_worth_a_retry_is_terminal_at_once() {
    let task = walk(
        RetryScope::Task,
        &[lease("detect"), failure(ErrorCategory::Input)],
    )
    .unwrap();
    assert!(is_terminal(&task, RetryScope::Task));
}

#[test]
fn passing_a_stage_wipes_the_slate_only_in_stage_scope() {
    let events = [
        lease("detect"),
        failure(ErrorCategory::Network),
        lease("detect"),
        Event::Succeeded,
        lease("read"),
        failure(ErrorCategory::Network),
    ];
    assert!(is_terminal(
        &walk(RetryScope::Task, &events).unwrap(),
        RetryScope::Task
    ));
    let per_stage = walk(RetryScope::Stage, &events).unwrap();
    assert_eq!((per_stage.attempts, per_stage.stage_attempts), (2, 1));
    assert!(!is_terminal(&per_stage, RetryScope::Stage));
}

#[test]
fn an_interruption_is_not_charged_but_fences_the_worker_off() {
    let before = walk(RetryScope::Task, &[lease("detect")]).unwrap();
    let after = walk(RetryScope::Task, &[lease("detect"), Event::Interrupted]).unwrap();
    assert_eq!(
        (after.attempts, after.interruptions, after.status),
        (0, 1, TaskStatus::Pending)
    );
    assert!(after.generation > before.generation);
    assert_eq!(after.position, Position::At(stage("detect")));
}

#[test]
fn an_outage_of_the_storage_is_waited_out_and_charged_to_nobody() {
    let mut events = vec![lease("detect"), outage()];
    let once = walk(RetryScope::Task, &events).unwrap();
    assert_eq!((once.attempts, once.interruptions, once.outages), (0, 0, 1));
    assert_eq!(
        (once.status, once.not_before),
        (TaskStatus::Pending, Some(at(30)))
    );
    assert_eq!(once.last_error.as_ref().unwrap().message, "no answer");
    for _ in 0..9 {
        events.extend([lease("detect"), outage()]);
    }
    let often = walk(RetryScope::Task, &events).unwrap();
    assert_eq!(
        (often.outages, is_terminal(&often, RetryScope::Task)),
        (10, false)
    );
    events.extend([lease("detect"), Event::Succeeded]);
    let over = walk(RetryScope::Task, &events).unwrap();
    assert_eq!((over.outages, over.last_error), (0, None));
}

#[test]
fn quarantine_is_poison_whatever_the_error_said() {
    let task = walk(
        RetryScope::Task,
        &[lease("detect"), Event::Interrupted, quarantine()],
    )
    .unwrap();
    assert!(is_terminal(&task, RetryScope::Task));
    assert_eq!(task.last_error.unwrap().category, ErrorCategory::Poison);
    assert_eq!(task.attempts, 0);
}

#[test]
fn a_rerun_restores_the_allowance_and_keeps_the_attempts() {
    let mut events = vec![
        lease("detect"),
        failure(ErrorCategory::Network),
        lease("detect"),
        failure(ErrorCategory::Network),
        rerun_of("detect"),
    ];
    let task = walk(RetryScope::Task, &events).unwrap();
    assert_eq!(
        (&task.position, task.status),
        (&Position::Pending, TaskStatus::Pending)
    );
    assert_eq!((task.attempts, task.max_attempts), (2, 4));
    events.push(rerun_of("detect"));
    assert_eq!(walk(RetryScope::Task, &events).unwrap().max_attempts, 4);
}

#[test]
fn a_rerun_of_a_running_stage_fences_its_worker_off() {
    let running = [lease("detect"), Event::Succeeded, lease("read")];
    let before = walk(RetryScope::Task, &running).unwrap();
    let after = next(&before, &pipeline(), RetryScope::Task, &rerun_of("read"), at(0)).unwrap();
    assert_eq!(
        (&after.position, after.status),
        (&Position::At(stage("detect")), TaskStatus::Done)
    );
    assert_eq!(after.lease, None);
    let again = next(&after, &pipeline(), RetryScope::Task, &lease("read"), at(0)).unwrap();
    assert_ne!(before.fence(), again.fence());
}

#[test]
fn a_forced_rerun_recomputes_to_the_last_stage() {
    let forced = Event::Rerun {
        stage: stage("reduce"),
        force: true,
    };
    let mut events = vec![
        lease("detect"),
        Event::Succeeded,
        lease("read"),
        Event::Succeeded,
        lease("reduce"),
        Event::Succeeded,
        forced,
    ];
    assert!(walk(RetryScope::Task, &events).unwrap().forced);
    events.extend([lease("reduce"), Event::Interrupted, lease("reduce")]);
    assert!(walk(RetryScope::Task, &events).unwrap().forced);
    events.push(Event::Succeeded);
    assert!(!walk(RetryScope::Task, &events).unwrap().forced);
}

#[test]
fn a_cancelled_stage_is_charged_to_nobody_and_fenced_off() {
    let before = walk(RetryScope::Task, &[lease("detect")]).unwrap();
    let after = walk(RetryScope::Task, &[lease("detect"), Event::Cancelled]).unwrap();
    assert_eq!(
        (after.attempts, after.interruptions, after.status),
        (0, 0, TaskStatus::Pending)
    );
    assert_eq!((after.fence(), &after.position), (None, &before.position));
    assert!(after.generation > before.generation);
}

#[test]
fn a_rerun_cannot_skip_a_stage() {
    assert!(walk(RetryScope::Task, &[rerun_of("read")]).is_err());
    assert!(walk(RetryScope::Task, &[lease("detect"), rerun_of("read")]).is_err());
    assert!(
        walk(
            RetryScope::Task,
            &[lease("detect"), Event::Succeeded, rerun_of("reduce")]
        )
        .is_err()
    );
    assert!(
        walk(
            RetryScope::Task,
            &[lease("detect"), Event::Succeeded, rerun_of("read")]
        )
        .is_ok()
    );
    assert!(walk(RetryScope::Task, &[rerun_of("unheard")]).is_err());
}

fn any_event() -> impl Strategy<Value = Event> {
    let stages = || prop_oneof![Just("detect"), Just("read"), Just("reduce")];
    prop_oneof![
        6 => stages().prop_map(lease),
        4 => Just(Event::Succeeded),
        3 => Just(failure(ErrorCategory::Network)),
        1 => Just(failure(ErrorCategory::Input)),
        2 => (1..5).prop_map(service_failure),
        2 => Just(Event::Interrupted),
        2 => Just(Event::Released),
        1 => Just(outage()),
        1 => Just(Event::Cancelled),
        1 => Just(quarantine()),
        2 => stages().prop_map(rerun_of),
    ]
}

fn any_scope() -> impl Strategy<Value = RetryScope> {
    prop_oneof![Just(RetryScope::Task), Just(RetryScope::Stage)]
}

proptest! {
    #[test]
    fn no_two_leases_share_a_fence(
        events in prop::collection::vec(any_event(), 0..200),
        scope in any_scope(),
    ) {
        let mut task = fresh();
        let mut fences = HashSet::new();
        for event in &events {
            let Ok(after) = next(&task, &pipeline(), scope, event, at(0)) else { continue };
            if let Event::Leased { .. } = event {
                prop_assert!(fences.insert(after.fence().unwrap()));
            }
            prop_assert!(after.attempts >= task.attempts);
            prop_assert!(after.generation >= task.generation);
            prop_assert_eq!(after.lease.is_some(), after.status == TaskStatus::Running);
            prop_assert_eq!(after.done_at.is_some(), after.position == Position::Done);
            prop_assert!(Phase::of(&after, scope).is_ok());
            task = after;
        }
    }

    /// The expectation of a change no longer holds once it is applied, so a repeated change is fenced off.
    #[test]
    fn every_event_leaves_the_state_that_its_writer_saw(
        events in prop::collection::vec(any_event(), 0..100),
        scope in any_scope(),
    ) {
        let seen = |t: &Task| (t.position.clone(), t.status, t.attempts, t.generation);
        let mut task = fresh();
        let mut states = HashSet::from([seen(&task)]);
        for event in &events {
            let Ok(after) = next(&task, &pipeline(), scope, event, at(0)) else { continue };
            prop_assert!(states.insert(seen(&after)), "{event:?} leads back to {:?}", seen(&after));
            task = after;
        }
    }
}

#[test]
fn a_lease_given_back_is_no_evidence_against_the_volume() {
    let given_back = walk(RetryScope::Task, &[lease("detect"), Event::Released]).unwrap();
    assert_eq!((given_back.interruptions, given_back.attempts), (0, 0));
    let lost = walk(RetryScope::Task, &[lease("detect"), Event::Interrupted]).unwrap();
    assert_eq!((lost.interruptions, lost.attempts), (1, 0));
}

/// A task in each phase, at the middle stage where there is one.
fn sample(phase: Phase) -> Task {
    let to_read = [lease("detect"), Event::Succeeded, lease("read")];
    let events: Vec<Event> = match phase {
        Phase::Fresh => vec![],
        Phase::Running => to_read.to_vec(),
        Phase::StageDone => to_read[..2].to_vec(),
        Phase::Waiting => [&to_read[..], &[Event::Interrupted]].concat(),
        Phase::FailedRetryable => [&to_read[..], &[failure(ErrorCategory::Network)]].concat(),
        Phase::FailedTerminal => [&to_read[..], &[failure(ErrorCategory::Input)]].concat(),
        Phase::Finished => [
            &to_read[..],
            &[Event::Succeeded, lease("reduce"), Event::Succeeded],
        ]
        .concat(),
    };
    let task = walk(RetryScope::Task, &events).unwrap();
    assert_eq!(Phase::of(&task, RetryScope::Task), Ok(phase));
    task
}

fn table() -> String {
    let mut page = String::from(
        "# Task transitions\n\n\
         Computed by calling `policy::transition::next`, with reruns of the first stage. A state is (stage, status); an \
         edge that is not listed is illegal. A rerun of a later stage leads to (stage before it, done).\n\n\
         | state | event | new state | attempts | generation | interruptions | other |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for phase in Phase::ALL {
        let task = sample(phase);
        let stage_to_lease =
            runnable_stage(&task, &pipeline(), RetryScope::Task).map_or("read", |s| match s.as_str() {
                "detect" => "detect",
                "read" => "read",
                _ => "reduce",
            });
        let events = [
            lease(stage_to_lease),
            Event::Succeeded,
            failure(ErrorCategory::Network),
            service_failure(4),
            Event::Interrupted,
            Event::Released,
            outage(),
            Event::Cancelled,
            quarantine(),
            rerun_of("detect"),
        ];
        for event in events {
            if let Ok(after) = next(&task, &pipeline(), RetryScope::Task, &event, at(0)) {
                let _ = writeln!(page, "{}", row(phase, &event, &task, &after));
            }
        }
    }
    page
}

fn row(phase: Phase, event: &Event, before: &Task, after: &Task) -> String {
    let place = match (&before.position, &after.position) {
        (_, Position::Pending) => "pending",
        (_, Position::Done) => "done",
        (Position::At(old), Position::At(new)) if old == new => "stage",
        (_, Position::At(_)) => "next",
    };
    let grown = |before: i64, after: i64| match after - before {
        0 => String::new(),
        d if d > 0 => format!("+{d}"),
        _ => "reset".to_owned(),
    };
    let mut other = Vec::new();
    match (event, after.max_attempts != before.max_attempts) {
        (Event::ServiceFailed { .. }, true) => other.push("max_attempts +1, stage_tries set"),
        (_, true) => other.push("max_attempts = attempts + allowance"),
        (_, false) => {}
    }
    if after.stage_attempts < before.stage_attempts {
        other.push("stage_attempts reset");
    }
    if after.stage_attempts > before.stage_attempts {
        other.push("stage_attempts +1");
    }
    if before.lease.is_some() && after.lease.is_none() {
        other.push("lease ends");
    }
    if after.lease.is_some() {
        other.push("lease begins");
    }
    if after.outages > before.outages {
        other.push("outages +1");
    }
    if after.not_before.is_some() {
        other.push("backoff");
    }
    if after
        .last_error
        .as_ref()
        .is_some_and(|e| e.category == ErrorCategory::Poison)
    {
        other.push("category poison, terminal");
    }
    format!(
        "| {phase} | {} | ({place}, {}) | {} | {} | {} | {} |",
        event.name(),
        after.status.as_str(),
        grown(before.attempts.into(), after.attempts.into()),
        grown(before.generation.0, after.generation.0),
        grown(before.interruptions.into(), after.interruptions.into()),
        other.join(", "),
    )
}

#[test]
fn the_documented_table_is_the_table() {
    assert_documented("transitions.md", &table());
}
