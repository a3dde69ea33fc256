//! Stages that services do: made of the configuration, run by the orchestrator that leads, and told of the end of jobs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use chrono::Utc;
use parkhang_actors::engines::{EngineSettings, Reading, VisionOperations, VisionReading};
use parkhang_actors::external::{ExternalStage, ExternalStages, MessageInbox, Site};
use parkhang_actors::orchestrator::OrchestratorHandle;
use parkhang_actors::services::{Heard, JobListener, JobMessage, ServiceBounds, StageService};
use parkhang_core::domain::StageName;
use parkhang_service::{BodyTemplate, Bounds, JobService, JobsClient, Transport, VisionClient};
use parkhang_state::{PostgresStore, StateError};
use parkhang_store::storage::ArtifactStore;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::elsewhere::ElsewhereCounter;
use crate::config::{ConfiguredStage, Loaded};
use crate::storage;

/// Interval of looks for messages that nobody announces.
const LOOK_FOR_MESSAGES: Duration = Duration::from_secs(5);

/// Brings the external stages of the configuration together with the store of a leader.
///
/// # Errors
///
/// If the client of a service cannot be made.
pub fn open(
    loaded: &Loaded,
    store: &PostgresStore,
    artifacts: Arc<dyn ArtifactStore>,
    orchestrator: OrchestratorHandle,
) -> Result<ExternalStages> {
    let transport = Transport::new()?;
    let mut stages = Vec::new();
    for (name, stage) in &loaded.config.stage {
        let service = stage_service(loaded, &transport, stage);
        let price = loaded
            .config
            .service
            .get(&stage.service)
            .map(|service| service.cost);
        stages.push(ExternalStage {
            name: StageName::new(name.as_str())?,
            limits: stage.limits(),
            service: service.with_context(|| format!("stage.{name}"))?,
            price: price.unwrap_or_default(),
        });
    }
    let bounds = bounds(loaded);
    let site = Site {
        store: Arc::new(store.clone()),
        services: Arc::new(store.clone()),
        artifacts,
        stages: loaded.config.stage_table(),
        storage: storage::place_of_artifacts(loaded)?,
        webhook_url: loaded.config.webhook.url.clone(),
        now: Utc::now,
        elsewhere: Some(Arc::new(ElsewhereCounter::of_rows(loaded, store)?)),
    };
    Ok(ExternalStages::new(site, orchestrator, stages, &bounds))
}

/// Bounds of the services of the configuration, by name.
pub fn bounds(loaded: &Loaded) -> BTreeMap<String, ServiceBounds> {
    let services = loaded.config.service.iter();
    let bounds = services.map(|(name, service)| {
        let bounds = ServiceBounds {
            max_in_flight: service.max_in_flight as usize,
            rate: service.rate(),
        };
        (name.clone(), bounds)
    });
    bounds.collect()
}

/// Service of a stage, as the configuration describes it.
///
/// # Errors
///
/// If its client cannot be made.
pub fn stage_service(
    loaded: &Loaded,
    transport: &Transport,
    stage: &ConfiguredStage,
) -> Result<StageService> {
    let service = loaded.config.service.get(&stage.service);
    let service = service.context("service names no service")?;
    let token = loaded.secrets.tokens.get(&stage.service);
    let token = token.map(|token| token.text.clone());
    let (client, reader): (Arc<dyn JobService>, _) = match service.engine(&stage.service, token.clone()) {
        Some(EngineSettings {
            url,
            credential,
            timeout,
            max_body,
            reading,
            ..
        }) => {
            let reader = reading.digest();
            let Reading::Vision(VisionReading { feature, .. }) = reading else {
                bail!("a service of the kind openai takes no jobs");
            };
            let bounds = Bounds {
                time: timeout,
                body: max_body,
            };
            let client = VisionClient::new(&url, credential, bounds, transport.clone())?;
            (Arc::new(VisionOperations { client, feature }), Some(reader))
        }
        None => {
            let client = JobsClient::new(service.settings(token), transport.clone())?;
            (Arc::new(client), None)
        }
    };
    Ok(StageService {
        client,
        reader,
        name: stage.service.clone(),
        template: stage.body.as_deref().map(BodyTemplate::new).transpose()?,
        max_body: service.max_body(),
        poll_interval: stage.poll_interval,
        has_webhook: service.webhook,
        retry: stage.retry(),
    })
}

/// External stages while this orchestrator leads.
pub type Led = watch::Sender<Option<Arc<ExternalStages>>>;

/// Listener of an orchestrator, which carries out what it hears while it leads, and else keeps it for whoever does.
#[derive(Debug)]
pub struct OrchestratorListener {
    led: watch::Receiver<Option<Arc<ExternalStages>>>,
    inbox: MessageInbox,
}

impl OrchestratorListener {
    pub fn new(
        loaded: &Loaded,
        store: &PostgresStore,
        led: watch::Receiver<Option<Arc<ExternalStages>>>,
    ) -> Self {
        let stages = loaded.config.stage.keys();
        let stages = stages.filter_map(|name| StageName::new(name.as_str()).ok());
        Self {
            led,
            inbox: MessageInbox::new(Arc::new(store.clone()), Arc::new(store.clone()), stages),
        }
    }
}

/// Carries out what other orchestrators have heard, for ever: when the database tells of it, and at intervals, as that is a hint.
pub async fn take_messages(store: &PostgresStore, external: &ExternalStages) {
    loop {
        let listen = async {
            let mut messages = store.service_messages().await?;
            loop {
                // The first look is for what came before the subscription.
                external.take_messages().await?;
                if let Ok(told) = timeout(LOOK_FOR_MESSAGES, messages.next()).await {
                    told?;
                }
            }
        };
        let Err::<Infallible, StateError>(error) = listen.await;
        warn!(%error, "messages of services are taken later");
        sleep(LOOK_FOR_MESSAGES).await;
    }
}

#[async_trait]
impl JobListener for OrchestratorListener {
    async fn hear(&self, message: &JobMessage) -> Result<Heard, StateError> {
        let stages = self.led.borrow().clone();
        match stages {
            Some(stages) => stages.hear(message).await,
            None => self.inbox.hear(message).await,
        }
    }
}
