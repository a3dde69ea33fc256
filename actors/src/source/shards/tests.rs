use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};

use super::*;
use crate::source::{Claim, Clock, SourceError, WorkSource};
use crate::telemetry::testing::Measured;
use parkhang_core::domain::testing::{self, at, new_job, pool};
use parkhang_core::domain::{
    JobConfig, JobKey, JobStatus, LeaseReport, NewJob, ReportReply, StageReport, StageVerdict,
};
use parkhang_core::policy::claim::Offer;
use parkhang_store::artifact::ShardLayout;
use parkhang_store::storage::{
    ArtifactKey, ArtifactStore, MemoryArtifacts, ObjectMeta, PutOutcome, StorageError,
};

const LEASE: TimeDelta = TimeDelta::seconds(60);

/// A store of which each request takes a time, and the clock by which it does.
#[derive(Debug)]
struct Site {
    objects: MemoryArtifacts,
    now: Mutex<DateTime<Utc>>,
    request: TimeDelta,
}

impl Site {
    fn new(request: TimeDelta) -> Arc<Self> {
        Arc::new(Self {
            objects: MemoryArtifacts::new(),
            now: Mutex::new(at(0)),
            request,
        })
    }

    fn time(&self) -> DateTime<Utc> {
        *self.now.lock().unwrap()
    }

    fn pass(&self, time: TimeDelta) {
        *self.now.lock().unwrap() += time;
    }

    async fn create(&self, name: &str, volumes: usize, size: u32) -> JobManifest {
        self.create_with(JobConfig::default(), name, volumes, size).await
    }

    async fn create_with(&self, config: JobConfig, name: &str, volumes: usize, size: u32) -> JobManifest {
        let job = NewJob {
            key: Some(JobKey::new(name).unwrap()),
            config,
            volumes: (0..volumes)
                .map(|n| VolumeId::new("W1", format!("I{n:04}")).unwrap())
                .collect(),
            ..new_job(&["detect", "read"], 0)
        };
        let size = ShardSize::new(size).unwrap();
        JobManifest::create(&self.objects, &job, size, self.time())
            .await
            .unwrap()
    }

    fn process(self: &Arc<Self>, name: &str, jobs: &[&str]) -> Shards {
        let options = ShardOptions {
            worker: name.to_owned(),
            jobs: jobs.iter().map(|job| JobKey::new(*job).unwrap()).collect(),
            lease: LEASE,
            max_interruptions: 3,
        };
        Shards::new(self.clone(), self.clone(), options)
    }

    async fn damage(&self, key: &ArtifactKey) {
        self.objects
            .put(key, Bytes::from_static(b"{ not JSON"))
            .await
            .unwrap();
    }
}

#[async_trait]
impl Clock for Site {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError> {
        Ok(self.time())
    }
}

#[async_trait]
impl ArtifactStore for Site {
    async fn get_within(&self, key: &ArtifactKey, limit: u64) -> Result<Bytes, StorageError> {
        self.pass(self.request);
        self.objects.get_within(key, limit).await
    }

    async fn get_range(&self, key: &ArtifactKey, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.pass(self.request);
        self.objects.get_range(key, range).await
    }

    async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError> {
        self.pass(self.request);
        self.objects.head(key).await
    }

    async fn put(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        self.pass(self.request);
        self.objects.put(key, bytes).await
    }

    async fn put_if_absent(&self, key: &ArtifactKey, bytes: Bytes) -> Result<PutOutcome, StorageError> {
        self.pass(self.request);
        self.objects.put_if_absent(key, bytes).await
    }

    async fn replace(
        &self,
        key: &ArtifactKey,
        bytes: Bytes,
        seen: Option<&str>,
    ) -> Result<PutOutcome, StorageError> {
        self.pass(self.request);
        self.objects.replace(key, bytes, seen).await
    }

    async fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError> {
        self.pass(self.request);
        self.objects.delete(key).await
    }

    async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError> {
        self.pass(self.request);
        self.objects.list(prefix).await
    }
}

fn room(stage: &str, free: usize) -> Vec<Offer> {
    vec![Offer {
        pool: pool(&format!("pool of {stage}"), stage, free),
        free,
        in_hand: 0,
    }]
}

