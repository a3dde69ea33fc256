//! An index as it was at one moment, open for searching.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tantivy::query::FuzzyTermQuery;
use tantivy::{DocAddress, Searcher, Term};

use crate::error::SearchError;
use crate::fuzzy;
use crate::list::{PartList, Refused, Version};
use crate::part::{self, Source};
use crate::query::Dictionary;
use crate::vectors::Vectors;
use crate::volume::Fields;

/// Terms of one dictionary that are compared with a term at most. An automaton of distance 1 accepts far fewer of any language.
const COMPARED: usize = 20_000;

/// Index of a job, open for searching.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The list that was opened.
    pub(crate) list: Arc<PartList>,
    pub(crate) parts: Vec<OpenPart>,
}

/// Part that is open.
#[derive(Clone)]
pub(crate) struct OpenPart {
    pub searcher: Searcher,
    /// Chunks in it, in the order of their vectors.
    pub chunks: Arc<[DocAddress]>,
    pub vectors: Option<Vectors>,
    /// Volumes in it that do not count.
    pub replaced: BTreeSet<String>,
}

impl std::fmt::Debug for OpenPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenPart")
            .field("documents", &self.searcher.num_docs())
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(crate) fn open(index: &Path, list: PartList) -> Result<Self, SearchError> {
        let fields = Fields::new();
        // A part without documents has nothing to find, and Tantivy panics at some queries there.
        let with_text = list.parts.iter().filter(|part| part.documents > 0);
        let parts = with_text.map(|part| {
            let source = Source::open(&part.folder(index), part.replaced())?;
            let searcher = part::searcher(&source.index)?;
            Ok(OpenPart {
                chunks: part::chunks(&searcher, &fields)?.into(),
                vectors: source.vectors,
                replaced: source.replaced,
                searcher,
            })
        });
        Ok(Self {
            parts: parts.collect::<Result<_, SearchError>>()?,
            list: Arc::new(list),
        })
    }

    /// Volumes in the index, with their versions.
    pub fn volumes(&self) -> BTreeMap<String, Version> {
        self.list.volumes()
    }

    /// Volumes that cannot be indexed in these versions, with the reasons.
    pub fn refused(&self) -> &BTreeMap<String, Refused> {
        &self.list.refused
    }

    /// True if there are chunks whose vectors another model than this one has made.
    pub fn has_vectors_of_others(&self, model: &str) -> bool {
        let mut vectors = self.parts.iter().filter_map(|part| part.vectors.as_ref());
        vectors.any(|vectors| vectors.model().is_some() && !vectors.is_of(model))
    }

    /// True if there are chunks of documents.
    pub fn has_chunks(&self) -> bool {
        self.parts.iter().any(|part| !part.chunks.is_empty())
    }
}

/// The dictionaries of several indexes as one.
pub(crate) struct Dictionaries<'s> {
    pub parts: Vec<&'s OpenPart>,
    pub fields: &'s Fields,
    /// True once nobody waits; then nothing more is looked up.
    pub cancelled: &'s dyn Fn() -> bool,
}

impl Dictionary for Dictionaries<'_> {
    fn neighbours(&self, term: &str, at_most: usize) -> Vec<(String, u32)> {
        let is_tibetan = term.chars().any(fuzzy::is_tibetan);
        let Some(bound) = fuzzy::bound(term.chars().count(), is_tibetan) else {
            return Vec::new();
        };
        // One letter more, less or other.
        let query = FuzzyTermQuery::new(Term::from_field_text(self.fields.text, term), 1, false);
        // A term is too long for an automaton only where it is no word.
        let Ok(automaton) = query.automaton() else {
            return Vec::new();
        };
        // By distance, then the more frequent.
        let mut found: BTreeMap<String, (u32, u64)> = BTreeMap::new();
        for part in &self.parts {
            for segment in part.searcher.segment_readers() {
                if (self.cancelled)() {
                    return Vec::new();
                }
                // A dictionary that cannot be read has no neighbours to offer; the search itself reports the fault.
                let Ok(index) = segment.inverted_index(self.fields.text) else {
                    continue;
                };
                let Ok(mut terms) = index.terms().search(&automaton).into_stream() else {
                    continue;
                };
                let mut compared = 0;
                while terms.advance() && compared < COMPARED {
                    compared += 1;
                    let Ok(other) = std::str::from_utf8(terms.key()) else {
                        continue;
                    };
                    let distance = fuzzy::distance(term, other);
                    if distance > 0 && distance <= bound {
                        found.entry(other.to_owned()).or_insert((distance, 0)).1 +=
                            u64::from(terms.value().doc_freq);
                    }
                }
            }
        }
        let mut found: Vec<(String, (u32, u64))> = found.into_iter().collect();
        found.sort_by(|(one, (near, rare)), (other, (far, frequent))| {
            near.cmp(far).then(frequent.cmp(rare)).then(one.cmp(other))
        });
        found.truncate(at_most);
        found
            .into_iter()
            .map(|(term, (distance, _))| (term, distance))
            .collect()
    }
}
