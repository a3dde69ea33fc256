//! External stages: stages of pipelines that other people's services do for a task.
//!
//! To the orchestrator a service is a pool: it gets leases, in its own name, by placement as any other. The lease is written, then the work
//! is submitted under a key made of the fence, then the service's id of the job is written, and nothing of ours waits for the end: no slot,
//! no thread, no connection. A poller or a webhook hears of it, the result becomes an artifact, and the lease ends by a report as that of
//! any stage does; a lease that runs out is a job that is stuck.
//!
//! All state is in the store. A leader that finds a lease without a job submits it again under the same key; what is heard of a job ends the
//! lease that the job was submitted for, or nothing.

mod before;
mod context;
mod inbox;
mod pages;
mod polled;
mod pool;
mod result;
mod submit;

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::{StreamExt, future, stream};
use parkhang_core::domain::{Amount, Fence, ServiceMessage, StageLimits, StageName, WorkerId, WorkerRecord};
use parkhang_state::{ServiceStore, StateError, StateStore};
use parkhang_store::storage::ArtifactStore;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

use self::inbox::{Subject, subject, told};
use self::polled::PolledLeases;
use self::pool::ServicePool;
use self::submit::Request;
use crate::orchestrator::{OrchestratorHandle, WallClock};
use crate::services::{
    Heard, JobListener, JobMessage, ServiceBounds, ServiceHealth, StageService, WorkElsewhere, poll,
};
use crate::stage::StageTable;

pub use self::inbox::MessageInbox;

/// Pause before a report is sent again that could not be recorded.
const REPORT_AGAIN: Duration = Duration::from_secs(1);
/// Pause before the records of the services are read again that could not be.
const RESTORE_AGAIN: Duration = Duration::from_secs(1);
/// Messages that are read at once, and carried out at once.
const MESSAGES: usize = 100;
const MESSAGES_AT_ONCE: usize = 16;
/// Interval at which the counts of a service are recorded.
const TELL_COUNTS: Duration = Duration::from_secs(5);
/// Submits to one service at the same time.
const SUBMITS: usize = 8;
/// Longest time that a process stays for answers to submits that nobody else could hear.
const PARTING: Duration = Duration::from_secs(10);

/// Stage that a service does.
#[derive(Debug)]
pub struct ExternalStage {
    pub name: StageName,
    pub limits: StageLimits,
    pub service: StageService,
    /// Price of one submit.
    pub price: Amount,
}

/// Surroundings of external stages.
#[derive(Debug)]
pub struct Site {
    pub store: Arc<dyn StateStore>,
    pub services: Arc<dyn ServiceStore>,
    pub artifacts: Arc<dyn ArtifactStore>,
    pub stages: StageTable,
    /// Place of the artifacts, for the bodies of submits.
    pub storage: String,
    /// URL at which services reach the webhook, for the same.
    pub webhook_url: Option<String>,
    /// Clock by which submits, messages and looks are dated.
    pub now: WallClock,
    /// Counter of what the services have of others, which is a part of what they may have at once.
    pub elsewhere: Option<Arc<dyn WorkElsewhere>>,
}

/// Service with what its stages share of it.
#[derive(Debug)]
struct SharedService {
    health: ServiceHealth,
    max_in_flight: usize,
    submits: Arc<Semaphore>,
    /// Work that the service had of others at the last look.
    elsewhere: AtomicUsize,
    /// Leases whose submit is requested or under way, over all stages.
    under_way: watch::Sender<HashSet<Fence>>,
}

/// Stage with all that works on it.
#[derive(Debug)]
struct ServedStage {
    stage: ExternalStage,
    worker: WorkerId,
    shared: Arc<SharedService>,
    requests: mpsc::UnboundedSender<Request>,
}

/// External stages of the orchestrator that leads.
#[derive(Debug)]
pub struct ExternalStages {
    site: Site,
    orchestrator: OrchestratorHandle,
    served_stages: Vec<Arc<ServedStage>>,
    services: BTreeMap<String, Arc<SharedService>>,
    requests: Mutex<Option<mpsc::UnboundedReceiver<Request>>>,
    /// Submits to services that know no keys, each until its answer is written.
    keyless: TaskTracker,
    /// True once the orchestrator knows the pools, and by them the tries that the stages grant.
    is_known: watch::Sender<bool>,
    /// Keeps messages until then.
    inbox: MessageInbox,
}

impl SharedService {
    /// Notes that the submit of a lease is under way. Returns false if it was before.
    fn begin(&self, fence: &Fence) -> bool {
        self.under_way
            .send_if_modified(|under_way| under_way.insert(fence.clone()))
    }

    fn end(&self, fence: &Fence) {
        self.under_way
            .send_if_modified(|under_way| under_way.remove(fence));
    }

    /// Waits until this holds of the leases whose submits are under way.
    async fn until(&self, holds: impl FnMut(&HashSet<Fence>) -> bool) {
        // Fails only when this is dropped.
        let _ = self.under_way.subscribe().wait_for(holds).await;
    }

