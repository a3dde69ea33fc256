//! A run of a [`PageStage`] over a volume on the stage kernel. Finished pages are checkpointed in parts; results of earlier
//! runs that still stand, in parts or in the final table, are taken over page by page; the final table is written last.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::checkpoint::Checkpoints;
use super::fetch_ahead::FetchAhead;
use super::info::StageInfo;
use super::ledger::Ledger;
use super::manifests::ManifestFolder;
use super::page_events::PageEvents;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::publish::{Published, drop_parts, drop_superseded_parts, note_fingerprint, publish};
use super::table::StageDefinition;
use super::{Account, StageContext, StageLogic};
use crate::runner::{
    ItemPreview, ItemWorker, Redo, StageControls, StageOptions, StageOutcome, StagePlan, WorkItem,
    off_the_clock, preview_stage, run_stage,
};
use crate::telemetry::{RunProgress, StageState};
use parkhang_core::domain::{
    Assignment, ErrorCategory, Hardware, JobConfig, StageError, StageReport, StageVerdict, Unfit,
};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::budget;
use parkhang_core::policy::forecast::MadeWith;
use parkhang_store::artifact::{Digest, Fingerprint, Provenance, cfg_hash};
use parkhang_store::storage::ArtifactStore;

/// A page stage as the pipeline sees it.
#[derive(Debug)]
pub(crate) struct PagedStage<S> {
    pub definition: StageDefinition,
    pub stage: Arc<S>,
    pub store: Arc<dyn ArtifactStore>,
    /// Pages in work at once where the job does not say.
    pub workers: usize,
    /// Folder for the records of each page's end, if they are wanted.
    pub manifests: Option<ManifestFolder>,
}

#[async_trait]
impl<S: PageStage> StageLogic for PagedStage<S> {
    fn info(&self) -> &dyn StageInfo {
        &*self.stage
    }

    async fn check(&self) -> Result<(), Unfit> {
        self.stage.check().await?;
        match &self.manifests {
            Some(folder) => folder.check().await,
            None => Ok(()),
        }
    }

    async fn preview(&self, assignment: Assignment) -> Result<Option<Vec<ItemPreview>>, StageError> {
        let run = self.begin(beside(assignment));
        let VolumePlan { plan, pages, .. } = self.plan(&run).await?;
        let ledger = Ledger::load::<S>(&run).await?;
        let options = self.options(&run);
        let worker = self.worker(run, pages, ledger);
        Ok(Some(preview_stage(&plan, &worker, &options).await))
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        let progress = context.progress.clone();
        let verdict = self
            .run_volume(context)
            .await
            .unwrap_or_else(StageVerdict::Failed);
        let state = match &verdict {
            StageVerdict::Succeeded(_) => StageState::Done,
            StageVerdict::Failed(_) => StageState::Failed,
            StageVerdict::Interrupted => StageState::Interrupted,
        };
        progress.ended(state);
        verdict
    }

    async fn abandon(&self, context: StageContext) {
        let run = self.begin(context);
        if let Err(error) = drop_superseded_parts::<S::Row>(&run).await {
            warn!(%error, "checkpoints stay that nobody needs");
        }
    }
}

/// Context of what is done about a volume outside a run.
pub(super) fn beside(assignment: Assignment) -> StageContext {
    StageContext {
        account: Account::closed(assignment.fence.clone()),
        assignment,
        drain: CancellationToken::new(),
        progress: RunProgress::default(),
        writes: TaskTracker::new(),
    }
}

/// The pages of a volume, as the stage and as the kernel sees them.
struct VolumePlan<I> {
    plan: StagePlan,
    pages: Vec<PlannedPage<I>>,
    /// Provenance of a table that holds all the pages.
    provenance: Provenance,
}

