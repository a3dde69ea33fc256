//! Entities: pipelines of other people's services over a user's own table.
//!
//! Triggering a row returns at once. A worker of each stage claims queued rows and submits them to the stage's service, a poller or a webhook
//! hears of the end, the end queues the next stage, and a sweeper takes back what has no end for too long. Nobody waits for the work, and
//! nothing is remembered here but how the services are doing: all state is in the columns of the row, so processes may come, die, and be
//! as many as one likes. Decisions are [`policy::entity`](parkhang_core::policy::entity), SQL is in [`parkhang_state`], HTTP in
//! [`parkhang_service`].

mod body;
mod listener;
mod polled;
mod room;
mod sweeper;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use parkhang_core::domain::{EntityStage, EntityStatus, StageName};
use parkhang_core::policy::entity::{EntityEvent, EntityFence};
use parkhang_service::{JobFailure, JobLook};
use parkhang_state::{EntityCounts, EntityOutcome, EntityTable, Finding, ServiceStore, StateError};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::room::Room;
use crate::services::{
    Heard, JobListener, JobMessage, LOOK_AHEAD, LOOKS_AHEAD, ServiceBounds, ServiceHealth, StageService,
    WorkElsewhere, lost_job, poll,
};

/// Pace of the workers.
#[derive(Debug, Clone)]
pub struct EntityOptions {
    /// Rows that a worker claims at once.
    pub batch: u32,
    /// Interval at which a worker looks for queued rows.
    pub poll_interval: Duration,
    /// URL at which services reach the webhook, for the bodies of submits.
    pub webhook_url: Option<String>,
    /// Counter of what the services have of others, which is a part of what they may have at once.
    pub elsewhere: Option<Arc<dyn WorkElsewhere>>,
    /// Store by which processes share the rates of services; without one a rate is that of this process.
    pub services: Option<Arc<dyn ServiceStore>>,
}

impl Default for EntityOptions {
    fn default() -> Self {
        Self {
            batch: 5,
            poll_interval: Duration::from_millis(500),
            webhook_url: None,
            elsewhere: None,
            services: None,
        }
    }
}

/// Stage whose service nobody has named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stage {0} has no service")]
pub struct NoService(pub StageName);

/// Stage with all that works on it.
#[derive(Debug)]
struct ServedStage {
    stage: EntityStage,
    service: StageService,
    health: Arc<ServiceHealth>,
    room: Arc<Room>,
    /// Told when rows may have been queued.
    work: Notify,
}

/// Work on the rows of one table, in this process.
#[derive(Debug)]
pub struct Entities {
    table: EntityTable,
    options: EntityOptions,
    served_stages: Vec<Arc<ServedStage>>,
}

impl Entities {
    /// Brings a table and the services of its stages together; services without `bounds` have none. Nothing runs yet.
    ///
    /// # Errors
    ///
    /// [`NoService`] for a stage without one.
    pub fn new(
        table: EntityTable,
        options: EntityOptions,
        mut services: BTreeMap<StageName, StageService>,
        bounds: &BTreeMap<String, ServiceBounds>,
    ) -> Result<Self, NoService> {
        let mut stages_of: BTreeMap<String, Vec<StageName>> = BTreeMap::new();
        for (stage, service) in &services {
            stages_of
                .entry(service.name.clone())
                .or_default()
                .push(stage.clone());
        }
        let mut known: BTreeMap<String, (Arc<ServiceHealth>, Arc<Room>)> = BTreeMap::new();
        let mut served_stages = Vec::new();
        for stage in table.pipeline().stages() {
            let service = services.remove(&stage.name);
            let service = service.ok_or_else(|| NoService(stage.name.clone()))?;
            // Stages that share a service share its troubles.
            let shared = known.entry(service.name.clone()).or_insert_with(|| {
                let bounds = bounds.get(&service.name);
                let rate = bounds.and_then(|bounds| bounds.rate);
                let health = ServiceHealth::sharing(&service.name, rate, options.services.clone());
                let stages = stages_of.remove(&service.name).unwrap_or_default();
                let room = Room::new(
                    &service.name,
                    bounds.map(|bounds| bounds.max_in_flight),
                    stages,
                    options.elsewhere.clone(),
                );
                (Arc::new(health), Arc::new(room))
            });
            let (health, room) = shared.clone();
            served_stages.push(Arc::new(ServedStage {
                stage: stage.clone(),
                service,
                health,
                room,
                work: Notify::new(),
            }));
        }
        Ok(Self {
            table,
            options,
            served_stages,
        })
    }

    /// Name of the entity.
    pub fn name(&self) -> &str {
        self.table.pipeline().name()
    }

    /// Asks the database of the table for an answer, and for nothing else.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if there is none.
    pub async fn ping(&self) -> Result<(), StateError> {
        self.table.ping().await
    }

    /// Counts the rows by stage and status. Reads the whole table.
    ///
    /// # Errors
    ///
    /// [`StateError`] if they cannot be counted now.
    pub async fn counts(&self) -> Result<EntityCounts, StateError> {
        self.table.counts().await
    }

