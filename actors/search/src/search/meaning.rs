//! Chunks ranked by their vectors: by the cosine of their meaning and that of the query, and by the product of their terms.

use std::collections::{HashMap, HashSet};

use tantivy::collector::DocSetCollector;
use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, DocSet, TERMINATED, Term};

use super::fusion::Ranking;
use super::{Page, QueryVectors, Ranked, Searched, sort};
use crate::error::SearchError;
use crate::query::{Query, chunks_of};
use crate::snapshot::OpenPart;
use crate::vectors::Quantised;
use crate::volume::term_of;

/// Least cosine of a query and a chunk that may have something to do with each other. A short question in another language is hardly more like
/// what answers it.
const LEAST_COSINE: f32 = 0.1;

/// Vectors that are compared between two looks at whether anybody waits.
const STEP: usize = 4096;

/// Weight of the ranking by terms. These are of one language, and would put the pages of the query's before those that answer it in another.
const TERMS: f32 = 0.5;

/// Pages with chunks that are like a query.
pub(super) struct Meaning {
    /// By cosine and by terms, each page once.
    pub rankings: Vec<Ranking<Page>>,
    /// Text of the best chunk of each page.
    passages: HashMap<Page, String>,
}

impl Meaning {
    pub(super) fn find(
        searched: &Searched<'_>,
        vectors: &QueryVectors,
        query: &Query,
        depth: usize,
    ) -> Result<Self, SearchError> {
        let (mut dense, mut sparse) = (Vec::new(), Vec::new());
        let meant = Quantised::of(&vectors.dense);
        for (number, part) in searched
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| !part.chunks.is_empty())
        {
            searched.go_on()?;
            let allowed = allowed(searched, part, query)?;
            let is_allowed = |at: &DocAddress| allowed.as_ref().is_none_or(|allowed| allowed.contains(at));
            let ranked = |(at, score)| Ranked {
                score,
                part: number,
                at,
            };
            if let Some(vectors) = part
                .vectors
                .as_ref()
                .filter(|found| found.len() == part.chunks.len() && found.is_of(&vectors.model))
            {
                let products = part.chunks.iter().copied().zip(vectors.products(&meant));
                for (place, (at, cosine)) in products.enumerate() {
                    if place % STEP == 0 {
                        searched.go_on()?;
                    }
                    if cosine >= LEAST_COSINE && is_allowed(&at) {
                        dense.push(ranked((at, cosine)));
                    }
                }
            }
            let scores = scores(searched, part, &vectors.terms)?;
            sparse.extend(scores.into_iter().filter(|(at, _)| is_allowed(at)).map(ranked));
        }
        let mut found = Self {
            rankings: Vec::new(),
            passages: HashMap::new(),
        };
        for (weight, mut ranking) in [(1.0, dense), (TERMS, sparse)] {
            sort(&mut ranking);
            ranking.truncate(depth);
            let items = found.pages_of(&ranking, searched)?;
            found.rankings.push(Ranking { weight, items });
        }
        Ok(found)
    }

    /// The pages of chunks, each once, whose texts are kept.
    fn pages_of(&mut self, ranking: &[Ranked], searched: &Searched<'_>) -> Result<Vec<Page>, SearchError> {
        let (mut seen, mut pages) = (HashSet::new(), Vec::new());
        for ranked in ranking {
            let document = searched.document(*ranked)?;
            let page = searched.page_of(ranked.part, &document);
            if seen.insert(page.clone()) {
                let passage = || searched.text(&document, searched.fields.passage);
                self.passages.entry(page.clone()).or_insert_with(passage);
                pages.push(page);
            }
        }
        Ok(pages)
    }

    /// Text of the chunk by which a page was found.
    pub(super) fn passage(&self, page: &Page) -> Option<&str> {
        self.passages.get(page).map(String::as_str)
    }
}

/// Chunks in the volumes that the query leaves; `None` if it leaves all.
fn allowed(
    searched: &Searched<'_>,
    part: &OpenPart,
    query: &Query,
) -> Result<Option<HashSet<DocAddress>>, SearchError> {
    if query.is_unbounded() && part.replaced.is_empty() {
        return Ok(None);
    }
    let query = chunks_of(query, &searched.fields);
    let query = searched.without_replaced(&*query, part);
    Ok(Some(part.searcher.search(&query, &DocSetCollector)?))
}

/// Products of the terms of a query with those of chunks, for all chunks that share one.
fn scores(
    searched: &Searched<'_>,
    part: &OpenPart,
    terms: &[(u32, f32)],
) -> Result<HashMap<DocAddress, f32>, SearchError> {
    let mut scores = HashMap::new();
    for (ordinal, segment) in (0..).zip(part.searcher.segment_readers()) {
        let index = segment.inverted_index(searched.fields.terms)?;
        for (term, weight) in terms {
            searched.go_on()?;
            let term = Term::from_field_text(searched.fields.terms, &term_of(*term));
            let Some(mut postings) = index
                .read_postings(&term, IndexRecordOption::WithFreqs)
                .map_err(tantivy::TantivyError::from)?
            else {
                continue;
            };
            while postings.doc() != TERMINATED {
                let at = DocAddress::new(ordinal, postings.doc());
                *scores.entry(at).or_insert(0.0) += weight * postings.term_freq() as f32;
                postings.advance();
            }
        }
    }
    Ok(scores)
}
