//! Part of an index: a folder that is written once and never changed.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use tantivy::collector::DocSetCollector;
use tantivy::directory::{Directory, MmapDirectory, OwnedBytes};
use tantivy::fastfield::{AliveBitSet, write_alive_bitset};
use tantivy::indexer::merge_filtered_segments;
use tantivy::query::{TermQuery, TermSetQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocAddress, Index, ReloadPolicy, Searcher, Term};

use crate::error::SearchError;
use crate::vectors::{self, Vectors};
use crate::volume::{CHUNK, Fields};

/// Index with those of its volumes that do not count, as they were replaced since.
#[derive(Debug)]
pub(crate) struct Source {
    pub index: Index,
    pub vectors: Option<Vectors>,
    pub replaced: BTreeSet<String>,
}

impl Source {
    /// Opens a part.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(crate) fn open(folder: &Path, replaced: BTreeSet<String>) -> Result<Self, SearchError> {
        let directory = MmapDirectory::open(folder).map_err(tantivy::TantivyError::from)?;
        Ok(Self {
            vectors: Vectors::open(&directory),
            index: Index::open(directory)?,
            replaced,
        })
    }
}

/// Writes one part of several indexes into an empty folder, without what was replaced. Returns the number of its documents.
///
/// # Errors
///
/// If an index cannot be read or the folder cannot be written.
pub(crate) fn write(sources: &[Source], fields: &Fields, folder: &Path) -> Result<u64, SearchError> {
    let mut segments = Vec::new();
    let mut alive = Vec::new();
    let mut vectors = Vec::new();
    for source in sources {
        let without = replaced(source, fields)?;
        vectors.push(kept_vectors(source, &without, fields)?);
        for (ordinal, segment) in source.index.searchable_segments()?.into_iter().enumerate() {
            let documents = segment.meta().max_doc();
            let mut kept = BitSet::with_max_value_and_full(documents);
            let of_segment = without.iter().filter(|at| at.segment_ord as usize == ordinal);
            of_segment.for_each(|at| kept.remove(at.doc_id));
            alive.push(
                (kept.len() < documents as usize)
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
    let file = directory
        .open_write(Path::new(vectors::FILE))
        .map_err(tantivy::TantivyError::from)?;
    vectors::merge(&vectors, file).map_err(SearchError::io(folder))?;
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

/// The vectors of a part's chunks, with the indices of those that were not replaced.
fn kept_vectors(
    source: &Source,
    without: &HashSet<DocAddress>,
    fields: &Fields,
) -> Result<(Vectors, Vec<usize>), SearchError> {
    let chunks = chunks(&searcher(&source.index)?, fields)?;
    let kept = chunks
        .iter()
        .enumerate()
        .filter(|(_, at)| !without.contains(at))
        .map(|(index, _)| index);
    let vectors = source
        .vectors
        .clone()
        .filter(|vectors| vectors.len() == chunks.len());
    Ok((
        vectors.unwrap_or_else(|| Vectors::none(chunks.len())),
        kept.collect(),
    ))
}

/// The chunks of an index, in its order, which is that of their vectors.
pub(crate) fn chunks(searcher: &Searcher, fields: &Fields) -> Result<Vec<DocAddress>, SearchError> {
    let query = TermQuery::new(
        Term::from_field_text(fields.kind, CHUNK),
        IndexRecordOption::Basic,
    );
    let mut chunks: Vec<DocAddress> = searcher.search(&query, &DocSetCollector)?.into_iter().collect();
    chunks.sort_unstable();
    Ok(chunks)
}

/// Documents of the volumes that were replaced.
fn replaced(source: &Source, fields: &Fields) -> Result<HashSet<DocAddress>, SearchError> {
    if source.replaced.is_empty() {
        return Ok(HashSet::new());
    }
    let searcher = searcher(&source.index)?;
    // Tantivy panics at sets of terms in what has no documents: volumes without text leave such a part.
    if searcher.num_docs() == 0 {
        return Ok(HashSet::new());
    }
    let query = of_volumes(&source.replaced, fields);
    Ok(searcher.search(&query, &DocSetCollector)?)
}

/// Query for all documents of some volumes.
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
