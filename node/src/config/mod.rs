//! Configuration of a node, merged from layers: built-in values, a file, a profile of it, the environment, flags.
//!
//! Every value keeps its origin, and the result is checked as a whole before anything starts, so a user sees all faults at once,
//! each with the file and line or the variable to change, and not the first one in the middle of a start. A value that cannot be used
//! leaves the layer below in effect instead of ending the check. Secrets are never values: they come from variables or files of
//! their own, so that the configuration can be shown, logged and committed.
//!
//! A new key is a field in [`sections`], a line in `cluster.toml`, which is compiled in as the lowest layer, and a row in `docs/config.md`;
//! tests compare the three. The room must not know what the values are used for: it may depend on types that parse a value, and on
//! nothing that acts on one.

mod check;
pub mod command;
mod engines;
mod entities;
mod external;
mod file;
mod implied;
mod intake;
mod layers;
mod named;
mod on_disk;
mod problem;
mod scaling;
mod schema;
mod secrets;
mod sections;
mod shortcuts;
mod show;
mod source_kind;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use parkhang_core::domain::JobConfig;
use parkhang_state::data_folder;
use rustls::pki_types::UnixTime;
use toml::Value;

use self::check::Finding;
use self::layers::{Layers, Setting};
use self::problem::{Origin, Problem, Problems};
use self::secrets::Secrets;
use crate::file_access::is_trusted;

pub use self::check::beside;
pub use self::entities::{ConfiguredEntity, ConfiguredService, ConfiguredStage, ServiceKind};
pub use self::external::missing_service;
pub use self::intake::IntakeQueue;
pub use self::scaling::{Bounds, Launched, LauncherKind};
pub use self::sections::{
    Cluster, ClusterConfig, LogFormat, Pages, PagesKind, S3, Slots, Sqs, StorageKind, Telemetry,
};
pub use self::shortcuts::{BucketArgs, Shortcut};
pub use self::source_kind::SourceProperties;
pub use self::values::{HostPort, Role};

/// Places of the configuration file if none is named, in the order in which they are tried.
const USUAL_FILES: [&str; 2] = ["cluster.toml", "/etc/parkhang/cluster.toml"];

/// Flags of every command that uses a configuration.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file; by default ./cluster.toml or /etc/parkhang/cluster.toml, whichever exists.
    #[arg(long, env = "PARKHANG_CONFIG", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Profile of the configuration file, a section [profile.NAME.SECTION], whose values go above the others of the file.
    #[arg(long, env = "PARKHANG_PROFILE", value_name = "NAME")]
    pub config_profile: Option<String>,
    /// Set a key of the configuration, such as cluster.lease=90s; may be repeated. See `docs/config.md`.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub buckets: BucketArgs,
    /// Keys set by flags of a single command.
    #[arg(skip)]
    pub others: Vec<Shortcut>,
}

impl ConfigArgs {
    /// Returns the keys set by all shortcut flags.
    pub fn shortcuts(&self) -> Vec<Shortcut> {
        let mut shortcuts = self.buckets.shortcuts();
        shortcuts.extend_from_slice(&self.others);
        shortcuts
    }
}

/// Merged configuration, not checked yet.
#[derive(Debug)]
pub struct Loaded {
    pub config: ClusterConfig,
    pub secrets: Secrets,
    file: Option<PathBuf>,
    profile: Option<String>,
    /// Value and origin of each key.
    settings: BTreeMap<String, Setting>,
    /// Values of layers that cannot be used; the layer below stays in effect for their keys.
    problems: Vec<Problem>,
}

impl Loaded {
    /// Reads the file and the variables that the flags name.
    ///
    /// # Errors
    ///
    /// For a fault of this program only: mistakes in the configuration are reported by [`Self::validated`].
    pub fn read(arguments: &ConfigArgs) -> Result<Self> {
        // Variables of other programs may not be UTF-8, and `vars` would panic at one.
        let variables = std::env::vars_os().collect();
        let file = match &arguments.config_file {
            Some(file) => Some(file.clone()),
            None => usual_file()?,
        };
        Self::from_layers(
            file.as_deref(),
            arguments.config_profile.as_deref(),
            &variables,
            &arguments.set,
            &arguments.shortcuts(),
        )
    }

    /// Returns the built-in values with the changes of flags only: the configuration of a command that is not part of a cluster.
    pub fn apart(buckets: &BucketArgs) -> Result<Self> {
        Self::from_layers(None, None, &BTreeMap::new(), &[], &buckets.shortcuts())
    }

