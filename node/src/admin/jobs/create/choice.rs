//! Which volumes a job gets: those that are named in one of the ways that there are, less what need not or cannot be read.

use std::collections::HashSet;

use chrono::Utc;
use clap::Args;
use parkhang_core::domain::{ErrorCategory, Job, JobConfig, JobKey, NewJob, VolumeId};
use parkhang_state::{Readers, StateStore, VolumeListing};
use parkhang_store::pages::PageSourceError;

use super::filter::{Filter, Filters};
use super::inputs;
use crate::admin::jobs::find;
use crate::admin::skipped::{Skipped, SkippedCounts};
use crate::admin::volumes::volumes_of_list;
use crate::admin::{Admin, Refusal};
use crate::storage::{VolumeArgs, all_volumes, missing, refusal};

const ALREADY_READ: &str = "already read in their latest version (--force takes them)";

#[derive(Debug, Args)]
pub struct ChoiceArgs {
    #[command(flatten)]
    volumes: VolumeArgs,
    /// Only the volumes that a list in the storage names; written as that of a file.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["volume", "volumes_from"])]
    manifest: Option<String>,
    /// Only volumes that failed for good in this job.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["volume", "volumes_from", "manifest"])]
    failures_of: Option<JobKey>,
    /// Of them, those whose error is of this category, such as network, or speaks of this.
    #[arg(long, value_name = "CAUSE", requires = "failures_of")]
    cause: Option<String>,
    /// Only volumes of which this holds, of those named or, where none are, of all that are known: collection=PREFIX, text=TEXT,
    /// imported_since=TIME, unread_by=NAME, a pipeline or a model that has not read their latest version, or, of how they were read
    /// last, perplexity_above=N or confidence_below=SHARE. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    query: Vec<Filter>,
    /// Also volumes whose latest imported version was read by a job of such a configuration already, and a pipeline with a stage
    /// that no node has.
    #[arg(long)]
    pub force: bool,
    /// Leave out volumes that are not there, rather than make no job.
    #[arg(long)]
    skip_missing: bool,
    /// Only the first N of all these.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

/// The volumes of a job, and what was left out.
#[derive(Debug)]
pub struct Choice {
    pub volumes: Vec<VolumeId>,
    pub skipped: Vec<Skipped>,
}

/// Volumes to choose from.
struct Candidates {
    volumes: Vec<VolumeId>,
    /// Those of them that somebody has seen in the source.
    seen: HashSet<VolumeId>,
    /// Whether those that are not there are left out.
    skip_missing: bool,
}

impl ChoiceArgs {
    /// `job` is the one to be made, as yet without volumes, and `inputs` are those that it combines.
    pub async fn choose(self, admin: &Admin, job: &NewJob, inputs: &[Job]) -> Result<Choice, Refusal> {
        let filters = Filters::of(self.query.clone(), Utc::now());
        let force = self.force || job.config.force;
        let (limit, is_filtered) = (self.limit, !self.query.is_empty());
        let mut candidates = self.candidates(admin, &filters, job.standing, inputs).await?;
        let mut skipped = SkippedCounts::default();

        // Duplicates go first, so that each volume is counted for one reason only.
        let mut named = HashSet::new();
        candidates.keep("named twice", &mut skipped, |volume| named.insert(volume.clone()));
        if is_filtered {
            let admitted = admitted(admin, &filters, job, &candidates.volumes).await?;
            candidates.keep("not what the query asks for", &mut skipped, |volume| {
                admitted.contains(volume)
            });
        }
        if !force {
            let jobs = admin.store.jobs().await?.into_iter();
            let alike =
                jobs.filter(|other| other.pipeline == job.pipeline && other.config.reads_like(&job.config));
            let readers = Readers {
                jobs: alike.map(|job| job.id).collect(),
                model: None,
            };
            let read = admin
                .store
                .already_read(&candidates.volumes, &job.pipeline, &readers);
            let read = read.await?;
            candidates.keep(ALREADY_READ, &mut skipped, |volume| !read.contains(volume));
        }
        // After the volumes that need not be read are gone, as each look-up is a request to the source;
        // before the limit, so that missing volumes do not use it up.
        candidates.look_up(admin, &mut skipped).await?;
        let mut room = limit.map_or(u64::MAX, u64::from);
        candidates.keep("over the limit", &mut skipped, |_| {
            let fits = room > 0;
            room = room.saturating_sub(1);
            fits
        });
        Ok(Choice {
            volumes: candidates.volumes,
            skipped: skipped.into_skipped(),
        })
    }

