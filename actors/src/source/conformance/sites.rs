use parkhang_test_s3::{ACCESS_KEY, BUCKET, Endpoint, SECRET_KEY};

use super::*;
use crate::source::shards::fresh_task;
use crate::source::{JobManifest, ShardOptions, ShardOrder, ShardSize, Shards, StateClaims, TaskRecord};
use parkhang_state::StateStore;
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
            JobAction::Rerun | JobAction::Reopen | JobAction::Update | JobAction::Delete => {
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
