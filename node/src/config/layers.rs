//! Merging of the layers: built-in values, a file, a profile of it, the environment, flags. Pure: text and variables are arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::file;
use super::problem::{Origin, Problem};
use super::schema::{self, Schema};
use super::secrets;
use super::sections::ClusterConfig;
use super::shortcuts::Shortcut;

/// Prefix of `SECTION__KEY` in the names of environment variables.
const PREFIX: &str = "PARKHANG_";

/// Prefix of keys of a file that belong to one of its profiles.
const PROFILE: &str = "profile.";

/// Effective value with its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub value: Value,
    pub origin: Origin,
}

/// Result of the layers. A value that cannot be used is recorded as a problem, and the value of the layer below stays in effect, so
/// that the remaining values can still be checked.
#[derive(Debug)]
pub struct Layers {
    schema: Schema,
    /// Value and origin of each key.
    pub settings: BTreeMap<String, Setting>,
    pub problems: Vec<Problem>,
    /// Names of the profiles of the file.
    profiles: BTreeSet<String>,
}

impl Layers {
    pub fn built_in() -> Result<Self, toml::de::Error> {
        let schema = Schema::built_in()?;
        Ok(Self {
            settings: schema
                .values()
                .iter()
                .map(|(key, value)| {
                    let setting = Setting {
                        value: value.clone(),
                        origin: Origin::BuiltIn,
                    };
                    (key.clone(), setting)
                })
                .collect(),
            schema,
            problems: Vec::new(),
            profiles: BTreeSet::new(),
        })
    }

    /// Adds the values of a file, and above them those of one of its profiles. Values of the others are checked and not taken.
    pub fn add_file(&mut self, path: &Path, text: &str, profile: Option<&str>) {
        let at = |line| Origin::File {
            path: path.to_owned(),
            line,
        };
        match file::parse(text) {
            Ok(entries) => {
                let (of_profiles, others): (Vec<_>, Vec<_>) = entries
                    .into_iter()
                    .partition(|entry| entry.key.starts_with(PROFILE));
                for entry in others {
                    self.set(&entry.key, entry.value, at(entry.line));
                }
                for entry in of_profiles {
                    self.add_to_profile(path, entry, profile);
                }
            }
            Err(error) => self.problems.push(Problem::Unusable {
                origin: at(error.line),
                message: error.message,
            }),
        }
    }

    /// Adds a value of a profile: its key is `profile.NAME.SECTION.KEY`.
    fn add_to_profile(&mut self, path: &Path, entry: file::Entry, chosen: Option<&str>) {
        let below = entry.key.strip_prefix(PROFILE);
        let named = below.and_then(|below| below.split_once('.'));
        let (name, key) = named.unwrap_or((below.unwrap_or_default(), ""));
        let origin = Origin::Profile {
            name: name.to_owned(),
            path: path.to_owned(),
            line: entry.line,
        };
        self.profiles.insert(name.to_owned());
        if chosen == Some(name) {
            self.set(key, entry.value, origin);
        } else if let Err(message) = self.acceptable(key, &entry.value) {
            let key = key.to_owned();
            self.problems.push(Problem::Value { origin, key, message });
        }
    }

    /// Reports a profile that was chosen and that no file has.
    pub fn require_profile(&mut self, chosen: &str) {
        if self.profiles.contains(chosen) {
            return;
        }
        let known: Vec<&str> = self.profiles.iter().map(String::as_str).collect();
        let known = match known[..] {
            [] => "the configuration has no profiles".to_owned(),
            _ => format!("the profiles are {}", known.join(", ")),
        };
        self.problems.push(Problem::Unusable {
            origin: Origin::Flag("--config-profile"),
            message: format!("there is no profile {chosen}; {known}"),
        });
    }

    /// Adds the values of the variables that name keys; others are ignored.
    pub fn add_variables(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        for (name, value) in variables {
            let Some((name, path)) = name
                .to_str()
                .and_then(|name| Some((name, name.strip_prefix(PREFIX)?)))
            else {
                continue;
            };
            let origin = Origin::Variable(name.to_owned());
            // Sections and keys contain single underscores themselves, so only a double one can separate
            // them.
            if !path.contains("__") {
                self.look_for_single_underscores(path, origin);
                continue;
            }
            let key = path.replace("__", ".").to_lowercase();
            // Secrets are read from the variables directly and must not become values, which are shown.
            if secrets::is_secret(&key) {
                continue;
            }
            match value.to_str() {
                Some(text) => self.set_text(&key, text, origin),
                // The text is not quoted in the message, because it cannot be shown as one.
                None => self.problems.push(Problem::Value {
                    origin,
                    key,
                    message: "is not UTF-8".to_owned(),
                }),
            }
        }
    }

