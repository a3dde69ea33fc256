//! Message that asks for pages of a PDF, in version 1 of the form that fleets for broken pages speak.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use parkhang_core::domain::{InvalidName, PageSet, VolumeId};
use parkhang_store::storage::{ArtifactKey, InvalidKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
        Self::of(serde_json::from_str(body).map_err(unreadable)?)
    }

    /// Reads the body of a message that is JSON, as [`read`](Self::read) does.
    pub(super) fn of(json: Value) -> Result<Self, MalformedPages> {
        // The version comes first: another one may have other members.
        if let Some(version) = json.get("version").and_then(Value::as_u64)
            && version != u64::from(VERSION)
        {
            return Err(MalformedPages::Version(version));
        }
        let body: Body = serde_json::from_value(json).map_err(unreadable)?;
        if body.s3_bucket.is_empty() {
            return Err(MalformedPages::NoBucket);
        }
        Ok(Self {
            document: VolumeId::whole(body.exchange, body.source_id)?,
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

    /// Messages that ask for pages of a document, which are in ascending order, so many in each at most.
    pub fn chunks(
        document: &VolumeId,
        place: &DocumentPlace,
        pages: &[u32],
        size: ChunkSize,
        submitted_at: DateTime<Utc>,
    ) -> Vec<Self> {
        let message = |pages| Self {
            document: document.clone(),
            place: place.clone(),
            pages,
            submitted_at,
        };
        let sets = PageSet::chunks(pages.iter().copied(), size.get());
        sets.into_iter().map(message).collect()
    }

    /// Volumes that the message asks for. The same pages give the same volumes, in whatever order they are named and however often.
    pub fn volumes(&self) -> Vec<VolumeId> {
        parts(&self.document, self.pages.pages())
    }
}

/// Volumes of pages of a document, which are in ascending order: parts of it that one task reads each.
pub fn parts(document: &VolumeId, pages: impl IntoIterator<Item = u32>) -> Vec<VolumeId> {
    let sets = PageSet::chunks(pages, *ChunkSize::RANGE.end());
    sets.iter().map(|pages| document.part(pages)).collect()
}

fn unreadable(error: serde_json::Error) -> MalformedPages {
    MalformedPages::Body(error.to_string())
}

/// Instant of a text; one without a zone is UTC, as Python writes it.
fn instant(text: &str) -> Result<DateTime<Utc>, MalformedPages> {
    let zoned = DateTime::parse_from_rfc3339(text).map(|time| time.to_utc());
    zoned
        .or_else(|_| text.parse::<NaiveDateTime>().map(|time| time.and_utc()))
        .map_err(|_| MalformedPages::Time(text.to_owned()))
}
