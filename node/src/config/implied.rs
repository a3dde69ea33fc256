//! Values that follow from others: defaults of a generation, roles of stages, queues of the variables of the first design.

mod entities;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use parkhang_actors::stage::StageTable;
use parkhang_core::domain::{JobConfig, StageName};
use parkhang_queue::SqsOptions;
use toml::Value;

use super::layers::{Layers, Setting};
use super::problem::{Origin, Problem};
use super::sections::StageQueue;
use super::values::Role;

/// Variable with the URL of the queue of a node's only stage.
const QUEUE_URL: &str = "SQS_QUEUE_URL";

impl Layers {
    /// Sets what follows from the other layers, where none of them says otherwise.
    pub fn imply(&mut self, variables: &BTreeMap<OsString, OsString>) {
        self.follow_generation();
        self.follow_stages();
        self.follow_queues(variables);
        self.follow_entities(variables);
    }

    /// Replaces built-in values of the job's configuration by the defaults of the generation of algorithms that the layers name.
    fn follow_generation(&mut self) {
        let key = |name: &str| format!("job.{name}");
        let Some(Setting { value, origin }) = self.settings.get(&key(JobConfig::GENERATION)).cloned() else {
            return;
        };
        let defaults = value.try_into().map(JobConfig::defaults_for).ok();
        let Some(Ok(Value::Table(defaults))) = defaults.map(Value::try_from) else {
            return;
        };
        for name in JobConfig::BY_GENERATION {
            if let Some(value) = defaults.get(name) {
                self.set_unsaid(&key(name), value.clone(), &origin);
            }
        }
    }

    /// Gives a node whose stages are named the roles of their hardware.
    fn follow_stages(&mut self) {
        let Some(origin) = self.settings.get("node.stages").map(|set| set.origin.clone()) else {
            return;
        };
        let table = StageTable::built_in();
        let roles: BTreeSet<Role> = self
            .stages()
            .iter()
            .filter_map(|stage| table.hardware_of(stage).map(Role::of))
            .collect();
        if !roles.is_empty() {
            let roles: Vec<&str> = roles.into_iter().map(Role::as_str).collect();
            self.set_unsaid("node.roles", Value::from(roles), &origin);
        }
    }

    /// Takes the work from the queues whose URLs are in `SQS_QUEUE_URL`, for the only stage of a node, and in `SQS_{STAGE}_URL`, for a
    /// process that knows the queues of all stages.
    fn follow_queues(&mut self, variables: &BTreeMap<OsString, OsString>) {
        let given = |name: &str| {
            let value = variables.get(&OsString::from(name))?.to_str()?;
            (!value.is_empty()).then(|| value.to_owned())
        };
        let of_stage = |stage: StageName| {
            let variable = format!("SQS_{}_URL", stage.as_str().to_uppercase());
            let queue = given(&variable)?;
            Some((variable, StageQueue { stage, queue }))
        };
        let stages = StageTable::built_in().names();
        let mut queues: Vec<(String, StageQueue)> = stages.into_iter().filter_map(of_stage).collect();
        if let Some(queue) = given(QUEUE_URL) {
            match &self.stages()[..] {
                // A node without stages of its own is none of the first design: the variable is meant for another program.
                [] => {}
                [stage] => {
                    let stage = stage.clone();
                    queues.push((QUEUE_URL.to_owned(), StageQueue { stage, queue }));
                }
                several => self.problems.push(Problem::Unusable {
                    origin: Origin::Variable(QUEUE_URL.to_owned()),
                    message: format!(
                        "names the queue of one stage, and this node has {}; name them with source.sqs.queues",
                        several.len()
                    ),
                }),
            }
        }
        let Some((variable, first)) = queues.first() else {
            return;
        };
        let origin = Origin::Variable(variable.clone());
        self.set_unsaid("source.kind", Value::from("sqs"), &origin);
        let SqsOptions { endpoint, region, .. } = SqsOptions::for_queue(&first.queue);
        for (key, value) in [("source.sqs.endpoint", endpoint), ("source.sqs.region", region)] {
            if let Some(value) = value {
                self.set_unsaid(key, Value::from(value), &origin);
            }
        }
        let queues: Vec<String> = queues.into_iter().map(|(_, queue)| queue.into()).collect();
        self.set_unsaid("source.sqs.queues", Value::from(queues), &origin);
    }

    /// Stages that `node.stages` names.
    fn stages(&self) -> Vec<StageName> {
        let named = self.settings.get("node.stages").map(|set| set.value.clone());
        named.and_then(|value| value.try_into().ok()).unwrap_or_default()
    }

    /// Sets a key that has its built-in value still: what the user has set is meant.
    fn set_unsaid(&mut self, key: &str, value: Value, origin: &Origin) {
        if let Some(setting) = self.settings.get_mut(key)
            && setting.origin == Origin::BuiltIn
        {
            *setting = Setting {
                value,
                origin: origin.clone(),
            };
        }
    }
}