    fn from_layers(
        file: Option<&Path>,
        profile: Option<&str>,
        variables: &BTreeMap<OsString, OsString>,
        flags: &[String],
        shortcuts: &[Shortcut],
    ) -> Result<Self> {
        let mut layers = Layers::built_in().context("the built-in cluster.toml")?;
        if let Some(path) = file {
            // A file that cannot be read is reported with all other problems, so that the rest is still checked.
            match std::fs::read_to_string(path) {
                Ok(text) => layers.add_file(path, &text, profile),
                Err(error) => layers.problems.push(Problem::Source {
                    path: path.to_owned(),
                    message: error.to_string(),
                }),
            }
        }
        if let Some(profile) = profile {
            layers.require_profile(profile);
        }
        layers.add_variables(variables.clone());
        layers.add_flags(flags.iter().map(String::as_str));
        for shortcut in shortcuts {
            layers.add_shortcut(shortcut);
        }
        // Only after all layers: a value that one of them sets must not be replaced.
        layers.imply(variables);
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
            profile: profile.map(str::to_owned),
            settings,
            problems,
        })
    }

    /// Returns the origin to report for a finding: that of its key, or if the key has its built-in value, that of the first key it
    /// contradicts that was set.
    fn origin_of(&self, finding: &Finding) -> Option<Origin> {
        let origin = |key: &str| {
            let secret = || self.secrets.given().find(|(given, _)| *given == key);
            self.settings
                .get(key)
                .map(|setting| &setting.origin)
                .or_else(|| secret().map(|(_, secret)| &secret.origin))
        };
        std::iter::once(&finding.key)
            .chain(finding.because)
            // The user can change only what the user has set, so a built-in value is blamed last.
            .find_map(|key| origin(key).filter(|origin| **origin != Origin::BuiltIn))
            .or_else(|| origin(finding.key))
            .cloned()
    }

    /// Returns the origin of a key, or of another one of its section if nobody has set it.
    fn origin_near(&self, key: &str) -> Origin {
        let section = |key: &str| key.rsplit_once('.').map(|(section, _)| format!("{section}."));
        let own = self.settings.get(key);
        let near = std::iter::successors(section(key), |prefix| section(prefix.trim_end_matches('.')));
        let near = near.filter_map(|prefix| {
            let mut keys = self.settings.iter().filter(|(key, _)| key.starts_with(&prefix));
            keys.next().map(|(_, setting)| setting)
        });
        let setting = own.into_iter().chain(near).next();
        setting.map_or(Origin::BuiltIn, |setting| setting.origin.clone())
    }

    /// Returns the configuration file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the profile of the file that was chosen, if one was.
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// Returns the values set by flags, as arguments of `--set`.
    pub fn flags(&self) -> Vec<String> {
        self.settings
            .iter()
            .filter(|(_, setting)| matches!(setting.origin, Origin::Flag(_)))
            .map(|(key, setting)| match &setting.value {
                Value::String(text) => format!("{key}={text}"),
                value => format!("{key}={value}"),
            })
            .collect()
    }

    /// Describes which configuration this is, for error messages.
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

    /// Returns the folder in which this node keeps its own files.
    ///
    /// # Errors
    ///
    /// If none is configured and the user has no home directory.
    pub fn state_dir(&self) -> Result<PathBuf> {
        match &self.config.node.state_dir {
            Some(folder) => Ok(folder.clone()),
            None => data_folder().context("node.state_dir is not set"),
        }
    }

    /// Checks that a command can work with the configuration.
    ///
    /// # Errors
    ///
    /// With all problems, at least one.
    pub fn validated(self) -> Result<Self, Problems> {
        let found = self.findings();
        self.without(found)
    }

    /// Checks that a node can start with the configuration on this machine.
    ///
    /// # Errors
    ///
    /// With all problems, at least one.
    pub fn fit_to_start(self) -> Result<Self, Problems> {
        let mut found = self.findings();
        found.extend(on_disk::needed(&self.config, &self.secrets));
        self.without(found)
    }

    /// Checks also that there are scans to read: a node may start before they are there, but `config check` reports it.
    ///
    /// # Errors
    ///
    /// With all problems, at least one.
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
        let has_secret = self.secrets.webhook.is_some();
        let mut named = entities::faults(&self.config, has_secret);
        named.extend(external::faults(&self.config));
        let named = named.into_iter().map(|(key, message)| Problem::Value {
            origin: self.origin_near(&key),
            key,
            message,
        });
        let databases = self.secrets.entity_database_problems();
        let problems = self.problems.iter().cloned().chain(found).chain(named);
        let problems = problems.chain(databases);
        let problems: Vec<Problem> = problems.collect();
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(Problems(problems))
        }
    }
}

/// Returns the configuration file that is used if none is named.
///
/// # Errors
///
/// If it is one that another user has put into the current folder.
fn usual_file() -> Result<Option<PathBuf>> {
    let Some(path) = USUAL_FILES.iter().map(PathBuf::from).find(|path| path.is_file()) else {
        return Ok(None);
    };
    let found = path.metadata().with_context(|| path.display().to_string())?;
    let own = nix::unistd::geteuid().as_raw();
    if let Err(reason) = is_trusted(found.uid(), found.mode(), own) {
        bail!(
            "{} in this folder {reason}; name it with --config-file if it is meant",
            path.display()
        );
    }
    Ok(Some(path))
}

/// Returns the job configuration that `--config` overrides.
///
/// # Errors
///
/// For a fault of the built-in file only.
pub fn job_defaults() -> Result<JobConfig> {
    let config = Layers::built_in().and_then(|layers| layers.resolve());
    let config = config.context("the built-in cluster.toml")?;
    config.job.validated().context("the built-in cluster.toml")
}
