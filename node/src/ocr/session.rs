//! One run of `node ocr`, from opening the folder to the summary.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use chrono::Utc;
use parkhang_actors::engines::Engine;
use parkhang_actors::orchestrator::{
    JobEnd, MAX_INTERRUPTIONS, OrchestratorConfig, OrchestratorHandle, release_abandoned_leases,
    write_markers,
};
use parkhang_actors::runner::CpuPool;
use parkhang_actors::stage::{
    LineSegmenter, ManifestFolder, ModelSet, StageDefinition, StageRegistry, StageServices, StageTable,
};
use parkhang_actors::supervisor::{HealthPolicy, NodeConfig, NodeSupervisor};
use parkhang_actors::telemetry::ProgressBoard;
use parkhang_core::domain::{
    Hardware, Job, JobConfig, LineMode, NewJob, Pipeline, Position, StageName, Task, TaskStatus, VolumeId,
};
use parkhang_core::policy::task_state::TaskState;
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, Outcome};
use parkhang_store::artifact::{ArtifactLayout, failed_pages};
use parkhang_store::storage::{ArtifactStore, LocalStore};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::input::Input;
use super::progress::ProgressDisplay;
use super::state::{self, State};
use super::summary::{FailedPage, Summary, VolumeSummary};
use crate::config::S3;
use crate::networks::{self, ModelChoice, cores};
use crate::output::{Note, OutputFolder};

/// Volumes that run in parallel, all in one stage or each in another, unless the job has a limit of its own. With two, one fills the
/// processors while the other reads and writes tables. Each stage has room for all of them, and those nearest to their end go first, so
/// that a fast stage does not run through all volumes while the slow one after it has begun with the first.
const VOLUMES: usize = 2;

/// Beginning of the message for a failure of the machine rather than of pages.
const GOES_ON: &str = "stopped; finished pages are kept, and the same command continues from there";

#[derive(Debug)]
pub struct SessionOptions {
    pub out: PathBuf,
    pub job: String,
    pub database_url: Option<String>,
    pub models: ModelChoice,
    /// Services that stages ask in the place of their models.
    pub engines: Vec<Engine>,
    pub device: String,
    pub config: JobConfig,
    pub pipeline: Pipeline,
    /// Name of the pipeline.
    pub operation: String,
    /// Bucket for artifacts, with its store; `None` is the output folder.
    pub bucket: Option<(S3, Arc<dyn ArtifactStore>)>,
}

/// Run that is ready to start: output folder, state and models are open.
#[derive(Debug)]
pub struct Session {
    options: SessionOptions,
    output: OutputFolder,
    state: State,
    models: ModelSet,
    input: Input,
    artifacts: Arc<dyn ArtifactStore>,
}

/// Loads the models and checks that the job can be run with them.
///
/// # Errors
///
/// If a model cannot be read, or one that the job needs is missing.
pub(super) async fn load_models(
    choice: ModelChoice,
    engines: Vec<Engine>,
    device: &str,
    config: &JobConfig,
) -> Result<ModelSet> {
    let device = device.to_owned();
    let mut models = tokio::task::spawn_blocking(move || networks::load(&choice, &device, cores()))
        .await
        .context("loading the models")??;
    models.engines.extend(engines);
    let no_layout = |segmenter: &LineSegmenter| !segmenter.network.has_layout();
    if config.line_mode == LineMode::Layout && models.segmenter.as_ref().is_some_and(no_layout) {
        bail!(networks::NO_LAYOUT);
    }
    networks::are_loaded(&config.models, &models)?;
    Ok(models)
}

impl Session {
    pub async fn open(mut options: SessionOptions, input: Input) -> Result<Self> {
        if options.config.max_running == 0 {
            options.config.max_running = VOLUMES;
        }
        // The lock comes first: a second run must be refused before it loads models for a minute or touches the state.
        let output = OutputFolder::open(&options.out)?;
        let models = load_models(
            options.models.clone(),
            options.engines.clone(),
            &options.device,
            &options.config,
        )
        .await?;
        let state = state::open(options.database_url.as_deref(), output.path(), &options.job).await?;
        let (bucket, artifacts) = match options.bucket.clone() {
            Some((bucket, store)) => (Some(bucket), store),
            None => {
                let folder = LocalStore::open(output.path()).await?;
                (None, Arc::new(folder) as Arc<dyn ArtifactStore>)
            }
        };
        // Only when everything is open: a run that cannot start must not change what an export of the folder
        // finds.
        output.remember(Note {
            version: 1,
            job: options.job.clone(),
            jobs: BTreeMap::new(),
            layout: options.config.layout,
            bucket,
            sources: input
                .volumes
                .iter()
                .map(|input| (input.volume.clone(), input.place.clone()))
                .collect(),
            pages: input.library.clone(),
        })?;
        Ok(Self {
            options,
            output,
            state,
            models,
            input,
            artifacts,
        })
    }

