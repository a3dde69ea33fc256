use aws_sdk_s3::operation::put_object::PutObjectOutput;
use bytes::Bytes;
use uuid::Uuid;

use super::super::{ArtifactKey, PutOutcome};
use super::Bucket;
use super::failure::{Failure, Meaning};
use super::retry::Refusal;

/// Metadata that tells which write made an object.
const WRITER: &str = "parkhang-writer";
/// Object that shows whether the server creates at most once. Its name is no key, so that lists leave it out.
const PROBE: &str = ".creates-once";
/// Value of `If-None-Match` that every object matches: the key must be free.
pub(super) const ANY: &str = "*";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    Always,
    Absent,
    /// The key holds this version.
    Holds(&'a str),
}

impl Condition<'_> {
    pub(super) fn if_none_match(self) -> Option<String> {
        (self == Self::Absent).then(|| ANY.to_owned())
    }

    pub(super) fn if_match(self) -> Option<String> {
        match self {
            Self::Holds(version) => Some(format!("\"{version}\"")),
            Self::Always | Self::Absent => None,
        }
    }
}

/// Write of one object, whatever number of requests it takes.
pub(super) struct Writer<'a> {
    pub(super) bucket: &'a Bucket,
    /// Name of the object in the bucket.
    pub(super) object: String,
    pub(super) condition: Condition<'a>,
    /// Id of the write, unlike that of any other.
    id: String,
}

impl<'a> Writer<'a> {
    pub(super) fn new(bucket: &'a Bucket, key: &ArtifactKey, condition: Condition<'a>) -> Self {
        Self {
            object: bucket.object(key.as_str()),
            bucket,
            condition,
            id: Uuid::new_v4().simple().to_string(),
        }
    }

    pub(super) async fn write(&self, bytes: Bytes) -> Result<PutOutcome, Refusal> {
        match self.bucket.options.part_length(bytes.len() as u64) {
            Some(part_length) => self.write_parts(&bytes, part_length).await,
            None => self.write_whole(bytes).await,
        }
    }

    async fn write_whole(&self, bytes: Bytes) -> Result<PutOutcome, Refusal> {
        self.bucket
            .retry
            .run(|attempt| {
                let bytes = bytes.clone();
                async move {
                    let (metadata, value) = self.mark();
                    let sent = self
                        .bucket
                        .put(&self.object, bytes, self.condition, metadata, value);
                    self.outcome(sent.await, attempt).await
                }
            })
            .await
    }

    /// Metadata that marks the object as made by this write.
    pub(super) fn mark(&self) -> (&'static str, &str) {
        (WRITER, &self.id)
    }

    /// Outcome of the `attempt`-th try to make the object appear.
    ///
    /// A key that is taken at the first try is another writer's. Later it may be our own: the object was made and the answer
    /// lost.
    pub(super) async fn outcome<T>(
        &self,
        sent: Result<T, Failure>,
        attempt: u32,
    ) -> Result<PutOutcome, Failure> {
        match sent {
            Ok(_) => Ok(PutOutcome::Created),
            // What the key held is gone.
            Err(failure) if failure.meaning == Meaning::Absent && self.condition.if_match().is_some() => {
                Ok(PutOutcome::Exists)
            }
            Err(failure) if failure.meaning == Meaning::Taken => {
                if attempt > 1 && self.made_the_object().await? {
                    return Ok(PutOutcome::Created);
                }
                Ok(PutOutcome::Exists)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns true if the object that is there now was made by this write.
    pub(super) async fn made_the_object(&self) -> Result<bool, Failure> {
        let bucket = self.bucket;
        let request = bucket
            .client
            .head_object()
            .bucket(bucket.name())
            .key(&self.object);
        match bucket.answered(request.send()).await {
            Ok(found) => {
                let maker = found.metadata().and_then(|metadata| metadata.get(WRITER));
                Ok(maker == Some(&self.id))
            }
            Err(failure) if failure.meaning == Meaning::Absent => Ok(false),
            Err(failure) => Err(failure),
        }
    }
}

impl Bucket {
    async fn put(
        &self,
        object: &str,
        bytes: Bytes,
        condition: Condition<'_>,
        metadata: &str,
        value: &str,
    ) -> Result<PutObjectOutput, Failure> {
        let request = self.client.put_object().bucket(self.name()).key(object);
        let request = request
            .set_if_none_match(condition.if_none_match())
            .set_if_match(condition.if_match())
            .metadata(metadata, value);
        self.answered(request.body(bytes.into()).send()).await
    }

    /// Makes sure, once, that the server honours `If-None-Match`: one that ignores it would overwrite.
    ///
    /// Creates the probe object twice. On a server that does what it is asked, the second one at the latest is refused;
    /// the object stays, so that the next store needs one request only.
    pub(super) async fn check_creates_once(&self) -> Result<(), Refusal> {
        let probe = self.object(PROBE);
        let check = || async {
            for _ in 0..2 {
                let create = |_| self.put(&probe, Bytes::new(), Condition::Absent, WRITER, "probe");
                match self.retry.run(create).await {
                    Ok(_) => {}
                    Err(refusal) if refusal.failure.meaning == Meaning::Taken => return Ok(()),
                    Err(refusal) => return Err(refusal),
                }
            }
            Err(Refusal {
                failure: Failure::new(
                    Meaning::NotImplemented,
                    "OverwritesInsteadOfCreating",
                    "the server ignores If-None-Match, so nothing can be created at most once",
                ),
                attempts: 1,
            })
        };
        self.creates_once.get_or_try_init(check).await.map(|_| ())
    }

    pub(super) async fn delete(&self, key: &ArtifactKey) -> Result<(), Refusal> {
        let object = self.object(key.as_str());
        let deleted = self
            .retry
            .run(|_| async {
                let request = self.client.delete_object().bucket(self.name()).key(&object);
                self.answered(request.send()).await
            })
            .await;
        match deleted {
            Err(refusal) if refusal.failure.meaning != Meaning::Absent => Err(refusal),
            _ => Ok(()),
        }
    }
}
