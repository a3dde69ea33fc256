use std::time::Duration;

use parkhang_queue::{MemoryServer, QueueServer, QueueSpec};
use parkhang_test_s3::{ACCESS_KEY, BUCKET, Endpoint, SECRET_KEY};

use super::*;
use crate::source::shards::fresh_task;
use crate::source::{
    JobManifest, Publisher, QueueClaims, QueueOptions, ShardOptions, ShardOrder, ShardSize, Shards,
    StageQueues, StateClaims, TaskRecord,
};
use parkhang_state::{Outbox, StateStore};
use parkhang_store::artifact::ShardLayout;
use parkhang_store::storage::{ArtifactStore, S3Options, S3Store, StorageError};

/// Sources that meet in a state store.
pub(super) struct StateSite {
    store: Arc<dyn StateStore>,
}

impl StateSite {
    pub(super) fn new(store: Arc<dyn StateStore>) -> Self {
        Self { store }
    }
}

#[async_trait]
impl Site for StateSite {
    async fn create(&self, job: NewJob) {
        self.store.create_job(&job, at(0)).await.unwrap();
    }

    fn open(&self, _: &str, clock: Arc<dyn Clock>) -> Arc<dyn WorkSource> {
        let lease = TimeDelta::seconds(LEASE);
        Arc::new(StateClaims::new(
            self.store.clone(),
            clock,
            lease,
            MAX_INTERRUPTIONS,
        ))
    }

    async fn act(&self, action: JobAction) {
        let job = self.store.job(&key()).await.unwrap().unwrap();
        self.store.act_on_job(job.id, action).await.unwrap();
    }

    async fn tasks(&self) -> Vec<Task> {
        let job = self.store.job(&key()).await.unwrap().unwrap();
        self.store.tasks(job.id).await.unwrap()
    }
}

/// Sources that meet in an artifact store, over shards of three volumes.
pub(super) struct ArtifactSite {
    store: Arc<dyn ArtifactStore>,
    _endpoint: Option<Endpoint>,
}

impl ArtifactSite {
    pub(super) fn new(store: Arc<dyn ArtifactStore>) -> Self {
        Self {
            store,
            _endpoint: None,
        }
    }

    pub(super) async fn in_a_bucket() -> Self {
        let endpoint = Endpoint::start().await;
        let mut options = S3Options::new(BUCKET).with_endpoint(&endpoint.url);
        options.region = Some("us-east-1".to_owned());
        let store = S3Store::open_with_keys(options, ACCESS_KEY, SECRET_KEY).await;
        Self {
            store: Arc::new(store.unwrap()),
            _endpoint: Some(endpoint),
        }
    }
}

#[async_trait]
impl Site for ArtifactSite {
    async fn create(&self, job: NewJob) {
        let size = ShardSize::new(3).unwrap();
        JobManifest::create(self.store.as_ref(), &job, size, at(0))
            .await
            .unwrap();
    }

    fn open(&self, name: &str, clock: Arc<dyn Clock>) -> Arc<dyn WorkSource> {
        let options = ShardOptions {
            worker: name.to_owned(),
            jobs: vec![key()],
            lease: TimeDelta::seconds(LEASE),
            max_interruptions: MAX_INTERRUPTIONS,
        };
        Arc::new(Shards::new(self.store.clone(), clock, options))
    }

    async fn act(&self, action: JobAction) {
        let order = match action {
            JobAction::Pause => ShardOrder::Pause,
            JobAction::Resume => ShardOrder::Resume,
            JobAction::Cancel => ShardOrder::Cancel,
            JobAction::Rerun
            | JobAction::Reopen
            | JobAction::Update
            | JobAction::Close
            | JobAction::Delete => {
                panic!("not an order to shards")
            }
        };
        let manifest = JobManifest::read(self.store.as_ref(), &key()).await.unwrap();
        manifest.order(self.store.as_ref(), order, at(0)).await.unwrap();
    }

