//! Random histories of a row through two stages: workers that die, a service that misbehaves, and messages about any of its jobs, judged by
//! what the service did.

use proptest::prelude::*;

use super::*;
use crate::domain::testing::at;

const MAX_RETRIES: u32 = 2;
const STUCK_S: i64 = 600;

/// Conduct of a service at a submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conduct {
    /// It takes the job, which ends so; `None` is never.
    Takes(Option<End>),
    /// It takes the job, and its answer does not arrive.
    Silent(End),
    Refuses(FailureKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Good,
    Bad(FailureKind),
}

/// Something that happens; numbers are those of submits, in the order in which they were made.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A worker claims the row for a stage, if it is queued, and submits it.
    Claim(usize, Conduct),
    /// The answer to a submit is written, unless its worker has died.
    Answered(usize),
    Died(usize),
    /// The end of the job of a submit is heard, from a poller or a webhook.
    Heard(usize),
    /// Time passes, and the sweeper looks.
    Passed(i64),
    Triggered,
}

/// Submit of a claim.
#[derive(Debug, Clone)]
struct Submit {
    stage: usize,
    claim: DateTime<Utc>,
    conduct: Conduct,
    is_alive: bool,
    has_ended: bool,
}

/// Row with its two stages, and all that was submitted for it.
struct Row {
    stages: [EntityState; 2],
    submits: Vec<Submit>,
    /// Claims of a stage since it was asked for.
    claims: [u32; 2],
    now: i64,
}

fn limits() -> StageLimits {
    StageLimits {
        max_retries: MAX_RETRIES,
        stuck_timeout: std::time::Duration::from_secs(STUCK_S.unsigned_abs()),
    }
}

fn job(number: usize) -> String {
    format!("j{number}")
}

impl Row {
    fn new() -> Self {
        let pending = EntityState {
            status: EntityStatus::Pending,
            retry_count: 0,
            job: None,
            started_at: None,
        };
        let mut row = Self {
            stages: [pending.clone(), pending],
            submits: Vec::new(),
            claims: [0; 2],
            now: 0,
        };
        row.happens(0, &EntityEvent::Triggered);
        row
    }

    /// Carries out what an event makes of a stage, as the store does; returns whether it changed anything.
    fn happens(&mut self, stage: usize, event: &EntityEvent) -> bool {
        let now = at(self.now);
        let Some(after) = self.stages[stage].after(event, &limits(), now) else {
            return false;
        };
        if matches!(event, EntityEvent::Triggered | EntityEvent::Preceded) {
            self.claims[stage] = 0;
        }
        let is_completed = after.status == EntityStatus::Completed;
        self.stages[stage] = after;
        if is_completed && stage == 0 {
            self.happens(1, &EntityEvent::Preceded);
        }
        true
    }

    fn claim(&mut self, stage: usize, conduct: Conduct) {
        if self.stages[stage].status != EntityStatus::Queued {
            return;
        }
        // No two claims have the same time.
        self.now += 1;
        let claim = at(self.now);
        self.stages[stage] = EntityState {
            status: EntityStatus::Started,
            job: None,
            started_at: Some(claim),
            ..self.stages[stage].clone()
        };
        self.claims[stage] += 1;
        self.submits.push(Submit {
            stage,
            claim,
            conduct,
            is_alive: true,
            has_ended: false,
        });
    }

    fn answered(&mut self, number: usize) -> Result<(), TestCaseError> {
        let Some(submit) = self.submits.get(number).filter(|submit| submit.is_alive).cloned() else {
            return Ok(());
        };
        let of = EntityFence::Claim(submit.claim);
        let event = match submit.conduct {
            Conduct::Takes(_) => EntityEvent::Submitted {
                claim: submit.claim,
                job: job(number),
            },
            Conduct::Silent(_) => EntityEvent::Failed {
                of,
                kind: FailureKind::Retriable,
            },
            Conduct::Refuses(kind) => EntityEvent::Failed { of, kind },
        };
        let is_end = matches!(event, EntityEvent::Failed { .. });
        if self.happens(submit.stage, &event) && is_end {
            self.ends(number)?;
        }
        Ok(())
    }

