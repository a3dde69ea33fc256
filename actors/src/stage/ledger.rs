//! Ledger of the results of earlier runs of a stage: the pages in the final table and in the parts, and which still stand.

use std::collections::{BTreeMap, HashMap, HashSet};

use tracing::warn;

use super::page_stage::{PageStage, VolumeRun};
use crate::runner::Redo;
use parkhang_core::domain::StageError;
use parkhang_store::artifact::{ArtifactRow, Fingerprint, Provenance, Table, read_table};
use parkhang_store::storage::{ArtifactKey, StorageError};

/// The table, then the parts by number, so that newer rows of a page replace older ones. Other objects are left out.
fn in_order_of_age<'a>(
    keys: impl Iterator<Item = &'a ArtifactKey>,
    table: &ArtifactKey,
    parts_folder: &ArtifactKey,
) -> Vec<&'a ArtifactKey> {
    let mut sources: Vec<&ArtifactKey> = keys
        .filter(|key| *key == table || key.is_under(parts_folder))
        .collect();
    // Not by the keys alone: the name of a table may come behind that of the parts' folder.
    sources.sort_by_key(|key| (*key != table, *key));
    sources
}

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
    next_part: u32,
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
            next_part: 0,
        };
        // Nothing counts as done then, not even the parts of an attempt that was interrupted.
        if run.config().force {
            return Ok(ledger);
        }
        let storage_error = |error: StorageError| run.storage_error(&error);
        let folder = run.layout.stage_folder(&run.stage);
        let objects = run.store.list(&folder).await.map_err(storage_error)?;
        // One listing instead of a question for each image: a volume has thousands, and the store may be far away.
        let images: HashSet<&str> = objects
            .iter()
            .filter(|(_, meta)| meta.size > 0)
            .map(|(key, _)| key.as_str())
            .collect();

        let table = run.table::<R>();
        let parts_folder = run.layout.parts_folder(&run.stage);
        let keys = objects.iter().map(|(key, _)| key);
        for key in in_order_of_age(keys, &table, &parts_folder) {
            if *key != table {
                ledger.next_part += 1;
            }
            match read_table::<R>(run.store.as_ref(), key).await {
                Ok(content) => {
                    if *key == table {
                        ledger.final_pages = Some(content.provenance.pages.clone());
                    }
                    ledger.enter::<S>(content, &images);
                }
                Err(error) => warn!(%key, %error, "ignoring a damaged artifact; its pages are made again"),
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

    /// Number of the first part that no earlier run has written.
    pub(super) fn next_part(&self) -> u32 {
        self.next_part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_comes_before_the_parts_whatever_it_is_called() {
        let key = |text: &str| ArtifactKey::new(text).unwrap();
        for table in ["v/syllables/lines.parquet", "v/syllables/syllables.parquet"] {
            let mut keys = [
                key("v/syllables/parts/part-00001.parquet"),
                key(table),
                key("v/syllables/images/1.png"),
                key("v/syllables/parts/part-00000.parquet"),
            ];
            keys.sort();
            let sources = in_order_of_age(keys.iter(), &key(table), &key("v/syllables/parts"));
            let names: Vec<&str> = sources.iter().map(|key| key.as_str()).collect();
            assert_eq!(
                names,
                [
                    table,
                    "v/syllables/parts/part-00000.parquet",
                    "v/syllables/parts/part-00001.parquet"
                ]
            );
        }
    }
}
