//! `node ocr --dry-run`: the work that a run would do on each page, found by the checks of the run itself. Nothing is written.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use chrono::Utc;
use parkhang_actors::runner::{CpuPool, ItemPreview, Redo};
use parkhang_actors::stage::{ModelSet, StageDefinition, StageRegistry, StageServices, StageTable};
use parkhang_core::domain::{
    Assignment, Attempt, Fence, Generation, JobConfig, JobKey, Pipeline, StageName, TaskId, VolumeId,
};
use parkhang_store::artifact::ArtifactLayout;
use parkhang_store::storage::ArtifactStore;
use serde::Serialize;

use super::input::Input;
use crate::networks::cores;
use crate::words::pluralize;

/// Work that a run would do.
#[derive(Debug, Serialize)]
pub struct Preview {
    stages: Vec<StageName>,
    volumes: Vec<VolumePreview>,
    models: Vec<String>,
    device: String,
}

#[derive(Debug, Serialize)]
struct VolumePreview {
    volume: String,
    pages: usize,
    folder: PathBuf,
    work: Vec<StagePreview>,
}

#[derive(Debug, Serialize)]
struct StagePreview {
    stage: StageName,
    work: Work,
}

/// Work of a stage on a volume.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    Pages {
        /// Number of pages whose results are still valid.
        skipped: usize,
        to_do: Vec<PageToDo>,
    },
    /// All pages of a volume without any results yet.
    AllPages,
    /// The volume as a whole.
    Volume,
    /// Not known yet: depends on the named stage, which has work to do.
    After(StageName),
    /// The stage could not start.
    Unfit(String),
}

#[derive(Debug, Serialize)]
struct PageToDo {
    page: String,
    reason: Redo,
}

/// Parameters of the run.
#[derive(Debug)]
pub struct PreviewOptions {
    pub job: JobKey,
    pub config: JobConfig,
    pub pipeline: Pipeline,
    pub models: ModelSet,
    pub artifacts: Arc<dyn ArtifactStore>,
}

impl Preview {
    /// Compares the pages of `input` with the results of earlier runs.
    ///
    /// # Errors
    ///
    /// If pages or results cannot be read.
    pub async fn of(options: PreviewOptions, input: &Input) -> Result<Self> {
        let PreviewOptions {
            job,
            config,
            pipeline,
            models,
            artifacts,
        } = options;
        let names = models.references().map(|model| model.name.clone()).collect();
        let device = models.device.clone();
        let stages = StageTable::built_in();
        let services = StageServices {
            stages: stages.clone(),
            pages: input.source.clone(),
            artifacts: artifacts.clone(),
            cpu: CpuPool::new(cores().get(), "cpu").context("cannot start the CPU threads")?,
            models,
            workers: cores().get(),
            manifests: None,
        };
        let registry = StageRegistry::restricted(&services, |stage| pipeline.stages().contains(stage))?;
        let looker = Looker {
            stages,
            registry,
            artifacts,
            pipeline,
            job,
            config: Arc::new(config),
        };
        let mut volumes = Vec::new();
        for (found, pages) in input.pages(looker.config.limit).await {
            volumes.push(VolumePreview {
                volume: found.volume.to_string(),
                pages,
                folder: found.place.clone(),
                work: looker.work(&found.volume).await?,
            });
        }
        Ok(Self {
            stages: looker.pipeline.stages().to_vec(),
            volumes,
            models: names,
            device,
        })
    }
}

struct Looker {
    stages: StageTable,
    registry: StageRegistry,
    artifacts: Arc<dyn ArtifactStore>,
    pipeline: Pipeline,
    job: JobKey,
    config: Arc<JobConfig>,
}

