//! Runs a [`PageStage`] over a volume on the stage kernel. Finished pages are checkpointed in parts; results of earlier
//! runs that still stand, in parts or in the final table, are taken over page by page; the final table is written last.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value, json};

use super::checkpoint::{Checkpoints, Finished};
use super::fetch_ahead::FetchAhead;
use super::ledger::Ledger;
use super::manifests::ManifestFolder;
use super::page_events::PageEvents;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::{StageContext, StageLogic};
use crate::artifact::{Digest, Fingerprint, ModelRef, Provenance, VolumeLayout, cfg_hash, write_table};
use crate::domain::{ErrorCategory, Hardware, StageError, StageName, StageReport, StageVerdict, Unfit};
use crate::failpoint::Failpoint;
use crate::inference::DeviceStanding;
use crate::policy::budget;
use crate::policy::forecast::MadeWith;
use crate::runner::{
    ItemWorker, StageControls, StageOptions, StageOutcome, StagePlan, StagePolicy, WorkItem, off_the_clock,
    run_stage,
};
use crate::storage::ArtifactStore;
use crate::telemetry::StageState;

/// Parts that are deleted at once.
const DELETIONS: usize = 16;

/// A page stage as the pipeline sees it.
#[derive(Debug)]
pub(crate) struct PagedStage<S> {
    pub stage: Arc<S>,
    pub store: Arc<dyn ArtifactStore>,
    /// Pages in work at once where the job does not say.
    pub workers: usize,
    /// For the records of what happened to each page.
    pub manifests: Option<ManifestFolder>,
}

#[async_trait]
impl<S: PageStage> StageLogic for PagedStage<S> {
    fn name(&self) -> StageName {
        self.stage.name()
    }

    fn hardware(&self) -> Hardware {
        self.stage.hardware()
    }

    fn models(&self) -> Vec<ModelRef> {
        self.stage.models()
    }

    fn device(&self) -> Option<DeviceStanding> {
        self.stage.device()
    }

    fn renew(&self) -> std::io::Result<()> {
        self.stage.renew()
    }

    async fn check(&self) -> Result<(), Unfit> {
        self.stage.check().await?;
        match &self.manifests {
            Some(folder) => folder.check().await,
            None => Ok(()),
        }
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
}

impl<S: PageStage> PagedStage<S> {
    async fn run_volume(&self, context: StageContext) -> Result<StageVerdict, StageError> {
        let layout = VolumeLayout::of(&context.assignment);
        let run = Arc::new(VolumeRun {
            halt: context.drain.child_token(),
            context,
            layout,
            store: self.store.clone(),
            stage: self.name(),
            store_failure: OnceLock::new(),
            node_failure: OnceLock::new(),
        });
        let planned = self.stage.plan(&run).await?;
        run.context.progress.started(planned.len());

        let config_hash = cfg_hash(&self.stage.relevant_config(run.config()))
            .map_err(|error| run.error(ErrorCategory::Config, error))?;
        let models: Vec<Digest> = self
            .stage
            .models_of(&planned)
            .iter()
            .map(|model| model.digest)
            .collect();
        let fingerprint = |page: &PlannedPage<S::Input>| {
            Fingerprint::of(
                run.stage.as_str(),
                S::VERSION,
                config_hash,
                page.input_hash,
                &models,
            )
        };
        let items = planned.iter().map(|page| WorkItem {
            input_hash: Some(page.input_hash),
            cost_hint: page.cost,
            fingerprint: Some(fingerprint(page)),
            ..WorkItem::new(page.name.as_str(), config_hash)
        });
        let plan = StagePlan::new(run.stage.clone(), items.collect())
            .map_err(|error| run.error(ErrorCategory::Input, error))?;
        let fingerprints: BTreeMap<String, Fingerprint> = planned
            .iter()
            .map(|page| (page.name.as_str().to_owned(), fingerprint(page)))
            .collect();
        let provenance = self.provenance(&run, config_hash, &planned, fingerprints);

        let ledger = Ledger::load(&*self.stage, &run).await?;
        let mut checkpoints = Checkpoints::new(
            &*self.stage,
            run.clone(),
            provenance.clone(),
            &planned,
            ledger.next_part(),
        );
        let unchanged = ledger.final_is(&provenance);
        let version = self.stage.volume_version(&planned);
        let total = planned.len();
        let worker = Arc::new(PageWorker {
            stage: self.stage.clone(),
            run: run.clone(),
            pages: planned
                .into_iter()
                .map(|page| (page.name.as_str().to_owned(), Arc::new(page)))
                .collect(),
            ahead: FetchAhead::default(),
            ledger,
        });
        let policy = match self.hardware() {
            Hardware::Cpu => StagePolicy::Cpu,
            Hardware::Gpu => StagePolicy::Gpu,
        };
        let mut options = StageOptions::of_job(run.config(), policy, self.workers);
        if options.max_queue == 0 {
            options.max_queue = policy.auto_queue(options.workers);
        }
        let controls = StageControls {
            hooks: Arc::new(PageEvents),
            cancel: run.halt.clone(),
            manifest: self
                .manifests
                .as_ref()
                .map(|folder| folder.sink(&run.assignment().job, run.volume(), &run.stage)),
            ..StageControls::default()
        };
        let outcome = match run_stage(plan, worker, &mut checkpoints, &options, controls).await {
            Ok(outcome) => outcome,
            Err(error) => {
                if error.category == ErrorCategory::Node {
                    checkpoints.save_part().await?;
                }
                return Err(error);
            }
        };

        if let Some(failure) = run.node_failure.get() {
            checkpoints.save_part().await?;
            return Ok(StageVerdict::Failed(failure.clone()));
        }
        if outcome.unfinished() > 0 {
            checkpoints.save_part().await?;
            return match outcome.errors.last() {
                _ if run.context.drain.is_cancelled() => Ok(StageVerdict::Interrupted),
                Some(error) => Ok(StageVerdict::Failed(error.clone())),
                None => Ok(StageVerdict::Interrupted),
            };
        }
        // A page whose images could not be written is not a broken page: it must not be missing from the results for ever.
        if outcome.failed > 0
            && let Some(failure) = run.store_failure.get()
        {
            checkpoints.save_part().await?;
            return Ok(StageVerdict::Failed(failure.clone()));
        }
        let failures = outcome.errors.iter().map(|error| error.category);
        if budget::came_to_nothing(outcome.succeeded + outcome.skipped, failures) {
            return Ok(StageVerdict::Failed(nothing_read(&run, &outcome)));
        }
        if budget::fails_stage(
            run.config().on_item_error,
            run.config().max_item_error_rate,
            outcome.failed,
            total,
        ) {
            checkpoints.save_part().await?;
            let error = outcome.errors.first().cloned();
            return Ok(StageVerdict::Failed(
                error.unwrap_or_else(|| run.error(ErrorCategory::Unknown, "pages failed")),
            ));
        }
        let finished = checkpoints.finish();
        if outcome.succeeded > 0 || outcome.failed > 0 || !unchanged {
            self.publish(&run, finished, &provenance).await?;
        }
        self.drop_parts(&run).await?;
        let made_with = MadeWith {
            settings: match self.stage.relevant_config(run.config()) {
                Value::Object(settings) => settings,
                _ => Map::new(),
            },
            models: provenance
                .models
                .iter()
                .map(|model| model.digest.to_string())
                .collect(),
            names: Vec::new(),
        };
        Ok(StageVerdict::Succeeded(report(
            &outcome,
            &provenance,
            &made_with,
            version,
        )))
    }

