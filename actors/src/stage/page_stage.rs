//! The common form of stages that go page by page, as such a stage sees it: a plan, the work on one page, and the rows that
//! result. Checkpoints, resume, retries and budgets are left to [`super::paged`].

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use parkhang_models::inference::InferenceError;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{StageContext, StageInfo};
use crate::inference::{BatchModel, Inference};
use crate::runner::off_the_clock;
use parkhang_core::domain::{Assignment, ErrorCategory, JobConfig, StageError, StageName, VolumeId};
use parkhang_store::artifact::{
    ArtifactError, ArtifactRow, Digest, ImageName, ModelRef, ServiceRef, VolumeLayout,
};
use parkhang_store::pages::{PageSource, PageSourceError, source_of};
use parkhang_store::storage::{ArtifactKey, ArtifactStore, StorageError};

/// One page that a stage is to work on.
#[derive(Debug, Clone)]
pub(crate) struct PlannedPage<I> {
    /// Name of its image, by which tables and files of all stages know the page.
    pub name: ImageName,
    /// Position in the volume, from 0.
    pub index: u32,
    /// Name or key of what the page is made from, for the records of the run.
    pub input_path: String,
    /// Hash of everything this page's result depends on, besides configuration and models.
    pub input_hash: Digest,
    /// Relative cost, for the order in which pages are started.
    pub cost: f64,
    /// The stage's own knowledge of the page.
    pub input: I,
}

/// One run of a stage over one volume.
#[derive(Debug, Clone)]
pub(crate) struct VolumeRun {
    pub context: StageContext,
    pub layout: VolumeLayout,
    pub store: Arc<dyn ArtifactStore>,
    pub stage: StageName,
    /// First failure of the artifact store, or of the source of the scans, for a reason that does not lie in a page.
    pub store_failure: OnceLock<StageError>,
    /// First failure of a service for a reason that does not lie in a page.
    pub service_failure: OnceLock<StageError>,
    /// First failure that showed the node to be out of order.
    pub node_failure: OnceLock<StageError>,
    /// Set once the job may spend nothing more at services, as far as is known.
    pub out_of_budget: OnceLock<()>,
    /// Ends the run as a drain does, without being one: nothing more is begun on a node that is out of order.
    pub halt: CancellationToken,
}

impl VolumeRun {
    pub(crate) fn new(context: StageContext, store: Arc<dyn ArtifactStore>, stage: StageName) -> Self {
        Self {
            halt: context.drain.child_token(),
            layout: VolumeLayout::of(&context.assignment),
            context,
            store,
            stage,
            store_failure: OnceLock::new(),
            service_failure: OnceLock::new(),
            node_failure: OnceLock::new(),
            out_of_budget: OnceLock::new(),
        }
    }

    pub(crate) fn assignment(&self) -> &Assignment {
        &self.context.assignment
    }

    pub(crate) fn config(&self) -> &JobConfig {
        &self.assignment().config
    }

    pub(crate) fn volume(&self) -> &VolumeId {
        &self.assignment().volume
    }

    /// Source of the scans of the volume.
    ///
    /// # Errors
    ///
    /// When the scans are in no bucket.
    pub(crate) fn scans(&self, source: &Arc<dyn PageSource>) -> Result<Arc<dyn PageSource>, StageError> {
        let place = self.assignment().document.as_ref();
        source_of(source, self.volume(), place).map_err(|error| self.source_error(&error))
    }

    /// Key of the table that the stage writes.
    pub(crate) fn table<R: ArtifactRow>(&self) -> ArtifactKey {
        self.layout.table(&self.stage, R::TABLE)
    }

    pub(crate) fn error(&self, category: ErrorCategory, message: impl fmt::Display) -> StageError {
        StageError::new(self.stage.as_str(), category, message)
    }

    /// Error of the page at hand, or the end of the run where it is the node that is out of order.
    pub(crate) fn failure(&self, category: ErrorCategory, message: impl fmt::Display) -> StageError {
        match category {
            ErrorCategory::Node => self.out_of_order(message),
            category => self.error(category, message),
        }
    }

    pub(crate) fn storage_error(&self, error: &StorageError) -> StageError {
        let failure = self.error(error.category(), error);
        // Input errors lie in the page: an object that it names is not there, for one.
        if error.category() != ErrorCategory::Input {
            // The first failure is kept: later ones are often its consequences.
            let _ = self.store_failure.set(failure.clone());
        }
        failure
    }

    /// Error of the source of the scans for the page at hand, or for the run.
    pub(crate) fn source_error(&self, error: &PageSourceError) -> StageError {
        let failure = self.failure(error.category(), error);
        // An outage of the source lies in no page.
        if error.category() == ErrorCategory::Network {
            let _ = self.store_failure.set(failure.clone());
        }
        failure
    }