impl Looker {
    /// Returns the work of each stage, as far as it can be known before the stages ahead of it have run.
    async fn work(&self, volume: &VolumeId) -> Result<Vec<StagePreview>> {
        let mut ahead: Option<StageName> = None;
        let mut previews = Vec::new();
        for stage in self.pipeline.stages() {
            let work = match &ahead {
                Some(ahead) => Work::After(ahead.clone()),
                None => self.work_of(stage, volume).await?,
            };
            let changes_something = match &work {
                Work::Pages { to_do, .. } => !to_do.is_empty(),
                // A stage that cannot start leaves everything behind it open as well.
                Work::AllPages | Work::Unfit(_) => true,
                Work::Volume | Work::After(_) => false,
            };
            if changes_something {
                ahead = Some(stage.clone());
            }
            previews.push(StagePreview {
                stage: stage.clone(),
                work,
            });
        }
        Ok(previews)
    }

    async fn work_of(&self, stage: &StageName, volume: &VolumeId) -> Result<Work> {
        let layout = ArtifactLayout::of(&self.config, &self.job).volume(volume);
        // Planning reads every page without a version to hash it, which would be wasted on a volume without results: all its pages
        // are to be done.
        let begun = !self.artifacts.list(layout.root()).await?.is_empty();
        if !begun && self.stages.get(stage).is_some_and(StageDefinition::has_scans) {
            return Ok(Work::AllPages);
        }
        let Some(logic) = self.registry.get(stage) else {
            return Ok(Work::Unfit("this program has no such stage".to_owned()));
        };
        let previewed = logic.preview(Assignment {
            fence: Fence {
                // No task exists in a dry run; the fence is only part of the assignment's type, as nothing is
                // written under it.
                task: TaskId(0),
                stage: stage.clone(),
                attempt: Attempt(1),
                generation: Generation(0),
            },
            lease_until: Utc::now(),
            volume: volume.clone(),
            document: None,
            job: self.job.clone(),
            config: self.config.clone(),
        });
        Ok(match previewed.await {
            Ok(Some(pages)) => Work::pages(pages),
            Ok(None) => Work::Volume,
            Err(error) => Work::Unfit(error.to_string()),
        })
    }
}

impl Work {
    fn pages(pages: Vec<ItemPreview>) -> Self {
        let total = pages.len();
        let to_do: Vec<PageToDo> = pages
            .into_iter()
            .filter_map(|page| {
                Some(PageToDo {
                    reason: page.redo?,
                    page: page.item_id,
                })
            })
            .collect();
        Self::Pages {
            skipped: total - to_do.len(),
            to_do,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages { skipped, to_do } => {
                write!(f, "{} to do, {skipped} skipped", pluralize(to_do.len(), "page"))?;
                let mut reasons: BTreeMap<Redo, Vec<&str>> = BTreeMap::new();
                for page in to_do {
                    reasons.entry(page.reason).or_default().push(&page.page);
                }
                for (reason, pages) in reasons {
                    write!(f, "\n    {}: {}", reason.as_str(), pages.join(", "))?;
                }
                Ok(())
            }
            Self::AllPages => f.write_str("all pages to do"),
            Self::Volume => f.write_str("the volume as a whole"),
            Self::After(stage) => write!(f, "depends on the results of {stage}"),
            Self::Unfit(reason) => write!(f, "cannot start: {reason}"),
        }
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for volume in &self.volumes {
            let pages = pluralize(volume.pages, "page");
            writeln!(f, "{}\t{pages}\t{}", volume.volume, volume.folder.display())?;
            for StagePreview { stage, work } in &volume.work {
                writeln!(f, "  {stage}: {work}")?;
            }
        }
        let total: usize = self.volumes.iter().map(|volume| volume.pages).sum();
        let stages: Vec<&str> = self.stages.iter().map(StageName::as_str).collect();
        writeln!(
            f,
            "volumes: {}, pages: {total}, stages: {}",
            self.volumes.len(),
            stages.join(", ")
        )?;
        write!(f, "models: {}, device: {}", self.models.join(", "), self.device)
    }
}