    fn heard(&mut self, number: usize) -> Result<(), TestCaseError> {
        let Some(submit) = self.submits.get(number).cloned() else {
            return Ok(());
        };
        let (Conduct::Takes(Some(end)) | Conduct::Silent(end)) = submit.conduct else {
            return Ok(());
        };
        let event = match end {
            End::Good => EntityEvent::Completed { job: job(number) },
            End::Bad(kind) => EntityEvent::Failed {
                of: EntityFence::Job(job(number)),
                kind,
            },
        };
        if self.happens(submit.stage, &event) {
            self.ends(number)?;
        }
        Ok(())
    }

    /// A claim has come to its end: it is the last one of its stage, and it has had none before.
    fn ends(&mut self, number: usize) -> Result<(), TestCaseError> {
        let stage = self.submits[number].stage;
        let last = self.submits.iter().rposition(|submit| submit.stage == stage);
        prop_assert_eq!(last, Some(number), "a claim ends that is over");
        prop_assert!(!self.submits[number].has_ended, "a claim ends twice");
        self.submits[number].has_ended = true;
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Claim(stage, conduct) => self.claim(stage, conduct),
            Step::Answered(number) => self.answered(number)?,
            Step::Died(number) => {
                if let Some(submit) = self.submits.get_mut(number) {
                    submit.is_alive = false;
                }
            }
            Step::Heard(number) => self.heard(number)?,
            Step::Passed(seconds) => {
                self.now += seconds;
                for stage in 0..2 {
                    self.happens(stage, &EntityEvent::Checked);
                }
            }
            Step::Triggered => {
                self.happens(0, &EntityEvent::Triggered);
            }
        }
        for (stage, claims) in self.stages.iter().zip(self.claims) {
            prop_assert!(claims <= MAX_RETRIES + 1, "tried too often: {:?}", stage);
            prop_assert!(stage.retry_count <= MAX_RETRIES + 1);
            // Each try that did not end well is counted, and no other.
            let running = u32::from(matches!(
                stage.status,
                EntityStatus::Started | EntityStatus::Completed
            ));
            let counted = stage.retry_count + running;
            let is_last = stage.status == EntityStatus::Failed;
            prop_assert!(
                counted == claims || (is_last && counted + 1 == claims),
                "{stage:?} after {claims} claims"
            );
        }
        Ok(())
    }
}

fn conducts() -> impl Strategy<Value = Conduct> {
    let kind = prop::sample::select(vec![FailureKind::Hard, FailureKind::Retriable]);
    let end = prop_oneof![3 => Just(End::Good), 1 => kind.clone().prop_map(End::Bad)];
    prop_oneof![
        5 => end.clone().prop_map(|end| Conduct::Takes(Some(end))),
        1 => Just(Conduct::Takes(None)),
        1 => end.prop_map(Conduct::Silent),
        1 => kind.prop_map(Conduct::Refuses),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let number = 0..12_usize;
    prop_oneof![
        5 => (0..2_usize, conducts()).prop_map(|(stage, conduct)| Step::Claim(stage, conduct)),
        6 => number.clone().prop_map(Step::Answered),
        1 => number.clone().prop_map(Step::Died),
        6 => number.prop_map(Step::Heard),
        2 => prop::sample::select(vec![10, 700]).prop_map(Step::Passed),
        1 => Just(Step::Triggered),
    ]
}

proptest! {
    /// Rows: 219, 233, 236, 237, 242.
    #[test]
    fn whatever_happens_a_row_ends_once_and_its_tries_are_counted(steps in prop::collection::vec(steps(), 0..60)) {
        let mut row = Row::new();
        for step in steps {
            row.step(step)?;
        }
        // With a service that does its work, nothing stays in flight.
        for _ in 0..2 * (MAX_RETRIES + 2) {
            row.step(Step::Passed(STUCK_S + 1))?;
            for stage in 0..2 {
                row.step(Step::Claim(stage, Conduct::Takes(Some(End::Good))))?;
                let number = row.submits.len().saturating_sub(1);
                row.step(Step::Answered(number))?;
                row.step(Step::Heard(number))?;
            }
        }
        for stage in &row.stages {
            prop_assert!(!matches!(stage.status, EntityStatus::Queued | EntityStatus::Started), "{stage:?}");
        }
        let follows = row.stages[0].status == EntityStatus::Completed;
        prop_assert!(!follows || row.stages[1].status != EntityStatus::Pending);
    }
}
