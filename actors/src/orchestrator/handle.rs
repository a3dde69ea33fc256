//! The orchestrator as other rooms see it: a handle to start it, ask it and wait for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use ractor::{Actor, ActorRef};
use tokio::sync::watch;
use tracing::{debug, warn};

use super::actor::{Orchestrator, OrchestratorMsg};
use super::executor::Executor;
use parkhang_core::domain::{
    ActorRecord, Expense, Fence, JobId, JobStatus, LeaseReport, LeaseStatus, ReportReply, SpendReply,
    StageName, WorkerId,
};
use parkhang_state::{StateError, StateStore};
use parkhang_store::storage::ArtifactStore;

use crate::detached;

/// Leases lost in a row after which a volume is set aside, unless the configuration says otherwise.
pub const MAX_INTERRUPTIONS: i32 = 5;

/// Name of the actor on its node.
pub(super) const ORCHESTRATOR: &str = "orchestrator";

/// Clock of this machine, or another one in tests. No lease goes by it: those go by the clock of the store.
pub type WallClock = fn() -> DateTime<Utc>;

/// Settings of the orchestrator.
#[derive(Debug, Clone)]
pub struct OrchestratorConfig {
    /// State that it leads; that of a leader carries its epoch.
    pub store: Arc<dyn StateStore>,
    /// Time after which a lease that is not renewed is lost.
    pub lease: Duration,
    /// Time between two passes that nobody asks for, which find whatever no message announced.
    pub full_pass: Duration,
    /// Leases lost in a row after which a volume is set aside.
    pub max_interruptions: i32,
    /// Store for the markers of finished volumes; `None` writes none.
    pub markers: Option<Arc<dyn ArtifactStore>>,
    /// Channel for the stages that tasks wait for and no pool runs.
    pub unserved: watch::Sender<BTreeSet<StageName>>,
    /// Clock by which the history of leases is written; another one in tests.
    pub now: WallClock,
}

impl OrchestratorConfig {
    /// The defaults, on this store.
    pub fn new(store: Arc<dyn StateStore>) -> Self {
        Self {
            store,
            lease: Duration::from_secs(60),
            full_pass: Duration::from_secs(30),
            max_interruptions: MAX_INTERRUPTIONS,
            markers: None,
            unserved: watch::Sender::default(),
            now: Utc::now,
        }
    }
}

/// End of the wait for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// The job has come to its end, with this status.
    Finished(JobStatus),
    /// The orchestrator has ended before the job.
    Abandoned,
}

/// Cheap handle on the orchestrator.
#[derive(Debug, Clone)]
pub struct OrchestratorHandle {
    actor: ActorRef<OrchestratorMsg>,
    finished: watch::Receiver<u64>,
    store: Arc<dyn StateStore>,
}

