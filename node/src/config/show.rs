//! Formatting of the effective configuration.

use std::fmt::Write;

use serde_json::{Map, json};
use toml::Table;

use super::Loaded;
use super::schema::{self, split};

/// Formats the configuration as TOML that could be a configuration file; with `origins`, a comment has the origin of each value.
/// Secrets are named but not shown.
pub fn toml(loaded: &Loaded, origins: bool) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for (key, setting) in &loaded.settings {
        let (section, name) = split(key);
        let line = format!("{name} = {}", setting.value);
        if origins {
            lines.push((section, format!("{line}  # {}", setting.origin)));
        } else {
            lines.push((section, line));
        }
    }
    let secrets: Vec<_> = loaded.secrets.given().collect();
    for (key, secret) in &secrets {
        let (section, name) = split(key);
        lines.push((section, format!("# {name}: a secret from {}", secret.origin)));
    }
    // Stable, so keys keep their order within a section and secrets come after its values.
    lines.sort_by_key(|(section, _)| *section);
    let mut text = String::new();
    for (index, (section, line)) in lines.iter().enumerate() {
        if index == 0 || lines[index - 1].0 != *section {
            let gap = if index == 0 { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{section}]");
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Formats the configuration as sections of values; with `origins`, as one object from keys to values and origins.
pub fn json(loaded: &Loaded, origins: bool) -> serde_json::Value {
    if !origins {
        let mut table = Table::new();
        for (key, setting) in &loaded.settings {
            schema::insert(&mut table, key, setting.value.clone());
        }
        return json!(table);
    }
    let settings = loaded.settings.iter().map(|(key, setting)| {
        let shown = json!({ "value": setting.value, "origin": setting.origin.to_string() });
        (key.clone(), shown)
    });
    let secrets = loaded.secrets.given().map(|(key, secret)| {
        let shown = json!({ "secret": true, "origin": secret.origin.to_string() });
        (key, shown)
    });
    serde_json::Value::Object(settings.chain(secrets).collect::<Map<_, _>>())
}
