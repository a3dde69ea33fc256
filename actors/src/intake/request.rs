//! Messages as requests for volumes.

use parkhang_core::domain::{DocumentKey, InvalidName};
use parkhang_queue::Delivery;
use parkhang_state::VolumeRequest;
use serde_json::Value;

use super::{DocumentPlace, MalformedPages, MalformedRequest, PageMessage, VolumeMessage};

/// Members by which the body of a message about pages is known. None of them is in one about a volume.
const OF_PAGES: [&str; 3] = ["broken_pages", "source_id", "s3_key"];

/// Bucket that the scans are in, with the prefix below which they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanBucket {
    pub name: String,
    pub prefix: Option<String>,
}

/// Reason why a message is taken as no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRequest {
    #[error(transparent)]
    Volume(#[from] MalformedRequest),
    #[error(transparent)]
    Pages(#[from] MalformedPages),
    #[error("s3_bucket is {named:?}, and the scans are read from {ours:?} (pages.s3.bucket)")]
    OtherBucket { named: String, ours: String },
    #[error("s3_key {key:?} does not lie below {prefix:?} (pages.s3.prefix)")]
    OtherPrefix { key: String, prefix: String },
    #[error("s3_key: {0}")]
    Key(#[from] InvalidName),
    /// No fault of the message.
    #[error("it asks for pages of a PDF in a bucket, and the scans are in none: set pages.s3.bucket")]
    NoBucket,
}

impl ScanBucket {
    /// Key by which the source of scans knows the document at a place.
    fn key_of(&self, place: &DocumentPlace) -> Result<DocumentKey, NoRequest> {
        if place.bucket != self.name {
            return Err(NoRequest::OtherBucket {
                named: place.bucket.clone(),
                ours: self.name.clone(),
            });
        }
        let key = place.key.as_str();
        let prefix = self.prefix.as_deref().unwrap_or("").trim_matches('/');
        let below = if prefix.is_empty() {
            Some(key)
        } else {
            key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'))
        };
        let below = below.ok_or_else(|| NoRequest::OtherPrefix {
            key: key.to_owned(),
            prefix: prefix.to_owned(),
        })?;
        Ok(DocumentKey::new(below)?)
    }
}

/// Requests of a message: one for a volume, or one for each part of a document. Those after the first are told apart by their numbers.
///
/// # Errors
///
/// [`NoRequest`] if the message asks for nothing that can be read here.
pub(super) fn requests(
    delivery: &Delivery,
    scans: Option<&ScanBucket>,
) -> Result<Vec<VolumeRequest>, NoRequest> {
    // What is no JSON has no members.
    let body: Value = serde_json::from_str(&delivery.body).unwrap_or_default();
    if !OF_PAGES.iter().any(|member| body.get(member).is_some()) {
        let volume = VolumeMessage::read(delivery)?.volume()?;
        return Ok(vec![VolumeRequest {
            message: delivery.id.clone(),
            volume,
            document: None,
        }]);
    }
    let message = PageMessage::of(body)?;
    let document = scans.ok_or(NoRequest::NoBucket)?.key_of(&message.place)?;
    let request = |(number, volume)| VolumeRequest {
        message: if number == 1 {
            delivery.id.clone()
        } else {
            format!("{}/{number}", delivery.id)
        },
        volume,
        document: Some(document.clone()),
    };
    Ok((1..).zip(message.volumes()).map(request).collect())
}
