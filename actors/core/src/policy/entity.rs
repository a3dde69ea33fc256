//! Steps of one stage of an entity: what a submitted job, its end, a failure or silence make of the stage's columns.
//!
//! An end names the job that it is of, and a failure before there is a job names the claim. What is of another job or claim, or comes a
//! second time, changes nothing: so it does not matter whether a webhook or a poller is first.

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::{EntityStatus, FailureKind, StageLimits};

/// Columns of a stage that decide what may become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityState {
    pub status: EntityStatus,
    pub retry_count: u32,
    /// Id that the service gave the job.
    pub job: Option<String>,
    /// Time of the claim, by the clock of the database. No two claims of an entity have the same.
    pub started_at: Option<DateTime<Utc>>,
}

/// Claim or job that a message is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntityFence {
    /// Claim whose submit has no answer yet.
    Claim(DateTime<Utc>),
    /// Job of a service.
    Job(String),
}

/// Something that happens to a stage of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntityEvent {
    /// The service took the work of a claim and named the job.
    Submitted {
        claim: DateTime<Utc>,
        job: String,
    },
    /// A claim is given back before anything was submitted.
    Released {
        claim: DateTime<Utc>,
    },
    Completed {
        job: String,
    },
    Failed {
        of: EntityFence,
        kind: FailureKind,
    },
    /// Somebody looks whether the job has taken too long.
    Checked,
    /// The stage before it is completed: whatever was made of its earlier result is out of date.
    Preceded,
    /// A person asks for it.
    Triggered,
}

impl EntityState {
    /// Returns what becomes of the stage; `None` if the event changes nothing.
    pub fn after(&self, event: &EntityEvent, limits: &StageLimits, now: DateTime<Utc>) -> Option<Self> {
        match event {
            EntityEvent::Submitted { claim, job } => self.holds(&EntityFence::Claim(*claim)).then(|| Self {
                job: Some(job.clone()),
                ..self.clone()
            }),
            EntityEvent::Released { claim } => {
                let again = || self.ended(EntityStatus::Queued, self.retry_count);
                self.holds(&EntityFence::Claim(*claim)).then(again)
            }
            EntityEvent::Completed { job } => self.holds(&EntityFence::Job(job.clone())).then(|| Self {
                status: EntityStatus::Completed,
                ..self.clone()
            }),
            EntityEvent::Failed { of, kind } => self.holds(of).then(|| self.failed(*kind, limits)),
            EntityEvent::Checked => self.is_stuck(limits, now).then(|| self.stuck(limits)),
            EntityEvent::Preceded => (self.status != EntityStatus::Queued).then(Self::anew),
            EntityEvent::Triggered => {
                let is_under_way = matches!(self.status, EntityStatus::Queued | EntityStatus::Started);
                (!is_under_way).then(Self::anew)
            }
        }
    }

    /// True for an end of the job that this stage has had last: a message about it is a repetition.
    pub fn is_over_for(&self, job: &str) -> bool {
        self.status != EntityStatus::Started && self.job.as_deref() == Some(job)
    }

    /// True while the answer to the submit is not recorded: the job may have any id.
    pub fn awaits_its_job(&self) -> bool {
        self.status == EntityStatus::Started && self.job.is_none()
    }

    fn holds(&self, fence: &EntityFence) -> bool {
        let is_same = match fence {
            EntityFence::Claim(claim) => self.job.is_none() && self.started_at == Some(*claim),
            EntityFence::Job(job) => self.job.as_ref() == Some(job),
        };
        self.status == EntityStatus::Started && is_same
    }

    fn failed(&self, kind: FailureKind, limits: &StageLimits) -> Self {
        let again = kind == FailureKind::Retriable && self.retry_count < limits.max_retries;
        if again {
            return Self {
                status: EntityStatus::Queued,
                retry_count: self.retry_count + 1,
                // The id stays until the next claim, so that a repetition of the failure is known as one.
                ..self.clone()
            };
        }
        Self {
            status: EntityStatus::Failed,
            ..self.clone()
        }
    }

    fn is_stuck(&self, limits: &StageLimits, now: DateTime<Utc>) -> bool {
        let age = self.started_at.map(|started_at| now - started_at);
        let timeout = TimeDelta::from_std(limits.stuck_timeout).unwrap_or(TimeDelta::MAX);
        // A started stage without a time was not started by us, and nothing else would ever end it.
        self.status == EntityStatus::Started && age.is_none_or(|age| age > timeout)
    }

    fn stuck(&self, limits: &StageLimits) -> Self {
        let status = match self.retry_count >= limits.max_retries {
            true => EntityStatus::Failed,
            false => EntityStatus::Queued,
        };
        self.ended(status, self.retry_count.saturating_add(1))
    }

    fn ended(&self, status: EntityStatus, retry_count: u32) -> Self {
        Self {
            status,
            retry_count,
            job: None,
            started_at: None,
        }
    }

    fn anew() -> Self {
        Self {
            status: EntityStatus::Queued,
            retry_count: 0,
            job: None,
            started_at: None,
        }
    }
}

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;