    /// Where nothing is named these are the volumes of the inputs; without inputs none with `may_be_none`, and otherwise all that there are.
    async fn candidates(
        self,
        admin: &Admin,
        filters: &Filters,
        may_be_none: bool,
        inputs: &[Job],
    ) -> Result<Candidates, Refusal> {
        let invalid = |error: anyhow::Error| Refusal::Invalid(format!("{error:#}"));
        let mut candidates = Candidates {
            volumes: Vec::new(),
            seen: HashSet::new(),
            skip_missing: self.skip_missing,
        };
        if let Some(key) = &self.manifest {
            candidates.volumes = volumes_of_list(admin, key).await?;
        } else if let Some(failures_of) = &self.failures_of {
            let failed = find(admin, failures_of).await?;
            // Volumes that failed may have done so because they are gone, so missing ones are left out here.
            candidates.volumes = admin.store.failed_volumes(&failed, self.cause.as_deref()).await?;
            candidates.skip_missing = true;
        } else if let Some(named) = self.volumes.named().map_err(invalid)? {
            candidates.volumes = named;
        } else if !self.query.is_empty() {
            let VolumeListing { volumes, .. } = admin.store.list_volumes(&filters.query).await?;
            // Others are known because they are in a job; whether they are still there nobody knows.
            candidates.seen = volumes
                .iter()
                .filter(|known| known.list.is_some())
                .map(|known| known.volume.clone())
                .collect();
            candidates.volumes = volumes.into_iter().map(|known| known.volume).collect();
            candidates.skip_missing = true;
        } else if !inputs.is_empty() {
            candidates.volumes = inputs::volumes(admin, inputs).await?;
        } else if !may_be_none {
            let all = all_volumes(&admin.loaded.config.pages).await.map_err(invalid)?;
            candidates.seen = all.iter().cloned().collect();
            candidates.volumes = all;
        }
        if !inputs.is_empty() {
            // What was read is there, whatever has become of the scans.
            candidates.seen = candidates.volumes.iter().cloned().collect();
        }
        Ok(candidates)
    }
}

impl Candidates {
    fn keep(
        &mut self,
        otherwise: &str,
        skipped: &mut SkippedCounts,
        mut condition: impl FnMut(&VolumeId) -> bool,
    ) {
        self.volumes.retain(|volume| {
            let kept = condition(volume);
            if !kept {
                skipped.add(otherwise, volume);
            }
            kept
        });
    }

    /// Refuses what is not in the source, or leaves it out.
    async fn look_up(&mut self, admin: &Admin, skipped: &mut SkippedCounts) -> Result<(), Refusal> {
        let unseen: Vec<VolumeId> = self
            .volumes
            .iter()
            .filter(|volume| !self.seen.contains(volume))
            .cloned()
            .collect();
        if unseen.is_empty() {
            return Ok(());
        }
        let missing = missing(&admin.loaded.config.pages, &unseen).await;
        let missing = missing.map_err(|error| Refusal::Invalid(format!("{error:#}")))?;
        // A source out of reach says nothing about what it holds.
        let out_of_reach = missing.iter().find(|(_, error)| {
            let category = error.category();
            // An error of the input is one of this volume; any other kind concerns the source as a whole.
            category != ErrorCategory::Input && !matches!(error, PageSourceError::NoSuchVolume(_))
        });
        if let Some((_, error)) = out_of_reach {
            return Err(Refusal::Unavailable(error.to_string()));
        }
        if !self.skip_missing
            && let Some(refusal) = refusal(&missing, unseen.len())
        {
            return Err(Refusal::Invalid(refusal));
        }
        let missing: HashSet<VolumeId> = missing.into_iter().map(|(volume, _)| volume).collect();
        self.keep(
            "not there, or with a list that cannot be read",
            skipped,
            |volume| !missing.contains(volume),
        );
        Ok(())
    }
}

/// Those of the volumes of which all conditions hold.
async fn admitted(
    admin: &Admin,
    filters: &Filters,
    job: &NewJob,
    volumes: &[VolumeId],
) -> Result<HashSet<VolumeId>, Refusal> {
    let page = admin.store.list_volumes(&filters.query).await?;
    let known: HashSet<VolumeId> = page.volumes.into_iter().map(|known| known.volume).collect();
    let mut admitted: HashSet<VolumeId> = volumes
        .iter()
        .filter(|volume| known.contains(volume))
        .cloned()
        .collect();
    let Some(reader) = &filters.unread_by else {
        return Ok(admitted);
    };
    let jobs = admin.store.jobs().await?.into_iter();
    // A job that reads only the first pages of a volume has not read the volume.
    let whole = |config: &JobConfig| config.limit == 0;
    let pipelines = admin.pipelines()?;
    // What is not the name of a pipeline is that of a model.
    let named = pipelines.get(reader).ok();
    let pipeline = named.unwrap_or(&job.pipeline);
    let readers = Readers {
        jobs: jobs
            .filter(|other| other.pipeline == *pipeline && whole(&other.config))
            .map(|other| other.id)
            .collect(),
        model: named.is_none().then(|| reader.clone()),
    };
    let read = admin.store.already_read(volumes, pipeline, &readers).await?;
    admitted.retain(|volume| !read.contains(volume));
    Ok(admitted)
}
