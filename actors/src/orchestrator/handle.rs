//! What other rooms hold of the orchestrator: how to start it, ask it and wait for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tokio::sync::watch;

use super::actor::{Orchestrator, OrchestratorMsg};
use super::executor::Executor;
use parkhang_core::domain::{
    ActorRecord, Fence, JobId, JobStatus, LeaseReport, LeaseStatus, ReportReply, StageName, WorkerId,
};
use parkhang_state::{StateError, StateStore};
use parkhang_store::storage::ArtifactStore;

/// Leases lost in a row after which a volume is set aside, unless the configuration says otherwise.
pub const MAX_INTERRUPTIONS: i32 = 5;

/// As the actor is called on its node.
pub(super) const ORCHESTRATOR: &str = "orchestrator";

/// How the orchestrator behaves.
#[derive(Debug, Clone)]
pub struct OrchestratorConfig {
    pub store: Arc<dyn StateStore>,
    /// A lease that is not renewed for this long is lost.
    pub lease: Duration,
    /// The full pass that catches whatever no message announced.
    pub full_pass: Duration,
    /// Leases lost in a row after which a volume is set aside.
    pub max_interruptions: i32,
    /// Place of the markers of finished volumes; `None` writes none.
    pub markers: Option<Arc<dyn ArtifactStore>>,
    /// Told of the stages that tasks wait for while no pool is there.
    pub deserted: watch::Sender<BTreeSet<StageName>>,
}

impl OrchestratorConfig {
    pub fn new(store: Arc<dyn StateStore>) -> Self {
        Self {
            store,
            lease: Duration::from_secs(60),
            full_pass: Duration::from_secs(30),
            max_interruptions: MAX_INTERRUPTIONS,
            markers: None,
            deserted: watch::Sender::default(),
        }
    }
}

/// How waiting for a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    Settled(JobStatus),
    /// The orchestrator is gone.
    Abandoned,
}

/// Cheap handle on the orchestrator.
#[derive(Debug, Clone)]
pub struct OrchestratorHandle {
    actor: ActorRef<OrchestratorMsg>,
    settled: watch::Receiver<u64>,
    store: Arc<dyn StateStore>,
}

impl OrchestratorHandle {
    pub async fn start(config: OrchestratorConfig) -> Result<Self, ractor::SpawnErr> {
        let (sender, settled) = watch::channel(0);
        let store = config.store.clone();
        let (actor, _) = Actor::spawn(None, Orchestrator, (config, sender)).await?;
        Ok(Self {
            actor,
            settled,
            store,
        })
    }

    /// Something may have become runnable.
    pub fn wake(&self) {
        self.send(OrchestratorMsg::Wake);
    }

    /// A pool offers its slots; it takes the place of one with the same worker id.
    pub(crate) fn register(&self, pool: Arc<dyn Executor>) {
        self.send(OrchestratorMsg::Register(pool));
    }

    /// Nothing more is assigned to the pool; what it runs keeps its leases.
    pub fn suspend(&self, worker: WorkerId) {
        self.send(OrchestratorMsg::Suspend(worker));
    }

    /// The pool is gone for good; its leases end.
    pub(crate) fn deregister(&self, worker: WorkerId) {
        self.send(OrchestratorMsg::Deregister(worker));
    }

    /// Returns when the verdict is in the store, or known to be stale.
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

    /// Renews leases and says of each what it is; of none when nobody can say. A store that is away loses none.
    pub(crate) async fn heartbeat(&self, fences: Vec<Fence>) -> Vec<LeaseStatus> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        match self.actor.cast(OrchestratorMsg::Heartbeat(fences, sender.into())) {
            Ok(()) => receiver.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Hands out nothing more and asks the pools to stop at their next checkpoint.
    pub fn drain(&self) {
        self.send(OrchestratorMsg::Drain);
    }

    /// Waits until no lease is in force.
    pub async fn idle(&self, job: JobId) -> Result<(), StateError> {
        let mut changes = self.settled.clone();
        loop {
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
    pub async fn job_end(&self, job: JobId) -> Result<JobEnd, StateError> {
        let mut changes = self.settled.clone();
        loop {
            changes.borrow_and_update();
            let status = self.store.job_by_id(job).await?.map(|job| job.status);
            match status {
                Some(status @ (JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled)) => {
                    return Ok(JobEnd::Settled(status));
                }
                Some(_) => {}
                None => return Err(StateError::NoSuchJob(job.to_string())),
            }
            if changes.changed().await.is_err() {
                return Ok(JobEnd::Abandoned);
            }
        }
    }

    /// The orchestrator and its mirror as they are now; none once it has ended.
    pub async fn actors(&self) -> Vec<ActorRecord> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        self.send(OrchestratorMsg::Describe(sender.into()));
        receiver.await.unwrap_or_default()
    }

    /// Ends it without a word, as a fault would.
    pub fn kill(&self) {
        self.actor.kill();
    }

    /// Waits for its end, which before [`OrchestratorHandle::stop`] is a failure or the beginning of another's epoch.
    pub async fn ended(&self) {
        // Ended already is as good.
        let _ = self.actor.get_cell().wait(None).await;
    }

    pub async fn stop(self) {
        // Already stopped is as good.
        let _ = self.actor.stop_and_wait(None, None).await;
    }

    /// A cast fails only when the orchestrator has stopped; its leases then run out.
    fn send(&self, message: OrchestratorMsg) {
        let _ = self.actor.cast(message);
    }
}
