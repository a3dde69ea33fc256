//! Secrets: taken from variables or from files that hold nothing else, never from `cluster.toml` or a flag, and never
//! shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};

use super::problem::{Origin, Problem};
use super::sections::ClusterConfig;

/// How a secret can be given.
#[derive(Debug)]
pub struct SecretKey {
    /// Where the secret would stand if it were an ordinary value.
    pub key: &'static str,
    /// The key for a file that holds it.
    pub file_key: &'static str,
    /// Variables for it; the first one that is set holds.
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

/// Of a node; `None` was not given.
#[derive(Debug)]
pub struct Secrets {
    /// What all nodes of the cluster share.
    pub cookie: Option<Secret>,
    pub database_url: Option<Secret>,
}

impl Secrets {
    /// Reads variables and files. A secret that cannot be read is a problem and counts as not given.
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

    /// Those that were given, with their keys.
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
    let value = |origin: Origin, text: Option<&str>| match text.map(str::trim).filter(|text| !text.is_empty())
    {
        Some(text) => Ok(Some(Secret {
            text: SecretString::from(text),
            origin,
        })),
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

/// Reads a small file that not everybody may read.
fn read_private(path: &Path) -> Result<SecretString, String> {
    check_private(path)?;
    std::fs::read_to_string(path)
        .map(SecretString::from)
        .map_err(|error| error.to_string())
}

/// Whether others than owner and group are kept out of a file.
pub fn check_private(path: &Path) -> Result<(), String> {
    let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.mode() & 0o777;
    match mode & 0o007 {
        0 => Ok(()),
        _ => Err(format!(
            "anybody may read or change this file (mode {mode:o}); chmod 600 it"
        )),
    }
}
