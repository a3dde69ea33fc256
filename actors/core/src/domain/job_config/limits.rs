//! Limits of the keys of a job configuration.

use parkhang_algorithms::Algorithms;

use super::{Artifacts, ConfigError, JobConfig};

impl JobConfig {
    /// The same settings, if every value is within the limits of its key.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Unfit`] for the first key that is not.
    pub fn validated(self) -> Result<Self, ConfigError> {
        let seconds = "a number of seconds, 0 or more";
        let checks: [(&'static str, bool, &'static str, String); 17] = [
            (
                "artifacts",
                self.artifacts == Artifacts::Pictures || self.generation == Algorithms::Gen2,
                "pictures with the first generation, which cuts lines by what they show",
                "tables".to_owned(),
            ),
            (
                "k_factor",
                (0.1..=10.0).contains(&self.k_factor),
                "0.1 to 10",
                self.k_factor.to_string(),
            ),
            (
                "bbox_tolerance",
                (1.0..=20.0).contains(&self.bbox_tolerance),
                "1 to 20",
                self.bbox_tolerance.to_string(),
            ),
            (
                "beam_width",
                (1..=1024).contains(&self.beam_width),
                "1 to 1024",
                self.beam_width.to_string(),
            ),
            (
                "min_confidence",
                (0.0..=1.0).contains(&self.min_confidence),
                "0 to 1",
                self.min_confidence.to_string(),
            ),
            (
                "chunk_max_tokens",
                (16..=8192).contains(&self.chunk_max_tokens),
                "16 to 8192",
                self.chunk_max_tokens.to_string(),
            ),
            (
                "chunk_min_tokens",
                self.chunk_min_tokens <= self.chunk_max_tokens / 2,
                "half of chunk_max_tokens at most",
                self.chunk_min_tokens.to_string(),
            ),
            (
                "chunk_overlap",
                self.chunk_overlap <= self.chunk_max_tokens / 2,
                "half of chunk_max_tokens at most",
                self.chunk_overlap.to_string(),
            ),
            (
                "trust",
                self.trust
                    .inputs()
                    .all(|known| self.inputs.iter().any(|input| input == known)),
                "of inputs",
                self.trust
                    .inputs()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            (
                "max_item_error_rate",
                (0.0..=1.0).contains(&self.max_item_error_rate),
                "0 to 1",
                self.max_item_error_rate.to_string(),
            ),
            (
                "checkpoint_pages",
                self.checkpoint_pages > 0,
                "1 or more",
                self.checkpoint_pages.to_string(),
            ),
            (
                "ageing",
                (0.0..=1e9).contains(&self.ageing),
                "0 to 1000000000",
                self.ageing.to_string(),
            ),
            (
                "diagnostics_interval_s",
                is_duration(self.diagnostics_interval_s),
                seconds,
                self.diagnostics_interval_s.to_string(),
            ),
            (
                "timeout_s",
                is_duration(self.timeout_s),
                seconds,
                self.timeout_s.to_string(),
            ),
            (
                "retry_backoff_s",
                is_duration(self.retry_backoff_s),
                seconds,
                self.retry_backoff_s.to_string(),
            ),
            (
                "retries",
                self.retries <= 100,
                "100 at most",
                self.retries.to_string(),
            ),
            (
                "max_attempts",
                (1..=100).contains(&self.max_attempts),
                "1 to 100",
                self.max_attempts.to_string(),
            ),
        ];
        for (key, holds, expected, actual) in checks {
            if !holds {
                return Err(ConfigError::Unfit {
                    key: key.to_owned(),
                    expected: expected.to_owned(),
                    actual,
                });
            }
        }
        Ok(self)
    }
}

/// True for seconds that are finite, not negative, and few enough for [`std::time::Duration`].
fn is_duration(seconds: f64) -> bool {
    (0.0..=1e9).contains(&seconds)
}
