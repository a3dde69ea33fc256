//! Pages ranked by the words of a query, with one set of statistics for all indexes (BM25; Robertson and Zaragoza, 2009).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use tantivy::collector::{Count, TopDocs};
use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;
use tantivy::{Searcher, Term};

use super::{Ranked, Request, Searched, sort};
use crate::error::SearchError;
use crate::query::{Node, compile};
use crate::snapshot::OpenPart;
use crate::volume::{Fields, PAGE};

/// Pages that have the words of a query.
#[derive(Default)]
pub(super) struct Words {
    pub total: usize,
    /// The best of them, best first.
    pub ranked: Vec<Ranked>,
}

impl Words {
    /// Finds the best `depth` pages by a condition on their words, none if the request is about meaning alone.
    pub(super) fn find(
        searched: &Searched<'_>,
        request: &Request,
        node: Option<&Node>,
        depth: usize,
    ) -> Result<Self, SearchError> {
        let mut found = Self::default();
        if !request.by_words || (node.is_none() && request.query.is_unbounded()) {
            return Ok(found);
        }
        let query = compile(node, &request.query, &searched.fields);
        let statistics = Statistics::new(&searched.parts, &searched.fields);
        for (number, part) in searched.parts.iter().enumerate() {
            searched.go_on()?;
            let collectors = (Count, TopDocs::with_limit(depth).order_by_score());
            let query = searched.without_replaced(&*query, part);
            let (count, best) =
                part.searcher
                    .search_with_statistics_provider(&query, &collectors, &statistics)?;
            found.total += count;
            found.ranked.extend(best.into_iter().map(|(score, at)| Ranked {
                score,
                part: number,
                at,
            }));
        }
        sort(&mut found.ranked);
        found.ranked.truncate(depth);
        Ok(found)
    }
}

/// Statistics of several indexes as one, so that a word is as rare in each of them as it is in all. They are asked for anew for each part, and
/// counted once.
struct Statistics<'s> {
    parts: &'s [OpenPart],
    fields: &'s Fields,
    tokens: Mutex<HashMap<Field, u64>>,
    documents: Mutex<HashMap<Term, u64>>,
}

impl<'s> Statistics<'s> {
    fn new(parts: &'s [OpenPart], fields: &'s Fields) -> Self {
        Self {
            parts,
            fields,
            tokens: Mutex::default(),
            documents: Mutex::default(),
        }
    }

    /// The sum over all parts, from `known` where it was counted before.
    fn sum<K: Hash + Eq + Clone>(
        &self,
        known: &Mutex<HashMap<K, u64>>,
        key: &K,
        of: impl Fn(&Searcher) -> tantivy::Result<u64>,
    ) -> tantivy::Result<u64> {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sum) = known.get(key) {
            return Ok(*sum);
        }
        let sum = self
            .parts
            .iter()
            .map(|part| of(&part.searcher))
            .sum::<tantivy::Result<u64>>()?;
        known.insert(key.clone(), sum);
        Ok(sum)
    }
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.sum(&self.tokens, &field, |part| part.total_num_tokens(field))
    }

    /// Pages alone: chunks have no words of their own.
    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.doc_freq(&Term::from_field_text(self.fields.kind, PAGE))
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        self.sum(&self.documents, term, |part| {
            Bm25StatisticsProvider::doc_freq(part, term)
        })
    }
}
