//! Checkpoints of a stage run: pages are saved in parts as they are finished, and handed over as a whole at the end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use tracing::Instrument;

use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use crate::runner::{ItemOutcome, ItemStatus, OutputSink, WorkItem};
use parkhang_core::domain::{OnItemError, PageOutcome, StageError};
use parkhang_core::failpoint::Failpoint;
use parkhang_store::artifact::{ArtifactError, ArtifactRow, ErrorRow, Provenance, write_table};

/// Everything that a stage run made or took over.
pub(super) struct Finished<R> {
    /// Rows in page order.
    pub rows: Vec<R>,
    /// Errors of the pages that failed, in page order.
    pub errors: Vec<ErrorRow>,
    /// Pages that are done, with or without rows.
    pub pages: BTreeSet<String>,
}

/// Receiver of the pages of a run.
pub(super) struct Checkpoints<R> {
    run: Arc<VolumeRun>,
    provenance: Provenance,
    /// Position of each page in the volume, and the rows that stand in for it if it fails.
    positions: HashMap<String, (u32, Vec<R>)>,
    done: BTreeMap<u32, (String, Vec<R>)>,
    errors: BTreeMap<u32, ErrorRow>,
    /// Positions of finished pages that no part holds yet.
    unsaved: Vec<u32>,
    next_part: u32,
}

impl<R: ArtifactRow> Checkpoints<R> {
    pub(super) fn new<S: PageStage<Row = R>>(
        stage: &S,
        run: Arc<VolumeRun>,
        provenance: Provenance,
        planned: &[PlannedPage<S::Input>],
    ) -> Self {
        let blanks = run.config().on_item_error == OnItemError::Blank;
        let stand_in = |page| if blanks { stage.blank(page) } else { Vec::new() };
        let positions = planned
            .iter()
            .map(|page| (page.name.as_str().to_owned(), (page.index, stand_in(page))))
            .collect();
        Self {
            run,
            provenance,
            positions,
            done: BTreeMap::new(),
            errors: BTreeMap::new(),
            unsaved: Vec::new(),
            next_part: 0,
        }
    }

    /// Receiver to which one page without rows was delivered.
    #[cfg(test)]
    pub(super) fn of_page(run: Arc<VolumeRun>, provenance: &Provenance, page: &str) -> Self {
        Self {
            run,
            provenance: provenance.clone(),
            positions: HashMap::new(),
            done: BTreeMap::from([(0, (page.to_owned(), Vec::new()))]),
            errors: BTreeMap::new(),
            unsaved: vec![0],
            next_part: 0,
        }
    }

    /// Saves the pages that no part holds yet: images first, so that a part never names one that is not safe.
    ///
    /// # Errors
    ///
    /// When something cannot be written; the pages then stay unsaved.
    pub(super) async fn save_part(&mut self) -> Result<(), StageError> {
        if self.unsaved.is_empty() {
            return Ok(());
        }
        // A part vouches for its own pages only: the ledger takes what its provenance names for done.
        let mut provenance = self.provenance.clone();
        let saved: Vec<&(String, Vec<R>)> = self
            .unsaved
            .iter()
            .filter_map(|index| self.done.get(index))
            .collect();
        let names: BTreeSet<&str> = saved.iter().map(|(name, _)| name.as_str()).collect();
        provenance.pages.retain(|page, _| names.contains(page.as_str()));
        let rows: Vec<R> = saved.iter().flat_map(|(_, rows)| rows.iter().cloned()).collect();
        let run = &self.run;
        let store = run.store.as_ref();
        store
            .sync(&run.layout.stage_folder(&run.stage))
            .await
            .map_err(|error| run.storage_error(&error))?;
        Failpoint::PartImagesFlushed.hit_in(run.volume(), &run.stage);
        let part = run.layout.part(&run.assignment().fence, self.next_part);
        // Counted, as the request goes on if the run is killed: what deletes checkpoints waits for it.
        let written = run.context.writes.spawn({
            let (store, part) = (run.store.clone(), part.clone());
            let write = async move { write_table(store.as_ref(), &part, rows, &provenance).await };
            write.in_current_span().boxed()
        });
        written
            .await
            .unwrap_or(Err(ArtifactError::ShuttingDown { key: part }))
            .map_err(|error| run.artifact_error(&error))?;
        Failpoint::PartWritten.hit_in(run.volume(), &run.stage);
        self.next_part += 1;
        self.unsaved.clear();
        Ok(())
    }

    /// Hands over everything, in page order.
    pub(super) fn finish(mut self) -> Finished<R> {
        let mut pages = BTreeSet::new();
        let mut by_page: BTreeMap<u32, Vec<R>> = BTreeMap::new();
        for (index, (name, rows)) in self.done {
            pages.insert(name);
            by_page.insert(index, rows);
        }
        for (index, error) in &self.errors {
            // A page that stands blank in the results is still recorded as failed.
            if let Some((_, stand_in)) = self.positions.remove(&error.image_name) {
                by_page.insert(*index, stand_in);
            }
        }
        Finished {
            rows: by_page.into_values().flatten().collect(),
            errors: self.errors.into_values().collect(),
            pages,
        }
    }
}

#[async_trait]
impl<R: ArtifactRow + Sync> OutputSink<Vec<R>> for Checkpoints<R> {
    async fn deliver(&mut self, item: &WorkItem, outcome: ItemOutcome<Vec<R>>) -> Result<(), StageError> {
        // Every item is a planned page, so its position is known.
        let index = self.positions.get(&item.item_id).map_or(0, |(index, _)| *index);
        let report = outcome.report;
        match outcome.result {
            Ok(rows) => {
                self.done.insert(index, (item.item_id.clone(), rows));
                // A page that was taken over lies in the final table or in an earlier part already.
                if report.status == ItemStatus::Success {
                    self.unsaved.push(index);
                }
            }
            Err(error) => {
                let row = ErrorRow {
                    image_name: item.item_id.clone(),
                    page_index: i32::try_from(index).unwrap_or(i32::MAX),
                    category: error.category,
                    message: error.message,
                    attempts: i32::try_from(report.attempts).unwrap_or(i32::MAX),
                };
                self.errors.insert(index, row);
            }
        }
        let progress = match report.status {
            ItemStatus::Success => PageOutcome::Succeeded,
            ItemStatus::Skip => PageOutcome::Skipped,
            ItemStatus::Failure => PageOutcome::Failed,
        };
        self.run.context.progress.page_finished(progress);
        if self.unsaved.len() >= self.run.config().checkpoint_pages {
            self.save_part().await?;
        }
        Ok(())
    }
}
