//! The stages: the steps of a pipeline. A stage knows neither the actor that runs it nor whether it runs alone or in a cluster:
//! it gets a [`StageContext`], writes artifacts under its own prefix, and returns a verdict.
//!
//! A stage may be killed at any moment and begun again elsewhere, so its progress must be found in the store and nowhere else.
//! `paged` takes care of that for all stages that go page by page. A page is done once a row that names its images is in a part
//! or in the final table. Its fingerprint there says what the page was made from, so that a changed input, setting or model makes
//! only the pages anew that depend on it, and `ledger` needs no other record. Fingerprints are chained: the input hash of a page
//! is its fingerprint in the stage before, so no image is read to find out whether it has changed. Images come before the part
//! that names them, all parts before the table, and the table before the parts are deleted: whenever the process dies, a
//! reader finds either the old table or the new one, and no page twice. Artifacts hold no time of day, so that the same input
//! gives the same bytes; times are in the manifests, which lie in a folder of their own.
//!
//! The consequence of a page's failure for its volume is decided after the run (`paged`), where it is known whether the node, the
//! store or the page was to blame. The stages themselves are left with a plan and the work on one page.

mod account;
mod checkpoint;
mod chunk;
mod clean;
mod combine;
mod doctags;
mod embed;
mod fenced;
mod fetch_ahead;
mod index;
mod info;
mod ledger;
mod line_blocks;
mod line_detection;
mod line_extraction;
mod line_pictures;
mod manifests;
mod ocr;
mod ocr_choice;
mod ocr_operations;
mod ocr_reader;
mod ocr_reading;
mod ocr_service;
mod page_events;
mod page_geometry;
mod page_ocr;
mod page_stage;
mod page_text;
mod paged;
mod pipelines;
mod publish;
mod quality;
mod read_volume;
mod reduce;
mod registry;
mod scans;
mod service;
mod table;
mod whole;

use std::fmt;

use async_trait::async_trait;
use parkhang_models::algorithms::Algorithms;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::page_stage::VolumeRun;
use crate::inference::{BatchModel, Inference};
use crate::runner::{CancelFlag, CpuPool, ItemPreview};
use crate::telemetry::{RunProgress, at_step};
use parkhang_core::domain::{
    Assignment, ErrorCategory, JobConfig, PageStep, StageError, StageVerdict, Unfit,
};

pub use account::{Account, ExpenseRecorder};
pub use combine::{PageReadings, ReadingsError, read_readings};
pub use info::StageInfo;
pub use manifests::ManifestFolder;
pub use page_geometry::page_geometry;
pub use pipelines::{
    COMBINE, DOCUMENTS, OCR, OCR_DOCUMENTS, PAGE_OCR, Pipelines, combine_pipeline, documents_pipeline,
    ocr_documents_pipeline, ocr_pipeline, page_ocr_pipeline,
};
pub use quality::text_score;
pub use registry::{
    Embeddings, LayoutReader, LineSegmenter, ModelSet, PrintReader, Recogniser, StageRegistry, StageServices,
    Tokenizer,
};
pub use table::{ModelKind, PipelineError, READINGS, SCANS, StageDefinition, StageModels, StageTable};

/// Stages that come with the program. Whatever lists, counts or checks stages goes by this table.
const STAGES: &[StageDefinition] = &[
    line_detection::STAGE,
    line_extraction::STAGE,
    ocr::STAGE,
    clean::STAGE,
    combine::STAGE,
    page_text::STAGE,
    page_ocr::STAGE,
    doctags::STAGE,
    line_blocks::STAGE,
    chunk::STAGE,
    embed::STAGE,
    index::STAGE,
    reduce::STAGE,
];

/// Requests that wait for a device at most; further pages wait with their tiles not yet sent.
const DEVICE_INBOX: usize = 4;

/// Quality of JPEG images between stages, high enough that the recogniser reads the same from the file as from the pixels. Ink and
/// paper alone have no shades to keep, and with the quality of other pages theirs would take twenty-five times the space of their scans.
const fn image_quality(bilevel: bool) -> u8 {
    if bilevel { 50 } else { 92 }
}

/// Everything a stage may use while it runs.
#[derive(Debug, Clone)]
pub struct StageContext {
    /// The lease, with the volume, the job's configuration and the stage.
    pub assignment: Assignment,
    /// Cancelled when the stage is to stop: start no new page, checkpoint, return [`StageVerdict::Interrupted`].
    pub drain: CancellationToken,
    /// Board on which the run shows its pages.
    pub progress: RunProgress,
    /// Account of what the run spends at services.
    pub account: Account,
    /// Writes that go on to their end if the run is killed: a request that is under way cannot be taken back.
    pub writes: TaskTracker,
}

/// Logic of a stage that a pipeline can name.
#[async_trait]
pub trait StageLogic: Send + Sync + fmt::Debug {
    /// Properties of the stage.
    fn info(&self) -> &dyn StageInfo;

    /// Checks that the stage can work here: what [`StageInfo::check`] checks, and that there is room for its own records.
    ///
    /// # Errors
    ///
    /// When the stage cannot work here, with the reason.
    async fn check(&self) -> Result<(), Unfit> {
        self.info().check().await
    }

    /// The pages that [`run`](Self::run) would find, and which of them it would work on, for a dry run; `None` for a stage
    /// that does not go page by page. Writes nothing.
    ///
    /// # Errors
    ///
    /// When the input of the stage is not there or cannot be read.
    async fn preview(&self, assignment: Assignment) -> Result<Option<Vec<ItemPreview>>, StageError> {
        let _ = assignment;
        Ok(None)
    }

    /// Runs the stage over one volume. Running it twice, or again after a kill, gives the same artifacts.
    async fn run(&self, context: StageContext) -> StageVerdict;

    /// Removes what nobody needs of a run whose lease was lost, once it has ended or was killed. Another run may be at the volume, or
    /// have ended.
    async fn abandon(&self, context: StageContext) {
        let _ = context;
    }
}

/// The keys that a stage's result depends on, with the generation of algorithms where it is not the default one: results made
/// before there was a choice keep their fingerprints so.
fn of_generation<'k>(
    config: &JobConfig,
    keys: impl IntoIterator<Item = (&'k str, Value)>,
) -> Map<String, Value> {
    let generation = (config.generation != Algorithms::default())
        .then(|| (JobConfig::GENERATION, json!(config.generation)));
    let keys = keys.into_iter().chain(generation);
    keys.map(|(key, value)| (key.to_owned(), value)).collect()
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
        Ok(result) => result.map_err(|(category, message)| run.failure(category, message)),
        Err(error) => Err(run.failure(error.category(), error)),
    }
}

/// Checks that the threads of a stage take work.
fn check_threads(cpu: &CpuPool) -> Result<(), Unfit> {
    cpu.check().map_err(|error| Unfit::Device(error.to_string()))
}

/// Checks that a network answers its probe.
async fn check_device<M: BatchModel>(inference: &Inference<M>) -> Result<(), Unfit> {
    inference
        .check()
        .await
        .map_err(|error| Unfit::Device(error.to_string()))
}
