//! Ledger of the results of earlier runs of a stage: the pages in the final table and in the parts, and which still stand.

use std::collections::{BTreeMap, HashMap, HashSet};

use tracing::warn;

use super::fenced::{self, Found};
use super::page_stage::{PageStage, VolumeRun};
use crate::runner::Redo;
use parkhang_core::domain::StageError;
use parkhang_store::artifact::{
    ArtifactError, ArtifactRow, Fingerprint, Provenance, Table, decoded_table, read_table,
};
use parkhang_store::storage::{ArtifactKey, StorageError};

/// The rows of one page and what they were made from.
struct Entry<R> {
    fingerprint: Fingerprint,
    rows: Vec<R>,
    /// Every image that the rows name is there and not empty.
    complete: bool,
}

/// The pages that earlier runs have left.
pub(super) struct Ledger<R> {
    entries: HashMap<String, Entry<R>>,
    /// Pages of the final table, if it is there.
    final_pages: Option<BTreeMap<String, Fingerprint>>,
    found: FoundTables,
}

/// Versions of the tables that were there.
#[derive(Debug, Clone, Default)]
pub(super) struct FoundTables {
    pub table: Found,
    pub errors: Found,
}

impl<R: ArtifactRow> Ledger<R> {
    /// Reads the final table and the parts. Damaged ones count as absent: their pages are simply made again.
    ///
    /// # Errors
    ///
    /// When the store cannot say what is there.
    pub(super) async fn load<S: PageStage<Row = R>>(run: &VolumeRun) -> Result<Self, StageError> {
        let mut ledger = Self {
            entries: HashMap::new(),
            final_pages: None,
            found: FoundTables::default(),
        };
        let storage_error = |error: StorageError| run.storage_error(&error);
        let folder = run.layout.stage_folder(&run.stage);
        // One listing instead of a question for each image: a volume has thousands, and the store may be far away.
        let objects = run.store.list(&folder).await.map_err(storage_error)?;
        let find = async |wanted: &ArtifactKey| match objects.iter().any(|(key, _)| key == wanted) {
            true => fenced::find(run, wanted).await,
            false => Ok(None),
        };
        let errors = find(&run.layout.errors(&run.stage)).await?;
        ledger.found.errors = errors.map(|errors| errors.version);
        let table = run.table::<R>();
        let found = find(&table).await?;
        ledger.found.table = found.as_ref().map(|found| found.version.clone());
        // Nothing counts as done then, not even the parts of an attempt that was interrupted.
        if run.config().force {
            return Ok(ledger);
        }
        let images: HashSet<&str> = objects
            .iter()
            .filter(|(_, meta)| meta.size > 0)
            .map(|(key, _)| key.as_str())
            .collect();

        let damaged = |key: &ArtifactKey, error: ArtifactError| {
            warn!(%key, %error, "ignoring a damaged artifact; its pages are made again");
        };
        // The table, then the parts in the order of their leases, so that newer rows of a page replace older ones.
        if let Some(found) = found {
            match decoded_table::<R>(&table, found.bytes).await {
                Ok(content) => {
                    ledger.final_pages = Some(content.provenance.pages.clone());
                    ledger.enter::<S>(content, &images);
                }
                Err(error) => damaged(&table, error),
            }
        }
        let parts_folder = run.layout.parts_folder(&run.stage);
        for (key, _) in objects.iter().filter(|(key, _)| key.is_under(&parts_folder)) {
            match read_table::<R>(run.store.as_ref(), key).await {
                Ok(content) => ledger.enter::<S>(content, &images),
                Err(error) => damaged(key, error),
            }
        }
        Ok(ledger)
    }

    /// Enters the pages of a table. They are those of its provenance, as a page without lines has no rows.
    fn enter<S: PageStage<Row = R>>(&mut self, content: Table<R>, images: &HashSet<&str>) {
        let mut rows: HashMap<String, Vec<R>> = HashMap::new();
        for row in content.rows {
            rows.entry(S::image_name(&row).to_owned()).or_default().push(row);
        }
        for (page, fingerprint) in content.provenance.pages {
            let rows = rows.remove(&page).unwrap_or_default();
            let complete = rows
                .iter()
                .filter_map(|row| S::image_path(row))
                .all(|path| images.contains(path));
            self.entries.insert(
                page,
                Entry {
                    fingerprint,
                    rows,
                    complete,
                },
            );
        }
    }

    /// The rows of a page that need not be made again.
    ///
    /// # Errors
    ///
    /// When there are none, with the reason.
    pub(super) fn standing(&self, page: &str, fingerprint: Option<Fingerprint>) -> Result<Vec<R>, Redo> {
        let entry = self.entries.get(page).ok_or(Redo::Absent)?;
        if Some(entry.fingerprint) != fingerprint {
            return Err(Redo::Changed);
        }
        if !entry.complete {
            return Err(Redo::Incomplete);
        }
        Ok(entry.rows.clone())
    }

    /// Returns whether the final table covers exactly these pages, with the same fingerprints.
    pub(super) fn final_is(&self, provenance: &Provenance) -> bool {
        self.final_pages.as_ref() == Some(&provenance.pages)
    }

    /// Versions of the tables that the run has found.
    pub(super) fn found(&self) -> FoundTables {
        self.found.clone()
    }
}
