//! The configuration of a node: built-in values, a file, the environment and flags laid on each other, each value with
//! its origin, and checked as a whole before anything starts.
//!
//! A new key is a field in [`sections`], a line in `cluster.toml` and a row in `docs/config.md`; tests compare the three.
//! The room knows nothing of what the values are used for.

mod check;
pub mod command;
mod file;
mod layers;
mod on_disk;
mod problem;
mod scaling;
mod schema;
mod secrets;
mod sections;
mod shortcuts;
mod show;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use parkhang_core::domain::JobConfig;
use parkhang_state::data_folder;
use rustls::pki_types::UnixTime;
use toml::Value;

use self::check::Finding;
use self::layers::{Layers, Setting};
use self::problem::{Origin, Problem, Problems};
use self::secrets::Secrets;

pub use self::check::beside;
pub use self::scaling::{Bounds, Launched, LauncherKind};
pub use self::secrets::check_private;
pub use self::sections::{
    Cluster, ClusterConfig, LogFormat, Pages, PagesKind, S3, Slots, SourceKind, StorageKind, Telemetry,
};
pub use self::shortcuts::{BucketArgs, Shortcut};
pub use self::values::{HostPort, Role};

/// Where a configuration file is looked for when none is named.
const USUAL_FILES: [&str; 2] = ["cluster.toml", "/etc/parkhang/cluster.toml"];

/// The flags of every command that a configuration belongs to.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file; otherwise ./cluster.toml or /etc/parkhang/cluster.toml, if there is one.
    #[arg(long, env = "PARKHANG_CONFIG", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Set a key of the configuration, such as cluster.lease=90s; may be repeated. See `docs/config.md`.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub buckets: BucketArgs,
    /// What flags of a single command are short for.
    #[arg(skip)]
    pub others: Vec<Shortcut>,
}

impl ConfigArgs {
    /// All flags that are short for keys.
    pub fn shortcuts(&self) -> Vec<Shortcut> {
        let mut shortcuts = self.buckets.shortcuts();
        shortcuts.extend_from_slice(&self.others);
        shortcuts
    }
}

/// A configuration as all layers together say it, not judged yet.
#[derive(Debug)]
pub struct Loaded {
    pub config: ClusterConfig,
    pub secrets: Secrets,
    file: Option<PathBuf>,
    /// The value of each key and its origin.
    settings: BTreeMap<String, Setting>,
    /// What a layer says and cannot be taken; a layer below stays in force there.
    problems: Vec<Problem>,
}

impl Loaded {
    /// Reads files and variables as the flags say. Fails for faults of this program only: mistakes in the configuration
    /// are found by [`Self::validated`].
    pub fn read(arguments: &ConfigArgs) -> Result<Self> {
        let variables = std::env::vars_os().collect();
        let file = arguments.config_file.clone().or_else(|| {
            let mut usual = USUAL_FILES.iter().map(PathBuf::from);
            usual.find(|path| path.is_file())
        });
        Self::from_layers(
            file.as_deref(),
            &variables,
            &arguments.set,
            &arguments.shortcuts(),
        )
    }

    /// The built-in values and what flags change of them: the configuration of a command that is no node of a cluster.
    pub fn apart(buckets: &BucketArgs) -> Result<Self> {
        Self::from_layers(None, &BTreeMap::new(), &[], &buckets.shortcuts())
    }

    fn from_layers(
        file: Option<&Path>,
        variables: &BTreeMap<OsString, OsString>,
        flags: &[String],
        shortcuts: &[Shortcut],
    ) -> Result<Self> {
        let mut layers = Layers::built_in().context("the built-in cluster.toml")?;
        if let Some(path) = file {
            match std::fs::read_to_string(path) {
                Ok(text) => layers.add_file(path, &text),
                Err(error) => layers.problems.push(Problem::Source {
                    path: path.to_owned(),
                    message: error.to_string(),
                }),
            }
        }
        layers.add_variables(variables.clone());
        layers.add_flags(flags.iter().map(String::as_str));
        for shortcut in shortcuts {
            layers.add_shortcut(shortcut);
        }
        layers.follow_generation();
        let config = layers
            .resolve()
            .context("the layers of the configuration do not fit")?;
        let Layers {
            settings,
            mut problems,
            ..
        } = layers;
        let secrets = Secrets::read(&config, variables, &mut problems);
        Ok(Self {
            config,
            secrets,
            file: file.map(Path::to_owned),
            settings,
            problems,
        })
    }

