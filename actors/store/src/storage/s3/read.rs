use std::ops::Range;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use bytes::Bytes;

use super::super::{ArtifactKey, ObjectMeta, VersionedObject};
use super::failure::{Failure, Meaning};
use super::retry::Refusal;
use super::{Bucket, bounded};

/// Largest capacity that is reserved for a body before its bytes arrive, whatever length the server claims.
const MAX_PREALLOCATION: u64 = 64 << 20;

/// Part of an object that is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'a> {
    Whole,
    /// Everything, unless this is its version.
    WholeUnless(&'a str),
    /// Never empty.
    Range(&'a Range<u64>),
}

impl Bucket {
    /// Reads a part that has no more bytes than `limit`.
    pub(super) async fn read(
        &self,
        key: &ArtifactKey,
        part: Part<'_>,
        limit: u64,
    ) -> Result<VersionedObject, Refusal> {
        let object = self.object(key.as_str());
        self.retry
            .run(|_| async {
                let request = self.client.get_object().bucket(self.name()).key(&object);
                let request = match part {
                    Part::Whole => request,
                    Part::WholeUnless(version) => request.if_none_match(format!("\"{version}\"")),
                    // HTTP names the last byte of a range; as the range is not empty, the subtraction cannot
                    // wrap.
                    Part::Range(range) => request.range(format!("bytes={}-{}", range.start, range.end - 1)),
                };
                let answer = self.answered(request.send()).await?;
                self.receive(answer, limit).await
            })
            .await
    }

    /// Takes in the body of an answer, unless it is longer than `limit`; a body that breaks off is a failed try.
    async fn receive(&self, mut answer: GetObjectOutput, limit: u64) -> Result<VersionedObject, Failure> {
        let within = |size| {
            if size > limit {
                return Err(Failure::too_large(size, limit));
            }
            Ok(())
        };
        let version = version_of(answer.e_tag())?;
        let announced = answer
            .content_length()
            .and_then(|length| u64::try_from(length).ok());
        within(announced.unwrap_or(0))?;
        let mut bytes = Vec::with_capacity(announced.unwrap_or(0).min(MAX_PREALLOCATION) as usize);
        while let Some(chunk) = bounded(self.options.stall_timeout, answer.body.next()).await? {
            let broken = |error| Failure::network("IncompleteBody", super::failure::chain(&error));
            bytes.extend_from_slice(&chunk.map_err(broken)?);
            within(bytes.len() as u64)?;
        }
        match announced {
            Some(length) if length != bytes.len() as u64 => Err(Failure::network(
                "IncompleteBody",
                format!("{} of {length} bytes came", bytes.len()),
            )),
            _ => Ok(VersionedObject {
                bytes: Bytes::from(bytes),
                version,
            }),
        }
    }

    pub(super) async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, Refusal> {
        let object = self.object(key.as_str());
        let found = self
            .retry
            .run(|_| async {
                let request = self.client.head_object().bucket(self.name()).key(&object);
                let answer = self.answered(request.send()).await?;
                let size = answer
                    .content_length()
                    .and_then(|length| u64::try_from(length).ok());
                size.ok_or_else(|| Failure::network("NoLength", "the answer gives no length"))
            })
            .await;
        match found {
            Ok(size) => Ok(Some(ObjectMeta { size })),
            Err(refusal) if refusal.failure.meaning == Meaning::Absent => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    pub(super) async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, Refusal> {
        let folder = self.object(&format!("{prefix}/"));
        // What stands before the key in the name of an object.
        let base = self.object("").len();
        let mut found = Vec::new();
        let mut next = None;
        loop {
            let page = self.list_page(&folder, None, next.take()).await?;
            for object in page.contents() {
                // A name that is no key was not written by a store.
                let key = object.key().and_then(|name| name.get(base..));
                let Some(Ok(key)) = key.map(ArtifactKey::new) else {
                    continue;
                };
                let size = object.size().and_then(|size| u64::try_from(size).ok());
                found.push((
                    key,
                    ObjectMeta {
                        size: size.unwrap_or(0),
                    },
                ));
            }
            if page.is_truncated() != Some(true) {
                break;
            }
            next = page.next_continuation_token;
        }
        // Buckets of one zone list in no order.
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    pub(super) async fn folders(&self, prefix: &ArtifactKey) -> Result<Vec<String>, Refusal> {
        let folder = self.object(&format!("{prefix}/"));
        let (mut names, mut next) = (Vec::new(), None);
        loop {
            let page = self.list_page(&folder, Some("/"), next.take()).await?;
            let groups = page.common_prefixes().iter().filter_map(|group| group.prefix());
            let below = groups.filter_map(|group| group.strip_prefix(&folder)?.strip_suffix('/'));
            names.extend(below.filter(|name| prefix.join(name).is_ok()).map(str::to_owned));
            if page.is_truncated() != Some(true) {
                break;
            }
            next = page.next_continuation_token;
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Lists names; the rest of a name behind a `delimiter` is left out, and such names come once.
    async fn list_page(
        &self,
        folder: &str,
        delimiter: Option<&str>,
        from: Option<String>,
    ) -> Result<ListObjectsV2Output, Refusal> {
        self.retry
            .run(|_| async {
                let request = self.client.list_objects_v2().bucket(self.name()).prefix(folder);
                let request = request.set_delimiter(delimiter.map(str::to_owned));
                let page = self
                    .answered(request.set_continuation_token(from.clone()).send())
                    .await?;
                if page.is_truncated() == Some(true) && page.next_continuation_token().is_none() {
                    return Err(Failure::network(
                        "NoContinuation",
                        "a part of the list came without its end",
                    ));
                }
                Ok(page)
            })
            .await
    }
}

/// ETag without its quotes.
fn version_of(etag: Option<&str>) -> Result<String, Failure> {
    let bare = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned());
    bare.ok_or_else(|| Failure::network("NoETag", "the answer gives no ETag"))
}
