//! What each stage does with a volume. A stage knows neither the actor that runs it nor whether it runs alone or in a
//! cluster: it gets a [`StageContext`], writes artifacts under its own prefix, and returns a verdict.

mod checkpoint;
mod fetch_ahead;
mod ledger;
mod line_detection;
mod line_extraction;
mod names;
mod ocr;
mod ocr_choice;
mod page_stage;
mod paged;
mod reduce;
mod registry;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parkhang_models::algorithms::Algorithms;
use tokio_util::sync::CancellationToken;

use self::page_stage::VolumeRun;
use crate::artifact::{ArtifactLayout, ModelRef, VolumeLayout};
use crate::domain::{
    ErrorCategory, Fence, Hardware, JobConfig, JobKey, PageStep, StageError, StageName, VolumeId,
    VolumeResults,
};
use crate::inference::DeviceStanding;
use crate::runner::CpuPool;
use crate::telemetry::{RunProgress, at_step};

pub use names::{chooses_a_model, has_models, ocr_pipeline};
pub use registry::{ModelSet, Recogniser, StageRegistry, StageServices, first_stale, hardware_of};

/// Quality of JPEG images between stages, high enough that the recogniser reads the same from the file as from the pixels. Ink and
/// paper alone have no shades to keep, and with the quality of other pages theirs would take twenty-five times the space of their scans.
const fn image_quality(bilevel: bool) -> u8 {
    if bilevel { 50 } else { 92 }
}

/// One stage of one task, as handed to a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Names this run: the task, the stage and the try.
    pub fence: Fence,
    /// When the lease runs out unless it is renewed.
    pub lease_until: DateTime<Utc>,
    pub volume: VolumeId,
    pub job: JobKey,
    pub config: Arc<JobConfig>,
}

impl Assignment {
    /// The keys of the volume's artifacts, laid out as the job wants them.
    pub fn layout(&self) -> VolumeLayout {
        ArtifactLayout::new(self.config.layout, &self.job).volume(&self.volume)
    }
}

/// Everything a stage may use while it runs.
#[derive(Debug, Clone)]
pub struct StageContext {
    pub assignment: Assignment,
    /// Set when the node drains: start no new page, checkpoint, return [`StageVerdict::Interrupted`].
    pub drain: CancellationToken,
    pub progress: RunProgress,
}

/// What a stage says of itself when it succeeded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StageReport {
    /// Counts and durations, stored in `stage_runs.metrics`.
    pub metrics: serde_json::Value,
    pub fingerprint: Option<String>,
    /// Only `reduce` has these.
    pub results: Option<VolumeResults>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StageVerdict {
    Succeeded(StageReport),
    Failed(StageError),
    /// Drained before the end; finished pages are kept and the try is not charged.
    Interrupted,
}

/// A stage that a pipeline can name. Adding one takes its own file and a line in the registry's table.
#[async_trait]
pub trait StageLogic: Send + Sync + fmt::Debug {
    fn name(&self) -> StageName;

    fn hardware(&self) -> Hardware;

    /// The networks that the stage keeps loaded.
    fn models(&self) -> Vec<ModelRef> {
        Vec::new()
    }

    /// The thread that owns its network, if it has one.
    fn device(&self) -> Option<DeviceStanding> {
        None
    }

    /// Leaves a thread that hangs to itself and goes on with a fresh one. What was asked of the old one stays unanswered.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    fn renew(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Runs the stage over one volume. Running it twice, or again after a kill, gives the same artifacts.
    async fn run(&self, context: StageContext) -> StageVerdict;
}

/// The keys that a stage's result depends on, and the generation of algorithms where it is not the usual one. What was
/// made before there was a choice so keeps its fingerprint.
fn of_generation(config: &JobConfig, mut keys: serde_json::Value) -> serde_json::Value {
    if config.generation != Algorithms::default() {
        keys[JobConfig::GENERATION] = serde_json::json!(config.generation);
    }
    keys
}

/// Runs a closure of a stage on the CPU pool: image codecs and geometry never run on the async threads.
async fn compute<T: Send + 'static>(
    cpu: &CpuPool,
    run: &VolumeRun,
    work: impl FnOnce() -> Result<T, (ErrorCategory, String)> + Send + 'static,
) -> Result<T, StageError> {
    at_step(PageStep::Computing);
    let span = tracing::Span::current();
    match cpu.run(move |_| span.in_scope(work)).await {
        Ok(result) => result.map_err(|(category, message)| run.error(category, message)),
        Err(error) => Err(run.error(ErrorCategory::Runtime, error)),
    }
}
