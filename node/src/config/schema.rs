//! Schema of the configuration: the keys and types of the compiled-in file. A key is a path with dots, such as
//! `cluster.tls.key_file`.

use std::collections::BTreeMap;

use parkhang_core::domain::{ConfigError, nearest};
use toml::{Table, Value};

use super::named::{self, PIPELINE, is_pipeline};
use super::sections::ClusterConfig;

pub const BUILT_IN: &str = include_str!("../../../cluster.toml");

/// All keys with their built-in values, whose types are the types of the keys.
#[derive(Debug)]
pub struct Schema {
    defaults: Table,
    values: BTreeMap<String, Value>,
}

impl Schema {
    pub fn built_in() -> Result<Self, toml::de::Error> {
        let defaults: Table = toml::from_str(BUILT_IN)?;
        let values = flatten(&defaults);
        Ok(Self { defaults, values })
    }

    pub fn values(&self) -> &BTreeMap<String, Value> {
        &self.values
    }

    pub fn contains(&self, key: &str) -> bool {
        self.usual(key).is_some()
    }

    /// Returns whether there are keys below this one.
    pub fn is_section(&self, key: &str) -> bool {
        named::is_section(key)
            || self
                .values
                .keys()
                .any(|known| known.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Returns the built-in value of a key, whose type is the type of the key.
    fn usual(&self, key: &str) -> Option<Value> {
        self.values.get(key).cloned().or_else(|| named::usual_value(key))
    }

    /// Parses a text as the value of a key. Lists are `a,b` or as in TOML.
    ///
    /// # Errors
    ///
    /// With the expected kind, without the key.
    pub fn parse(&self, key: &str, text: &str) -> Result<Value, String> {
        let number = |kind: &str| format!("{text:?} is not {kind}");
        let trimmed = text.trim();
        match self.usual(key) {
            Some(Value::Integer(_)) => trimmed
                .parse()
                .map(Value::Integer)
                .map_err(|_| number("a whole number")),
            Some(Value::Float(_)) => trimmed.parse().map(Value::Float).map_err(|_| number("a number")),
            Some(Value::Boolean(_)) => trimmed
                .parse()
                .map(Value::Boolean)
                .map_err(|_| number("true or false")),
            Some(Value::Array(_)) => parse_list(trimmed),
            _ => Ok(Value::String(text.to_owned())),
        }
    }

    /// Checks that a key accepts a value, apart from its relation to other keys.
    ///
    /// # Errors
    ///
    /// With the fault, without the key.
    pub fn check(&self, key: &str, value: &Value) -> Result<(), String> {
        // The value is tried within the built-in configuration, whose types do the checking; no key needs a check of its own here.
        let mut table = self.defaults.clone();
        insert(&mut table, key, value.clone());
        let config = resolve(table).map_err(|error| match self.kind(key, value) {
            Some(kind) => format!("must be {kind}, not {value}"),
            None => error.message().to_owned(),
        })?;
        match config.job.validated() {
            Err(ConfigError::Unfit { expected, actual, .. }) => {
                Err(format!("must be {expected}, not {actual}"))
            }
            Err(error) => Err(error.to_string()),
            Ok(_) => Ok(()),
        }
    }

    /// Returns the expected kind if a value is of another one, or a number out of range.
    fn kind(&self, key: &str, value: &Value) -> Option<&'static str> {
        if is_pipeline(key) {
            return Some("a list of names of stages");
        }
        match (&self.usual(key)?, value) {
            (Value::Integer(_), Value::Integer(_)) => Some("a whole number, 0 or more"),
            (Value::Integer(_), _) => Some("a whole number"),
            (Value::Float(_), _) => Some("a number"),
            (Value::Boolean(_), _) => Some("true or false"),
            (Value::Array(_), value) if !value.is_array() => Some("a list"),
            (Value::String(_), value) if !value.is_str() => Some("text in quotes"),
            _ => None,
        }
    }

    /// Returns the known key that was most likely meant: the nearest by edit distance, else the only one with the same name in another
    /// section.
    pub fn nearest(&self, unknown: &str) -> Option<String> {
        let beside = named::beside(unknown);
        if let ([only], true) = (&beside[..], unknown.starts_with(PIPELINE)) {
            return Some(only.clone());
        }
        let (_, unknown_name) = split(unknown);
        let same_name = || {
            let mut same = self.values.keys().filter(|key| split(key).1 == unknown_name);
            same.next().filter(|_| same.next().is_none())
        };
        // Longer keys may contain more typing mistakes; beyond that a suggestion would be a guess.
        let mistakes = 2 + unknown.len() / 8;
        let known = self.values.keys().chain(&beside).map(String::as_str);
        let by_distance = nearest(unknown, known, mistakes);
        by_distance
            .or_else(|| same_name().map(String::as_str))
            .map(str::to_owned)
    }
}

pub fn resolve(table: Table) -> Result<ClusterConfig, toml::de::Error> {
    table.try_into()
}

/// Splits a key into its section and name.
pub fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// Returns the values of all sections by their paths.
pub fn flatten(table: &Table) -> BTreeMap<String, Value> {
    fn walk(prefix: &str, table: &Table, values: &mut BTreeMap<String, Value>) {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            match value {
                Value::Table(section) => walk(&format!("{key}."), section, values),
                _ => drop(values.insert(key, value.clone())),
            }
        }
    }
    let mut values = BTreeMap::new();
    walk("", table, &mut values);
    values
}

