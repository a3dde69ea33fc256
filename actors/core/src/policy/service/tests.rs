use proptest::prelude::*;

use super::*;
use crate::domain::testing::{at, job, pool, stage, task, worker};
use crate::domain::{JobId, RetryScope, StageName, Task, TaskId};
use crate::policy::transition::{is_terminal, next};

fn limits(max_retries: u32) -> StageLimits {
    StageLimits {
        max_retries,
        ..StageLimits::default()
    }
}

#[test]
fn a_service_pauses_longer_each_time_and_as_long_as_it_asks() {
    let seconds = |failures, asked: Option<u64>| {
        pause_after(FIRST_PAUSE, failures, asked.map(Duration::from_secs), 0.0).as_secs()
    };
    assert_eq!([1, 2, 3].map(|failures| seconds(failures, None)), [1, 2, 4]);
    assert_eq!(seconds(1, Some(7)), 7);
    assert_eq!(seconds(3, Some(1)), 4);
    assert_eq!(seconds(1, Some(u64::MAX)), 300);
}

/// Rows: 231.
#[test]
fn a_service_with_a_webhook_is_asked_before_its_job_counts_as_stuck() {
    let limits = limits(3);
    assert_eq!(polled_from(&limits, false), Duration::ZERO);
    assert!(polled_from(&limits, true) > Duration::ZERO);
    assert!(polled_from(&limits, true) < limits.stuck_timeout);
}

fn retriable(message: &str) -> StageError {
    failure(
        &stage("detect"),
        ErrorCategory::Transient,
        message,
        FailureKind::Retriable,
    )
}

/// Step of the life of a task at a stage that a service does.
#[derive(Debug, Clone)]
enum Step {
    Lease,
    /// The service names a job.
    Recorded,
    /// A message about the job of this number is heard.
    Told(usize, bool),
    Stuck,
    Cancel,
    Rerun,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Lease),
        4 => Just(Step::Recorded),
        6 => (0..12_usize, any::<bool>()).prop_map(|(job, good)| Step::Told(job, good)),
        1 => Just(Step::Stuck),
        1 => Just(Step::Cancel),
        1 => Just(Step::Rerun),
    ]
}

fn after(task: &Task, scope: RetryScope, event: &Event) -> Option<Task> {
    next(task, &job().pipeline, scope, event, at(0)).ok()
}

fn leased(task: &Task, scope: RetryScope) -> Option<Task> {
    let event = Event::Leased {
        stage: stage("detect"),
        worker: WorkerId::of_service("llm", &stage("detect")),
        until: at(600),
    };
    after(task, scope, &event)
}

