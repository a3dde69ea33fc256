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

const WEBHOOK: SecretKey = SecretKey {
    key: "webhook.secret",
    file_key: "webhook.secret_file",
    variables: &["PARKHANG_WEBHOOK__SECRET", "WEBHOOK_SECRET"],
};

pub const SECRETS: [SecretKey; 3] = [COOKIE, DATABASE_URL, WEBHOOK];

pub fn named(key: &str) -> Option<&'static SecretKey> {
    SECRETS.iter().find(|secret| secret.key == key)
}

pub fn is_secret(key: &str) -> bool {
    named(key).is_some() || service_of(key).is_some()
}

/// Returns the service whose token a key would be: `service.NAME.token`.
pub fn service_of(key: &str) -> Option<&str> {
    let name = key.strip_prefix("service.")?.strip_suffix(".token")?;
    (!name.contains('.')).then_some(name)
}

/// Variables for the token of a service; the first one that is set counts.
pub fn token_variables(service: &str) -> [String; 2] {
    let name = service.to_uppercase();
    [
        format!("PARKHANG_SERVICE__{name}__TOKEN"),
        format!("{name}_AUTH_TOKEN"),
    ]
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
    /// Secret that signs what services tell.
    pub webhook: Option<Secret>,
    /// Tokens of services, by name.
    pub tokens: BTreeMap<String, Secret>,
}

impl Secrets {
    /// Reads variables and files. A secret that cannot be read is added to the problems and counts as not set.
    pub fn read(
        config: &ClusterConfig,
        variables: &BTreeMap<OsString, OsString>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut read = |secret: &SecretKey, file: Option<&Path>| {
            let names: Vec<&str> = secret.variables.to_vec();
            find(secret.key, secret.file_key, &names, file, variables).unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        let (cookie, database_url, webhook) = (
            read(&COOKIE, config.cluster.cookie_file.as_deref()),
            read(&DATABASE_URL, config.state.database_url_file.as_deref()),
            read(&WEBHOOK, config.webhook.secret_file.as_deref()),
        );
        let mut tokens = BTreeMap::new();
        for (name, service) in &config.service {
            let (key, names) = (format!("service.{name}.token"), token_variables(name));
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let file = service.token_file.as_deref();
            match find(&key, &format!("{key}_file"), &names, file, variables) {
                Ok(token) => tokens.extend(token.map(|token| (name.clone(), token))),
                Err(problem) => problems.push(problem),
            }
        }
        Self {
            cookie,
            database_url,
            webhook,
            tokens,
        }
    }

    /// Returns the secrets that are set, with their keys.
    pub fn given(&self) -> impl Iterator<Item = (String, &Secret)> {
        let own = [
            (COOKIE.key, &self.cookie),
            (DATABASE_URL.key, &self.database_url),
            (WEBHOOK.key, &self.webhook),
        ];
        let own = own.into_iter();
        let own = own.filter_map(|(key, secret)| Some((key.to_owned(), secret.as_ref()?)));
        let tokens = self.tokens.iter();
        own.chain(tokens.map(|(name, token)| (format!("service.{name}.token"), token)))
    }
}

fn find(
    key: &str,
    file_key: &str,
    names: &[&str],
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
            key: key.to_owned(),
            message: "is empty or not UTF-8".to_owned(),
        }),
    };
    for name in names {
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
        message: format!("{file_key}: {message}"),
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
