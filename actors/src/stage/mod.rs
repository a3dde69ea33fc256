//! What each stage does with a volume. A stage knows neither the actor that runs it nor whether it runs alone or in a
//! cluster: it gets a [`StageContext`], writes artifacts under its own prefix, and returns a verdict.

mod checkpoint;
mod fetch_ahead;
mod ledger;
mod line_detection;
mod line_extraction;
mod manifests;
mod names;
mod ocr;
mod ocr_choice;
mod page_events;
mod page_stage;
mod paged;
mod reduce;
mod registry;

use std::fmt;

use async_trait::async_trait;
use parkhang_models::algorithms::Algorithms;
use tokio_util::sync::CancellationToken;

use self::page_stage::VolumeRun;
use crate::artifact::ModelRef;
use crate::domain::{
    Assignment, ErrorCategory, Hardware, JobConfig, PageStep, StageError, StageName, StageVerdict, Unfit,
};
use crate::inference::{BatchModel, DeviceStanding, Inference};
use crate::runner::{CancelFlag, CpuPool};
use crate::telemetry::{RunProgress, at_step};

pub use manifests::ManifestFolder;
pub use names::{chooses_a_model, has_models, ocr_pipeline};
pub use registry::{ModelSet, Recogniser, StageRegistry, StageServices, first_stale, hardware_of};

/// Quality of JPEG images between stages, high enough that the recogniser reads the same from the file as from the pixels. Ink and
/// paper alone have no shades to keep, and with the quality of other pages theirs would take twenty-five times the space of their scans.
const fn image_quality(bilevel: bool) -> u8 {
    if bilevel { 50 } else { 92 }
}

/// Everything a stage may use while it runs.
#[derive(Debug, Clone)]
pub struct StageContext {
    pub assignment: Assignment,
    /// Set when the node drains: start no new page, checkpoint, return [`StageVerdict::Interrupted`].
    pub drain: CancellationToken,
    pub progress: RunProgress,
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

    /// Whether the stage can work here at this moment: its device answers what it is known to answer, its threads take work, and
    /// what it writes down for itself finds a place. Asked after a fault, of a stage that has been renewed; does not return
    /// while the device hangs.
    async fn check(&self) -> Result<(), Unfit> {
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
    work: impl FnOnce(&CancelFlag) -> Result<T, (ErrorCategory, String)> + Send + 'static,
) -> Result<T, StageError> {
    at_step(PageStep::Computing);
    let span = tracing::Span::current();
    match cpu.run(move |cancelled| span.in_scope(|| work(cancelled))).await {
        Ok(result) => result.map_err(|(category, message)| run.error(category, message)),
        Err(error) if error.category() == ErrorCategory::Node => Err(run.out_of_order(error)),
        Err(error) => Err(run.error(error.category(), error)),
    }
}

/// Whether the threads of a stage take work.
fn check_threads(cpu: &CpuPool) -> Result<(), Unfit> {
    cpu.check().map_err(|error| Unfit::Device(error.to_string()))
}

/// Whether a network answers what it is known to answer.
async fn check_device<M: BatchModel>(inference: &Inference<M>) -> Result<(), Unfit> {
    let checked = inference.check().await;
    checked.map_err(|error| Unfit::Device(error.to_string()))
}