impl OrchestratorHandle {
    /// Starts the actor. Nothing else has to be started: its first pass finds what there is to do, and each pool that registers
    /// wakes another one.
    ///
    /// # Errors
    ///
    /// When the actor or its group committer cannot be started.
    pub fn start(config: OrchestratorConfig) -> BoxFuture<'static, Result<Self, ractor::SpawnErr>> {
        Box::pin(async move {
            let (sender, finished) = watch::channel(0);
            let store = config.store.clone();
            let (actor, _) = Actor::spawn(None, Orchestrator, (config, sender)).await?;
            Ok(Self {
                actor,
                finished,
                store,
            })
        })
    }

    /// Wakes the orchestrator, as something may have become runnable.
    pub fn wake(&self) {
        self.send(OrchestratorMsg::Wake);
    }

    /// Registers a pool, which takes the place of one with the same worker id.
    pub(crate) fn register(&self, pool: Arc<dyn Executor>) {
        self.send(OrchestratorMsg::Register(pool));
    }

    /// Assigns nothing more to the pool; the stages that it runs keep their leases.
    pub fn suspend(&self, worker: WorkerId) {
        self.send(OrchestratorMsg::Suspend(worker));
    }

    /// Takes out a pool that is gone for good, and ends its leases.
    pub(crate) fn deregister(&self, worker: WorkerId) {
        self.send(OrchestratorMsg::Deregister(worker));
    }

    /// Reports the end of a lease. Returns when the verdict is in the store, or known to be stale.
    pub(crate) async fn report(&self, report: LeaseReport) -> ReportReply {
        let (sender, receiver) = ractor::concurrency::oneshot();
        match self
            .actor
            .cast(OrchestratorMsg::Report(Box::new(report), sender.into()))
        {
            Ok(()) => receiver.await.unwrap_or(ReportReply::Unrecorded),
            Err(_) => ReportReply::Unrecorded,
        }
    }

    /// Renews leases and returns the status of each, or none at all when there is no orchestrator. A lease is never lost because
    /// the store is away.
    pub(crate) async fn heartbeat(&self, fences: Vec<Fence>) -> Vec<LeaseStatus> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        match self.actor.cast(OrchestratorMsg::Heartbeat(fences, sender.into())) {
            Ok(()) => receiver.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Writes how many pages leases have finished, beside whoever tells it.
    pub(crate) fn note_progress(&self, finished: Vec<(Fence, i32)>) {
        if finished.is_empty() {
            return;
        }
        let store = self.store.clone();
        detached::spawn(async move {
            if let Err(error) = store.note_progress(&finished).await {
                debug!(%error, "cannot note the progress of volumes now; their next heartbeats tell it");
            }
        });
    }

    /// Writes what was spent under a lease so far. Not a matter of the actor: whoever leads, the money is spent.
    pub(crate) async fn spend(&self, expense: &Expense) -> SpendReply {
        spend_in(&*self.store, expense).await
    }

    /// Assigns nothing more and asks the pools to stop at their next checkpoint.
    pub fn drain(&self) {
        self.send(OrchestratorMsg::Drain);
    }

    /// Waits until no task of the job is leased, or the orchestrator has ended.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn idle(&self, job: JobId) -> Result<(), StateError> {
        let mut changes = self.finished.clone();
        loop {
            // Marked as seen before the store is read, so that a change in between is not missed.
            changes.borrow_and_update();
            if self
                .store
                .tasks(job)
                .await?
                .iter()
                .all(|task| task.fence().is_none())
            {
                return Ok(());
            }
            if changes.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// Waits until the job is completed, failed or cancelled.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or has no such job.
    pub async fn job_end(&self, job: JobId) -> Result<JobEnd, StateError> {
        let mut changes = self.finished.clone();
        loop {
            // As in `idle`: a change after this line ends the wait below.
            changes.borrow_and_update();
            let status = self.store.job_by_id(job).await?.map(|job| job.status);
            match status {
                Some(status @ (JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled)) => {
                    return Ok(JobEnd::Finished(status));
                }
                Some(_) => {}
                None => return Err(StateError::NoSuchJob(job.to_string())),
            }
            if changes.changed().await.is_err() {
                return Ok(JobEnd::Abandoned);
            }
        }
    }

    /// Describes the orchestrator and its group committer; none once it has ended.
    pub async fn actors(&self) -> Vec<ActorRecord> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        self.send(OrchestratorMsg::Describe(sender.into()));
        receiver.await.unwrap_or_default()
    }

    /// Kills the orchestrator, as a fault would.
    pub fn kill(&self) {
        self.actor.kill();
    }

    /// Waits for the orchestrator to end. Without [`OrchestratorHandle::stop`] that is a failure, or the epoch of another leader.
    pub async fn ended(&self) {
        // An error says that it has ended already.
        let _ = self.actor.get_cell().wait(None).await;
    }

    /// Stops the orchestrator and waits for its end.
    pub async fn stop(self) {
        // An error says that it has stopped already.
        let _ = self.actor.stop_and_wait(None, None).await;
    }

    /// Sends a message. That fails only when the orchestrator has stopped; its leases then expire.
    fn send(&self, message: OrchestratorMsg) {
        let _ = self.actor.cast(message);
    }
}

/// Writes an expense in a store.
pub(crate) async fn spend_in(store: &dyn StateStore, expense: &Expense) -> SpendReply {
    match store.spend(expense).await {
        Ok(true) => SpendReply::Recorded,
        Ok(false) => SpendReply::UsedUp,
        Err(error) => {
            warn!(task = %expense.fence.task, %error, "cannot record an expense now");
            SpendReply::Unrecorded
        }
    }
}
