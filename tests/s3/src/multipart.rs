use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use bytes::Bytes;
use md5::{Digest, Md5};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput, ETag, Metadata,
    UploadPartInput, UploadPartOutput,
};
use s3s::{S3Response, S3Result, s3_error};

use crate::objects::{Objects, Stored, check_bucket, collect};

const MIN_PART_BYTES: usize = 5 << 20;

#[derive(Debug, Default)]
pub(crate) struct Uploads {
    begun: u64,
    pending: BTreeMap<String, Pending>,
}

#[derive(Debug)]
struct Pending {
    key: String,
    metadata: Option<Metadata>,
    parts: BTreeMap<i32, Bytes>,
}

impl Objects {
    fn uploads(&self) -> MutexGuard<'_, Uploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uploads that are neither completed nor aborted.
    pub fn pending_uploads(&self) -> usize {
        self.uploads().pending.len()
    }

    pub(crate) fn begin_upload(
        &self,
        input: CreateMultipartUploadInput,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        check_bucket(&input.bucket)?;
        let mut uploads = self.uploads();
        uploads.begun += 1;
        let id = format!("upload-{}", uploads.begun);
        let pending = Pending {
            key: input.key,
            metadata: input.metadata,
            parts: BTreeMap::new(),
        };
        uploads.pending.insert(id.clone(), pending);
        Ok(S3Response::new(CreateMultipartUploadOutput {
            upload_id: Some(id),
            ..Default::default()
        }))
    }

    pub(crate) async fn take_part(&self, input: UploadPartInput) -> S3Result<S3Response<UploadPartOutput>> {
        let bytes = collect(input.body).await?;
        let etag = hex::encode(Md5::digest(&bytes));
        let mut uploads = self.uploads();
        let pending = uploads.pending.get_mut(&input.upload_id);
        let pending = pending.ok_or_else(|| s3_error!(NoSuchUpload))?;
        pending.parts.insert(input.part_number, bytes);
        Ok(S3Response::new(UploadPartOutput {
            e_tag: Some(ETag::Strong(etag)),
            ..Default::default()
        }))
    }

    pub(crate) fn complete_upload(
        &self,
        input: CompleteMultipartUploadInput,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let mut uploads = self.uploads();
        let pending = uploads.pending.get(&input.upload_id);
        let pending = pending
            .filter(|pending| pending.key == input.key)
            .ok_or_else(|| s3_error!(NoSuchUpload))?;
        let named = input
            .multipart_upload
            .and_then(|upload| upload.parts)
            .unwrap_or_default();
        let (mut bytes, mut digests) = (Vec::new(), Vec::new());
        for (index, part) in named.iter().enumerate() {
            let number = part.part_number.unwrap_or_default();
            let sent = pending.parts.get(&number).ok_or_else(|| s3_error!(InvalidPart))?;
            let digest = Md5::digest(sent);
            let etag = ETag::Strong(hex::encode(digest));
            if part.e_tag.as_ref() != Some(&etag) {
                return Err(s3_error!(InvalidPart));
            }
            if index > 0 && named[index - 1].part_number >= part.part_number {
                return Err(s3_error!(InvalidPartOrder));
            }
            if index + 1 < named.len() && sent.len() < MIN_PART_BYTES {
                return Err(s3_error!(EntityTooSmall));
            }
            bytes.extend_from_slice(sent);
            digests.extend_from_slice(&digest);
        }
        let etag = format!("{}-{}", hex::encode(Md5::digest(&digests)), named.len());
        let object = Stored {
            bytes: Bytes::from(bytes),
            etag: etag.clone(),
            metadata: pending.metadata.clone(),
        };
        let (absent, held) = (input.if_none_match.as_ref(), input.if_match.as_ref());
        self.store(&input.key, object, absent, held)?;
        uploads.pending.remove(&input.upload_id);
        self.upload_ended.notify_one();
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            e_tag: Some(ETag::Strong(etag)),
            ..Default::default()
        }))
    }

    pub(crate) fn abort_upload(
        &self,
        input: &AbortMultipartUploadInput,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let removed = self.uploads().pending.remove(&input.upload_id);
        removed.ok_or_else(|| s3_error!(NoSuchUpload))?;
        self.upload_ended.notify_one();
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }
}