/// Inserts a value at its path, and the sections that it needs.
pub fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => drop(table.insert(key.to_owned(), value)),
        Some((section, rest)) => {
            let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(section) = section {
                insert(section, rest, value);
            }
        }
    }
}

fn parse_list(text: &str) -> Result<Value, String> {
    if text.starts_with('[') {
        return text
            .parse()
            .map_err(|error: toml::de::Error| error.message().to_owned());
    }
    Ok(Value::Array(
        text.split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(|item| Value::String(item.to_owned()))
            .collect(),
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use parkhang_core::domain::{Artifacts, JobConfig};

    use super::*;

    fn built_in() -> ClusterConfig {
        toml::from_str(BUILT_IN).unwrap()
    }

    #[test]
    fn the_file_names_every_key_of_the_code() {
        let schema = Schema::built_in().unwrap();
        let named: BTreeSet<&String> = schema.values().keys().collect();
        let mut code = built_in();
        // A job leaves the key out where it is the default.
        code.job.artifacts = Artifacts::Tables;
        let known = flatten(&Table::try_from(code).unwrap());
        assert_eq!(named, known.keys().collect());
    }

    /// Keys whose only readers are the checks of the configuration itself.
    const CHECKED_ONLY: [&str; 2] = ["health.public", "webhook.public"];

    /// A file reads a key where it takes a field of its name and speaks of its section.
    #[test]
    fn every_key_is_read_by_some_part_of_the_node() {
        let mut sources = Vec::new();
        gather(
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")),
            &mut sources,
        );
        let words = |text: &str, word: &str| {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            text.match_indices(word)
                .any(|(at, _)| !text[at + word.len()..].starts_with(is_part))
        };
        let schema = Schema::built_in().unwrap();
        for key in schema.values().keys().filter(|key| !key.starts_with("job.")) {
            let (section, name) = split(key);
            let section = section.rsplit('.').next().unwrap();
            let reads = |text: &String| words(text, &format!(".{name}")) && words(text, section);
            let is_read = sources.iter().any(reads);
            assert_eq!(is_read, !CHECKED_ONLY.contains(&key.as_str()), "{key}");
        }
    }

    /// Sources of the node, the configuration's own aside.
    fn gather(folder: &Path, sources: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("src/config") {
                gather(&path, sources);
            } else if path.is_file() && path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn a_job_starts_from_the_documented_values() {
        assert_eq!(built_in().job, JobConfig::default());
    }

    #[test]
    fn the_documented_table_is_the_file() {
        let page = include_str!("../../../docs/config.md");
        let mut documented = BTreeMap::new();
        for row in page.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            let key = match cells[1].contains('.') {
                true => cells[1].to_owned(),
                false => format!("job.{}", cells[1]),
            };
            let value: Value = cells[3].parse().unwrap();
            assert_eq!(documented.insert(key, value), None);
        }
        assert_eq!(&documented, Schema::built_in().unwrap().values());
    }

    #[test]
    fn a_value_of_another_kind_is_refused_in_plain_words() {
        let schema = Schema::built_in().unwrap();
        let message = |key, value: &str| schema.check(key, &value.parse().unwrap()).unwrap_err();
        for (key, value, words) in [
            (
                "node.slots.cpu",
                "-1",
                "must be a whole number, 0 or more, not -1",
            ),
            ("node.slots.cpu", "'two'", "must be a whole number, not \"two\""),
            ("job.k_factor", "'wide'", "must be a number, not \"wide\""),
            ("state.embedded", "1", "must be true or false, not 1"),
            ("node.roles", "'cpu'", "must be a list, not \"cpu\""),
            ("pages.folder", "1", "must be text in quotes, not 1"),
            ("cluster.lease", "60", "must be text in quotes, not 60"),
        ] {
            assert_eq!(message(key, value), words);
        }
    }

    #[test]
    fn a_misspelt_key_is_recognised() {
        let schema = Schema::built_in().unwrap();
        let nearest = |unknown| schema.nearest(unknown).unwrap_or_default();
        assert_eq!(nearest("cluster.lisen"), "cluster.listen");
        assert_eq!(nearest("cluster.hartbeat"), "cluster.heartbeat");
        assert_eq!(nearest("storage.bucket"), "storage.s3.bucket");
        assert_eq!(nearest("pipeline.lines.stage"), "pipeline.lines.stages");
        assert_eq!(nearest("service.llm.ulr"), "service.llm.url");
        assert_eq!(
            nearest("entity.leads.stage.intel.max_retry"),
            "entity.leads.stage.intel.max_retries"
        );
        assert_eq!(schema.nearest("colour"), None);
    }

    #[test]
    fn text_is_read_by_the_type_of_its_key() {
        let schema = Schema::built_in().unwrap();
        let parse = |key, text| schema.parse(key, text);
        assert_eq!(parse("node.slots.cpu", " 4 "), Ok(Value::Integer(4)));
        assert_eq!(parse("job.k_factor", "2"), Ok(Value::Float(2.0)));
        assert_eq!(parse("node.name", "12"), Ok(Value::String("12".into())));
        let roles = Value::Array(vec!["cpu".into(), "gpu".into()]);
        assert_eq!(parse("node.roles", "cpu, gpu"), Ok(roles.clone()));
        assert_eq!(parse("node.roles", "['cpu', 'gpu']"), Ok(roles));
        assert!(
            parse("state.embedded", "yes")
                .unwrap_err()
                .contains("true or false")
        );
    }
}
