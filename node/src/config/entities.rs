//! Sections about services, and about the tables of entities that they work on. Their names are chosen by whoever writes a configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use parkhang_actors::services::{Rate, RetryOverrides};
use parkhang_answers::chat::Sampling;
use parkhang_answers::picture_size::PictureBounds;
use parkhang_core::domain::{
    Amount, EntityPipeline, EntityStage, InvalidEntity, InvalidName, Prices, StageLimits, StageName,
};
use parkhang_service::{BodyTemplate, FailureCategory, Fields, JobsSettings, Paths};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::engines::faults_of_service;
use super::sections::ClusterConfig;
use super::values::{Role, duration, optional};

/// Section about the messages by which services tell of the end of their jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Address that takes them; `None` turns it off.
    #[serde(with = "optional")]
    pub listen: Option<SocketAddr>,
    /// True if an orchestrator takes them at the address of its HTTP interface too.
    pub on_api: bool,
    /// True if `listen` may be reached from other machines without TLS, for a proxy that terminates it.
    pub public: bool,
    /// URL by which services reach `listen`, for the bodies of submits.
    #[serde(with = "optional")]
    pub url: Option<String>,
    /// File with the secret that signs them.
    #[serde(with = "optional")]
    pub secret_file: Option<PathBuf>,
}

/// Protocol of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceKind {
    /// Takes a job by one request, and tells of its end later.
    Jobs,
    /// Chat completions of language models.
    #[serde(rename = "openai")]
    OpenAi,
    GoogleVision,
}

impl ServiceKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::OpenAi => "openai",
            Self::GoogleVision => "google_vision",
        }
    }
}

/// Service of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfiguredService {
    pub kind: ServiceKind,
    pub url: String,
    #[serde(with = "optional")]
    pub token_file: Option<PathBuf>,
    #[serde(with = "duration")]
    pub timeout: Duration,
    pub max_body: ByteSize,
    /// Jobs of stages of pipelines, or requests for pages, that it may have at once.
    pub max_in_flight: u32,
    /// Most submits in a second; 0 is no limit.
    pub rate: u32,
    /// True if it tells of the end of its jobs by itself.
    pub webhook: bool,
    pub submit_path: String,
    pub status_path: String,
    #[serde(with = "optional")]
    pub result_path: Option<String>,
    #[serde(with = "optional")]
    pub cancel_path: Option<String>,
    #[serde(with = "optional")]
    pub job_field: Option<String>,
    #[serde(with = "optional")]
    pub status_field: Option<String>,
    #[serde(with = "optional")]
    pub result_field: Option<String>,
    #[serde(with = "optional")]
    pub error_field: Option<String>,
    /// Price of a job, or of a page.
    pub cost: Amount,
    /// Price of a million tokens of requests, for language models.
    pub input_cost: Amount,
    /// Price of a million tokens of answers, for language models.
    pub output_cost: Amount,
    /// True if the token goes as a bearer token to a service that usually takes a key.
    pub bearer: bool,
    pub model: String,
    /// Pages in one request.
    pub batch: usize,
    /// Languages that are to be expected.
    pub languages: Vec<String>,
    /// Text behind the picture of a page.
    pub prompt: String,
    pub temperature: f64,
    pub max_tokens: u32,
    /// Penalty of vLLM; 0 leaves it out.
    pub repetition_penalty: f64,
    /// Longest side of a picture, in pixels.
    pub picture_side: u32,
    pub picture_pixels: u64,
    /// Share of an answer that may repeat itself.
    pub most_repetition: f64,
    /// Share of a line that a correction may change.
    pub most_change: f32,
}

impl Default for ConfiguredService {
    fn default() -> Self {
        let (usual, paths) = (JobsSettings::at(""), Paths::default());
        Self {
            kind: ServiceKind::Jobs,
            url: usual.url,
            token_file: None,
            timeout: usual.timeout,
            max_body: ByteSize(usual.max_body as u64),
            max_in_flight: 100,
            rate: 0,
            webhook: false,
            submit_path: paths.submit,
            status_path: paths.status,
            result_path: paths.result,
            cancel_path: paths.cancel,
            job_field: None,
            status_field: None,
            result_field: None,
            error_field: None,
            cost: Amount::ZERO,
            input_cost: Amount::ZERO,
            output_cost: Amount::ZERO,
            bearer: false,
            model: String::new(),
            batch: 4,
            languages: Vec::new(),
            prompt: String::new(),
            temperature: Sampling::of_archive().temperature,
            max_tokens: Sampling::of_archive().max_tokens,
            repetition_penalty: Sampling::of_archive().repetition_penalty,
            picture_side: PictureBounds::of_archive().side,
            picture_pixels: PictureBounds::of_archive().pixels,
            most_repetition: 0.5,
            most_change: 0.2,
        }
    }
}

