//! Reading of pages in this process: the session of `node ocr`, over the pages that have to be read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use parkhang_actors::intake::parts;
use parkhang_actors::stage::{PAGE_OCR, Pipelines};
use parkhang_core::domain::{LayoutName, VolumeId};
use parkhang_store::pages::{FolderSource, PageSource};
use parkhang_store::storage::ArtifactStore;

use super::filing::Place;
use super::sources::{Buckets, Documents, found};
use crate::config::{Loaded, S3, StorageKind};
use crate::networks::ModelChoice;
use crate::ocr::{Input, InputVolume, Session, SessionOptions};
use crate::storage;

/// Folder below that of the state for a run whose results go to a bucket.
const FOLDER: &str = "inline-ocr";

/// Document with the pages of it that have to be read.
#[derive(Debug, Clone)]
pub struct ToRead {
    pub document: VolumeId,
    pub place: Place,
    pub pages: Vec<u32>,
}

/// Reader of pages.
#[derive(Debug)]
pub struct InlineReader {
    buckets: Arc<Buckets>,
    loaded: Arc<Loaded>,
    models_dir: Option<PathBuf>,
    out: PathBuf,
    /// Bucket of the results; `None` if they go to the folder.
    bucket: Option<(S3, Arc<dyn ArtifactStore>)>,
}

/// Outcome of a reading.
#[derive(Debug, Default)]
pub struct Reading {
    /// Documents of which something could not be read, with the reasons.
    pub failures: BTreeMap<VolumeId, Vec<String>>,
    /// True if the operator stopped it.
    pub interrupted: bool,
}

impl InlineReader {
    /// Opens the place of the results, as the configuration names it.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub async fn open(
        buckets: Arc<Buckets>,
        loaded: Arc<Loaded>,
        models_dir: Option<PathBuf>,
    ) -> Result<Self> {
        let section = &loaded.config.storage;
        let (out, bucket) = match section.kind {
            StorageKind::S3 => {
                let store = storage::artifacts(&loaded).await?;
                let out = loaded.state_dir()?.join(FOLDER);
                (out, Some((section.s3.clone(), store)))
            }
            StorageKind::Local => (storage::artifact_folder(&loaded)?, None),
        };
        Ok(Self {
            buckets,
            loaded,
            models_dir,
            out,
            bucket,
        })
    }

    /// Reads the pages, and writes the words of each where the fleet would.
    ///
    /// # Errors
    ///
    /// If the models or the place of the results cannot be opened, or the machine fails. Pages that fail are a part of the answer.
    pub async fn read(&self, documents: &[ToRead]) -> Result<Reading> {
        let mut reading = Reading::default();
        let mut sources = Documents::default();
        let mut volumes: BTreeMap<VolumeId, InputVolume> = BTreeMap::new();
        // One source for all files, which bounds how much of them stays in memory.
        let files = documents.iter().filter_map(|to_read| match &to_read.place {
            Place::File(path) => Some(found(path, &to_read.document)),
            Place::Object(_) => None,
        });
        let files: Arc<dyn PageSource> = Arc::new(FolderSource::new(files));
        for ToRead {
            document,
            place,
            pages,
        } in documents
        {
            let source = match place {
                Place::File(_) => Ok(files.clone()),
                Place::Object(_) => self.buckets.source(place, document).await,
            };
            match source {
                Ok(source) => drop(sources.0.insert(document.clone(), source)),
                Err(error) => {
                    fail(&mut reading, document, format!("{error:#}"));
                    continue;
                }
            }
            // The volumes that requests for the pages would make.
            for volume in parts(document, pages.iter().copied()) {
                let place = PathBuf::from(place.to_string());
                let input = InputVolume {
                    volume: volume.clone(),
                    place,
                    is_pdf: true,
                };
                volumes.insert(volume, input);
            }
        }
        if volumes.is_empty() {
            return Ok(reading);
        }
        let input = Input {
            volumes: volumes.into_values().collect(),
            source: Arc::new(sources),
            library: None,
        };
        let summary = Session::open(self.options()?, input).await?.run().await?;
        reading.interrupted = summary.interrupted;
        for volume in summary.volumes {
            let document = volume.volume.parse::<VolumeId>()?.document();
            if let Some(error) = volume.error {
                fail(&mut reading, &document, error);
            }
            for failed in volume.failed_pages {
                let reason = format!("{}, {}: {}", failed.page, failed.stage, failed.error);
                fail(&mut reading, &document, reason);
            }
        }
        Ok(reading)
    }

    fn options(&self) -> Result<SessionOptions> {
        let config = &self.loaded.config;
        let pipeline = Pipelines::built_in().get(PAGE_OCR)?.clone();
        let mut job = config.job.clone();
        job.layout = LayoutName::OcrBboxes;
        Ok(SessionOptions {
            out: self.out.clone(),
            job: PAGE_OCR.to_owned(),
            // DATABASE_URL names the database of another program.
            database_url: None,
            models: ModelChoice {
                folder: self.models_dir.clone().or_else(|| config.models.dir.clone()),
                ..ModelChoice::of_stages(pipeline.stages())
            },
            engines: Vec::new(),
            device: config.node.device.clone(),
            config: job.validated().context("job")?,
            pipeline,
            operation: PAGE_OCR.to_owned(),
            bucket: self.bucket.clone(),
        })
    }
}

fn fail(reading: &mut Reading, document: &VolumeId, reason: String) {
    reading.failures.entry(document.clone()).or_default().push(reason);
}
