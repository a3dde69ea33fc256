//! Search over the indexes of one or more jobs: the best pages of all, ranked by one set of statistics (BM25, Robertson and
//! Zaragoza, 2009).

use tantivy::collector::{Count, TopDocs};
use tantivy::query::{Bm25StatisticsProvider, BooleanQuery, Occur, Query as EngineQuery};
use tantivy::schema::{Field, Value};
use tantivy::{DocAddress, TantivyDocument, Term};

use crate::error::SearchError;
use crate::highlight::{HitLine, highlights};
use crate::part::of_volumes;
use crate::query::{Freedom, Query, compile, plan};
use crate::snapshot::{Dictionaries, OpenPart, Snapshot};
use crate::volume::Fields;

/// Question to one or more indexes.
#[derive(Debug, Clone)]
pub struct Request {
    pub query: Query,
    pub freedom: Freedom,
    /// Hits that were shown before, and are skipped.
    pub offset: usize,
    /// Largest number of hits.
    pub limit: usize,
}

/// Answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// Number of pages that match.
    pub total: usize,
    /// The best of them, best first.
    pub hits: Vec<Hit>,
}

/// Page that matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Which of the indexes it is in.
    pub index: usize,
    pub volume: String,
    /// Number of the page in the volume, from 1.
    pub number: u32,
    /// Name of its image.
    pub name: String,
    /// BM25, with what phrases, headings and misread terms weigh; comparable within an answer only.
    pub score: f32,
    /// Lines that match best, in the order of the page.
    pub lines: Vec<HitLine>,
}

/// Searches indexes.
///
/// # Errors
///
/// If an index cannot be read.
pub fn search(indexes: &[&Snapshot], request: &Request) -> Result<Found, SearchError> {
    let fields = Fields::new();
    let parts: Vec<(usize, &OpenPart)> = indexes
        .iter()
        .enumerate()
        .flat_map(|(index, snapshot)| snapshot.parts.iter().map(move |part| (index, part)))
        .collect();
    let dictionary = Dictionaries {
        parts: parts.iter().map(|(_, part)| *part).collect(),
        fields: &fields,
    };
    let node = plan(&request.query, request.freedom, &dictionary);
    if node.is_none() && request.query.filters.is_empty() {
        return Ok(Found::default());
    }
    let query = compile(node.as_ref(), &request.query.filters, &fields);
    let statistics = Statistics(dictionary.parts.clone());
    let wanted = request.offset.saturating_add(request.limit);
    let mut total = 0;
    let mut best: Vec<(f32, usize, DocAddress)> = Vec::new();
    for (at, (_, part)) in parts.iter().enumerate() {
        let collectors = (Count, TopDocs::with_limit(wanted.max(1)).order_by_score());
        let query = without_replaced(&query, part, &fields);
        let (count, top) = part
            .searcher
            .search_with_statistics_provider(&query, &collectors, &statistics)?;
        total += count;
        best.extend(top.into_iter().map(|(score, address)| (score, at, address)));
    }
    // Equal pages are in the order of the index, so that the pages of an answer fit together.
    best.sort_by(|(one, at, address), (other, other_at, other_address)| {
        other
            .total_cmp(one)
            .then(at.cmp(other_at))
            .then(address.cmp(other_address))
    });
    let patterns = node.as_ref().map(|node| node.patterns()).unwrap_or_default();
    let chosen = best.into_iter().skip(request.offset).take(request.limit);
    let hits = chosen.filter_map(|(score, at, address)| {
        let (index, part) = parts.get(at)?;
        Some(
            hit(*index, part, address, score, &fields).map(|(hit, lines)| Hit {
                lines: highlights(&lines, &patterns),
                ..hit
            }),
        )
    });
    Ok(Found {
        total,
        hits: hits.collect::<Result<_, _>>()?,
    })
}

fn without_replaced(query: &Box<dyn EngineQuery>, part: &OpenPart, fields: &Fields) -> BooleanQuery {
    let mut clauses = vec![(Occur::Must, query.box_clone())];
    if !part.replaced.is_empty() {
        clauses.push((Occur::MustNot, Box::new(of_volumes(&part.replaced, fields))));
    }
    BooleanQuery::new(clauses)
}

/// Reads the page of a hit, and its lines.
fn hit(
    index: usize,
    part: &OpenPart,
    address: DocAddress,
    score: f32,
    fields: &Fields,
) -> Result<(Hit, Vec<String>), SearchError> {
    let document: TantivyDocument = part.searcher.doc(address)?;
    let text = |field: Field| {
        document
            .get_first(field)
            .and_then(|value| value.as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let number = document
        .get_first(fields.number)
        .and_then(|value| value.as_u64())
        .unwrap_or_default();
    let lines = document
        .get_all(fields.lines)
        .filter_map(|line| line.as_str().map(str::to_owned));
    let lines = lines.collect();
    let hit = Hit {
        index,
        volume: text(fields.volume),
        number: u32::try_from(number).unwrap_or(u32::MAX),
        name: text(fields.name),
        score,
        lines: Vec::new(),
    };
    Ok((hit, lines))
}

/// Statistics of several indexes as one, so that a word is as rare in each of them as it is in all.
struct Statistics<'s>(Vec<&'s OpenPart>);

impl Statistics<'_> {
    fn sum(&self, of: impl Fn(&dyn Bm25StatisticsProvider) -> tantivy::Result<u64>) -> tantivy::Result<u64> {
        self.0.iter().map(|part| of(&part.searcher)).sum()
    }
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.sum(|part| part.total_num_tokens(field))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.sum(|part| part.total_num_docs())
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        self.sum(|part| part.doc_freq(term))
    }
}
