use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::TryStreamExt;
use md5::{Digest, Md5};
use s3s::dto::{
    CommonPrefix, DeleteObjectInput, DeleteObjectOutput, ETag, GetObjectInput, GetObjectOutput,
    HeadObjectInput, HeadObjectOutput, IfMatch, IfNoneMatch, ListObjectsV2Input, ListObjectsV2Output,
    Metadata, Object, PutObjectInput, PutObjectOutput, StreamingBlob,
};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use tokio::sync::Notify;

use super::multipart::Uploads;

/// Name of the server's one bucket.
pub const BUCKET: &str = "pages";

/// Objects per page of a list, few so that tests see several.
const PAGE: usize = 7;

#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) bytes: Bytes,
    pub(crate) etag: String,
    pub(crate) metadata: Option<Metadata>,
}

/// The one bucket of the server, shared by the clones. Each request takes effect at one instant.
#[derive(Debug, Clone)]
pub struct Objects {
    conditions: bool,
    stored: Arc<Mutex<BTreeMap<String, Stored>>>,
    pub(crate) uploads: Arc<Mutex<Uploads>>,
    /// Told of each upload that ends, completed or aborted.
    pub upload_ended: Arc<Notify>,
}

impl Objects {
    pub(crate) fn new(conditions: bool) -> Self {
        Self {
            conditions,
            stored: Arc::default(),
            uploads: Arc::default(),
            upload_ended: Arc::default(),
        }
    }

    fn stored(&self) -> MutexGuard<'_, BTreeMap<String, Stored>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn bytes(&self, name: &str) -> Option<Bytes> {
        self.stored().get(name).map(|stored| stored.bytes.clone())
    }

    /// The objects below a folder, by their names there.
    pub fn below(&self, folder: &str) -> BTreeMap<String, Bytes> {
        let stored = self.stored();
        let named = stored
            .iter()
            .filter_map(|(name, object)| Some((name.strip_prefix(folder)?, object)));
        named
            .map(|(name, object)| (name.trim_start_matches('/').to_owned(), object.bytes.clone()))
            .collect()
    }

    /// Writes an object past the protocol.
    pub fn insert(&self, name: &str, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        let etag = hex::encode(Md5::digest(&bytes));
        let stored = Stored {
            bytes,
            etag,
            metadata: None,
        };
        self.stored().insert(name.to_owned(), stored);
    }

    pub(crate) fn store(
        &self,
        name: &str,
        object: Stored,
        absent: Option<&IfNoneMatch>,
        held: Option<&IfMatch>,
    ) -> S3Result<()> {
        let mut stored = self.stored();
        let must_be_absent = self.conditions && absent.is_some_and(IfNoneMatch::is_any);
        if must_be_absent && stored.contains_key(name) {
            return Err(s3_error!(PreconditionFailed));
        }
        if let Some(held) = held.and_then(IfMatch::as_etag).filter(|_| self.conditions) {
            let there = stored.get(name).ok_or_else(|| s3_error!(NoSuchKey))?;
            if there.etag != held.value() {
                return Err(s3_error!(PreconditionFailed));
            }
        }
        stored.insert(name.to_owned(), object);
        Ok(())
    }

    fn find(&self, bucket: &str, name: &str) -> S3Result<Stored> {
        check_bucket(bucket)?;
        self.stored()
            .get(name)
            .cloned()
            .ok_or_else(|| s3_error!(NoSuchKey))
    }
}

pub(crate) fn check_bucket(bucket: &str) -> S3Result<()> {
    if bucket == BUCKET {
        Ok(())
    } else {
        Err(s3_error!(NoSuchBucket))
    }
}

pub(crate) async fn collect(body: Option<StreamingBlob>) -> S3Result<Bytes> {
    let Some(body) = body else {
        return Ok(Bytes::new());
    };
    let add = |mut bytes: Vec<u8>, chunk: Bytes| {
        bytes.extend_from_slice(&chunk);
        std::future::ready(Ok(bytes))
    };
    let bytes = body.try_fold(Vec::new(), add).await;
    bytes
        .map(Bytes::from)
        .map_err(|error| s3_error!(IncompleteBody, "{error}"))
}

