use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::super::PutOutcome;
use super::bounded;
use super::failure::{Failure, Meaning};
use super::retry::{Refusal, Retry};
use super::write::Writer;

impl Writer<'_> {
    /// Uploads an object in parts. Nothing is seen of it before the last step.
    pub(super) async fn write_parts(&self, bytes: &Bytes, part_length: u64) -> Result<PutOutcome, Refusal> {
        let retry = self.bucket.retry;
        let mut attempt = 1;
        loop {
            match self.upload(bytes, part_length).await {
                // Another write of the key, or a cleaner of old uploads, got in the way: the parts are gone.
                Err(refusal)
                    if refusal.failure.meaning == Meaning::UploadGone && attempt < retry.attempts =>
                {
                    retry.pause(attempt).await;
                    attempt += 1;
                }
                settled => return settled,
            }
        }
    }

    async fn upload(&self, bytes: &Bytes, part_length: u64) -> Result<PutOutcome, Refusal> {
        let upload = self.begin().await?;
        let uploaded = async {
            let parts = self.send_parts(&upload, bytes, part_length).await?;
            self.complete(&upload, parts).await
        };
        let outcome = uploaded.await;
        match outcome {
            Ok(PutOutcome::Created) => upload.finish(),
            // Also where the key is taken: parts that nobody completes cost money.
            _ => upload.abort().await,
        }
        outcome
    }

    async fn begin(&self) -> Result<Upload, Refusal> {
        let bucket = self.bucket;
        let (metadata, value) = self.mark();
        let id = bucket
            .retry
            .run(|_| async {
                let request = bucket
                    .client
                    .create_multipart_upload()
                    .bucket(bucket.name())
                    .key(&self.object)
                    .set_checksum_algorithm(bucket.part_checksum.clone())
                    .metadata(metadata, value);
                let answer = bucket.answered(request.send()).await?;
                let no_id = || Failure::network("NoUploadId", "the answer gives no upload id");
                answer.upload_id.ok_or_else(no_id)
            })
            .await?;
        Ok(Upload {
            place: Some(Arc::new(Place {
                client: bucket.client.clone(),
                bucket: bucket.name().to_owned(),
                object: self.object.clone(),
                id,
                retry: bucket.retry,
                answer_timeout: bucket.options.answer_timeout,
            })),
        })
    }

    async fn send_parts(
        &self,
        upload: &Upload,
        bytes: &Bytes,
        part_length: u64,
    ) -> Result<Vec<CompletedPart>, Refusal> {
        let part_length = usize::try_from(part_length).unwrap_or(usize::MAX);
        let starts = (0..bytes.len()).step_by(part_length);
        let parts = (1..).zip(starts).map(|(number, start)| {
            let end = start.saturating_add(part_length).min(bytes.len());
            self.send_part(upload, number, bytes.slice(start..end))
        });
        let concurrency = self.bucket.options.part_concurrency.max(1);
        // In order, as the request that completes the upload must list the parts by ascending number.
        stream::iter(parts).buffered(concurrency).try_collect().await
    }

    async fn send_part(&self, upload: &Upload, number: i32, bytes: Bytes) -> Result<CompletedPart, Refusal> {
        let bucket = self.bucket;
        bucket
            .retry
            .run(|_| async {
                let request = bucket
                    .client
                    .upload_part()
                    .bucket(bucket.name())
                    .key(&self.object)
                    .set_upload_id(upload.id())
                    .set_checksum_algorithm(bucket.part_checksum.clone())
                    .part_number(number)
                    .body(bytes.clone().into());
                let answer = bucket.answered(request.send()).await?;
                Ok(CompletedPart::builder()
                    .part_number(number)
                    .set_e_tag(answer.e_tag)
                    .set_checksum_crc32(answer.checksum_crc32)
                    .build())
            })
            .await
    }

    async fn complete(&self, upload: &Upload, parts: Vec<CompletedPart>) -> Result<PutOutcome, Refusal> {
        let bucket = self.bucket;
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        bucket
            .retry
            .run(|attempt| {
                let request = bucket
                    .client
                    .complete_multipart_upload()
                    .bucket(bucket.name())
                    .key(&self.object)
                    .set_upload_id(upload.id())
                    .set_if_none_match(self.condition.if_none_match())
                    .set_if_match(self.condition.if_match())
                    .multipart_upload(parts.clone());
                async move {
                    let sent = bucket
                        .answered(request.send())
                        .await
                        .map_err(conflict_ends_upload);
                    match self.outcome(sent, attempt).await {
                        // It was completed by a try whose answer was lost, or it is gone for good.
                        Err(failure) if failure.meaning == Meaning::UploadGone && attempt > 1 => {
                            match self.made_the_object().await? {
                                true => Ok(PutOutcome::Created),
                                false => Err(failure),
                            }
                        }
                        outcome => outcome,
                    }
                }
            })
            .await
    }
}

/// Failure with a conflict turned into the end of the upload: S3 then wants the whole upload again, not its last step.
fn conflict_ends_upload(mut failure: Failure) -> Failure {
    if failure.meaning == Meaning::Conflict {
        failure.meaning = Meaning::UploadGone;
    }
    failure
}

/// Upload that parts belong to until it is completed or aborted; they cost money while they wait.
struct Place {
    client: Client,
    bucket: String,
    object: String,
    id: String,
    retry: Retry,
    answer_timeout: Duration,
}

impl Place {
    /// Best effort: what stays is for the bucket's rule on incomplete uploads.
    async fn abort(&self) {
        let request = |_| async {
            let request = self
                .client
                .abort_multipart_upload()
                .bucket(&self.bucket)
                .key(&self.object)
                .upload_id(&self.id);
            bounded(self.answer_timeout, request.send())
                .await?
                .map_err(Failure::from)
        };
        match self.retry.run(request).await {
            Err(refusal) if refusal.failure.meaning != Meaning::UploadGone => {
                tracing::warn!(object = self.object, ?refusal, "parts of an upload stay behind");
            }
            _ => {}
        }
    }
}

/// Upload in progress: aborted unless it is finished, also if its future is dropped.
struct Upload {
    place: Option<Arc<Place>>,
}

impl Upload {
    fn id(&self) -> Option<String> {
        self.place.as_ref().map(|place| place.id.clone())
    }

    fn finish(mut self) {
        self.place = None;
    }

    async fn abort(mut self) {
        if let Some(place) = self.place.clone() {
            place.abort().await;
            self.place = None;
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // Without a runtime the process is about to end, and the bucket's rule on incomplete uploads has to
        // do it.
        if let (Some(place), Ok(runtime)) = (self.place.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { place.abort().await });
        }
    }
}