    /// Runs the job to its end, or until the operator stops it; returns the summary.
    ///
    /// # Errors
    ///
    /// If the machine or the database fails. Pages and volumes that fail are part of the summary.
    pub async fn run(self) -> Result<Summary> {
        let started = Instant::now();
        let job = self.prepare_job().await?;
        let services = StageServices {
            stages: StageTable::built_in(),
            pages: self.input.source.clone(),
            artifacts: self.artifacts.clone(),
            cpu: CpuPool::new(cores().get(), "cpu").context("cannot start the CPU threads")?,
            models: self.models.clone(),
            workers: cores().get(),
            manifests: Some(ManifestFolder::new(self.output.path().join("manifests"))),
        };
        let progress = Arc::new(ProgressBoard::keeping());
        let mut config = OrchestratorConfig::new(self.state.store.clone());
        config.markers = Some(self.artifacts.clone());
        let orchestrator = OrchestratorHandle::start(config).await?;
        let node = NodeSupervisor::start(NodeConfig {
            // One run at a time holds the folder's lock, so the process number tells its leases from those of
            // earlier runs.
            name: format!("local-{}", std::process::id()),
            slots: [Hardware::Cpu, Hardware::Gpu]
                .map(|hardware| (hardware, self.options.config.max_running))
                .into(),
            registry: Arc::new(StageRegistry::restricted(&services, |stage| {
                self.options.pipeline.stages().contains(stage)
            })?),
            progress: progress.clone(),
            control_plane: Arc::new(orchestrator.clone()),
            heartbeat: Duration::from_secs(5),
            health: HealthPolicy::default(),
        })
        .await?;
        let shown = CancellationToken::new();
        let display = tokio::spawn(self.display(&job, &progress).await?.run(shown.clone()));

        let end = tokio::select! {
            end = wait_for_end(&orchestrator, &job) => end,
            () = node.ended() => Err(anyhow!("{GOES_ON}: stages kept hanging or dying; the log above says which")),
            (stage, state) = node.out_of_service() => Err(anyhow!("{GOES_ON}: {stage} does not work here: {}", state.reason)),
        };
        // The display ends before anything else is printed, or its bars would be drawn over it.
        shown.cancel();
        display.await.context("showing progress")?;
        let interrupted = end?;
        // The node first: its pools report the last verdicts to the orchestrator, which records them before it stops.
        node.stop().await;
        orchestrator.stop().await;
        // The orchestrator writes markers in the background and was stopped without waiting for those of the last volumes.
        if let Err(error) = write_markers(&*self.state.store, &*self.artifacts).await {
            warn!(%error, "some finished volumes have no marker yet; the next run writes them");
        }
        let wall_s = started.elapsed().as_secs_f64();
        self.summary(job, &progress, interrupted, wall_s).await
    }

    /// Creates the job, or reopens the one of an earlier run: every volume goes back to the first stage, and the stages skip pages whose
    /// results are still valid.
    async fn prepare_job(&self) -> Result<Job> {
        let store = &self.state.store;
        let now = Utc::now();
        let new = NewJob {
            key: Some(self.state.job.clone()),
            operation: self.options.operation.clone(),
            pipeline: self.options.pipeline.clone(),
            config: self.options.config.clone(),
            volumes: self
                .input
                .volumes
                .iter()
                .map(|input| input.volume.clone())
                .collect(),
            standing: false,
        };
        let Some(earlier) = store.job(&self.state.job).await? else {
            return Ok(store.create_job(&new, now).await?);
        };
        // The lock of the output folder is ours, so whoever held these leases is gone; waiting for them to expire would cost a minute.
        release_abandoned_leases(store, earlier.id, MAX_INTERRUPTIONS, now).await?;
        let job = store.reopen_job(&new).await?;
        let wanted = |task: &Task| self.reads(&task.volume);
        let tasks = store.tasks(job.id).await?;
        let reruns: Vec<Change> = tasks
            .iter()
            // A task that has not begun begins with the first stage anyway.
            .filter(|task| wanted(task) && task.position != Position::Pending)
            .map(|task| {
                let stage = job.pipeline.first().clone();
                Change::new(Expected::of(task), Event::Rerun { stage, force: false })
            })
            .collect();
        for outcome in store.commit(&reruns, now).await? {
            // Only illegal changes matter: nobody else holds the folder's lock, so none of these can be
            // stale.
            if let Outcome::Illegal(reason) = outcome {
                bail!("cannot run job {} again with these stages: {reason}", job.key);
            }
        }
        Ok(job)
    }

