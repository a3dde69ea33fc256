//! Access to results, in an output folder of `node ocr` or in the artifact store of a cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use parkhang_actors::source::JobManifest;
use parkhang_core::domain::{DocumentKey, JobKey, VolumeId};
use parkhang_state::StateStore;
use parkhang_store::artifact::{ArtifactLayout, VolumeLayout};
use parkhang_store::pages::{FolderSource, FoundVolume, PageSource, VolumeKind, source_of};
use parkhang_store::storage::{ArtifactStore, LocalStore};
use tracing::warn;

use super::corrections::CorrectedVolume;
use super::load::load_volume;
use crate::config::{Loaded, Pages};
use crate::database::{Database, database_for_command};
use crate::output::read_note;
use crate::storage::{artifacts, bucket, page_source};

/// Volumes of a job with the places of their artifacts and scans.
#[derive(Debug)]
pub struct Results {
    /// Name for messages.
    name: String,
    store: Arc<dyn ArtifactStore>,
    volumes: BTreeMap<VolumeId, Place>,
    scans: Option<Arc<dyn PageSource>>,
    /// Where corrections are kept, if they are wanted and there can be any.
    corrections: Option<Database>,
}

/// Place of a volume's artifacts, and of its scans if they have one of their own.
#[derive(Debug)]
struct Place {
    layout: VolumeLayout,
    scans: Option<PathBuf>,
    /// PDF in the source of scans, where the volume is not known there by its name.
    document: Option<DocumentKey>,
}

/// Volume of a job, with the places of its artifacts and scans.
#[derive(Debug, Clone)]
pub struct StoredVolume {
    pub volume: VolumeId,
    pub layout: VolumeLayout,
    /// Source of its scans, if they can still be reached.
    pub scans: Option<Arc<dyn PageSource>>,
    /// Folder or file of its scans when it was read, if they had a place of their own.
    pub place: Option<PathBuf>,
}

impl Results {
    /// Opens the results that `node ocr` wrote to `out`.
    ///
    /// # Errors
    ///
    /// If `out` is not such a folder, or its artifacts cannot be reached. Scans that cannot be reached are no error.
    pub async fn of_folder(out: &Path) -> Result<Self> {
        let note = read_note(out)?
            .with_context(|| format!("{} is not an output folder of `node ocr`", out.display()))?;
        let store: Arc<dyn ArtifactStore> = match &note.bucket {
            Some(section) => Arc::new(bucket(section).await?),
            None => {
                let store = LocalStore::open(out).await;
                Arc::new(store.with_context(|| format!("cannot read {}", out.display()))?)
            }
        };
        let scans = match &note.pages {
            Some(pages) => scans(pages).await,
            None => None,
        };
        let mut volumes = BTreeMap::new();
        for (volume, scans) in note.sources {
            let job = note.jobs.get(&volume).unwrap_or(&note.job);
            let layout = ArtifactLayout::new(note.layout, &JobKey::new(job.as_str())?).volume(&volume);
            let scans = Some(scans);
            let place = Place {
                layout,
                scans,
                document: None,
            };
            volumes.insert(volume, place);
        }
        Ok(Self {
            name: out.display().to_string(),
            store,
            volumes,
            scans,
            corrections: None,
        })
    }