async fn succeed(process: &Shards, claim: &Claim) {
    let fence = claim.assignment.fence.clone();
    let verdict = Some(StageVerdict::Succeeded(StageReport::default()));
    let recording = process.complete(LeaseReport { fence, verdict }).await.unwrap();
    assert_eq!(recording, ReportReply::Recorded);
}

/// Does stages until nothing is found any more.
async fn work(process: &Shards, stage: &str) -> usize {
    let mut done = 0;
    loop {
        let claims = process.claim(&room(stage, 9)).await.unwrap();
        if claims.is_empty() {
            return done;
        }
        for claim in &claims {
            succeed(process, claim).await;
        }
        done += claims.len();
    }
}

#[tokio::test]
async fn what_is_found_among_many_shards_is_handed_out_while_its_leases_are_fresh() {
    let site = Site::new(TimeDelta::milliseconds(100));
    site.create("job", 300, 1).await;
    let process = site.process("p", &["job"]);
    let mut found = 0;
    while found < 300 {
        let asked = site.time();
        let claims = process.claim(&room("detect", 300 - found)).await.unwrap();
        assert!(!claims.is_empty(), "after {found}");
        for claim in &claims {
            let left = claim.assignment.lease_until - site.time();
            assert!(left >= LEASE * 3 / 4, "{left} are left after {found}");
            assert_eq!(asked + claim.lasts, claim.assignment.lease_until);
            // The process works on, and so renews what it has.
            succeed(&process, claim).await;
        }
        found += claims.len();
    }
}

