//! Decisions of the autoscaler, for answers and alarms.

use chrono::{DateTime, TimeDelta, Utc};
use parkhang_core::domain::ScalingRecord;
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::text::away;
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// Last decision of the autoscaler for workers with one kind of hardware, and what it was based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Scaling {
    /// cpu or gpu
    hardware: &'static str,
    decided_at: DateTime<Utc>,
    /// Desired number of workers.
    desired: u32,
    /// Largest number that is allowed.
    cap: u32,
    /// sufficient, backlog, age, at cap, over cap, below floor, empty, idle, busy or cooldown
    reason: String,
    /// Workers that were running.
    running: u32,
    /// Tasks that waited for stages of the hardware.
    waiting: u64,
    /// Tasks that ran these stages.
    in_work: u64,
    /// Time since which the oldest of the waiting tasks has waited.
    oldest: Option<DateTime<Utc>>,
    /// Time of the last change of the number.
    changed_at: Option<DateTime<Utc>>,
}

/// Returns the last decisions, or none if the autoscaler is off.
pub async fn decisions(admin: &Admin) -> Result<Vec<Scaling>, Refusal> {
    if !admin.loaded.config.autoscaler.enabled {
        return Ok(Vec::new());
    }
    let records = admin.store.scaling().await?;
    Ok(records.into_iter().map(Scaling::from).collect())
}

/// Returns alarms about tasks that have waited for longer than `max_age`.
pub fn alarms(decisions: &[Scaling], max_age: TimeDelta) -> Vec<String> {
    decisions
        .iter()
        .filter(|decision| {
            let waited = decision.oldest.map(|oldest| decision.decided_at - oldest);
            waited.is_some_and(|waited| waited >= max_age)
        })
        .map(|decision| {
            format!(
                "a volume has waited for {} workers since {}, longer than autoscaler.max_age; \
                 {} of at most {} are desired",
                decision.hardware,
                decision
                    .oldest
                    .map_or_else(String::new, |oldest| oldest.format("%F %R UTC").to_string()),
                decision.desired,
                decision.cap
            )
        })
        .collect()
}

impl Scaling {
    pub fn in_a_line(&self) -> String {
        format!(
            "{}: {} to be there of at most {} ({}), {} running, {} waiting, {} in work; decided {}",
            self.hardware,
            pluralize(self.desired, "worker"),
            self.cap,
            self.reason,
            self.running,
            self.waiting,
            self.in_work,
            away(self.decided_at, Utc::now())
        )
    }
}

impl From<ScalingRecord> for Scaling {
    fn from(record: ScalingRecord) -> Self {
        Self {
            hardware: record.hardware.as_str(),
            decided_at: record.decided_at,
            desired: record.desired,
            cap: record.cap,
            reason: record.reason,
            running: record.running,
            waiting: record.waiting,
            in_work: record.in_work,
            oldest: record.oldest,
            changed_at: record.changed_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::Hardware;

    use super::*;
    use parkhang_core::domain::testing::at;

    /// Rows: 155.
    #[test]
    fn a_task_that_waits_too_long_is_an_alarm() {
        let now = at(0);
        let waiting_for = |minutes| {
            Scaling::from(ScalingRecord {
                hardware: Hardware::Gpu,
                decided_at: now,
                desired: 8,
                cap: 8,
                reason: "at cap".to_owned(),
                running: 8,
                waiting: 90,
                in_work: 8,
                oldest: Some(now - TimeDelta::minutes(minutes)),
                changed_at: None,
            })
        };
        let hour = TimeDelta::hours(1);
        assert_eq!(alarms(&[waiting_for(59)], hour), [""; 0]);
        assert_eq!(
            alarms(&[waiting_for(60)], hour),
            [
                "a volume has waited for gpu workers since 2023-11-14 21:13 UTC, longer than autoscaler.max_age; \
                 8 of at most 8 are desired"
            ]
        );
    }
}