    /// Ends the run because the node is out of order; no page of it has failed. Returns the error for the page at hand.
    pub(crate) fn out_of_order(&self, reason: impl fmt::Display) -> StageError {
        let failure = self.error(ErrorCategory::Node, reason);
        // The first failure is kept: later ones are often its consequences.
        let _ = self.node_failure.set(failure.clone());
        self.halt.cancel();
        failure
    }

    /// Ends the run because a service is away or shuts us out; no page of it has failed. Returns the error for the page at hand.
    pub(crate) fn service_away(&self, category: ErrorCategory, reason: impl fmt::Display) -> StageError {
        let failure = self.error(category, reason);
        let _ = self.service_failure.set(failure.clone());
        self.halt.cancel();
        failure
    }

    /// Checks that the job may spend something at a service. Without a budget left, or if that is not known before the run is to stop, the run
    /// ends, and no page of it has failed.
    ///
    /// # Errors
    ///
    /// The error for the page at hand.
    pub(crate) async fn may_spend(&self, service: &str) -> Result<(), StageError> {
        if self.context.account.admits(service, &self.halt).await {
            return Ok(());
        }
        let _ = self.out_of_budget.set(());
        self.halt.cancel();
        let message = format!("service {service} is not asked: the job may spend nothing at services now");
        Err(self.error(ErrorCategory::Config, message))
    }

    /// Asks a network. A failure of the device ends the run, and is not charged to a page.
    ///
    /// # Errors
    ///
    /// When the network gives no answer.
    pub(crate) async fn infer<M: BatchModel>(
        &self,
        network: &Inference<M>,
        input: M::Input,
    ) -> Result<M::Output, StageError> {
        let answer = off_the_clock(network.infer(input)).await;
        answer.map_err(|error| match error {
            InferenceError::Device(_) => self.out_of_order(error),
            error => self.error(ErrorCategory::Runtime, error),
        })
    }

    pub(crate) fn artifact_error(&self, error: &ArtifactError) -> StageError {
        self.error(error.category(), error)
    }
}

/// Key of the picture that a row names; `None` in a row without one.
pub(super) fn some_path(path: &str) -> Option<&str> {
    (!path.is_empty()).then_some(path)
}

/// A stage whose items are the pages of a volume.
#[async_trait]
pub(crate) trait PageStage: StageInfo + 'static {
    /// A page's row of the stage before, or its scan.
    type Input: Send + Sync + 'static;
    /// Input that is read for a page before it is worked on.
    type Fetched: Send + 'static;
    /// A row of the stage's table.
    type Row: ArtifactRow + Sync;

    /// Version of the stage's code, raised whenever the same input gives another result.
    const VERSION: u32;

    /// Settings of the loaded models that the result depends on, beside the settings of the job that the stage table names.
    fn model_settings(&self, config: &JobConfig) -> Map<String, Value> {
        let _ = config;
        Map::new()
    }

    /// The models that make the results of a plan, of those that the stage has.
    fn models_of(&self, planned: &[PlannedPage<Self::Input>]) -> Vec<ModelRef> {
        let _ = planned;
        self.models()
    }

    /// The service that reads the pages of a plan, if one does.
    async fn service_of(&self, planned: &[PlannedPage<Self::Input>]) -> Option<ServiceRef> {
        let _ = planned;
        None
    }

    /// The page that a row belongs to.
    fn image_name(row: &Self::Row) -> &str;

    /// Fields of the record of a page in the manifest, beside those of all stages.
    fn record(&self, page: &PlannedPage<Self::Input>, rows: &[Self::Row]) -> Map<String, Value> {
        let _ = (page, rows);
        Map::new()
    }

    /// The image that a row stands for, if the stage writes one.
    fn image_path(row: &Self::Row) -> Option<&str>;

    /// The pages of the volume, in their order. Writes nothing: a dry run plans too.
    ///
    /// # Errors
    ///
    /// When the input of the stage is not there or cannot be read.
    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<Self::Input>>, StageError>;

    /// Version of the volume, where the source of its pages has versions.
    fn volume_version(&self, pages: &[PlannedPage<Self::Input>]) -> Option<String> {
        let _ = pages;
        None
    }

    /// The rows that stand for a page that could not be done, where the job wants it to stand blank in the results.
    fn blank(&self, page: &PlannedPage<Self::Input>) -> Vec<Self::Row> {
        let _ = page;
        Vec::new()
    }

    /// Reads the input of a page. Reading begins when the page is queued, so that other pages are worked on while a remote store
    /// takes its time to answer.
    ///
    /// # Errors
    ///
    /// When it cannot be read, with a category that says whether another try may succeed.
    async fn fetch(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<Self::Input>,
    ) -> Result<Self::Fetched, StageError>;

    /// Works on one page and writes its images. Doing it twice writes the same bytes to the same keys.
    ///
    /// # Errors
    ///
    /// When the page has no result; the category says whether another try may succeed.
    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<Self::Input>,
        fetched: Self::Fetched,
    ) -> Result<Vec<Self::Row>, StageError>;
}