    /// Who said what is wrong: whoever set the key, else whoever set one that it does not go with.
    fn origin_of(&self, finding: &Finding) -> Option<Origin> {
        let said = |key: &str| {
            let setting = self.settings.get(key).map(|setting| &setting.origin);
            let secret = || self.secrets.given().find(|(given, _)| *given == key);
            setting.or_else(|| secret().map(|(_, secret)| &secret.origin))
        };
        let mut keys = std::iter::once(&finding.key).chain(finding.because);
        let by_somebody = keys.find_map(|key| said(key).filter(|origin| **origin != Origin::BuiltIn));
        by_somebody.or_else(|| said(finding.key)).cloned()
    }

    /// The file that is one of the layers.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What flags set, as `--set` would be given it.
    pub fn flags(&self) -> Vec<String> {
        let settings = self.settings.iter();
        let flags = settings.filter(|(_, setting)| matches!(setting.origin, Origin::Flag(_)));
        let pairs = flags.map(|(key, setting)| match &setting.value {
            Value::String(text) => format!("{key}={text}"),
            value => format!("{key}={value}"),
        });
        pairs.collect()
    }

    /// Which configuration this is, in words.
    pub fn source(&self) -> String {
        match &self.file {
            Some(file) => {
                let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
                format!("using {}", file.display())
            }
            None => {
                let here = std::env::current_dir().unwrap_or_default();
                format!(
                    "using built-in defaults: no {} in {}",
                    USUAL_FILES[0],
                    here.display()
                )
            }
        }
    }

    /// The folder of what this node keeps for itself.
    pub fn state_dir(&self) -> Result<PathBuf> {
        match &self.config.node.state_dir {
            Some(folder) => Ok(folder.clone()),
            None => data_folder().context("node.state_dir is not set"),
        }
    }

    /// Passes a configuration that a command can work with, or says everything that is wrong with it.
    pub fn validated(self) -> Result<Self, Problems> {
        let found = self.findings();
        self.without(found)
    }

    /// Passes a configuration that a node can start with here.
    pub fn fit_to_start(self) -> Result<Self, Problems> {
        let mut found = self.findings();
        found.extend(on_disk::needed(&self.config, &self.secrets));
        self.without(found)
    }

    /// Passes a configuration with which there is something to do, too: a node may wait for its scans, whoever checks it wants to
    /// hear of that.
    pub fn fit_to_work(self) -> Result<Self, Problems> {
        let mut found = self.findings();
        found.extend(on_disk::needed(&self.config, &self.secrets));
        found.extend(on_disk::without_scans(&self.config));
        self.without(found)
    }

    fn findings(&self) -> Vec<Finding> {
        let mut found = check::findings(&self.config, &self.secrets);
        found.extend(on_disk::findings(&self.config, UnixTime::now()));
        found
    }

    fn without(self, found: Vec<Finding>) -> Result<Self, Problems> {
        let found = found.into_iter().filter_map(|finding| {
            Some(Problem::Value {
                origin: self.origin_of(&finding)?,
                key: finding.key.to_owned(),
                message: finding.message,
            })
        });
        let problems: Vec<Problem> = self.problems.iter().cloned().chain(found).collect();
        match problems.is_empty() {
            true => Ok(self),
            false => Err(Problems(problems)),
        }
    }
}

/// The job configuration that `--config` overrides.
pub fn job_defaults() -> Result<JobConfig> {
    let config: ClusterConfig = toml::from_str(schema::BUILT_IN).context("the built-in cluster.toml")?;
    config.job.validated().context("the built-in cluster.toml")
}
