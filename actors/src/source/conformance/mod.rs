//! Conformance suite that every source of work passes. A site is the store where the sources of several processes meet.

mod cases;
mod chance;
mod server;
mod sites;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use self::sites::{ArtifactSite, QueueSite, StateSite};
use super::{Claim, Clock, SourceError, WorkSource};
use parkhang_core::domain::testing::{at, new_job, pool, stage};
use parkhang_core::domain::{
    ErrorCategory, Fence, JobConfig, JobKey, LeaseReport, LeaseStatus, NewJob, ReportReply, StageError,
    StageName, StageReport, StageVerdict, Task, VolumeId,
};
use parkhang_core::policy::claim::Offer;
use parkhang_core::policy::job_action::JobAction;
use parkhang_state::{EmbeddedPostgres, MemoryStore, PostgresStore, StateError};
use parkhang_store::storage::{LocalStore, MemoryArtifacts};

/// Seconds that a lease lasts, and losses in a row that set a volume aside.
const LEASE: i64 = 60;
const MAX_INTERRUPTIONS: i32 = 3;

#[async_trait]
trait Site: Send + Sync {
    /// Makes the job `job`, of two stages.
    async fn create(&self, job: NewJob);

    /// The source as a process of its own sees it.
    fn open(&self, name: &str, clock: Arc<dyn Clock>) -> Arc<dyn WorkSource>;

    /// Pauses, resumes or cancels the job.
    async fn act(&self, action: JobAction);

    /// All tasks as they are, in the order of their volumes.
    async fn tasks(&self) -> Vec<Task>;
}

impl dyn Site {
    fn process(&self, name: &str) -> Process {
        let clock = Arc::new(ManualClock(Mutex::new(Some(at(0)))));
        Process {
            source: self.open(name, clock.clone()),
            clock,
        }
    }
}

/// A clock that stands still until it is set; one without a time is on a server that does not answer.
#[derive(Debug)]
pub(super) struct ManualClock(Mutex<Option<DateTime<Utc>>>);

impl ManualClock {
    fn set(&self, now: DateTime<Utc>) {
        *self.0.lock().unwrap() = Some(now);
    }
}

#[async_trait]
impl Clock for ManualClock {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError> {
        let away = || SourceError::State(StateError::Unavailable("away".to_owned()));
        self.0.lock().unwrap().ok_or_else(away)
    }
}

/// A source that does each thing at a given time.
#[derive(Clone)]
struct Process {
    source: Arc<dyn WorkSource>,
    clock: Arc<ManualClock>,
}

impl Process {
    async fn claim(&self, offers: &[Offer], now: DateTime<Utc>) -> Result<Vec<Claim>, SourceError> {
        self.clock.set(now);
        self.source.claim(offers).await
    }

    async fn renew(&self, fences: &[Fence], now: DateTime<Utc>) -> Result<Vec<LeaseStatus>, SourceError> {
        self.clock.set(now);
        self.source.renew(fences).await
    }

    /// Asks a store that does not answer.
    async fn misses(&self, fence: &Fence) {
        *self.clock.0.lock().unwrap() = None;
        let answer = self.source.renew(std::slice::from_ref(fence)).await;
        assert!(answer.is_err(), "{answer:?}");
    }

    async fn release(&self, fence: Fence, now: DateTime<Utc>) -> Result<ReportReply, SourceError> {
        self.clock.set(now);
        self.source.release(fence).await
    }

    async fn leave(&self, now: DateTime<Utc>) -> Result<(), SourceError> {
        self.clock.set(now);
        self.source.leave().await
    }
}

fn memory() -> Arc<dyn Site> {
    Arc::new(StateSite::new(Arc::new(MemoryStore::new())))
}

