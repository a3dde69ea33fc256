//! Changes to the configuration of a job that exists.

use super::{ConfigError, JobConfig};

/// Keys of [`JobConfig`] that may change while a job runs: they decide when its volumes are worked on and how hard,
/// never what comes out.
pub const ADJUSTABLE: [&str; 14] = [
    "priority",
    "max_running",
    "max_running_per_stage",
    "max_attempts",
    "budget",
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

/// Keys that hold for as long as the job exists: they say where its results lie, and what its tasks' failures have amounted to.
const FIXED: [&str; 2] = ["layout", "retry_scope"];

/// Change to the configuration of a job. Scheduling follows it at once, a stage from its next lease on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjustment {
    pairs: Vec<String>,
    /// True if other keys than [`ADJUSTABLE`] may change too, for which the job has to be at rest.
    pub is_revision: bool,
}

impl Adjustment {
    /// Accepts `key=value` pairs of [`ADJUSTABLE`] keys with values that a job may have.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for text that is no pair, for any other key, and for a value that the key does not take.
    pub fn new(pairs: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, ConfigError> {
        let adjustment = Self {
            pairs: pairs.into_iter().map(Into::into).collect(),
            is_revision: false,
        };
        for key in adjustment.keys() {
            if ADJUSTABLE.contains(&key) {
                continue;
            }
            let named = key.to_owned();
            return Err(match is_known(key) {
                true if FIXED.contains(&key) => ConfigError::Fixed(named),
                true => ConfigError::Decides(named),
                false => ConfigError::NotALimit(named),
            });
        }
        // Tried on the defaults, so that a value that no job may have is refused before a job is looked for.
        adjustment.apply(JobConfig::default())?;
        Ok(adjustment)
    }

    /// Accepts `key=value` pairs of all keys but those that hold for as long as the job exists.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for text that is no pair, for a key that is unknown or holds, and for a value that the key does not take.
    pub fn revision(pairs: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, ConfigError> {
        let revision = Self {
            pairs: pairs.into_iter().map(Into::into).collect(),
            is_revision: true,
        };
        revision.apply(JobConfig::default())?;
        let fixed = revision.keys().find(|key| FIXED.contains(key)).map(str::to_owned);
        match fixed {
            Some(key) => Err(ConfigError::Fixed(key)),
            None => Ok(revision),
        }
    }

    /// Configuration of a job of `config` after the change.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the result is not a valid configuration.
    pub fn apply(&self, config: JobConfig) -> Result<JobConfig, ConfigError> {
        config.with_overrides(self.pairs.iter().map(String::as_str))
    }

    /// Keys of the pairs.
    fn keys(&self) -> impl Iterator<Item = &str> {
        let pairs = self.pairs.iter();
        pairs.map(|pair| pair.split('=').next().unwrap_or_default().trim())
    }
}

/// True for a key of the configuration.
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
        assert_eq!(refused("k_factor=2"), ConfigError::Decides("k_factor".to_owned()));
        assert_eq!(refused("limit=2"), ConfigError::Decides("limit".to_owned()));
        assert_eq!(refused("layout=bdrc_v1"), ConfigError::Fixed("layout".to_owned()));
        let reported = refused("k_factor=2").to_string();
        assert!(
            reported.contains("job pause") && reported.contains("job update"),
            "{reported}"
        );
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
    fn a_revision_may_change_results_but_not_where_they_lie() {
        let revision = Adjustment::revision(["k_factor=2.5", "priority=3"]).unwrap();
        assert_eq!(revision.apply(JobConfig::default()).unwrap().k_factor, 2.5);
        let refused = |pair: &str| Adjustment::revision([pair]).unwrap_err();
        assert_eq!(refused("layout=bdrc_v1"), ConfigError::Fixed("layout".to_owned()));
        assert!(matches!(refused("k_factor=99"), ConfigError::Unfit { .. }));
        assert!(matches!(refused("k_facto=2"), ConfigError::Unknown(_)));
    }

    #[test]
    fn every_adjustable_key_is_a_key() {
        for key in ADJUSTABLE.into_iter().chain(FIXED) {
            assert!(is_known(key), "{key}");
        }
    }
}
