//! An index as it was at one moment, open for searching.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tantivy::query::FuzzyTermQuery;
use tantivy::{Index, Searcher, Term};

use crate::error::SearchError;
use crate::folder::PartList;
use crate::fuzzy;
use crate::part;
use crate::query::Dictionary;
use crate::volume::Fields;

/// Terms of one dictionary that are compared with a term at most. An automaton of distance 1 accepts far fewer of any language.
const COMPARED: usize = 20_000;

/// Index of a job, open for searching.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) parts: Vec<OpenPart>,
}

/// Part that is open.
#[derive(Clone)]
pub(crate) struct OpenPart {
    pub searcher: Searcher,
    /// Volumes in it that do not count.
    pub replaced: BTreeSet<String>,
}

impl std::fmt::Debug for OpenPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenPart")
            .field("pages", &self.searcher.num_docs())
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(crate) fn open(index: &Path, list: &PartList) -> Result<Self, SearchError> {
        let parts = list.parts.iter().map(|part| {
            Ok(OpenPart {
                searcher: part::searcher(&Index::open_in_dir(part.folder(index))?)?,
                replaced: part.replaced(),
            })
        });
        Ok(Self {
            parts: parts.collect::<Result<_, SearchError>>()?,
        })
    }

    /// Number of pages, replaced ones included.
    pub fn pages(&self) -> u64 {
        self.parts.iter().map(|part| part.searcher.num_docs()).sum()
    }
}

/// The dictionaries of several indexes as one.
pub(crate) struct Dictionaries<'s> {
    pub parts: Vec<&'s OpenPart>,
    pub fields: &'s Fields,
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