    /// Opens what a job of the cluster has written so far. The job is looked up in the database, or with `in_shards`, for one created by
    /// `node shards create`, in the artifact store.
    ///
    /// # Errors
    ///
    /// If there is no such job, or the database or the store cannot be reached.
    pub async fn of_job(loaded: &Loaded, job: &JobKey, in_shards: bool) -> Result<Self> {
        let store = artifacts(loaded).await?;
        let mut database = None;
        let (layout, volumes) = if in_shards {
            let manifest = JobManifest::read(&*store, job).await?;
            let mut volumes = Vec::new();
            for shard in 0..manifest.shards {
                let of_shard = manifest.volumes(&*store, shard).await?;
                volumes.extend(of_shard.into_iter().map(|volume| (volume, None)));
            }
            (ArtifactLayout::new(manifest.params.layout, job), volumes)
        } else {
            let opened = database.insert(database_for_command(loaded, false).await?);
            let known = opened
                .store
                .job(job)
                .await?
                .with_context(|| format!("there is no job {job} in {}", opened.place))?;
            let tasks = opened.store.tasks(known.id).await?;
            let volumes = tasks
                .into_iter()
                .map(|task| (task.volume, task.document))
                .collect();
            (ArtifactLayout::of(&known.config, job), volumes)
        };
        let place = |(volume, document): (VolumeId, Option<DocumentKey>)| {
            let place = Place {
                layout: layout.volume(&volume),
                scans: None,
                document,
            };
            (volume, place)
        };
        Ok(Self {
            name: format!("job {job}"),
            store,
            volumes: volumes.into_iter().map(place).collect(),
            scans: scans(&loaded.config.pages).await,
            corrections: database,
        })
    }

    /// The same results, without the corrections of people where only what was read is wanted.
    #[must_use]
    pub fn original_if(mut self, wanted: bool) -> Self {
        if wanted {
            self.corrections = None;
        }
        self
    }

    /// Loads a volume's document, with the corrections of people; `None` if it has no results yet.
    ///
    /// # Errors
    ///
    /// If a table is missing or damaged, or the store or the database cannot be reached.
    pub async fn document(&self, volume: &StoredVolume) -> Result<Option<CorrectedVolume>> {
        let Some(document) = load_volume(self.store(), volume).await? else {
            return Ok(None);
        };
        let corrections = match &self.corrections {
            Some(database) => database.store.corrections(&volume.volume).await?,
            None => BTreeMap::new(),
        };
        Ok(Some(CorrectedVolume::new(Arc::new(document), corrections)))
    }

    pub fn store(&self) -> &dyn ArtifactStore {
        &*self.store
    }

    /// Returns all volumes, or those of `only`, with or without text.
    ///
    /// # Errors
    ///
    /// If one of `only` is not a volume of the job.
    pub fn volumes(&self, only: &[VolumeId]) -> Result<Vec<StoredVolume>> {
        // Checked before anything is written, so that a mistyped name leaves no part of an export.
        for volume in only {
            if !self.volumes.contains_key(volume) {
                bail!("{} has no volume {volume}", self.name);
            }
        }
        Ok(self
            .volumes
            .iter()
            .filter(|(volume, _)| only.is_empty() || only.contains(volume))
            .map(|(volume, place)| StoredVolume {
                volume: volume.clone(),
                layout: place.layout.clone(),
                scans: self.scans_of(volume, place),
                place: place.scans.clone(),
            })
            .collect())
    }

    /// Checks that there is text at all, for commands that can do nothing without it.
    ///
    /// # Errors
    ///
    /// If no volume has text.
    pub fn require_text(&self, volumes_with_text: usize) -> Result<()> {
        ensure!(
            volumes_with_text > 0,
            "{} has no text yet: no volume has completed the ocr stage",
            self.name
        );
        Ok(())
    }

    fn scans_of(&self, volume: &VolumeId, place: &Place) -> Option<Arc<dyn PageSource>> {
        let own = place.scans.as_deref();
        // The scans may have been moved since; the library that they came from may still have them.
        let Some((own, kind)) = own.and_then(|own| Some((own, VolumeKind::of(own)?))) else {
            return source_of(self.scans.as_ref()?, volume, place.document.as_ref()).ok();
        };
        let found = FoundVolume {
            volume: volume.clone(),
            place: own.to_owned(),
            kind,
        };
        Some(Arc::new(FolderSource::new([found])))
    }
}

/// Opens the source of scans. Without it viewers show straightened pages instead, so a failure is only logged.
async fn scans(pages: &Pages) -> Option<Arc<dyn PageSource>> {
    page_source(pages)
        .await
        .inspect_err(|error| warn!(error = format!("{error:#}"), "the scans cannot be reached"))
        .ok()
}