impl<S: PageStage> PagedStage<S> {
    /// Runs the stage over the volume: plans it, takes over what earlier runs left, works on the rest, and publishes.
    async fn run_volume(&self, context: StageContext) -> Result<StageVerdict, StageError> {
        let run = self.begin(context);
        let VolumePlan {
            plan,
            pages,
            provenance,
        } = self.plan(&run).await?;
        run.context.progress.started(pages.len());

        let ledger = Ledger::load::<S>(&run).await?;
        let is_published = ledger.final_is(&provenance);
        let found = ledger.found();
        // Asked now, as the kernel takes the pages.
        let version = self.stage.volume_version(&pages);
        let mut checkpoints = Checkpoints::new(&*self.stage, run.clone(), provenance.clone(), &pages);
        let outcome = self
            .run_pages(&run, plan, pages, ledger, &mut checkpoints)
            .await?;
        if let Some(ending) = bad_ending(&run, &outcome) {
            // The next run of the stage, maybe on another node, goes on from the parts.
            if ending.keeps_pages {
                checkpoints.save_part().await?;
                drop_superseded_parts::<S::Row>(&run).await?;
            }
            return Ok(ending.verdict);
        }

        // A table that says the same already is left as it is. Written anew it would differ in the attempt that it names, though
        // nothing has changed.
        let finished = checkpoints.finish();
        if outcome.succeeded > 0 || outcome.failed > 0 || !is_published {
            let published = publish(&run, finished, &provenance, &found).await?;
            if published == Published::Overtaken {
                // Either the lease is over, or another run wrote after its own was. The next run sees what is there.
                drop_superseded_parts::<S::Row>(&run).await?;
                return Ok(StageVerdict::Interrupted);
            }
        }
        // Also where nothing was published: the run that wrote the table may have died before these two steps. The parts go last,
        // since until the table is there they are all that remains of the work.
        note_fingerprint::<S::Row>(&run, &provenance).await?;
        drop_parts(&run).await?;
        let made_with = self.made_with(&run, &provenance);
        Ok(StageVerdict::Succeeded(report(
            &outcome,
            &provenance,
            &made_with,
            version,
        )))
    }

    fn begin(&self, context: StageContext) -> Arc<VolumeRun> {
        Arc::new(VolumeRun::new(context, self.store.clone(), self.stage.name()))
    }

    /// Asks the stage for its pages, and gives each its fingerprint.
    async fn plan(&self, run: &VolumeRun) -> Result<VolumePlan<S::Input>, StageError> {
        let pages = self.stage.plan(run).await?;
        let config_hash = cfg_hash(&Value::Object(self.settings(run.config())))
            .map_err(|error| run.error(ErrorCategory::Config, error))?;
        // Not all that are loaded: a volume is read by one of several recognisers, and another one beside it, added to the node
        // later, must not make its pages stale.
        let models = self.stage.models_of(&pages);
        let digests: Vec<Digest> = models.iter().map(|model| model.digest).collect();
        let fingerprint =
            |input| Fingerprint::of(run.stage.as_str(), S::VERSION, config_hash, input, &digests);
        let table = run.table::<S::Row>();
        let items: Vec<WorkItem> = pages
            .iter()
            .map(|page| WorkItem {
                item_id: page.name.as_str().to_owned(),
                input_path: Some(page.input_path.clone()),
                output_path: Some(table.as_str().to_owned()),
                input_hash: Some(page.input_hash),
                cost_hint: page.cost,
                fingerprint: Some(fingerprint(page.input_hash)),
            })
            .collect();
        let by_page: BTreeMap<String, Fingerprint> = pages
            .iter()
            .map(|page| (page.name.as_str().to_owned(), fingerprint(page.input_hash)))
            .collect();
        let plan = StagePlan::new(run.stage.clone(), items)
            .map_err(|error| run.error(ErrorCategory::Input, error))?;
        let input_hash = Digest::of_parts(pages.iter().map(|page| page.input_hash));
        let provenance = Provenance {
            job: run.assignment().job.clone(),
            volume: run.volume().clone(),
            stage: run.stage.clone(),
            attempt: run.assignment().fence.attempt,
            fingerprint: fingerprint(input_hash),
            models,
            config_hash,
            input_hash,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            pages: by_page,
            service: self.stage.service_of(&pages).await,
        };
        Ok(VolumePlan {
            plan,
            pages,
            provenance,
        })
    }

    /// Settings that the result depends on: those of the job and those of the loaded models.
    fn settings(&self, config: &JobConfig) -> Map<String, Value> {
        let mut settings = (self.definition.settings)(config);
        settings.extend(self.stage.model_settings(config));
        settings
    }