impl ConfiguredService {
    /// Settings of its client.
    pub fn settings(&self, token: Option<SecretString>) -> JobsSettings {
        JobsSettings {
            url: self.url.clone(),
            paths: Paths {
                submit: self.submit_path.clone(),
                status: self.status_path.clone(),
                result: self.result_path.clone(),
                cancel: self.cancel_path.clone(),
            },
            fields: Fields {
                job: self.job_field.clone(),
                status: self.status_field.clone(),
                result: self.result_field.clone(),
                error: self.error_field.clone(),
            },
            token,
            timeout: self.timeout,
            max_body: self.max_body(),
        }
    }

    /// Most submits in a second, where there is a limit.
    pub fn rate(&self) -> Option<Rate> {
        Rate::new(self.rate)
    }

    pub fn prices(&self) -> Prices {
        Prices {
            call: self.cost,
            input: self.input_cost,
            output: self.output_cost,
        }
    }

    pub fn max_body(&self) -> usize {
        usize::try_from(self.max_body.as_u64()).unwrap_or(usize::MAX)
    }
}

/// Table of the configuration whose rows services work on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfiguredEntity {
    /// Table, or SCHEMA.TABLE; `None` is the name of the entity.
    #[serde(with = "optional")]
    pub table: Option<String>,
    /// File with the URL of the database that the table is in; without one it is that of the cluster.
    #[serde(with = "optional")]
    pub database_url_file: Option<PathBuf>,
    /// Stages, in order.
    pub stages: Vec<String>,
    /// Rows that a worker claims at once.
    pub batch: u32,
    /// Interval at which a worker looks for queued rows.
    #[serde(with = "duration")]
    pub poll_interval: Duration,
    /// Field of a webhook's body with the id of the row, beside the usual ones.
    #[serde(with = "optional")]
    pub id_field: Option<String>,
    pub stage: BTreeMap<String, ConfiguredStage>,
}

impl Default for ConfiguredEntity {
    fn default() -> Self {
        Self {
            table: None,
            database_url_file: None,
            stages: Vec::new(),
            batch: 5,
            poll_interval: Duration::from_millis(500),
            id_field: None,
            stage: BTreeMap::new(),
        }
    }
}

/// Stage that a service does: of an entity, or of pipelines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfiguredStage {
    /// Name of the service that does it.
    pub service: String,
    /// Entities: stage that is queued when this one is completed; `None` is the one after it in the list of stages.
    #[serde(with = "optional")]
    pub next: Option<String>,
    pub max_retries: u32,
    #[serde(with = "duration")]
    pub stuck_timeout: Duration,
    /// Interval at which the service is asked about its jobs.
    #[serde(with = "duration")]
    pub poll_interval: Duration,
    /// Template of the body of a submit; `None` sends the whole context.
    #[serde(with = "optional")]
    pub body: Option<String>,
    /// Failures that are tried again, and those that are not, where that is otherwise than usual.
    pub retry_on: Vec<FailureCategory>,
    pub fail_on: Vec<FailureCategory>,
}

impl ConfiguredStage {
    /// Tries and time that the stage grants.
    pub fn limits(&self) -> StageLimits {
        StageLimits {
            max_retries: self.max_retries,
            stuck_timeout: self.stuck_timeout,
        }
    }

    /// Failures that are tried again, or not, otherwise than usual.
    pub fn retry(&self) -> RetryOverrides {
        let retried = self.retry_on.iter().map(|category| (*category, true));
        let final_ones = self.fail_on.iter().map(|category| (*category, false));
        RetryOverrides(retried.chain(final_ones).collect())
    }

    /// Keys of the stage with the faults of their values.
    pub fn faults(&self, services: &BTreeMap<String, ConfiguredService>) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        match services.get(&self.service) {
            Some(service) if service.kind == ServiceKind::OpenAi => {
                let message = "must name a service of the kind jobs or google_vision";
                faults.push(("service", message.to_owned()));
            }
            Some(_) => {}
            None => {
                let known: Vec<&str> = services.keys().map(String::as_str).collect();
                let message = format!(
                    "must name a service; there {}",
                    match known.is_empty() {
                        true => "is none: make a section [service.NAME]".to_owned(),
                        false => format!("are: {}", known.join(", ")),
                    }
                );
                faults.push(("service", message));
            }
        }
        if let Some(Err(error)) = self.body.as_deref().map(BodyTemplate::new) {
            faults.push(("body", error.to_string()));
        }
        if let Some(both) = self.retry_on.iter().find(|on| self.fail_on.contains(on)) {
            let message = format!("{} is in retry_on too", both.as_str());
            faults.push(("fail_on", message));
        }
        for (name, value) in [
            ("stuck_timeout", self.stuck_timeout),
            ("poll_interval", self.poll_interval),
        ] {
            if value < Duration::from_millis(1) {
                faults.push((name, "must be a millisecond or more".to_owned()));
            }
        }
        faults
    }
}