#[async_trait::async_trait]
impl S3 for Objects {
    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        check_bucket(&input.bucket)?;
        let bytes = collect(input.body).await?;
        let etag = hex::encode(Md5::digest(&bytes));
        let object = Stored {
            bytes,
            etag: etag.clone(),
            metadata: input.metadata,
        };
        let (absent, held) = (input.if_none_match.as_ref(), input.if_match.as_ref());
        self.store(&input.key, object, absent, held)?;
        Ok(S3Response::new(PutObjectOutput {
            e_tag: Some(ETag::Strong(etag)),
            ..Default::default()
        }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let stored = self.find(&input.bucket, &input.key)?;
        let known = input.if_none_match.as_ref().and_then(IfNoneMatch::as_etag);
        if known.is_some_and(|known| known.value() == stored.etag) {
            return Err(s3_error!(NotModified));
        }
        let size = stored.bytes.len() as u64;
        let (bytes, content_range) = match input.range {
            None => (stored.bytes, None),
            Some(range) => {
                let range = range.check(size)?;
                let header = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                let bytes = stored.bytes.slice(range.start as usize..range.end as usize);
                (bytes, Some(header))
            }
        };
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(bytes.len() as i64),
            body: Some(s3s::Body::from(bytes).into()),
            content_range,
            e_tag: Some(ETag::Strong(stored.etag)),
            metadata: stored.metadata,
            ..Default::default()
        }))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let stored = self.find(&request.input.bucket, &request.input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(stored.bytes.len() as i64),
            e_tag: Some(ETag::Strong(stored.etag)),
            metadata: stored.metadata,
            ..Default::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        check_bucket(&request.input.bucket)?;
        self.stored().remove(&request.input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        check_bucket(&input.bucket)?;
        let prefix = input.prefix.unwrap_or_default();
        let stored = self.stored();
        let start = match &input.continuation_token {
            Some(last) => Bound::Excluded(last.as_str()),
            None => Bound::Included(prefix.as_str()),
        };
        let below = stored
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(name, _)| name.starts_with(&prefix));
        let (mut page, mut groups) = (Vec::new(), Vec::<String>::new());
        let (mut last, mut more) = (None, false);
        for (name, stored) in below {
            let delimiter = input.delimiter.as_deref();
            let group = delimiter.and_then(|delimiter| {
                let end = name[prefix.len()..].find(delimiter)? + delimiter.len();
                Some(name[..prefix.len() + end].to_owned())
            });
            if group.is_some() && groups.last() == group.as_ref() {
                continue;
            }
            if page.len() + groups.len() == PAGE {
                more = true;
                break;
            }
            match group {
                Some(group) => {
                    last = Some(format!("{group}{}", char::MAX));
                    groups.push(group);
                }
                None => {
                    last = Some(name.clone());
                    page.push(Object {
                        key: Some(name.clone()),
                        size: Some(stored.bytes.len() as i64),
                        ..Default::default()
                    });
                }
            }
        }
        let groups = groups
            .into_iter()
            .map(|group| CommonPrefix { prefix: Some(group) });
        Ok(S3Response::new(ListObjectsV2Output {
            contents: Some(page),
            common_prefixes: Some(groups.collect()),
            is_truncated: Some(more),
            next_continuation_token: last.filter(|_| more),
            ..Default::default()
        }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<s3s::dto::CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<s3s::dto::CreateMultipartUploadOutput>> {
        self.begin_upload(request.input)
    }

    async fn upload_part(
        &self,
        request: S3Request<s3s::dto::UploadPartInput>,
    ) -> S3Result<S3Response<s3s::dto::UploadPartOutput>> {
        self.take_part(request.input).await
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<s3s::dto::CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<s3s::dto::CompleteMultipartUploadOutput>> {
        self.complete_upload(request.input)
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<s3s::dto::AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<s3s::dto::AbortMultipartUploadOutput>> {
        self.abort_upload(&request.input)
    }
}
