//! The orchestrator, its store and its nodes.

use std::sync::{Arc, Mutex};

use chrono::Utc;
use parkhang_actors::orchestrator::{JobEnd, OrchestratorConfig, OrchestratorHandle};
use parkhang_actors::supervisor::{ControlPlane, NodeSupervisor};
use parkhang_actors::telemetry::ProgressBoard;
use parkhang_core::domain::{Job, JobId, JobStatus, NewJob, Task};
use parkhang_state::{MemoryStore, StateStore};

use crate::{NodePlan, Session};

/// Cluster that is to be started.
#[derive(Debug)]
pub struct SandboxBuilder {
    config: OrchestratorConfig,
    job: Option<NewJob>,
    is_remote: bool,
}

impl SandboxBuilder {
    /// Creates this job before the orchestrator starts.
    pub fn job(self, job: NewJob) -> Self {
        Self {
            job: Some(job),
            ..self
        }
    }

    /// Changes the configuration of the orchestrator.
    pub fn configured(mut self, change: impl FnOnce(&mut OrchestratorConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Puts a session over a socket between the orchestrator and its nodes.
    pub fn remote(self) -> Self {
        Self {
            is_remote: true,
            ..self
        }
    }

    pub async fn start(self) -> Sandbox {
        let store = self.config.store.clone();
        let job = match &self.job {
            Some(job) => Some(store.create_job(job, Utc::now()).await.unwrap()),
            None => None,
        };
        let orchestrator = OrchestratorHandle::start(self.config).await.unwrap();
        let session = if self.is_remote {
            Some(Session::start(&orchestrator).await)
        } else {
            None
        };
        Sandbox {
            store,
            orchestrator,
            session,
            progress: Arc::default(),
            job,
            nodes: Mutex::default(),
        }
    }
}

/// Running cluster: an orchestrator over a store, and the nodes that a test starts.
#[derive(Debug)]
pub struct Sandbox {
    pub store: Arc<dyn StateStore>,
    pub orchestrator: OrchestratorHandle,
    /// Transport to the nodes; `None` where they call the orchestrator directly.
    pub session: Option<Session>,
    /// Board of all nodes.
    pub progress: Arc<ProgressBoard>,
    job: Option<Job>,
    nodes: Mutex<Vec<NodeSupervisor>>,
}

impl Sandbox {
    /// Cluster over an empty store in memory.
    pub fn builder() -> SandboxBuilder {
        Self::over(Arc::new(MemoryStore::new()))
    }

    pub fn over(store: Arc<dyn StateStore>) -> SandboxBuilder {
        SandboxBuilder {
            config: OrchestratorConfig::new(store),
            job: None,
            is_remote: false,
        }
    }

    /// Job that the cluster was built with.
    pub fn job(&self) -> &Job {
        self.job.as_ref().unwrap()
    }

    /// Creates a job, which the orchestrator hears of at once.
    pub async fn create(&self, job: &NewJob) -> Job {
        let job = self.store.create_job(job, Utc::now()).await.unwrap();
        self.orchestrator.wake();
        job
    }

    /// Starts a node, which is stopped with the cluster.
    pub async fn node(&self, mut plan: NodePlan) -> NodeSupervisor {
        let of_session = || self.session.as_ref().map(|session| session.node().to_string());
        plan.name = plan.name.or_else(of_session);
        plan.progress = Some(self.progress.clone());
        let control_plane: Arc<dyn ControlPlane> = match &self.session {
            Some(session) => Arc::new(session.uplink.clone()),
            None => Arc::new(self.orchestrator.clone()),
        };
        let node = plan.start(control_plane).await;
        self.nodes.lock().unwrap().push(node.clone());
        node
    }

    /// Tasks of the job that the cluster was built with.
    pub async fn tasks(&self) -> Vec<Task> {
        self.store.tasks(self.job().id).await.unwrap()
    }

    /// Waits for the end of the job that the cluster was built with, which must be this one, and returns its tasks.
    pub async fn ends(&self, status: JobStatus) -> Vec<Task> {
        self.job_ends(self.job().id, status).await
    }

    /// The same of any job.
    pub async fn job_ends(&self, job: JobId, status: JobStatus) -> Vec<Task> {
        let end = self.orchestrator.job_end(job).await.unwrap();
        assert_eq!(end, JobEnd::Finished(status));
        self.store.tasks(job).await.unwrap()
    }

    /// Stops the nodes, the transport and the orchestrator, in this order.
    pub async fn stop(self) {
        for node in self.nodes.into_inner().unwrap() {
            node.stop().await;
        }
        if let Some(session) = self.session {
            session.stop().await;
        }
        self.orchestrator.stop().await;
    }
}
