use std::collections::BTreeSet;

use super::Findings;
use crate::config::sections::ClusterConfig;

/// Checks that no queue is read for two jobs, each of which would get some of its messages.
pub fn intake(config: &ClusterConfig, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for intake in &config.intake.queues {
        let name = intake.queue.rsplit('/').next().unwrap_or(&intake.queue);
        findings.require(
            seen.insert(name),
            "intake.queues",
            format!("names the queue {name} twice"),
        );
    }
}