fn artifacts_in_memory() -> Arc<dyn Site> {
    Arc::new(ArtifactSite::new(Arc::new(MemoryArtifacts::new())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn state_in_memory() {
    cases::suite(async || memory()).await;
    chance::suite(100, async || memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres() {
    let server = EmbeddedPostgres::temporary().unwrap();
    let count = AtomicUsize::new(0);
    let make = async || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let options = server.create_database(&format!("source_{number}")).await.unwrap();
        let store = PostgresStore::connect_with(options).await.unwrap();
        Arc::new(StateSite::new(Arc::new(store))) as Arc<dyn Site>
    };
    cases::suite(&make).await;
    chance::suite(8, &make).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queues_in_memory() {
    let fifo = async || Arc::new(QueueSite::new(Arc::new(MemoryStore::new())).await) as Arc<dyn Site>;
    cases::suite(&fifo).await;
    chance::suite(100, &fifo).await;
    let standard =
        async || Arc::new(QueueSite::standard(Arc::new(MemoryStore::new())).await) as Arc<dyn Site>;
    cases::suite(&standard).await;
    chance::suite(100, &standard).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queues_beside_postgres() {
    let server = EmbeddedPostgres::temporary().unwrap();
    let count = AtomicUsize::new(0);
    let make = async || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let options = server.create_database(&format!("queues_{number}")).await.unwrap();
        let store = PostgresStore::connect_with(options).await.unwrap();
        Arc::new(QueueSite::new(Arc::new(store)).await) as Arc<dyn Site>
    };
    cases::suite(&make).await;
    chance::suite(8, &make).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn shards_in_memory() {
    cases::suite(async || artifacts_in_memory()).await;
    chance::suite(100, async || artifacts_in_memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn shards_in_a_folder() {
    let root = tempfile::tempdir().unwrap();
    let count = AtomicUsize::new(0);
    let make = async || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let folder = root.path().join(number.to_string());
        let store = LocalStore::open(&folder).await.unwrap();
        Arc::new(ArtifactSite::new(Arc::new(store))) as Arc<dyn Site>
    };
    cases::suite(&make).await;
    chance::suite(8, &make).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn shards_in_a_bucket() {
    let make = async || Arc::new(ArtifactSite::in_a_bucket().await) as Arc<dyn Site>;
    cases::suite(&make).await;
    chance::suite(8, &make).await;
}

fn key() -> JobKey {
    JobKey::new("job").unwrap()
}

/// A job over so many volumes, each of which goes through `detect` and `read`.
fn job_of(volumes: usize) -> NewJob {
    NewJob {
        key: Some(key()),
        config: JobConfig {
            retry_backoff_s: 8.0,
            max_attempts: 2,
            ..JobConfig::default()
        },
        volumes: (0..volumes)
            .map(|n| VolumeId::new("W1", format!("I{n:03}")).unwrap())
            .collect(),
        ..new_job(&["detect", "read"], 0)
    }
}

/// Room for so many tasks of a stage, in a pool of its own.
fn room(stage: &str, free: usize) -> Offer {
    Offer {
        pool: pool(&format!("pool of {stage}"), stage, free),
        free,
        in_hand: 0,
    }
}

fn both(free: usize) -> Vec<Offer> {
    vec![room("detect", free), room("read", free)]
}

fn success() -> Option<StageVerdict> {
    Some(StageVerdict::Succeeded(StageReport::default()))
}

fn failure(category: ErrorCategory) -> Option<StageVerdict> {
    Some(StageVerdict::Failed(StageError::new(
        "stage",
        category,
        "went wrong",
    )))
}

async fn complete(
    process: &Process,
    claim: &Claim,
    verdict: Option<StageVerdict>,
    now: DateTime<Utc>,
) -> ReportReply {
    let fence = claim.assignment.fence.clone();
    process.clock.set(now);
    process
        .source
        .complete(LeaseReport { fence, verdict })
        .await
        .unwrap()
}

/// Volume and stage of each claim, as `I000 detect`.
fn names(claims: &[Claim]) -> Vec<String> {
    let mut names: Vec<String> = claims
        .iter()
        .map(|claim| {
            format!(
                "{} {}",
                claim.assignment.volume.i_id(),
                claim.assignment.fence.stage
            )
        })
        .collect();
    names.sort();
    names
}
