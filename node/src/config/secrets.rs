//! Secrets: read from variables or from files that contain nothing else, never from `cluster.toml` or a flag, and never shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use parkhang_state::PostgresStore;
use secrecy::{ExposeSecret, SecretString};

use super::problem::{Origin, Problem};
use super::sections::ClusterConfig;
use crate::file_access::check_private;

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

/// Secret that each section of a kind may have: `SECTION.NAME.KEY`.
#[derive(Debug)]
pub struct SectionSecret {
    section: &'static str,
    key: &'static str,
    /// End of the name of its shorter variable.
    variable: &'static str,
}

const TOKEN: SectionSecret = SectionSecret {
    section: "service",
    key: "token",
    variable: "AUTH_TOKEN",
};

const ENTITY_DATABASE: SectionSecret = SectionSecret {
    section: "entity",
    key: "database_url",
    variable: "DATABASE_URL",
};

impl SectionSecret {
    /// Key that the secret of the section NAME would have.
    fn key_of(&self, name: &str) -> String {
        format!("{}.{name}.{}", self.section, self.key)
    }

    /// Variables for the secret of the section NAME; the first one that is set counts.
    pub fn variables(&self, name: &str) -> [String; 2] {
        let name = name.to_uppercase();
        let (section, key) = (self.section.to_uppercase(), self.key.to_uppercase());
        [
            format!("PARKHANG_{section}__{name}__{key}"),
            format!("{name}_{}", self.variable),
        ]
    }

    /// Name of the section whose secret a key would be.
    fn name_in<'a>(&self, key: &'a str) -> Option<&'a str> {
        let name = key.strip_prefix(self.section)?.strip_prefix('.')?;
        let name = name.strip_suffix(self.key)?.strip_suffix('.')?;
        (!name.contains('.')).then_some(name)
    }
}

/// Returns the secret that a key of a section would be, and the name of the section.
pub fn of_section(key: &str) -> Option<(&'static SectionSecret, &str)> {
    let secrets: [&'static SectionSecret; 2] = [&TOKEN, &ENTITY_DATABASE];
    secrets
        .into_iter()
        .find_map(|secret| Some((secret, secret.name_in(key)?)))
}

pub fn is_secret(key: &str) -> bool {
    named(key).is_some() || of_section(key).is_some()
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
    /// URLs of the databases of entities that have one of their own, by name.
    pub entity_databases: BTreeMap<String, Secret>,
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
        let mut of_sections = |secret: &SectionSecret, files: BTreeMap<&String, Option<&Path>>| {
            let mut found = BTreeMap::new();
            for (name, file) in files {
                let (key, names) = (secret.key_of(name), secret.variables(name));
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                match find(&key, &format!("{key}_file"), &names, file, variables) {
                    Ok(text) => found.extend(text.map(|text| (name.clone(), text))),
                    Err(problem) => problems.push(problem),
                }
            }
            found
        };
        let services = config.service.iter();
        let entities = config.entity.iter();
        Self {
            cookie,
            database_url,
            webhook,
            tokens: of_sections(
                &TOKEN,
                services
                    .map(|(name, service)| (name, service.token_file.as_deref()))
                    .collect(),
            ),
            entity_databases: of_sections(
                &ENTITY_DATABASE,
                entities
                    .map(|(name, entity)| (name, entity.database_url_file.as_deref()))
                    .collect(),
            ),
        }
    }

    /// Returns what is wrong with the databases of entities.
    pub fn entity_database_problems(&self) -> impl Iterator<Item = Problem> {
        let databases = self.entity_databases.iter();
        databases.filter_map(|(name, url)| {
            Some(Problem::Value {
                origin: url.origin.clone(),
                key: ENTITY_DATABASE.key_of(name),
                message: fault_of_database(url)?.to_owned(),
            })
        })
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
        let of_sections = [(&TOKEN, &self.tokens), (&ENTITY_DATABASE, &self.entity_databases)];
        let of_sections = of_sections.into_iter().flat_map(|(secret, found)| {
            let keyed = move |(name, text): (&String, _)| (secret.key_of(name), text);
            found.iter().map(keyed)
        });
        own.chain(of_sections)
    }
}

/// Returns why a secret is no URL of a database.
pub fn fault_of_database(url: &Secret) -> Option<&'static str> {
    let url = url.text.expose_secret();
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Some("must begin with postgres:// or postgresql://");
    }
    // The parser's own message is not shown: it may quote the password.
    let is_url = PostgresStore::options_of(url).is_ok();
    (!is_url).then_some("is not a URL of a database: postgres://USER:PASSWORD@HOST:PORT/DATABASE")
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