proptest! {
    /// Rows: 233.
    #[test]
    fn a_job_ends_its_own_lease_once_and_no_other(
        steps in prop::collection::vec(steps(), 0..80), max_retries in 0..4_u32, by_stage in any::<bool>(),
    ) {
        let scope = if by_stage { RetryScope::Stage } else { RetryScope::Task };
        let (mut task, mut jobs, mut ended) = (task(1), Vec::<ServiceJob>::new(), Vec::<String>::new());
        for step in steps {
            let fence = task.fence();
            let failed = |message| charged(
                Event::Failed { error: retriable(message), not_before: None }, &limits(max_retries),
            );
            let event = match step {
                Step::Lease => { task = leased(&task, scope).unwrap_or(task); continue; }
                Step::Recorded => {
                    let free = fence.filter(|fence| jobs.iter().all(|known| known.fence != *fence));
                    let number = jobs.len();
                    jobs.extend(free.map(|fence| ServiceJob::new(fence, format!("j{number}"), at(0))));
                    continue;
                }
                Step::Told(number, good) => {
                    let name = format!("j{number}");
                    match hearing(&task, &jobs, &stage("detect"), &name) {
                        Hearing::Current(of) => {
                            prop_assert_eq!(Some(&of), fence.as_ref());
                            prop_assert_eq!(&jobs[number].fence, &of);
                            prop_assert!(!ended.contains(&name), "{} ends twice", name);
                            ended.push(name);
                        }
                        Hearing::Awaited => {
                            prop_assert!(number >= jobs.len() && fence.is_some());
                            continue;
                        }
                        Hearing::Past => { prop_assert!(number < jobs.len()); continue; }
                        Hearing::Unknown => { prop_assert!(number >= jobs.len()); continue; }
                    }
                    if good { Event::Succeeded } else { failed("HTTP 500") }
                }
                Step::Stuck => match &fence {
                    Some(fence) => stuck(fence, "llm", &limits(max_retries)),
                    None => continue,
                },
                Step::Cancel => Event::Cancelled,
                Step::Rerun => Event::Rerun { stage: stage("detect"), force: false },
            };
            task = after(&task, scope, &event).unwrap_or(task);
        }
    }

    /// The limits of the job are not looked at, and what later stages may fail stays.
    ///
    /// Rows: 236, 237.
    #[test]
    fn a_stage_has_its_own_retries(max_retries in 0..9_u32, by_stage in any::<bool>(), silent in any::<bool>()) {
        let scope = if by_stage { RetryScope::Stage } else { RetryScope::Task };
        let mut task = task(1);
        let left = task.max_attempts - task.attempts;
        for tries in 1..=max_retries + 1 {
            task = leased(&task, scope).unwrap();
            let event = match silent {
                true => stuck(&task.fence().unwrap(), "llm", &limits(max_retries)),
                false => charged(
                    Event::Failed { error: retriable("HTTP 503"), not_before: None }, &limits(max_retries),
                ),
            };
            task = after(&task, scope, &event).unwrap();
            prop_assert_eq!(is_terminal(&task, scope), tries > max_retries);
            prop_assert_eq!(task.max_attempts - task.attempts, left);
        }
        prop_assert!(leased(&task, scope).is_none());
    }

    #[test]
    fn a_service_is_given_no_more_than_its_terms_allow(
        held in 0..20_usize, max_in_flight in 0..20_usize, admits in 0..20_usize, wanted in 0..40_usize,
    ) {
        let of = |name: &str| WorkerId::of_service("llm", &stage(name));
        let held = [Held { worker: of("detect"), job: JobId(1), stage: stage("detect"), leases: held, suspects: 0 }];
        let terms = ServiceTerms { limits: limits(3), max_in_flight, admits };
        let terms = BTreeMap::from([(of("detect"), terms), (of("read"), terms)]);
        let place = |number: usize, stage: StageName, worker: WorkerId| {
            Placement { task: TaskId(number as i64), stage, worker }
        };
        let placements = (0..wanted).map(|number| {
            let name = if number % 2 == 0 { "detect" } else { "read" };
            place(number, stage(name), of(name))
        });
        let beside = place(99, stage("reduce"), worker("cpu"));
        let kept = within_terms(placements.chain([beside]).collect(), &held, &terms);
        let room = max_in_flight.saturating_sub(held[0].leases).min(admits);
        prop_assert_eq!(kept.len(), wanted.min(room) + 1, "the service's, and that of a pool");
        let pools = [pool(&of("detect").0, "detect", 50), pool("cpu", "reduce", 50)];
        let slots: Vec<usize> = offered(&pools, &held, &terms).iter().map(|pool| pool.slots).collect();
        prop_assert_eq!(slots, [held[0].leases + room, 50]);
    }
}

/// Rows: 234.
#[test]
fn a_failure_that_no_try_will_mend_is_final() {
    let task = leased(&task(1), RetryScope::Task).unwrap();
    let error = failure(
        &stage("detect"),
        ErrorCategory::Input,
        "HTTP 404",
        FailureKind::Hard,
    );
    let event = charged(
        Event::Failed {
            error,
            not_before: None,
        },
        &limits(3),
    );
    let task = after(&task, RetryScope::Task, &event).unwrap();
    assert!(is_terminal(&task, RetryScope::Task));
    assert_eq!(charged(Event::Succeeded, &limits(3)), Event::Succeeded);
}

#[test]
fn a_lease_ends_when_its_job_counts_as_stuck() {
    let mut terms = ServiceTerms {
        limits: limits(3),
        max_in_flight: 1,
        admits: 1,
    };
    assert_eq!(terms.deadline(at(0)), at(600));
    terms.limits.stuck_timeout = Duration::MAX;
    assert_eq!(terms.deadline(at(0)), DateTime::<Utc>::MAX_UTC);
}