    /// Works on all stages until `stop` is cancelled, and then until what is being submitted has its answer. Returns early only if a part
    /// of it panicked. Dropping the future ends all of it at once.
    pub fn run<'a>(self: &'a Arc<Self>, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut tasks = JoinSet::new();
            for served in &self.served_stages {
                tasks.spawn(worker::run(self.clone(), served.clone(), stop.clone()));
                let (entities, served, stop) = (self.clone(), served.clone(), stop.clone());
                tasks.spawn(async move {
                    let (entities, served) = (&*entities, &*served);
                    let polled = polled::PolledRows { entities, served };
                    poll(&polled, &served.service, &served.stage.limits, &stop).await;
                });
            }
            tasks.spawn(sweeper::run(self.clone(), stop.clone()));
            tasks.spawn(listener::run(self.clone(), stop.clone()));
            while let Some(ended) = tasks.join_next().await {
                if let Err(panic) = ended {
                    error!(entity = self.name(), %panic, "a part of the work on an entity ended");
                    return;
                }
            }
        })
    }

    fn served_stage(&self, stage: &str) -> Option<&Arc<ServedStage>> {
        self.served_stages
            .iter()
            .find(|served| served.stage.name.as_str() == stage)
    }

    /// Writes the end of a job, if it has one; `None` while it has not.
    async fn record_look(
        &self,
        served: &ServedStage,
        id: &str,
        job: &str,
        look: JobLook,
    ) -> Result<Option<EntityOutcome>, StateError> {
        let of = || EntityFence::Job(job.to_owned());
        let stage = &served.stage;
        let outcome = match served.service.retry.look(look) {
            JobLook::Running => return Ok(None),
            JobLook::Completed(result) => {
                let event = EntityEvent::Completed { job: job.to_owned() };
                self.table
                    .step(stage, id, &event, Finding::Result(&result))
                    .await?
            }
            JobLook::Failed(failure) => self.fail(served, id, of(), &failure).await?,
            JobLook::Lost => self.fail(served, id, of(), &lost_job()).await?,
        };
        if matches!(outcome, EntityOutcome::Done { .. }) {
            self.make_room(served);
        }
        if let EntityOutcome::Done {
            queued: Some(next), ..
        } = &outcome
            && let Some(next) = self.served_stage(next.as_str())
        {
            next.work.notify_one();
        }
        Ok(Some(outcome))
    }

    /// Wakes the workers that wait for a job of a service to end.
    fn make_room(&self, served: &ServedStage) {
        if served.room.was_full() {
            let sharing = self.served_stages.iter();
            for other in sharing.filter(|other| Arc::ptr_eq(&other.room, &served.room)) {
                other.work.notify_one();
            }
        }
    }

    /// Writes a failure.
    async fn fail(
        &self,
        served: &ServedStage,
        id: &str,
        of: EntityFence,
        failure: &JobFailure,
    ) -> Result<EntityOutcome, StateError> {
        let kind = failure.kind;
        let event = EntityEvent::Failed { of, kind };
        let finding = Finding::Error(&failure.message);
        let outcome = self.table.step(&served.stage, id, &event, finding).await?;
        if let EntityOutcome::Done { status, .. } = &outcome {
            if *status == EntityStatus::Queued {
                served.work.notify_one();
            }
            let stage = served.stage.name.as_str();
            info!(entity = self.name(), id, stage, %status, reason = failure.message, "a job failed");
        }
        Ok(outcome)
    }

    /// Reports a database that does not answer; whoever asked tries again.
    fn unanswered(&self, served: &ServedStage, error: &StateError) {
        warn!(entity = self.name(), stage = %served.stage.name, %error, "the table of entities does not answer");
    }

    /// Values that a template of a body may name.
    fn context(&self, served: &ServedStage, id: &str, row: &Value) -> Value {
        let stages = self.table.pipeline().stages();
        body::context(
            self.name(),
            &served.stage.name,
            stages,
            id,
            row,
            self.options.webhook_url.as_deref(),
        )
    }
}

#[async_trait]
impl JobListener for Entities {
    async fn hear(&self, message: &JobMessage) -> Result<Heard, StateError> {
        let Some(served) = self.served_stage(&message.stage) else {
            return Ok(Heard::UnknownJob);
        };
        let look = message.look();
        for _ in 0..LOOKS_AHEAD {
            let outcome = match self
                .record_look(served, &message.id, &message.job, look.clone())
                .await?
            {
                None => return Ok(Heard::Processed),
                Some(outcome) => outcome,
            };
            match outcome {
                EntityOutcome::Done { .. } => return Ok(Heard::Processed),
                EntityOutcome::Unchanged(state) if state.is_over_for(&message.job) => {
                    return Ok(Heard::Processed);
                }
                // The service was faster than its own answer to the submit, or than the transaction that records it.
                EntityOutcome::Unchanged(state) if state.awaits_its_job() => sleep(LOOK_AHEAD).await,
                EntityOutcome::Unchanged(_) | EntityOutcome::NoEntity => return Ok(Heard::UnknownJob),
            }
        }
        // The poller will hear of it, if it is a job of this row.
        Ok(Heard::UnknownJob)
    }
}