/// Rows: 102.
#[tokio::test]
async fn a_shard_is_left_to_those_that_have_the_models_of_its_job() {
    let site = Site::new(TimeDelta::milliseconds(1));
    let config = JobConfig::default().with_overrides(["models=detect=m"]).unwrap();
    let manifest = site.create_with(config, "job", 2, 1).await;
    let (without, with) = (site.process("p", &["job"]), site.process("q", &["job"]));
    assert!(without.claim(&room("detect", 2)).await.unwrap().is_empty());
    let leases = ShardLayout::new(&manifest.job).lease_folder();
    assert_eq!(
        site.objects.list(&leases).await.unwrap().len(),
        0,
        "none was taken in vain"
    );
    let mut offers = room("detect", 2);
    offers[0].pool.models = vec!["m".to_owned()];
    assert_eq!(with.claim(&offers).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_search_that_finds_nothing_ends_and_goes_on_from_there() {
    let site = Site::new(TimeDelta::milliseconds(100));
    let manifest = site.create("job", 400, 1).await;
    let layout = ShardLayout::new(&manifest.job);
    // What others have just let go, with nothing left in it for this process but in one shard.
    let free = |stage: &str| ShardLease::Free {
        worker: "other".to_owned(),
        waiting: [(testing::stage(stage), site.time())].into(),
    };
    for shard in 0..manifest.shards {
        let stage = if shard == 250 { "detect" } else { "read" };
        let lease = serde_json::to_vec(&free(stage)).unwrap();
        site.objects
            .put(&layout.lease(shard, 1), lease.into())
            .await
            .unwrap();
    }
    let process = site.process("p", &["job"]);
    let mut searches = 0;
    let found = loop {
        let began = site.time();
        let claims = process.claim(&room("detect", 1)).await.unwrap();
        searches += 1;
        let took = site.time() - began;
        assert!(took <= LEASE / 4, "a search took {took}");
        if let Some(claim) = claims.into_iter().next() {
            break claim;
        }
        assert!(searches < 20, "the shard is never reached");
    };
    assert_eq!(found.assignment.volume.i_id(), "I0250");
}

#[tokio::test]
async fn what_cannot_be_read_costs_no_more_than_itself() {
    let measured = Measured::begin();
    let site = Site::new(TimeDelta::zero());
    let broken = site.create("broken", 2, 2).await;
    site.damage(&ShardLayout::new(&broken.job).job()).await;
    let manifest = site.create("job", 8, 2).await;
    let layout = ShardLayout::new(&manifest.job);
    let volume = |n: u32| VolumeId::new("W1", format!("I{n:04}")).unwrap();
    let objects = [
        layout.lease(0, 1),
        layout.shard(1),
        layout.record(2, &volume(4), 1),
    ];
    for key in &objects {
        site.damage(key).await;
    }

    let process = site.process("p", &["broken", "job"]);
    let claims = process.claim(&room("detect", 9)).await.unwrap();
    let mut volumes: Vec<&str> = claims
        .iter()
        .map(|claim| claim.assignment.volume.i_id())
        .collect();
    volumes.sort_unstable();
    assert_eq!(volumes, ["I0005", "I0006", "I0007"]);
    measured.assert_has(&["parkhang_source_objects_unreadable_total{} 4"]);
    for claim in &claims {
        succeed(&process, claim).await;
    }
    assert_eq!(work(&process, "read").await, 3);
    process.leave().await.unwrap();

    let survey = ShardSurvey::of(&site.objects, &manifest.job).await.unwrap();
    let unreadable: Vec<String> = survey.unreadable.iter().map(ToString::to_string).collect();
    assert_eq!(unreadable.len(), 2, "{unreadable:?}");
    for (text, key) in unreadable.iter().zip([&objects[1], &objects[2]]) {
        assert!(text.contains(key.as_str()), "{text}");
    }
    assert_eq!(survey.done(), 3);
    assert!(!survey.is_finished());
    let is_marked = async |shard| site.objects.head(&layout.done(shard)).await.unwrap().is_some();
    assert!(
        !is_marked(2).await,
        "a shard with a volume of unknown state is not finished"
    );
    assert!(is_marked(3).await);

    // Once the objects are mended, everything is done.
    site.objects.delete(&objects[0]).await.unwrap();
    site.objects.delete(&objects[2]).await.unwrap();
    let lines = b"{\"volume_id\":\"W1-I0002\"}\n{\"volume_id\":\"W1-I0003\"}\n";
    site.objects
        .put(&objects[1], Bytes::from_static(lines))
        .await
        .unwrap();
    site.pass(TimeDelta::minutes(10));
    let next = site.process("next", &["job"]);
    assert_eq!(work(&next, "detect").await, 5);
    assert_eq!(work(&next, "read").await, 5);
    let survey = ShardSurvey::of(&site.objects, &manifest.job).await.unwrap();
    assert_eq!((survey.done(), survey.unreadable.len()), (8, 0));
    assert!(survey.is_finished());
}

#[tokio::test]
async fn an_object_that_cannot_be_read_costs_its_shard_alone_when_a_process_leaves() {
    let site = Site::new(TimeDelta::zero());
    let manifest = site.create("job", 4, 2).await;
    let layout = ShardLayout::new(&manifest.job);
    let first = site.process("first", &["job"]);
    assert_eq!(work(&first, "detect").await, 4);
    for claim in first.claim(&room("read", 4)).await.unwrap() {
        match claim.assignment.volume.i_id() {
            "I0000" | "I0002" => succeed(&first, &claim).await,
            _ => drop(first.release(claim.assignment.fence).await.unwrap()),
        }
    }
    first.leave().await.unwrap();

    let process = site.process("next", &["job"]);
    let rest = process.claim(&room("read", 4)).await.unwrap();
    assert_eq!(rest.len(), 2);
    for claim in &rest {
        succeed(&process, claim).await;
    }
    // From which the marker of the volume would be written.
    let volume = VolumeId::new("W1", "I0000").unwrap();
    site.damage(&layout.record(0, &volume, 4)).await;
    process.leave().await.unwrap();
    let done = site.objects.list(&layout.done_folder()).await.unwrap();
    let done: Vec<&ArtifactKey> = done.iter().map(|(key, _)| key).collect();
    assert_eq!(done, [&layout.done(1)]);
}

#[tokio::test]
async fn a_finished_shard_keeps_none_of_its_earlier_leases_and_stays_lost_for_who_held_them() {
    let site = Site::new(TimeDelta::zero());
    let manifest = site.create("job", 2, 2).await;
    let layout = ShardLayout::new(&manifest.job);
    let (frozen, next) = (site.process("frozen", &["job"]), site.process("next", &["job"]));
    let held = frozen.claim(&room("detect", 1)).await.unwrap().remove(0);
    site.pass(LEASE);
    assert_eq!(work(&next, "detect").await, 2);
    assert_eq!(work(&next, "read").await, 2);
    let leases = site.objects.list(&layout.lease_folder()).await.unwrap();
    let terms: Vec<u32> = leases
        .iter()
        .filter_map(|(key, _)| Some(layout.term_of_lease(key)?.1))
        .collect();
    assert!(terms.len() == 2 && terms[0] > 1, "{terms:?}");

    let fences = [held.assignment.fence.clone()];
    assert_eq!(
        frozen.renew(&fences).await.unwrap(),
        [parkhang_core::domain::LeaseStatus::Lost]
    );
    let report = LeaseReport {
        fence: held.assignment.fence,
        verdict: Some(StageVerdict::Succeeded(StageReport::default())),
    };
    assert_eq!(frozen.complete(report).await.unwrap(), ReportReply::Fenced);
}

#[tokio::test]
async fn orders_are_what_a_job_allows_and_a_cancelled_one_stays_so() {
    let site = Site::new(TimeDelta::zero());
    let manifest = site.create("job", 1, 1).await;
    let order = async |order| manifest.order(&site.objects, order, site.time()).await;
    let status = async || {
        ShardSurvey::of(&site.objects, &manifest.job)
            .await
            .unwrap()
            .ordered
    };
    for _ in 0..2 {
        assert_eq!(order(ShardOrder::Pause).await.unwrap(), JobStatus::Paused);
        assert_eq!(status().await, JobStatus::Paused);
    }
    for _ in 0..2 {
        assert_eq!(order(ShardOrder::Resume).await.unwrap(), JobStatus::Running);
        assert_eq!(status().await, JobStatus::Running);
    }
    order(ShardOrder::Pause).await.unwrap();
    for _ in 0..2 {
        assert_eq!(order(ShardOrder::Cancel).await.unwrap(), JobStatus::Cancelled);
        assert_eq!(status().await, JobStatus::Cancelled);
    }
    for refused in [ShardOrder::Pause, ShardOrder::Resume] {
        let error = order(refused).await.unwrap_err();
        assert!(matches!(error, ShardError::Forbidden(_)), "{error}");
    }

    let finished = site.create("finished", 1, 1).await;
    let process = site.process("p", &["finished"]);
    assert_eq!(work(&process, "detect").await + work(&process, "read").await, 2);
    let error = finished
        .order(&site.objects, ShardOrder::Cancel, site.time())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "a job that is completed cannot be cancelled");
}

#[tokio::test]
async fn manifests_have_what_ids_have_room_for() {
    let site = Site::new(TimeDelta::zero());
    let manifest = site.create("job", 1, 1).await;
    let layout = ShardLayout::new(&manifest.job);
    let line = "{\"volume_id\":\"W1-I1\"}\n";
    let lines = line.repeat(ShardSize::MAX as usize + 1);
    site.objects.put(&layout.shard(0), lines.into()).await.unwrap();
    // As job.json was before it had digests, which would refuse the shard for being another one.
    let without_digests = JobManifest {
        shards_sha256: Vec::new(),
        ..manifest.clone()
    };
    let error = without_digests.volumes(&site.objects, 0).await.unwrap_err();
    assert!(error.to_string().contains("a shard has from 1 to"), "{error}");

    let vast = JobManifest {
        shards: place::MAX_SHARDS + 1,
        ..manifest.clone()
    };
    let vast = serde_json::to_vec(&vast).unwrap();
    site.objects.put(&layout.job(), vast.into()).await.unwrap();
    let error = JobManifest::read(&site.objects, &manifest.job).await.unwrap_err();
    assert!(matches!(error, ShardError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn a_shard_of_another_process_that_made_the_job_at_once_is_refused() {
    let site = Site::new(TimeDelta::zero());
    let manifest = site.create("job", 2, 1).await;
    let key = ShardLayout::new(&manifest.job).shard(1);
    let own = site.objects.get(&key).await.unwrap();
    // The other one looked for job.json before it was there, and is late with its shards.
    let others = "{\"volume_id\":\"W9-I9\"}\n";
    site.objects.put(&key, others.into()).await.unwrap();
    assert_eq!(manifest.volumes(&site.objects, 0).await.unwrap().len(), 1);
    let error = manifest.volumes(&site.objects, 1).await.unwrap_err();
    assert!(matches!(error, ShardError::Damaged { .. }), "{error}");
    site.objects.put(&key, own).await.unwrap();
    assert_eq!(manifest.volumes(&site.objects, 1).await.unwrap().len(), 1);
}
