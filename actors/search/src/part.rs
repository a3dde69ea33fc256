//! Part of an index: a folder that is written once and never changed.

use std::collections::BTreeSet;
use std::path::Path;

use tantivy::collector::DocSetCollector;
use tantivy::directory::{MmapDirectory, OwnedBytes};
use tantivy::fastfield::{AliveBitSet, write_alive_bitset};
use tantivy::indexer::merge_filtered_segments;
use tantivy::query::TermSetQuery;
use tantivy::{BitSet, Index, ReloadPolicy, Searcher, Term};

use crate::error::SearchError;
use crate::volume::Fields;

/// Index with those of its volumes that do not count, as they were replaced since.
#[derive(Debug)]
pub(crate) struct Source {
    pub index: Index,
    pub replaced: BTreeSet<String>,
}

/// Writes one part of several indexes into an empty folder, without what was replaced. Returns the number of its pages.
///
/// # Errors
///
/// If an index cannot be read or the folder cannot be written.
pub(crate) fn write(sources: &[Source], fields: &Fields, folder: &Path) -> Result<u64, SearchError> {
    let mut segments = Vec::new();
    let mut alive = Vec::new();
    for source in sources {
        let without = replaced(source, fields)?;
        for (ordinal, segment) in source.index.searchable_segments()?.into_iter().enumerate() {
            let pages = segment.meta().max_doc();
            let mut kept = BitSet::with_max_value_and_full(pages);
            let of_segment = without.iter().filter(|(segment, _)| *segment as usize == ordinal);
            of_segment.for_each(|(_, page)| kept.remove(*page));
            alive.push(
                (kept.len() < pages as usize)
                    .then(|| alive_bits(&kept))
                    .transpose()?,
            );
            segments.push(segment);
        }
    }
    let Some(first) = sources.first() else {
        return Ok(0);
    };
    let directory = MmapDirectory::open(folder).map_err(tantivy::TantivyError::from)?;
    let merged = merge_filtered_segments(&segments, first.index.settings().clone(), alive, directory)?;
    Ok(merged
        .load_metas()?
        .segments
        .iter()
        .map(|segment| u64::from(segment.num_docs()))
        .sum())
}

fn alive_bits(kept: &BitSet) -> Result<AliveBitSet, SearchError> {
    let mut bytes = Vec::new();
    write_alive_bitset(kept, &mut bytes).map_err(tantivy::TantivyError::from)?;
    Ok(AliveBitSet::open(OwnedBytes::new(bytes)))
}

/// Pages of the volumes that were replaced, as segment and number.
fn replaced(source: &Source, fields: &Fields) -> Result<Vec<(u32, u32)>, SearchError> {
    if source.replaced.is_empty() {
        return Ok(Vec::new());
    }
    let query = of_volumes(&source.replaced, fields);
    let pages = searcher(&source.index)?.search(&query, &DocSetCollector)?;
    Ok(pages
        .into_iter()
        .map(|page| (page.segment_ord, page.doc_id))
        .collect())
}

/// Query for all pages of some volumes.
pub(crate) fn of_volumes(volumes: &BTreeSet<String>, fields: &Fields) -> TermSetQuery {
    TermSetQuery::new(
        volumes
            .iter()
            .map(|volume| Term::from_field_text(fields.volume, volume)),
    )
}

/// Opens an index for searching. Its folder is never changed, so nothing is watched.
pub(crate) fn searcher(index: &Index) -> Result<Searcher, SearchError> {
    let reader = index
        .reader_builder()
        .reload_policy(ReloadPolicy::Manual)
        .try_into()?;
    Ok(tantivy::IndexReader::searcher(&reader))
}