    async fn display(&self, job: &Job, progress: &Arc<ProgressBoard>) -> Result<ProgressDisplay> {
        let interval = Duration::from_secs_f64(self.options.config.diagnostics_interval_s.max(1.0));
        let stages = self.options.pipeline.stages().to_vec();
        let pages = self.input.pages(self.options.config.limit).await;
        let pages = pages
            .into_iter()
            .map(|(input, pages)| (input.volume.clone(), pages as u64))
            .collect();
        Ok(ProgressDisplay::new(
            progress.clone(),
            job.key.clone(),
            stages,
            pages,
            interval,
        ))
    }

    fn reads(&self, volume: &VolumeId) -> bool {
        self.input.volumes.iter().any(|input| input.volume == *volume)
    }

    async fn summary(
        &self,
        job: Job,
        progress: &ProgressBoard,
        interrupted: bool,
        wall_s: f64,
    ) -> Result<Summary> {
        let store = &self.state.store;
        let board = progress.snapshot(&job.key);
        let status = store
            .job_by_id(job.id)
            .await?
            .map_or(job.status, |job| job.status);
        let table = StageTable::built_in();
        let has_pages = |stage: &StageName| table.get(stage).is_none_or(StageDefinition::has_pages);
        let mut volumes = Vec::new();
        for task in store.tasks(job.id).await? {
            if !self.reads(&task.volume) {
                continue;
            }
            let stages = || {
                board
                    .iter()
                    .filter(|((volume, stage), _)| *volume == task.volume && has_pages(stage))
                    .map(|(_, run)| run.progress)
            };
            let failed = task.status == TaskStatus::Failed;
            volumes.push(VolumeSummary {
                volume: task.volume.to_string(),
                state: TaskState::of(&task, &job).to_string(),
                // A page that fails in a stage is missing from the next, so stages differ: the largest number is what was done.
                pages_done: stages()
                    .map(|progress| progress.succeeded + progress.skipped)
                    .max()
                    .unwrap_or(0),
                pages_read: stages().map(|progress| progress.succeeded).max().unwrap_or(0),
                // A page counts as skipped if no stage had anything to do for it.
                pages_skipped: stages().map(|progress| progress.skipped).min().unwrap_or(0),
                failed_pages: self.failed_pages(&job, &task.volume).await?,
                results: store.volume_results(task.id).await?,
                error: task.last_error.filter(|_| failed).map(|error| error.to_string()),
            });
        }
        Ok(Summary {
            job: job.key.to_string(),
            status,
            interrupted,
            wall_s,
            cpu_s: cpu_seconds(),
            volumes,
            out: self.output.path().to_owned(),
            exported: Vec::new(),
        })
    }

    async fn failed_pages(&self, job: &Job, volume: &VolumeId) -> Result<Vec<FailedPage>> {
        let layout = ArtifactLayout::of(&self.options.config, &job.key).volume(volume);
        let failed = failed_pages(&*self.artifacts, &layout, job.pipeline.stages()).await?;
        Ok(failed
            .into_iter()
            .map(|(stage, row)| FailedPage {
                page: row.image_name,
                stage: stage.to_string(),
                error: row.message,
            })
            .collect())
    }
}

/// Waits for the job to end; returns whether the operator stopped it. The first Ctrl-C or SIGTERM drains: running pages are finished
/// and checkpointed. The second ends the process at once.
async fn wait_for_end(orchestrator: &OrchestratorHandle, job: &Job) -> Result<bool> {
    use tokio::signal::unix::{SignalKind, signal};
    // Both are listened to before the wait begins, so that a signal in between is not lost to the default,
    // which kills.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    tokio::select! {
        end = orchestrator.job_end(job.id) => {
            return match end? {
                JobEnd::Finished(_) => Ok(false),
                JobEnd::Abandoned => bail!("the orchestrator stopped before the job did"),
            };
        }
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
    }
    eprintln!("stopping after the running pages; press Ctrl-C again to stop at once");
    orchestrator.drain();
    tokio::select! {
        idle = orchestrator.idle(job.id) => idle?,
        // 128 and the number of the signal, as shells report it.
        _ = interrupts.recv() => std::process::exit(130),
        _ = terminations.recv() => std::process::exit(143),
    }
    Ok(true)
}

/// CPU time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        // The time is for the summary only, which must not fail for it.
        return 0.0;
    };
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}
