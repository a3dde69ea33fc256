//! Where results are: in an output folder of `node ocr`, or in the storage of a cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use parkhang_actors::source::JobManifest;
use parkhang_core::domain::{JobKey, VolumeId};
use parkhang_state::StateStore;
use parkhang_store::artifact::{ArtifactLayout, VolumeLayout};
use parkhang_store::pages::{FolderSource, PageSource, VolumeFolder};
use parkhang_store::storage::{ArtifactStore, LocalStore};
use tracing::warn;

use crate::config::{Loaded, Pages};
use crate::database::database_for_command;
use crate::output::read_note;
use crate::storage::{artifacts, bucket, page_source};

/// The volumes of a job, where their artifacts are, and where their scans are.
#[derive(Debug)]
pub struct Results {
    /// What messages call them.
    name: String,
    layout: ArtifactLayout,
    store: Arc<dyn ArtifactStore>,
    /// Each with the folder of its scans, where it has one of its own.
    volumes: BTreeMap<VolumeId, Option<PathBuf>>,
    scans: Option<Arc<dyn PageSource>>,
}

/// A volume of a job.
#[derive(Debug, Clone)]
pub struct StoredVolume {
    pub volume: VolumeId,
    pub layout: VolumeLayout,
    /// Where its scans are, if they are still to be had.
    pub scans: Option<Arc<dyn PageSource>>,
}

impl Results {
    /// What `node ocr` wrote to `out`.
    pub async fn of_folder(out: &Path) -> Result<Self> {
        let note = read_note(out)?
            .with_context(|| format!("{} is no output folder of `node ocr`", out.display()))?;
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
        let volumes = note.sources.into_iter();
        Ok(Self {
            name: out.display().to_string(),
            layout: ArtifactLayout::new(note.layout, &JobKey::new(note.job)?),
            store,
            volumes: volumes.map(|(volume, place)| (volume, Some(place))).collect(),
            scans,
        })
    }

    /// What a cluster's job has written so far. The job is known to the database, or, if made by `node shards create`, to the
    /// storage alone.
    pub async fn of_job(loaded: &Loaded, job: &JobKey, in_shards: bool) -> Result<Self> {
        let store = artifacts(loaded).await?;
        let (layout, volumes) = match in_shards {
            true => {
                let manifest = JobManifest::read(&*store, job).await?;
                let mut volumes = Vec::new();
                for shard in 0..manifest.shards {
                    volumes.extend(manifest.volumes(&*store, shard).await?);
                }
                (manifest.params.layout, volumes)
            }
            false => {
                let database = database_for_command(loaded, false).await?;
                let known = database.store.job(job).await?;
                let known = known.with_context(|| format!("there is no job {job} in {}", database.place))?;
                let tasks = database.store.tasks(known.id).await?;
                let volumes = tasks.into_iter().map(|task| task.volume).collect();
                (known.config.layout, volumes)
            }
        };
        Ok(Self {
            name: format!("job {job}"),
            layout: ArtifactLayout::new(layout, job),
            store,
            volumes: volumes.into_iter().map(|volume| (volume, None)).collect(),
            scans: scans(&loaded.config.pages).await,
        })
    }

    pub fn store(&self) -> &dyn ArtifactStore {
        &*self.store
    }

    /// All volumes, or those that are named, whether they have text yet or not.
    pub fn volumes(&self, only: &[VolumeId]) -> Result<Vec<StoredVolume>> {
        for volume in only {
            if !self.volumes.contains_key(volume) {
                bail!("{} has no volume {volume}", self.name);
            }
        }
        let wanted = self
            .volumes
            .iter()
            .filter(|(volume, _)| only.is_empty() || only.contains(volume));
        let wanted = wanted.map(|(volume, place)| StoredVolume {
            volume: volume.clone(),
            layout: self.layout.volume(volume),
            scans: self.scans_of(volume, place.as_deref()),
        });
        Ok(wanted.collect())
    }

    /// Refuses results without text, for commands that are about nothing else.
    pub fn require_text(&self, volumes_with_text: usize) -> Result<()> {
        ensure!(
            volumes_with_text > 0,
            "{} holds no text yet: no volume has come through the ocr stage",
            self.name
        );
        Ok(())
    }

    fn scans_of(&self, volume: &VolumeId, place: Option<&Path>) -> Option<Arc<dyn PageSource>> {
        let Some(folder) = place.filter(|place| place.is_dir()) else {
            return self.scans.clone();
        };
        let folder = VolumeFolder {
            volume: volume.clone(),
            folder: folder.to_owned(),
        };
        Some(Arc::new(FolderSource::new([folder])))
    }
}

/// Without them the viewer shows straightened pages.
async fn scans(pages: &Pages) -> Option<Arc<dyn PageSource>> {
    let source = page_source(pages).await;
    source
        .inspect_err(|error| warn!(error = format!("{error:#}"), "the scans are out of reach"))
        .ok()
}