    /// Adds the arguments of `--set`: `section.key=value`.
    pub fn add_flags<'a>(&mut self, pairs: impl IntoIterator<Item = &'a str>) {
        // All of these are read before the shortcuts, so that a flag of its own wins over `--set`.
        let origin = Origin::Flag("--set");
        for pair in pairs {
            match pair.split_once('=') {
                Some((key, text)) => self.set_text(key.trim(), text, origin.clone()),
                // The pair is not shown: it may be a misplaced secret.
                None => self.problems.push(Problem::Unusable {
                    origin: origin.clone(),
                    message: "expected SECTION.KEY=VALUE".to_owned(),
                }),
            }
        }
    }

    /// Adds the value that a shortcut flag gives to a key.
    pub fn add_shortcut(&mut self, shortcut: &Shortcut) {
        self.set_text(shortcut.key, &shortcut.value, Origin::Flag(shortcut.flag));
    }

    /// Returns the effective configuration.
    pub fn resolve(&self) -> Result<ClusterConfig, toml::de::Error> {
        let mut table = Table::new();
        for (key, setting) in &self.settings {
            schema::insert(&mut table, key, setting.value.clone());
        }
        schema::resolve(table)
    }

    fn set_text(&mut self, key: &str, text: &str, origin: Origin) {
        match self.schema.parse(key, text) {
            Ok(value) => self.set(key, value, origin),
            Err(message) => self.problems.push(Problem::Value {
                origin,
                key: key.to_owned(),
                message,
            }),
        }
    }

    fn set(&mut self, key: &str, value: Value, origin: Origin) {
        if let Err(message) = self.acceptable(key, &value) {
            let key = key.to_owned();
            self.problems.push(Problem::Value { origin, key, message });
            return;
        }
        // Flags and variables are relative to the working directory, as a shell's user expects.
        let value = relative_to(&origin, key, value);
        self.settings.insert(key.to_owned(), Setting { value, origin });
    }

    fn acceptable(&self, key: &str, value: &Value) -> Result<(), String> {
        if let Some(secret) = secrets::named(key) {
            return Err(format!(
                "secrets are not allowed here: set {} or {}",
                secret.variables.join(" or "),
                secret.file_key
            ));
        }
        if let Some((secret, name)) = secrets::of_section(key) {
            return Err(format!(
                "secrets are not allowed here: set {} or {key}_file",
                secret.variables(name).join(" or ")
            ));
        }
        if self.schema.is_section(key) {
            return Err("is a section, not a key".to_owned());
        }
        if !self.schema.contains(key) {
            let hint = self
                .schema
                .nearest(key)
                .map_or(String::new(), |nearest| format!("; did you mean {nearest}?"));
            return Err(format!("there is no such key{hint}"));
        }
        self.schema.check(key, value)
    }

    /// Reports a variable such as `PARKHANG_CLUSTER_LISTEN`, which lacks the second underscore and would be ignored silently.
    fn look_for_single_underscores(&mut self, path: &str, origin: Origin) {
        let flat = path.to_lowercase();
        let key = self
            .schema
            .values()
            .keys()
            .find(|key| key.replace('.', "_") == flat);
        if let Some(key) = key {
            self.problems.push(Problem::Unusable {
                origin,
                message: format!("did you mean {}?", variable(key)),
            });
        }
    }
}

/// Returns the name of the variable that sets a key.
pub fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// Makes a path in a file relative to the file, so that it does not depend on the working directory of the process.
fn relative_to(origin: &Origin, key: &str, value: Value) -> Value {
    let (_, name) = schema::split(key);
    let is_path = name.ends_with("_file") || name.ends_with("_dir") || name == "folder";
    let (Origin::File { path, .. } | Origin::Profile { path, .. }) = origin else {
        return value;
    };
    match &value {
        Value::String(text) if is_path && !text.is_empty() => beside(path, text),
        Value::Array(items) if key == "node.models" => Value::Array(
            items
                .iter()
                .map(|item| item.as_str().map_or(item.clone(), |text| beside(path, text)))
                .collect(),
        ),
        _ => value,
    }
}

fn beside(file: &Path, text: &str) -> Value {
    // `auto` is not a folder, and in `auto:FOLDER` only what follows the colon is one.
    if text == "auto" {
        return Value::String(text.to_owned());
    }
    let (kind, text) = match text.strip_prefix("auto:") {
        Some(folder) => ("auto:", folder),
        None => ("", text),
    };
    let folder: PathBuf = file.parent().map(Path::to_owned).unwrap_or_default();
    Value::String(format!("{kind}{}", folder.join(text).display()))
}
