//! Secrets: read from variables or from files that contain nothing else, never from `cluster.toml` or a flag, and never shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};

use super::problem::{Origin, Problem};
use super::sections::ClusterConfig;

/// Ways to set a secret.
#[derive(Debug)]
pub struct SecretKey {
    /// Key that the secret would have if it were an ordinary value.
    pub key: &'static str,
    /// Key of the file that contains it.
    pub file_key: &'static str,
    /// Variables for it; the first one that is set counts.
    pub variables: &'static [&'static str],
}

const COOKIE: SecretKey = SecretKey {
    key: "cluster.cookie",
    file_key: "cluster.cookie_file",
    variables: &["PARKHANG_CLUSTER__COOKIE"],
};

const DATABASE_URL: SecretKey = SecretKey {
    key: "state.database_url",
    file_key: "state.database_url_file",
    variables: &["PARKHANG_STATE__DATABASE_URL", "DATABASE_URL"],
};

pub const SECRETS: [SecretKey; 2] = [COOKIE, DATABASE_URL];

pub fn named(key: &str) -> Option<&'static SecretKey> {
    SECRETS.iter().find(|secret| secret.key == key)
}

pub fn is_secret(key: &str) -> bool {
    named(key).is_some()
}

#[derive(Debug)]
pub struct Secret {
    pub text: SecretString,
    pub origin: Origin,
}

/// Secrets of a node; `None` if not set.
#[derive(Debug)]
pub struct Secrets {
    /// Secret that all nodes of the cluster share.
    pub cookie: Option<Secret>,
    pub database_url: Option<Secret>,
}

impl Secrets {
    /// Reads variables and files. A secret that cannot be read is added to the problems and counts as not set.
    pub fn read(
        config: &ClusterConfig,
        variables: &BTreeMap<OsString, OsString>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut read = |secret: &SecretKey, file: Option<&Path>| {
            find(secret, file, variables).unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        Self {
            cookie: read(&COOKIE, config.cluster.cookie_file.as_deref()),
            database_url: read(&DATABASE_URL, config.state.database_url_file.as_deref()),
        }
    }

    /// Returns the secrets that are set, with their keys.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &Secret)> {
        [(COOKIE.key, &self.cookie), (DATABASE_URL.key, &self.database_url)]
            .into_iter()
            .filter_map(|(key, secret)| Some((key, secret.as_ref()?)))
    }
}

fn find(
    secret: &SecretKey,
    file: Option<&Path>,
    variables: &BTreeMap<OsString, OsString>,
) -> Result<Option<Secret>, Problem> {
    // An empty variable counts as not set, as service files clear one that way.
    let value = |origin: Origin, text: Option<&str>| match text.map(str::trim).filter(|text| !text.is_empty())
    {
        Some(text) => Ok(Some(Secret {
            text: SecretString::from(text),
            origin,
        })),
        // The text itself is never part of the message.
        None => Err(Problem::Value {
            origin,
            key: secret.key.to_owned(),
            message: "is empty or not UTF-8".to_owned(),
        }),
    };
    for name in secret.variables {
        if let Some(text) = variables
            .get(&OsString::from(name))
            .filter(|text| !text.is_empty())
        {
            return value(Origin::Variable((*name).to_owned()), text.to_str());
        }
    }
    let Some(path) = file else { return Ok(None) };
    let text = read_private(path).map_err(|message| Problem::Source {
        path: path.to_owned(),
        message: format!("{}: {message}", secret.file_key),
    })?;
    value(Origin::SecretFile(path.to_owned()), Some(text.expose_secret()))
}

/// Reads a file that only its owner and group may access.
fn read_private(path: &Path) -> Result<SecretString, String> {
    // Before it is read: what others can read is no secret, whatever it says.
    check_private(path)?;
    std::fs::read_to_string(path)
        .map(SecretString::from)
        .map_err(|error| error.to_string())
}

/// Checks that only its owner and group may access a file.
///
/// # Errors
///
/// With the mode of the file and how to change it, or if its metadata cannot be read.
pub fn check_private(path: &Path) -> Result<(), String> {
    let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.mode() & 0o777;
    if mode & 0o007 == 0 {
        return Ok(());
    }
    Err(format!(
        "all users may read or change this file (mode {mode:o}); restrict it with chmod 600"
    ))
}
