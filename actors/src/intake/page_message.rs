//! Message that asks for pages of a PDF, in version 1 of the form that fleets for broken pages speak.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use parkhang_core::domain::{InvalidName, PageSet, VolumeId};
use parkhang_store::storage::{ArtifactKey, InvalidKey};
use serde::{Deserialize, Serialize};

/// Version of the form.
const VERSION: u32 = 1;
/// Pages of a message if nobody says otherwise.
const PAGES_BY_DEFAULT: usize = 10;

/// Reason why a message asks for no pages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedPages {
    #[error("the body is no message about pages: {0}")]
    Body(String),
    #[error("version {0} of the message is not known here, only 1 is")]
    Version(u64),
    #[error("the message names no document: {0}")]
    Document(#[from] InvalidName),
    #[error("s3_bucket is empty")]
    NoBucket,
    #[error("s3_key: {0}")]
    Key(#[from] InvalidKey),
    #[error("submitted_at is no time of ISO 8601: {0:?}")]
    Time(String),
    #[error("broken_pages names no pages, a page 0, or more than 10,000")]
    Pages,
}

/// Number of pages of one message, 5 to 20.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSize(usize);

impl ChunkSize {
    /// Fewest and most pages: few enough to be read within minutes, and not so few that their PDF is fetched all the time.
    pub const RANGE: std::ops::RangeInclusive<usize> = 5..=20;

    /// `None` for a number outside [`Self::RANGE`].
    pub fn new(pages: usize) -> Option<Self> {
        Self::RANGE.contains(&pages).then_some(Self(pages))
    }

    pub const fn get(self) -> usize {
        self.0
    }
}

impl Default for ChunkSize {
    fn default() -> Self {
        Self(PAGES_BY_DEFAULT)
    }
}

/// Place of a PDF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentPlace {
    pub bucket: String,
    pub key: ArtifactKey,
}

/// Request for pages of a document, which is a volume: its exchange is the W id, and its id at the exchange the I id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageMessage {
    /// The whole document.
    pub document: VolumeId,
    pub place: DocumentPlace,
    pub pages: PageSet,
    pub submitted_at: DateTime<Utc>,
}

/// The form as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Body {
    version: u64,
    exchange: String,
    source_id: String,
    s3_bucket: String,
    s3_key: String,
    broken_pages: Vec<u32>,
    /// ISO 8601.
    submitted_at: String,
}

impl PageMessage {
    /// Reads the body of a message. Members that are not known are passed over.
    ///
    /// # Errors
    ///
    /// [`MalformedPages`] if a member is missing or unusable.
    pub fn read(body: &str) -> Result<Self, MalformedPages> {
        let unreadable = |error: serde_json::Error| MalformedPages::Body(error.to_string());
        // The version comes first: another one may have other members.
        let json: serde_json::Value = serde_json::from_str(body).map_err(unreadable)?;
        if let Some(version) = json.get("version").and_then(serde_json::Value::as_u64)
            && version != u64::from(VERSION)
        {
            return Err(MalformedPages::Version(version));
        }
        let body: Body = serde_json::from_value(json).map_err(unreadable)?;
        if body.s3_bucket.is_empty() {
            return Err(MalformedPages::NoBucket);
        }
        let document = VolumeId::new(body.exchange, body.source_id)?;
        if document.pages().is_some() {
            // A part of a part would be two names of the same pages.
            return Err(InvalidName {
                kind: "document",
                rule: "the id of a whole document",
                name: document.to_string(),
            }
            .into());
        }
        Ok(Self {
            document,
            place: DocumentPlace {
                bucket: body.s3_bucket,
                key: ArtifactKey::new(body.s3_key)?,
            },
            pages: PageSet::of(body.broken_pages).ok_or(MalformedPages::Pages)?,
            submitted_at: instant(&body.submitted_at)?,
        })
    }

    /// The form as the body of a message.
    ///
    /// # Errors
    ///
    /// None: the form has neither maps with other keys than texts nor values that fail.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Body {
            version: u64::from(VERSION),
            exchange: self.document.w_id().to_owned(),
            source_id: self.document.i_id().to_owned(),
            s3_bucket: self.place.bucket.clone(),
            s3_key: self.place.key.to_string(),
            broken_pages: self.pages.pages().collect(),
            submitted_at: self.submitted_at.to_rfc3339_opts(SecondsFormat::AutoSi, true),
        })
    }

    /// The message as several of so many pages at most, in the order of the pages.
    pub fn chunked(&self, size: ChunkSize) -> Vec<Self> {
        let chunk = |pages| Self {
            pages,
            ..self.clone()
        };
        self.pages.split(size.get()).into_iter().map(chunk).collect()
    }

    /// Volumes that the message asks for, each a part of the document that one task reads. The same pages give the same volumes, in
    /// whatever order they are named and however often.
    pub fn volumes(&self) -> Vec<VolumeId> {
        let parts = self.pages.split(*ChunkSize::RANGE.end());
        parts.iter().map(|pages| self.document.part(pages)).collect()
    }
}

/// Instant of a text; one without a zone is UTC, as Python writes it.
fn instant(text: &str) -> Result<DateTime<Utc>, MalformedPages> {
    let zoned = DateTime::parse_from_rfc3339(text).map(|time| time.to_utc());
    zoned
        .or_else(|_| text.parse::<NaiveDateTime>().map(|time| time.and_utc()))
        .map_err(|_| MalformedPages::Time(text.to_owned()))
}
