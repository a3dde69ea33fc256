//! Services that do stages: what they take and refuse, and the levels that the leading orchestrator looks at.

use std::collections::BTreeSet;

use parkhang_core::domain::Amount;

use super::catalogue::{
    SERVICE_ERRORS, SERVICE_IN_FLIGHT, SERVICE_LEFT_ALONE, SERVICE_OLDEST_SECONDS, SERVICE_SPENT,
    SERVICE_SUBMITS,
};

/// Billionths in a thousandth of the currency.
const THOUSANDTH: u64 = 1_000_000;

/// A service has taken a job.
pub(crate) fn service_took(service: &str) {
    SERVICE_SUBMITS.add(1, [service]);
}

/// A submit, or a job, has failed.
pub(crate) fn service_failed(service: &str, category: &str) {
    SERVICE_ERRORS.add(1, [service, category]);
}

/// Level of a service, as its leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceLevel {
    pub service: String,
    pub in_flight: u64,
    pub oldest_seconds: u64,
    pub is_left_alone: bool,
    pub spent: Amount,
}

/// Levels of the services as they were last seen.
#[derive(Debug, Default)]
pub struct ServiceLevels {
    published: BTreeSet<String>,
}

impl ServiceLevels {
    pub fn publish(&mut self, levels: &[ServiceLevel]) {
        for level in levels {
            set(level);
            self.published.insert(level.service.clone());
        }
    }
}

impl Drop for ServiceLevels {
    /// Sets the levels to zero: the next leader sets them on its own node.
    fn drop(&mut self) {
        for service in std::mem::take(&mut self.published) {
            set(&ServiceLevel {
                service,
                in_flight: 0,
                oldest_seconds: 0,
                is_left_alone: false,
                spent: Amount::ZERO,
            });
        }
    }
}

fn set(level: &ServiceLevel) {
    let labels = [level.service.as_str()];
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    SERVICE_IN_FLIGHT.set(number(level.in_flight), labels);
    SERVICE_OLDEST_SECONDS.set(number(level.oldest_seconds), labels);
    SERVICE_LEFT_ALONE.set(usize::from(level.is_left_alone), labels);
    SERVICE_SPENT.set(number(level.spent.nanos() / THOUSANDTH), labels);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::testing::Measured;

    #[test]
    fn levels_of_services_are_told_until_nobody_looks() {
        let measured = Measured::begin();
        service_took("llm");
        service_failed("llm", "busy");
        let mut levels = ServiceLevels::default();
        levels.publish(&[ServiceLevel {
            service: "llm".to_owned(),
            in_flight: 3,
            oldest_seconds: 60,
            is_left_alone: true,
            spent: "12.5".parse().unwrap(),
        }]);
        measured.assert_has(&[
            "parkhang_service_submits_total{service=llm} 1",
            "parkhang_service_errors_total{service=llm,category=busy} 1",
            "parkhang_service_in_flight{service=llm} 3",
            "parkhang_service_oldest_seconds{service=llm} 60",
            "parkhang_service_left_alone{service=llm} 1",
            "parkhang_service_spent_thousandths{service=llm} 12500",
        ]);
        drop(levels);
        measured.assert_has(&[
            "parkhang_service_in_flight{service=llm} 0",
            "parkhang_service_left_alone{service=llm} 0",
        ]);
    }
}