impl Default for ConfiguredStage {
    fn default() -> Self {
        let limits = StageLimits::default();
        Self {
            service: String::new(),
            next: None,
            max_retries: limits.max_retries,
            stuck_timeout: limits.stuck_timeout,
            poll_interval: Duration::from_secs(2),
            body: None,
            retry_on: Vec::new(),
            fail_on: Vec::new(),
        }
    }
}

/// Reason why a section describes no pipeline of entities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntityFault {
    #[error(transparent)]
    Stage(#[from] InvalidName),
    #[error(transparent)]
    Pipeline(#[from] InvalidEntity),
}

impl ConfiguredEntity {
    /// Pipeline of the entity of this name.
    ///
    /// # Errors
    ///
    /// [`EntityFault`] with the first fault.
    pub fn pipeline(&self, name: &str) -> Result<EntityPipeline, EntityFault> {
        let mut stages = Vec::new();
        for (index, stage) in self.stages.iter().enumerate() {
            let settings = self.stage.get(stage).cloned().unwrap_or_default();
            let next = settings.next.as_ref().or_else(|| self.stages.get(index + 1));
            stages.push(EntityStage {
                name: StageName::new(stage.as_str())?,
                next: next.map(|next| StageName::new(next.as_str())).transpose()?,
                limits: settings.limits(),
            });
        }
        Ok(EntityPipeline::new(
            name,
            self.table.as_deref().unwrap_or(name),
            stages,
        )?)
    }
}

/// Keys with the faults of their values.
pub fn faults(config: &ClusterConfig, has_secret: bool) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let mut fault = |key: String, message: String| faults.push((key, message));
    for (name, service) in &config.service {
        faults_of_service(service, |key, message| {
            fault(format!("service.{name}.{key}"), message)
        });
    }
    for (name, entity) in &config.entity {
        let key = |key: &str| format!("entity.{name}.{key}");
        if let Err(error) = entity.pipeline(name) {
            fault(key("stages"), error.to_string());
        }
        if entity.batch == 0 {
            fault(key("batch"), "must be 1 or more".to_owned());
        }
        if entity.poll_interval < Duration::from_millis(1) {
            fault(key("poll_interval"), "must be a millisecond or more".to_owned());
        }
        if let Some(stage) = entity.stage.keys().find(|stage| !entity.stages.contains(stage)) {
            fault(
                key(&format!("stage.{stage}.service")),
                format!("{stage} is none of entity.{name}.stages"),
            );
        }
        for stage in &entity.stages {
            let settings = entity.stage.get(stage).cloned().unwrap_or_default();
            let service = config.service.get(&settings.service);
            if service.is_some_and(|service| service.kind == ServiceKind::GoogleVision) {
                let message =
                    "must name a service of the kind jobs: operations of Google read the pages of volumes";
                fault(key(&format!("stage.{stage}.service")), message.to_owned());
            }
            for (name, message) in settings.faults(&config.service) {
                fault(key(&format!("stage.{stage}.{name}")), message);
            }
        }
    }
    let is_entity_node = config.node.roles.contains(&Role::Entity);
    if is_entity_node && config.node.roles.len() > 1 {
        fault(
            "node.roles".to_owned(),
            "a node with the role entity has no other".to_owned(),
        );
    }
    for name in &config.node.entities {
        if !config.entity.contains_key(name) {
            fault(
                "node.entities".to_owned(),
                format!("there is no section [entity.{name}]"),
            );
        }
    }
    if is_entity_node && config.entity.is_empty() {
        let message = "the role entity needs a section [entity.NAME], see docs/entities.md";
        fault("node.roles".to_owned(), message.to_owned());
    }
    if config.webhook.on_api {
        // A proxy may pass on what comes from other machines, to a loopback address too.
        if !has_secret {
            let message = "needs a secret that signs what comes in: WEBHOOK_SECRET or webhook.secret_file";
            fault("webhook.on_api".to_owned(), message.to_owned());
        }
        if config.api.listen.is_none() {
            let message = "needs api.listen, the address at which messages are to be taken";
            fault("webhook.on_api".to_owned(), message.to_owned());
        }
    }
    let beyond = config.webhook.listen.filter(|listen| !listen.ip().is_loopback());
    if let Some(listen) = beyond {
        let needs = |what: &str| format!("{listen} can be reached from other machines: that needs {what}");
        if !config.webhook.public {
            let what = "webhook.public = true, and a proxy with TLS in front of it";
            fault("webhook.listen".to_owned(), needs(what));
        }
        if !has_secret {
            fault(
                "webhook.listen".to_owned(),
                needs("a secret that signs what comes in: WEBHOOK_SECRET or webhook.secret_file"),
            );
        }
    }
    faults
}
