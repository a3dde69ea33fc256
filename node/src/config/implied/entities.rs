//! Variables of programs that drove pipelines over entities before: `SCRAPER_URL`, `QUEUE_BATCH_SIZE` and others.

use std::collections::BTreeMap;
use std::ffi::OsString;

use toml::Value;

use super::super::layers::{Layers, Setting};
use super::super::problem::{Origin, Problem};

/// Services whose URLs have variables, with the URLs that they have without.
const SERVICES: [(&str, &str, &str); 2] = [
    ("scraper", "SCRAPER_URL", "http://localhost:3000"),
    ("llm", "LLM_URL", "http://localhost:8000"),
];
const BATCH: &str = "QUEUE_BATCH_SIZE";
/// Intervals in milliseconds.
const POLL: &str = "QUEUE_POLL_INTERVAL";
const COMPLETION_POLL: &str = "COMPLETION_POLL_INTERVAL";

impl Layers {
    /// Takes from those variables what no layer says of the entities that there are.
    pub(super) fn follow_entities(&mut self, variables: &BTreeMap<OsString, OsString>) {
        // A fault of the layers is reported by whoever uses them.
        let Ok(config) = self.resolve() else { return };
        let given = |name: &str| {
            let value = variables.get(&OsString::from(name))?.to_str()?;
            (!value.trim().is_empty()).then(|| value.trim().to_owned())
        };
        for (name, entity) in &config.entity {
            if let Some(batch) = self.number(BATCH, given(BATCH)) {
                self.set_absent(format!("entity.{name}.batch"), batch, BATCH);
            }
            if let Some(milliseconds) = self.number(POLL, given(POLL)) {
                let interval = format!("{milliseconds}ms").into();
                self.set_absent(format!("entity.{name}.poll_interval"), interval, POLL);
            }
            for stage in &entity.stages {
                if let Some(milliseconds) = self.number(COMPLETION_POLL, given(COMPLETION_POLL)) {
                    let interval = format!("{milliseconds}ms").into();
                    let key = format!("entity.{name}.stage.{stage}.poll_interval");
                    self.set_absent(key, interval, COMPLETION_POLL);
                }
            }
        }
        let of_entities = config.entity.values().flat_map(|entity| entity.stage.values());
        let stages: Vec<_> = of_entities.chain(config.stage.values()).collect();
        for (service, variable, usual) in SERVICES {
            if stages.iter().any(|stage| stage.service == service) {
                let key = format!("service.{service}.url");
                match given(variable) {
                    Some(url) => self.set_absent(key, url.into(), variable),
                    None => self.set_with(key, usual.into(), Origin::BuiltIn),
                }
            }
        }
    }

    fn number(&mut self, variable: &str, text: Option<String>) -> Option<Value> {
        let text = text?;
        match text.parse::<u32>() {
            Ok(number) => Some(Value::Integer(number.into())),
            Err(_) => {
                let problem = Problem::Unusable {
                    origin: Origin::Variable(variable.to_owned()),
                    message: format!("{text:?} is not a whole number"),
                };
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
                None
            }
        }
    }

    fn set_absent(&mut self, key: String, value: Value, variable: &str) {
        self.set_with(key, value, Origin::Variable(variable.to_owned()));
    }

    /// Sets a key that has no value.
    fn set_with(&mut self, key: String, value: Value, origin: Origin) {
        self.settings.entry(key).or_insert(Setting { value, origin });
    }
}
