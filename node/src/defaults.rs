//! What a job is set to where nobody says otherwise: `cluster.toml` of the repository's root, compiled in.

use anyhow::{Context, Result};
use parkhang_actors::domain::JobConfig;
use serde::Deserialize;

const CLUSTER: &str = include_str!("../../cluster.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    job: JobConfig,
}

/// The job configuration that `--config` overrides.
pub fn job_defaults() -> Result<JobConfig> {
    let cluster: Cluster = toml::from_str(CLUSTER).context("the built-in cluster.toml")?;
    cluster.job.validated().context("the built-in cluster.toml")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn they_are_the_documented_ones() {
        assert_eq!(job_defaults().unwrap(), JobConfig::default());
    }

    #[test]
    fn the_file_names_every_key() {
        let file: toml::Table = toml::from_str(CLUSTER).unwrap();
        let named: BTreeSet<String> = file["job"].as_table().unwrap().keys().cloned().collect();
        let known = serde_json::to_value(JobConfig::default()).unwrap();
        let known: BTreeSet<String> = known.as_object().unwrap().keys().cloned().collect();
        assert_eq!(named, known);
    }
}
