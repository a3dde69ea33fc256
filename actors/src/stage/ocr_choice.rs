//! Choice of the recogniser that reads a volume, on nodes that have several.

use tracing::info;

use super::info::StageInfo;
use super::line_pictures::line_pictures;
use super::ocr::{Ocr, PageLines};
use super::page_stage::{PlannedPage, VolumeRun};
use parkhang_core::domain::{ErrorCategory, StageError};
use parkhang_core::policy::model_choice::{TRIAL_LINES, TRIAL_PAGES, surest};
use parkhang_store::artifact::{LineImageRow, OcrResultRow, read_table};

impl Ocr {
    /// Chooses the recogniser that reads the pages of a plan, and returns its index: the one that has read a part left by an
    /// interrupted attempt, else, of those that the job allows, the one that is surest of the first pages. The choice depends on
    /// nothing else, so that the same recogniser reads the same volume again.
    pub(super) async fn choose(
        &self,
        run: &VolumeRun,
        planned: &[PlannedPage<PageLines>],
    ) -> Result<usize, StageError> {
        let candidates = self.candidates(run.config());
        match candidates[..] {
            [] => {
                return Err(run.error(
                    ErrorCategory::Config,
                    "no recogniser that the job names is loaded here",
                ));
            }
            [only] => return Ok(only),
            _ => {}
        }
        if let Some(chosen) = self.remembered(run).await?
            && candidates.contains(&chosen)
        {
            return Ok(chosen);
        }
        let mut trials = vec![Vec::new(); candidates.len()];
        let mut lines = 0;
        for page in tried_pages(planned) {
            // The loop ends at `TRIAL_LINES`, so the difference cannot wrap.
            let rows = &page.rows[..page.rows.len().min(TRIAL_LINES - lines)];
            match self.try_readers(run, page, rows, &candidates, &mut trials).await {
                Ok(()) => lines += rows.len(),
                // Its own item will report what is wrong with the page.
                Err(error) if error.category == ErrorCategory::Input => {}
                Err(error) => return Err(error),
            }
            if lines >= TRIAL_LINES {
                break;
            }
        }
        let chosen = candidates.get(surest(&trials)).copied().unwrap_or(0);
        let model = self.models().into_iter().nth(chosen).map(|model| model.name);
        info!(volume = %run.volume(), model, lines, "recogniser chosen");
        Ok(chosen)
    }

    /// Reads lines with each of the candidates, and notes their confidence.
    async fn try_readers(
        &self,
        run: &VolumeRun,
        page: &PageLines,
        rows: &[LineImageRow],
        candidates: &[usize],
        trials: &mut [Vec<Option<f32>>],
    ) -> Result<(), StageError> {
        let pictures = line_pictures(run, &self.pages, page, rows).await?;
        // Noted once all have read the page: where one of them fails on it, none is judged by it.
        let mut read = Vec::with_capacity(candidates.len());
        for reader in candidates.iter().filter_map(|place| self.readers.get(*place)) {
            read.push(self.read_page(run, reader, pictures.clone()).await?);
        }
        for (trial, texts) in trials.iter_mut().zip(read) {
            trial.extend(
                texts
                    .iter()
                    .map(|line| (!line.text.is_empty()).then_some(line.confidence)),
            );
        }
        Ok(())
    }

    /// Index of the reader that made the parts of an interrupted attempt, if there are any.
    async fn remembered(&self, run: &VolumeRun) -> Result<Option<usize>, StageError> {
        if run.config().force {
            return Ok(None);
        }
        let folder = run.layout.parts_folder(&run.stage);
        let parts = run
            .store
            .list(&folder)
            .await
            .map_err(|error| run.storage_error(&error))?;
        let Some((part, _)) = parts.into_iter().next() else {
            return Ok(None);
        };
        // A part that cannot be read is no part, as for the ledger.
        let Ok(table) = read_table::<OcrResultRow>(run.store.as_ref(), &part).await else {
            return Ok(None);
        };
        Ok(table
            .provenance
            .models
            .first()
            .and_then(|model| self.models().iter().position(|known| known == model)))
    }
}

/// The first pages that have lines.
fn tried_pages(planned: &[PlannedPage<PageLines>]) -> impl Iterator<Item = &PageLines> {
    planned
        .iter()
        .map(|page| &page.input)
        .filter(|page| !page.rows.is_empty())
        .take(TRIAL_PAGES)
}