    fn options(&self, run: &VolumeRun) -> StageOptions {
        let mut options = StageOptions::of_job(run.config(), self.workers);
        if options.max_queue == 0 {
            options.max_queue = match self.stage.hardware() {
                Hardware::Cpu => 2 * options.workers,
                // A device empties the queue in batches.
                Hardware::Gpu => 4 * options.workers,
            };
        }
        options
    }

    fn worker(
        &self,
        run: Arc<VolumeRun>,
        pages: Vec<PlannedPage<S::Input>>,
        ledger: Ledger<S::Row>,
    ) -> PageWorker<S> {
        PageWorker {
            stage: self.stage.clone(),
            run,
            pages: pages
                .into_iter()
                .map(|page| (page.name.as_str().to_owned(), Arc::new(page)))
                .collect(),
            ahead: FetchAhead::default(),
            ledger,
        }
    }

    /// Gives the pages to the kernel.
    async fn run_pages(
        &self,
        run: &Arc<VolumeRun>,
        plan: StagePlan,
        pages: Vec<PlannedPage<S::Input>>,
        ledger: Ledger<S::Row>,
        checkpoints: &mut Checkpoints<S::Row>,
    ) -> Result<StageOutcome, StageError> {
        let worker = Arc::new(self.worker(run.clone(), pages, ledger));
        let controls = StageControls {
            hooks: Arc::new(PageEvents),
            cancel: run.halt.clone(),
            manifest: self
                .manifests
                .as_ref()
                .map(|folder| folder.sink(&run.assignment().job, run.volume(), &run.stage)),
            ..StageControls::default()
        };
        let ran = run_stage(plan, worker, checkpoints, &self.options(run), controls).await;
        if let Err(error) = &ran
            && error.category == ErrorCategory::Node
        {
            // The manifest could not be written. The pages are good, and another node can go on from them.
            checkpoints.save_part().await?;
        }
        ran
    }

    /// The settings and models that the result depends on, for forecasts of a rerun.
    fn made_with(&self, run: &VolumeRun, provenance: &Provenance) -> MadeWith {
        MadeWith {
            settings: self.settings(run.config()),
            models: provenance
                .models
                .iter()
                .map(|model| model.digest.to_string())
                .collect(),
            names: Vec::new(),
        }
    }
}

/// End of a run whose result is not published.
struct BadEnding {
    verdict: StageVerdict,
    /// True if the finished pages are saved for the next run.
    keeps_pages: bool,
}

impl BadEnding {
    fn keeping(verdict: StageVerdict) -> Self {
        Self {
            verdict,
            keeps_pages: true,
        }
    }
}

/// The verdict on a run whose result must not be published; `None` where it may be. The first reason that holds counts: a
/// reason outside the pages explains their failures, which must not be charged to them.
fn bad_ending(run: &VolumeRun, outcome: &StageOutcome) -> Option<BadEnding> {
    if let Some(failure) = run.node_failure.get() {
        return Some(BadEnding::keeping(StageVerdict::Failed(failure.clone())));
    }
    if let Some(failure) = run.service_failure.get()
        && !run.context.drain.is_cancelled()
    {
        return Some(BadEnding::keeping(StageVerdict::Failed(failure.clone())));
    }
    // Released uncharged: the job is paused, and the pages wait for its budget to be raised.
    if run.out_of_budget.get().is_some() {
        return Some(BadEnding::keeping(StageVerdict::Interrupted));
    }
    if outcome.unfinished() > 0 {
        // Drained, or over the error budget. A drain wins where both happened: without it the last error names the reason.
        let verdict = match outcome.errors.last() {
            Some(error) if !run.context.drain.is_cancelled() => StageVerdict::Failed(error.clone()),
            _ => StageVerdict::Interrupted,
        };
        return Some(BadEnding::keeping(verdict));
    }
    // A page whose images could not be read or written is not a broken page: published now, it would be missing for good.
    if outcome.failed > 0
        && let Some(failure) = run.store_failure.get()
    {
        return Some(BadEnding::keeping(StageVerdict::Failed(failure.clone())));
    }
    let failures = outcome.errors.iter().map(|error| error.category);
    if budget::came_to_nothing(outcome.succeeded + outcome.skipped, failures) {
        // Every page failed: there is none to keep.
        return Some(BadEnding {
            verdict: StageVerdict::Failed(nothing_read(run, outcome)),
            keeps_pages: false,
        });
    }
    let config = run.config();
    budget::fails_stage(
        config.on_item_error,
        config.max_item_error_rate,
        outcome.failed,
        outcome.total,
    )
    .then(|| {
        let first = outcome.errors.first().cloned();
        BadEnding::keeping(StageVerdict::Failed(
            first.unwrap_or_else(|| run.error(ErrorCategory::Unknown, "pages failed")),
        ))
    })
}

