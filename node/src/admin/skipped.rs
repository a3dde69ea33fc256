//! Items that a command left out, by reason, as counts with samples.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// Number of samples kept for each reason.
const SAMPLES: usize = 5;

/// Items left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Skipped {
    pub reason: String,
    pub count: u64,
    /// Some of them.
    pub samples: Vec<String>,
}

/// Counter of the items that are left out.
#[derive(Debug, Default)]
pub struct SkippedCounts(BTreeMap<String, (u64, Vec<String>)>);

impl SkippedCounts {
    pub fn add(&mut self, reason: &str, sample: impl ToString) {
        let (count, samples) = self.0.entry(reason.to_owned()).or_default();
        *count += 1;
        if samples.len() < SAMPLES {
            samples.push(sample.to_string());
        }
    }

    /// Returns the counts, in the order of the reasons.
    pub fn into_skipped(self) -> Vec<Skipped> {
        self.0
            .into_iter()
            .map(|(reason, (count, samples))| Skipped {
                reason,
                count,
                samples,
            })
            .collect()
    }
}

impl Skipped {
    /// Formats as `3 repeated: a, b, c`, and with `, ...` if there are more than the samples.
    pub fn line(&self) -> String {
        let more = if self.count > self.samples.len() as u64 {
            ", ..."
        } else {
            ""
        };
        format!(
            "{} {}: {}{more}",
            self.count,
            self.reason,
            self.samples.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_count_the_reason_and_some_of_them() {
        let mut counts = SkippedCounts::default();
        for number in 0..7 {
            counts.add("listed twice", number);
        }
        counts.add("already read", "W1-I1");
        let lines: Vec<String> = counts.into_skipped().iter().map(Skipped::line).collect();
        assert_eq!(
            lines,
            ["1 already read: W1-I1", "7 listed twice: 0, 1, 2, 3, 4, ..."]
        );
    }
}