    /// Number of jobs of tasks that it may have at once, beside what it has of others.
    fn left_by_others(&self) -> usize {
        self.max_in_flight
            .saturating_sub(self.elsewhere.load(Ordering::Relaxed))
    }

    fn admits(&self) -> usize {
        self.health.admits(self.under_way.borrow().len())
    }
}

impl ExternalStages {
    /// Brings stages and their services together. Nothing runs yet.
    pub fn new(
        site: Site,
        orchestrator: OrchestratorHandle,
        stages: Vec<ExternalStage>,
        bounds: &BTreeMap<String, ServiceBounds>,
    ) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let store = &site.services;
        let mut services: BTreeMap<String, Arc<SharedService>> = BTreeMap::new();
        let mut served_stages = Vec::new();
        for stage in stages {
            let name = &stage.service.name;
            let shared = services.entry(name.clone()).or_insert_with(|| {
                let bounds = bounds.get(name);
                Arc::new(SharedService {
                    health: ServiceHealth::sharing(
                        name,
                        bounds.and_then(|bounds| bounds.rate),
                        Some(store.clone()),
                    ),
                    max_in_flight: bounds.map_or(usize::MAX, |bounds| bounds.max_in_flight),
                    submits: Arc::new(Semaphore::new(SUBMITS)),
                    elsewhere: AtomicUsize::new(0),
                    under_way: watch::Sender::default(),
                })
            });
            served_stages.push(Arc::new(ServedStage {
                worker: WorkerId::of_service(name, &stage.name),
                shared: shared.clone(),
                requests: sender.clone(),
                stage,
            }));
        }
        let names = served_stages.iter().map(|served| served.stage.name.clone());
        Self {
            inbox: MessageInbox::new(site.store.clone(), site.services.clone(), names),
            site,
            orchestrator,
            served_stages,
            services,
            requests: Mutex::new(Some(receiver)),
            keyless: TaskTracker::new(),
            is_known: watch::Sender::new(false),
        }
    }

    /// Works on all stages, for ever, unless a part of it panicked. Dropping the future ends it at once and loses nothing, but for submits
    /// to services that know no keys: those end by themselves, see [`part`](Self::part).
    pub fn run(self: &Arc<Self>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Two runs would submit the same leases; the second one finds nothing to receive.
            let receiver = self
                .requests
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let Some(mut receiver) = receiver else { return };
            self.restore().await;
            for shared in self.services.values() {
                self.count_elsewhere(shared).await;
            }
            let mut tasks = JoinSet::new();
            for shared in self.services.values() {
                tasks.spawn(self.clone().attend(shared.clone()));
            }
            for served in &self.served_stages {
                let (stages, served) = (self.clone(), served.clone());
                tasks.spawn(async move {
                    let polled = PolledLeases {
                        stages: &stages,
                        served: &served,
                    };
                    let stage = &served.stage;
                    // Ends with this future.
                    poll(&polled, &stage.service, &stage.limits, &CancellationToken::new()).await;
                });
            }
            for served in &self.served_stages {
                self.orchestrator
                    .register(Arc::new(ServicePool::new(served.clone())));
            }
            self.is_known.send_replace(true);
            let mut requests = JoinSet::new();
            loop {
                tokio::select! {
                    Some(request) = receiver.recv() => {
                        let stages = self.clone();
                        requests.spawn(async move { stages.carry_out(request).await });
                    }
                    Some(carried_out) = requests.join_next(), if !requests.is_empty() => {
                        if let Err(panic) = carried_out {
                            error!(%panic, "a submit ended early; its lease is submitted again");
                        }
                    }
                    Some(ended) = tasks.join_next() => {
                        error!(?ended, "a part of the work on external stages ended");
                        return;
                    }
                }
            }
        })
    }

    /// Waits for a while until the answers are written of all submits that nobody else could hear. The process may end then.
    pub async fn part(&self) {
        self.keyless.close();
        if timeout(PARTING, self.keyless.wait()).await.is_err() {
            warn!("answers of services to submits are not waited for any longer");
        }
    }

    /// Descriptions of the services as pools, with the leases that they hold.
    pub async fn workers(&self) -> Vec<WorkerRecord> {
        let leases = self.site.store.leases((self.site.now)()).await;
        let held = leases.map(|leases| leases.held).unwrap_or_default();
        let record = |served: &Arc<ServedStage>| {
            let own = held.iter().filter(|held| held.worker == served.worker);
            let in_use: usize = own.map(|held| held.leases).sum();
            WorkerRecord {
                worker: served.worker.clone(),
                stage: served.stage.name.clone(),
                models: Vec::new(),
                slots: u32::try_from(served.shared.max_in_flight).unwrap_or(u32::MAX),
                in_use: u32::try_from(in_use).unwrap_or(u32::MAX),
                incarnation: 0,
                last_heartbeat: None,
                pages: None,
                pages_finished: None,
            }
        };
        self.served_stages.iter().map(record).collect()
    }

    /// Takes over what the leader before this one found out about the services, before anything of this one is written in its place.
    async fn restore(&self) {
        let records = loop {
            match self.site.services.services().await {
                Ok(records) => break records,
                Err(error) => warn!(%error, "how the services are doing cannot be read now"),
            }
            sleep(RESTORE_AGAIN).await;
        };
        for record in records {
            if let Some(shared) = self.services.get(&record.name) {
                shared.health.restore(&record, (self.site.now)());
            }
        }
    }

    /// Records how a service is doing whenever that changes, and wakes the orchestrator once it may be given more.
    async fn attend(self: Arc<Self>, shared: Arc<SharedService>) {
        let mut told = None;
        let mut is_changed = true;
        loop {
            // Before the health itself, so that a change in between is told twice and not missed.
            let changes = (shared.health.changes(), shared.health.counts());
            if told != Some(changes) {
                let record = shared.health.record((self.site.now)());
                match self.site.services.record_service(&record).await {
                    Ok(()) => told = Some(changes),
                    Err(error) => debug!(%error, "how a service is doing is not recorded now"),
                }
            }
            // Whatever changed meanwhile is seen by the next turn, as its announcement stays.
            let rest = shared.health.pause();
            sleep(rest).await;
            // Counts alone, which are told now and then, are no reason for a pass.
            if is_changed || !rest.is_zero() {
                self.orchestrator.wake();
            }
            is_changed = timeout(TELL_COUNTS, shared.health.changed()).await.is_ok();
            is_changed |= self.count_elsewhere(&shared).await;
        }
    }

    /// Counts what a service has of others; returns whether that leaves more than before.
    async fn count_elsewhere(&self, shared: &SharedService) -> bool {
        let Some(elsewhere) = &self.site.elsewhere else {
            return false;
        };
        match elsewhere.in_flight(shared.health.service()).await {
            Ok(number) => shared.elsewhere.swap(number, Ordering::Relaxed) > number,
            Err(error) => {
                debug!(%error, "what a service has of others cannot be counted now");
                false
            }
        }
    }

    /// Carries out the messages that other orchestrators have kept. One that cannot be carried out now stays for the next time.
    ///
    /// # Errors
    ///
    /// [`StateError`] if they cannot be read.
    pub async fn take_messages(&self) -> Result<(), StateError> {
        // Messages that are heard before that are kept. Fails only when this is dropped, and then nobody waits.
        let _ = self.is_known.subscribe().wait_for(|is_known| *is_known).await;
        let services = &self.site.services;
        let mut last = 0;
        loop {
            let kept = services.kept_messages(last, MESSAGES).await?;
            let messages = kept.iter();
            let messages: Vec<_> = messages
                .map(|(number, message)| self.carry_out_kept(*number, message))
                .collect();
            // The ends of many jobs are written by one transaction.
            let carried_out = stream::iter(messages).buffer_unordered(MESSAGES_AT_ONCE);
            let over: Vec<i64> = carried_out.filter_map(future::ready).collect().await;
            if !over.is_empty() {
                services.drop_messages(&over).await?;
            }
            last = kept.last().map_or(last, |(number, _)| *number);
            if kept.len() < MESSAGES {
                return Ok(());
            }
        }
    }

    /// Carries out a message that was kept; returns its number if it is over.
    async fn carry_out_kept(&self, number: i64, message: &ServiceMessage) -> Option<i64> {
        match self.hear(&told(message)).await {
            Ok(_) => Some(number),
            Err(error) => {
                warn!(%error, job = message.job, "a message of a service is carried out later");
                None
            }
        }
    }

    fn served_stage(&self, stage: &str) -> Option<&Arc<ServedStage>> {
        self.served_stages
            .iter()
            .find(|served| served.stage.name.as_str() == stage)
    }
}

#[async_trait]
impl JobListener for ExternalStages {
    async fn hear(&self, message: &JobMessage) -> Result<Heard, StateError> {
        let Some(served) = self.served_stage(&message.stage) else {
            return Ok(Heard::UnknownJob);
        };
        // A failure would count among the tries of the job, and not among those of the stage.
        if !*self.is_known.borrow() {
            return self.inbox.hear(message).await;
        }
        let (store, services) = (&*self.site.store, &*self.site.services);
        match subject(store, services, &served.stage.name, message).await? {
            Subject::Current(fence) => {
                // Only shown; the end of the job counts without it.
                if let Err(error) = services.note_message(&fence, (self.site.now)()).await {
                    debug!(job = message.job, %error, "a message of a service is not noted");
                }
                self.record_look(served, &fence, &message.job, message.look())
                    .await?;
                Ok(Heard::Processed)
            }
            Subject::Past => Ok(Heard::Processed),
            Subject::Unknown => Ok(Heard::UnknownJob),
        }
    }
}
