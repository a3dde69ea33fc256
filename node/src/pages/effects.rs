//! What becomes of the pages that have to be read: their list is recorded, and then somebody is asked to read them.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use chrono::{DateTime, Utc};
use parkhang_core::domain::VolumeId;

use super::filing::Place;
use super::inline::{InlineReader, Reading, ToRead};
use super::publish::Publisher;
use super::record::Recorder;
use super::settings::Reader;
use super::sources::Buckets;
use crate::config::Loaded;

/// Clock that requests get their times from.
pub type Clock = fn() -> DateTime<Utc>;

/// Places that lists of pages go to.
#[derive(Debug)]
pub struct Effects {
    recorder: Recorder,
    reader: OpenReader,
    clock: Clock,
}

#[derive(Debug)]
enum OpenReader {
    Nobody,
    Queue(Publisher),
    Inline {
        reader: InlineReader,
        /// Documents that wait for the end of their chunk: models are loaded once for all of them.
        waiting: Vec<ToRead>,
    },
}

impl Effects {
    /// Effects of a run that records nothing.
    pub async fn none(clock: Clock) -> Result<Self> {
        Ok(Self {
            recorder: Recorder::open(None).await?,
            reader: OpenReader::Nobody,
            clock,
        })
    }

    /// Opens the database and the queue, or the place of the results.
    ///
    /// # Errors
    ///
    /// If one of them cannot be opened.
    pub async fn open(
        reader: Reader,
        database_url: Option<&str>,
        buckets: Arc<Buckets>,
        loaded: Arc<Loaded>,
        models_dir: Option<PathBuf>,
        clock: Clock,
    ) -> Result<Self> {
        let reader = match reader {
            Reader::Nobody => OpenReader::Nobody,
            Reader::Queue { queue, size } => {
                OpenReader::Queue(Publisher::open(&loaded.config.source.sqs, &queue, size).await?)
            }
            Reader::Inline { instead_of_queue } => {
                if instead_of_queue {
                    eprintln!(
                        "the pages are read here and no requests are sent: --inline-ocr or ENABLE_INLINE_OCR is on"
                    );
                }
                OpenReader::Inline {
                    reader: InlineReader::open(buckets, loaded, models_dir).await?,
                    waiting: Vec::new(),
                }
            }
        };
        Ok(Self {
            recorder: Recorder::open(database_url).await?,
            reader,
            clock,
        })
    }

    /// Records the pages of a document, and asks for them; returns the number of requests.
    ///
    /// # Errors
    ///
    /// If the list is not recorded, and nobody is asked then, or if a request is not sent.
    pub async fn deal(&mut self, document: &VolumeId, place: &Place, pages: &[u32]) -> Result<usize> {
        self.recorder.record(document, pages).await?;
        if pages.is_empty() {
            return Ok(0);
        }
        match (&mut self.reader, place) {
            (OpenReader::Nobody, _) => Ok(0),
            (OpenReader::Queue(publisher), Place::Object(object)) => {
                publisher.publish(document, object, pages, (self.clock)()).await
            }
            (OpenReader::Queue(_), Place::File(_)) => {
                bail!("it is in no bucket, so that no other machine can read its pages")
            }
            (OpenReader::Inline { waiting, .. }, _) => {
                waiting.push(ToRead {
                    document: document.clone(),
                    place: place.clone(),
                    pages: pages.to_vec(),
                });
                Ok(0)
            }
        }
    }

    /// Reads the pages that wait for it, at the end of a chunk.
    ///
    /// # Errors
    ///
    /// If models or the place of the results cannot be opened, or the machine fails.
    pub async fn read_waiting(&mut self) -> Result<Reading> {
        match &mut self.reader {
            OpenReader::Inline { reader, waiting } => reader.read(&std::mem::take(waiting)).await,
            OpenReader::Nobody | OpenReader::Queue(_) => Ok(Reading::default()),
        }
    }

    /// True if pages are read here, at the end of a chunk.
    pub fn is_inline(&self) -> bool {
        matches!(self.reader, OpenReader::Inline { .. })
    }

    /// Number of filings so far that the database does not have.
    pub fn unknown(&self) -> u64 {
        self.recorder.unknown()
    }
}