    /// Read object by object, without the code that is put to the test.
    async fn tasks(&self) -> Vec<Task> {
        let store = self.store.as_ref();
        let layout = ShardLayout::new(&key());
        let manifest = JobManifest::read(store, &key()).await.unwrap();
        let mut tasks = Vec::new();
        for shard in 0..manifest.shards {
            for volume in manifest.volumes(store, shard).await.unwrap() {
                let mut task = fresh_task(&manifest, volume.clone());
                for step in 1.. {
                    match store.get(&layout.record(shard, &volume, step)).await {
                        Ok(bytes) => task = serde_json::from_slice::<TaskRecord>(&bytes).unwrap().task,
                        Err(StorageError::NotFound { .. }) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                tasks.push(task);
            }
        }
        tasks
    }
}

/// Sources that meet in the queues of two stages and a state store, with a publisher beside them.
pub(super) struct QueueSite<S> {
    store: Arc<S>,
    state: StateSite,
    queues: StageQueues,
}

impl<S: StateStore + Outbox + 'static> QueueSite<S> {
    /// Site on FIFO queues of a server in memory.
    pub(super) async fn new(store: Arc<S>) -> Self {
        Self::on(&MemoryServer::new(), ".fifo", store).await
    }

    /// Site on standard queues of a server in memory, which keep no order.
    pub(super) async fn standard(store: Arc<S>) -> Self {
        Self::on(&MemoryServer::new(), "", store).await
    }

    async fn on(server: &dyn QueueServer, kind: &'static str, store: Arc<S>) -> Self {
        let queues = StageQueues::default();
        for name in ["detect", "read"] {
            let spec = QueueSpec::new(format!("{name}{kind}"));
            queues.found(&stage(name), server.create(&spec).await.unwrap());
        }
        let state = StateSite::new(store.clone());
        Self { store, state, queues }
    }
}

/// A source beside a publisher that has its turn before each claim, as an orchestrator would have.
#[derive(Debug)]
struct Published {
    publisher: Publisher,
    source: QueueClaims,
}

#[async_trait]
impl WorkSource for Published {
    async fn claim(&self, offers: &[Offer]) -> Result<Vec<Claim>, SourceError> {
        let mut claims: Vec<Claim> = Vec::new();
        // Once more at least, as what a claim has ended is published then; and until no receive is under way, whose messages a death
        // would leave invisible for longer than the suite takes.
        let mut turns = 0;
        while turns < 3 || self.source.has_receives_under_way() {
            self.publisher.round().await.unwrap();
            let mut left = offers.to_vec();
            for claim in &claims {
                let offer = left
                    .iter_mut()
                    .find(|offer| offer.pool.worker == claim.worker)
                    .unwrap();
                (offer.free, offer.in_hand) = (offer.free - 1, offer.in_hand + 1);
                if claim.alone {
                    left.iter_mut().for_each(|offer| offer.free = 0);
                }
            }
            claims.extend(self.source.claim(&left).await?);
            turns += 1;
        }
        Ok(claims)
    }

    async fn renew(&self, fences: &[Fence]) -> Result<Vec<LeaseStatus>, SourceError> {
        self.source.renew(fences).await
    }

    async fn complete(&self, report: LeaseReport) -> Result<ReportReply, SourceError> {
        self.source.complete(report).await
    }

    async fn leave(&self) -> Result<(), SourceError> {
        self.source.leave().await
    }
}

#[async_trait]
impl<S: StateStore + Outbox + 'static> Site for QueueSite<S> {
    async fn create(&self, job: NewJob) {
        self.state.create(job).await;
    }

    fn open(&self, _: &str, clock: Arc<dyn Clock>) -> Arc<dyn WorkSource> {
        let options = QueueOptions {
            wait: Duration::ZERO,
            ..QueueOptions::default()
        };
        let lease = TimeDelta::seconds(LEASE);
        Arc::new(Published {
            publisher: Publisher::new(
                self.store.clone(),
                clock.clone(),
                self.queues.clone(),
                TimeDelta::minutes(10),
            ),
            source: QueueClaims::new(
                self.store.clone(),
                clock,
                lease,
                MAX_INTERRUPTIONS,
                self.queues.clone(),
                options,
            ),
        })
    }

    async fn act(&self, action: JobAction) {
        self.state.act(action).await;
    }

    async fn tasks(&self) -> Vec<Task> {
        self.state.tasks().await
    }
}
