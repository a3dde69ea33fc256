use super::{ConfigError, JobConfig};

/// Keys of [`JobConfig`] that may change while a job runs: they decide when its volumes are worked on and how hard,
/// never what comes out.
pub const ADJUSTABLE: [&str; 13] = [
    "priority",
    "max_running",
    "max_running_per_stage",
    "max_attempts",
    "max_item_error_rate",
    "error_budget",
    "workers",
    "max_queue",
    "timeout_s",
    "retries",
    "retry_backoff_s",
    "checkpoint_pages",
    "diagnostics_interval_s",
];

/// A change to the limits of a job that runs. Scheduling follows it at once, a stage from its next lease on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjustment(Vec<String>);

impl Adjustment {
    /// Accepts `key=value` pairs of [`ADJUSTABLE`] keys with values that a job may have.
    pub fn new(pairs: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, ConfigError> {
        let adjustment = Self(pairs.into_iter().map(Into::into).collect());
        for pair in &adjustment.0 {
            let key = pair.split('=').next().unwrap_or_default().trim();
            if ADJUSTABLE.contains(&key) {
                continue;
            }
            return Err(match is_known(key) {
                true => ConfigError::Fixed(key.to_owned()),
                false => ConfigError::NotALimit(key.to_owned()),
            });
        }
        adjustment.apply(JobConfig::default())?;
        Ok(adjustment)
    }

    /// What a job of `config` is set to afterwards.
    pub fn apply(&self, config: JobConfig) -> Result<JobConfig, ConfigError> {
        config.with_overrides(self.0.iter().map(String::as_str))
    }
}

fn is_known(key: &str) -> bool {
    serde_json::to_value(JobConfig::default()).is_ok_and(|config| config.get(key).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adjustment_changes_what_it_names() {
        let adjustment = Adjustment::new(["priority=-3", "max_running=7"]).unwrap();
        let before = JobConfig {
            k_factor: 2.5,
            ..JobConfig::default()
        };
        let after = JobConfig {
            priority: -3,
            max_running: 7,
            ..before.clone()
        };
        assert_eq!(adjustment.apply(before), Ok(after));
    }

    #[test]
    fn what_decides_results_stays() {
        let refused = |pair: &str| Adjustment::new([pair]).unwrap_err();
        assert_eq!(refused("k_factor=2"), ConfigError::Fixed("k_factor".to_owned()));
        assert_eq!(refused("limit=2"), ConfigError::Fixed("limit".to_owned()));
        let unknown = refused("k_facto=2").to_string();
        assert!(
            unknown.starts_with("there is no limit k_facto; limits are priority, "),
            "{unknown}"
        );
        assert!(!unknown.contains("k_factor"), "that one would be refused");
        assert!(matches!(refused("priority"), ConfigError::NotAPair(_)));
        assert!(matches!(refused("max_attempts=0"), ConfigError::Unfit { .. }));
    }

    #[test]
    fn every_adjustable_key_is_a_key() {
        for key in ADJUSTABLE {
            assert!(is_known(key), "{key}");
        }
    }
}