    /// Writes what is final: images and errors first, the table last.
    async fn publish(
        &self,
        run: &VolumeRun,
        finished: Finished<S::Row>,
        provenance: &Provenance,
    ) -> Result<(), StageError> {
        let mut provenance = provenance.clone();
        provenance.pages.retain(|page, _| finished.pages.contains(page));
        let artifact_error = |error| run.artifact_error(&error);
        let storage_error = |error| run.storage_error(&error);
        let store = run.store.as_ref();
        store
            .sync(&run.layout.stage_folder(&run.stage))
            .await
            .map_err(storage_error)?;
        Failpoint::ImagesFlushed.pass_in(run.volume(), &run.stage);
        write_table(
            store,
            &run.layout.errors(&run.stage),
            finished.errors,
            &provenance,
        )
        .await
        .map_err(artifact_error)?;
        Failpoint::ErrorsWritten.pass_in(run.volume(), &run.stage);
        write_table(store, &self.stage.table(&run.layout), finished.rows, &provenance)
            .await
            .map_err(artifact_error)?;
        Failpoint::TableWritten.pass_in(run.volume(), &run.stage);
        Ok(())
    }

    /// To be called once the final table is there, also where an earlier run wrote it and came no further.
    async fn drop_parts(&self, run: &VolumeRun) -> Result<(), StageError> {
        let storage_error = |error| run.storage_error(&error);
        let store = run.store.as_ref();
        let parts = store
            .list(&run.layout.parts_folder(&run.stage))
            .await
            .map_err(storage_error)?;
        stream::iter(parts)
            .map(Ok)
            .try_for_each_concurrent(DELETIONS, |(part, _)| async move {
                store.delete(&part).await?;
                Failpoint::PartDeleted.pass_in(run.volume(), &run.stage);
                Ok(())
            })
            .await
            .map_err(storage_error)
    }

    fn provenance(
        &self,
        run: &VolumeRun,
        config_hash: Digest,
        planned: &[PlannedPage<S::Input>],
        pages: BTreeMap<String, Fingerprint>,
    ) -> Provenance {
        let input_hash = Digest::of_parts(planned.iter().map(|page| page.input_hash));
        let models = self.stage.models_of(planned);
        let digests: Vec<Digest> = models.iter().map(|model| model.digest).collect();
        Provenance {
            job: run.assignment().job.clone(),
            volume: run.volume().clone(),
            stage: run.stage.clone(),
            attempt: run.assignment().fence.attempt,
            fingerprint: Fingerprint::of(run.stage.as_str(), S::VERSION, config_hash, input_hash, &digests),
            models,
            config_hash,
            input_hash,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            pages,
        }
    }
}

/// A volume without a result, for no reason that lies in its pages. Another node may read it.
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

/// The kernel's view of a page stage.
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
        let page = self.pages.get(&item.item_id);
        let page = page.ok_or_else(|| self.run.error(ErrorCategory::Unknown, "the plan lost this page"))?;
        let work = async {
            let fetched = off_the_clock(async {
                match self.ahead.take(&item.item_id).await {
                    Some(fetched) => fetched,
                    None => self.stage.fetch(&self.run, page).await,
                }
            });
            self.stage.process(&self.run, page, fetched.await?).await
        };
        let rows = self.run.context.progress.follow_page(&item.item_id, work).await?;
        Failpoint::PageDone.pass_in(self.run.volume(), &self.run.stage);
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

    async fn resume(&self, item: &WorkItem) -> Option<Vec<S::Row>> {
        self.ledger.standing(&item.item_id, item.fingerprint?)
    }
}