/// The error of a volume without a result, for a reason that does not lie in its pages. Another node may read it.
fn nothing_read(run: &VolumeRun, outcome: &StageOutcome) -> StageError {
    let first = outcome.errors.first().map(|error| error.message.as_str());
    let message = format!(
        "all {} pages failed, the first with: {}",
        outcome.failed,
        first.unwrap_or("?")
    );
    StageError {
        retryable: true,
        ..run.error(ErrorCategory::Runtime, message)
    }
}

fn report(
    outcome: &StageOutcome,
    provenance: &Provenance,
    made_with: &MadeWith,
    version: Option<String>,
) -> StageReport {
    let models = provenance.models.iter().map(|model| model.name.as_str());
    StageReport {
        metrics: json!({
            "pages": outcome.total,
            "read": outcome.succeeded,
            "skipped": outcome.skipped,
            "failed": outcome.failed,
            "wall_ms": outcome.wall_ms,
            "queue_p50_ms": outcome.queue_p50_ms,
            "exec_p50_ms": outcome.exec_p50_ms,
            "exec_p95_ms": outcome.exec_p95_ms,
            "version": version,
            "models": models.collect::<Vec<_>>(),
            "made_with": made_with,
        }),
        fingerprint: Some(provenance.fingerprint.to_string()),
        results: None,
    }
}

/// A page stage as the kernel sees it.
struct PageWorker<S: PageStage> {
    stage: Arc<S>,
    run: Arc<VolumeRun>,
    pages: HashMap<String, Arc<PlannedPage<S::Input>>>,
    ahead: FetchAhead<Result<S::Fetched, StageError>>,
    ledger: Ledger<S::Row>,
}

#[async_trait]
impl<S: PageStage> ItemWorker for PageWorker<S> {
    type Output = Vec<S::Row>;

    async fn run(&self, item: &WorkItem, _attempt: u32) -> Result<Vec<S::Row>, StageError> {
        let page = self.pages.get(&item.item_id).ok_or_else(|| {
            self.run
                .error(ErrorCategory::Unknown, "the page is not in the plan")
        })?;
        let work = async {
            let fetched = off_the_clock(async {
                match self.ahead.take(&item.item_id).await {
                    Some(fetched) => fetched,
                    // A second try: the first one has taken what was read ahead, which may have been the error.
                    None => self.stage.fetch(&self.run, page).await,
                }
            });
            self.stage.process(&self.run, page, fetched.await?).await
        };
        let rows = self.run.context.progress.follow_page(&item.item_id, work).await?;
        Failpoint::PageDone.hit_in(self.run.volume(), &self.run.stage);
        Ok(rows)
    }

    fn queued(&self, item: &WorkItem) {
        let Some(page) = self.pages.get(&item.item_id).cloned() else {
            return;
        };
        let (stage, run) = (self.stage.clone(), self.run.clone());
        self.ahead
            .start(&item.item_id, async move { stage.fetch(&run, &page).await });
    }

    async fn resume(&self, item: &WorkItem) -> Result<Vec<S::Row>, Redo> {
        self.ledger.standing(&item.item_id, item.fingerprint)
    }

    fn manifest(&self, item: &WorkItem, rows: &Vec<S::Row>) -> Map<String, Value> {
        let page = self.pages.get(&item.item_id);
        let mut record = page.map_or_else(Map::new, |page| self.stage.record(page, rows));
        record.insert("rows".to_owned(), Value::from(rows.len()));
        record
    }
}
