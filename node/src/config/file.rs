//! Parser of a configuration file that keeps the line of each value.

use std::collections::BTreeMap;

use toml::Table;
use toml::de::{DeTable, DeValue};

use super::schema;

/// Value of the file, with the line of its key, from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: String,
    pub value: toml::Value,
    pub line: usize,
}

/// Error of a text that is not TOML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    pub line: usize,
    pub message: String,
}

/// Returns all values of a file, with known and unknown keys, in the order of lines.
pub fn parse(text: &str) -> Result<Vec<Entry>, SyntaxError> {
    let at = |error: toml::de::Error| {
        let span = error.span().unwrap_or_default();
        let named = text
            .get(span.clone())
            .map(str::trim)
            .filter(|name| !name.is_empty());
        SyntaxError {
            line: line_of(text, span.start),
            message: match (error.message(), named) {
                ("duplicate key", Some(name)) => format!("{name} is defined twice"),
                (message, _) => message.to_owned(),
            },
        }
    };
    // The text is parsed twice, since only one of the two types has spans and only the other has plain values.
    let spans = DeTable::parse(text).map_err(at)?;
    let table: Table = toml::from_str(text).map_err(at)?;
    let mut lines = BTreeMap::new();
    note_lines("", spans.get_ref(), text, &mut lines);
    let mut entries: Vec<Entry> = schema::flatten(&table)
        .into_iter()
        .map(|(key, value)| Entry {
            // Both parsers saw the same text, so the key is there; a wrong line would still be better than no
            // message.
            line: lines.get(&key).copied().unwrap_or(1),
            key,
            value,
        })
        .collect();
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

fn note_lines(prefix: &str, table: &DeTable<'_>, text: &str, lines: &mut BTreeMap<String, usize>) {
    for (name, value) in table {
        let key = format!("{prefix}{}", name.get_ref());
        match value.get_ref() {
            DeValue::Table(section) => note_lines(&format!("{key}."), section, text, lines),
            _ => drop(lines.insert(key, line_of(text, name.span().start))),
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    // Counted in bytes, as an offset of an error may lie inside of a character.
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_its_line() {
        let text =
            "top = 1\n[cluster]\n\nlisten = 'a'\ntls.key_file = 'k'\n[cluster.more]\nlist = [\n 1,\n]\n";
        let found = parse(text).unwrap();
        let found: Vec<(&str, usize)> = found
            .iter()
            .map(|entry| (entry.key.as_str(), entry.line))
            .collect();
        assert_eq!(
            found,
            [
                ("top", 1),
                ("cluster.listen", 4),
                ("cluster.tls.key_file", 5),
                ("cluster.more.list", 7)
            ]
        );
    }

    #[test]
    fn what_is_not_toml_is_named_by_line() {
        assert_eq!(parse("a = 1\nb = = 2\n").unwrap_err().line, 2);
        let twice = SyntaxError {
            line: 4,
            message: "listen is defined twice".to_owned(),
        };
        let text = "[cluster]\nlisten = '1'\nlease = '2'\nlisten = '3'\n";
        assert_eq!(parse(text), Err(twice));
        let section = parse("[cluster]\n[node]\n[cluster]\n").unwrap_err();
        assert_eq!(
            (section.line, section.message.contains("cluster")),
            (3, true),
            "{section:?}"
        );
    }
}
