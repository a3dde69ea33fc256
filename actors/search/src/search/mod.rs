//! Search over the indexes of one or more jobs. Pages are ranked by the words of the query (`words`), by the vectors of their chunks
//! (`meaning`), or by both, where the rankings are joined (`fusion`).

mod fusion;
mod meaning;
mod words;

use std::collections::HashSet;

use tantivy::collector::{DocSetCollector, TopDocs};
use tantivy::query::{BooleanQuery, Occur, Query as EngineQuery, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, Value};
use tantivy::{DocAddress, TantivyDocument, Term};

use self::fusion::{Ranking, fuse};
use self::meaning::Meaning;
use self::words::Words;
use crate::error::SearchError;
use crate::highlight::{HitLine, highlights};
use crate::part::of_volumes;
use crate::query::{Bounds, Freedom, Node, Pattern, Query, compile_bounds, plan};
use crate::snapshot::{Dictionaries, OpenPart, Snapshot};
use crate::volume::{Fields, PAGE};

/// Pages of each ranking that are joined: one that is far down in all is none that anybody looks for. So many whatever is asked
/// for, as the parts of an answer must fit together.
const DEPTH: usize = 500;

/// Question to one or more indexes.
#[derive(Debug, Clone)]
pub struct Request {
    pub query: Query,
    pub freedom: Freedom,
    /// Finds pages by the words of the query.
    pub by_words: bool,
    /// Vectors of the query, to find pages by its meaning.
    pub vectors: Option<QueryVectors>,
    /// Hits that were shown before, and are skipped.
    pub offset: usize,
    /// Largest number of hits.
    pub limit: usize,
}

/// Vectors of a query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryVectors {
    /// Identifies the model: only what the same one has made is compared.
    pub model: String,
    /// Direction of its meaning, of length 1; empty where its language is none of the model's.
    pub dense: Vec<f32>,
    /// Terms with their weights.
    pub terms: Vec<(u32, f32)>,
}

/// Answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// Number of pages that have the words; where pages are found by meaning, too, of those that were ranked.
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
    /// How well it matches; comparable within an answer only.
    pub score: f32,
    /// Lines that match best, in the order of the page.
    pub lines: Vec<HitLine>,
    /// Text of the chunk by whose meaning it was found.
    pub passage: Option<String>,
}

/// Place of a document among the parts that are searched, with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ranked {
    score: f32,
    part: usize,
    at: DocAddress,
}

/// Sorts best first. Equal documents are in the order of the indexes, so that the parts of an answer fit together.
fn sort(ranked: &mut [Ranked]) {
    ranked.sort_by(|one, other| {
        other
            .score
            .total_cmp(&one.score)
            .then(one.part.cmp(&other.part))
            .then(one.at.cmp(&other.at))
    });
}

/// A page, by what identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Page {
    part: usize,
    volume: String,
    number: u64,
}

/// Searches indexes, as long as `cancelled` is false: it is asked before each part, each step through vectors and dictionaries, and each hit.
///
/// # Errors
///
/// If an index cannot be read, and [`SearchError::Cancelled`] if nobody waits for the answer any more.
pub fn search(
    indexes: &[&Snapshot],
    request: &Request,
    cancelled: &dyn Fn() -> bool,
) -> Result<Found, SearchError> {
    let fields = Fields::new();
    let with_index = |(index, snapshot): (usize, &&Snapshot)| {
        snapshot
            .parts
            .iter()
            .map(move |part| (index, part.clone()))
            .collect::<Vec<_>>()
    };
    let (owners, parts): (Vec<usize>, Vec<OpenPart>) =
        indexes.iter().enumerate().flat_map(with_index).unzip();
    let searched = Searched {
        owners,
        parts,
        fields,
        cancelled,
    };
    let plan = plan(&request.query, request.freedom, &searched.dictionary());
    let wanted = request.offset.saturating_add(request.limit).max(1);
    let depth = if request.vectors.is_some() { DEPTH } else { wanted };
    let words = Words::find(&searched, request, plan.node.as_ref(), depth)?;
    let patterns = plan.node.as_ref().map(Node::patterns).unwrap_or_default();
    let Some(vectors) = &request.vectors else {
        let chosen = words.ranked.iter().skip(request.offset).take(request.limit);
        let hits = chosen.map(|ranked| searched.hit(*ranked, &patterns, None));
        return Ok(Found {
            total: words.total,
            hits: hits.collect::<Result<_, _>>()?,
        });
    };
    let mut meaning = Meaning::find(&searched, vectors, &request.query, depth)?;
    let items: Vec<Page> = words
        .ranked
        .iter()
        .map(|ranked| searched.page(*ranked))
        .collect::<Result<_, _>>()?;
    let has_words: HashSet<Page> = items.iter().cloned().collect();
    let mut rankings = std::mem::take(&mut meaning.rankings);
    rankings.push(Ranking { weight: 1.0, items });
    let bounds = searched.bounds(&request.query, &plan.bounds)?;
    let mut found = Found::default();
    for (page, score) in fuse(&rankings) {
        searched.go_on()?;
        let Some(at) = searched.find(&page)? else {
            continue;
        };
        let is_within = bounds
            .as_ref()
            .is_none_or(|pages| pages.contains(&(page.part, at)));
        if !is_within {
            continue;
        }
        let number = found.total;
        found.total += 1;
        if number >= request.offset && found.hits.len() < request.limit {
            let ranked = Ranked {
                score,
                part: page.part,
                at,
            };
            // The words that a page happens to have say nothing where it was found by its meaning alone.
            let marked = if has_words.contains(&page) {
                patterns.as_slice()
            } else {
                &[]
            };
            found
                .hits
                .push(searched.hit(ranked, marked, meaning.passage(&page))?);
        }
    }
    Ok(found)
}

/// The parts of all indexes that are searched.
struct Searched<'c> {
    /// Index of each part.
    owners: Vec<usize>,
    parts: Vec<OpenPart>,
    fields: Fields,
    /// True once nobody waits for the answer.
    cancelled: &'c dyn Fn() -> bool,
}

impl Searched<'_> {
    /// Ends the search if nobody waits for it.
    ///
    /// # Errors
    ///
    /// [`SearchError::Cancelled`] then.
    fn go_on(&self) -> Result<(), SearchError> {
        match (self.cancelled)() {
            true => Err(SearchError::Cancelled),
            false => Ok(()),
        }
    }

    fn dictionary(&self) -> Dictionaries<'_> {
        Dictionaries {
            parts: self.parts.iter().collect(),
            fields: &self.fields,
            cancelled: self.cancelled,
        }
    }

    fn text(&self, document: &TantivyDocument, field: Field) -> String {
        let value = document.get_first(field);
        value
            .and_then(|value| value.as_str())
            .unwrap_or_default()
            .to_owned()
    }

    fn number(&self, document: &TantivyDocument) -> u64 {
        let value = document.get_first(self.fields.number);
        value.and_then(|value| value.as_u64()).unwrap_or_default()
    }

    fn document(&self, ranked: Ranked) -> Result<TantivyDocument, SearchError> {
        match self.parts.get(ranked.part) {
            Some(part) => Ok(part.searcher.doc(ranked.at)?),
            None => Ok(TantivyDocument::default()),
        }
    }

    /// The page of a ranked document.
    fn page(&self, ranked: Ranked) -> Result<Page, SearchError> {
        Ok(self.page_of(ranked.part, &self.document(ranked)?))
    }

    /// The page that a document of a part is, or begins on.
    fn page_of(&self, part: usize, document: &TantivyDocument) -> Page {
        Page {
            part,
            volume: self.text(document, self.fields.volume),
            number: self.number(document),
        }
    }

    /// The pages that a query leaves, however they are found; `None` if it leaves all.
    fn bounds(
        &self,
        query: &Query,
        bounds: &Bounds,
    ) -> Result<Option<HashSet<(usize, DocAddress)>>, SearchError> {
        let Some(query) = compile_bounds(bounds, query, &self.fields) else {
            return Ok(None);
        };
        let mut pages = HashSet::new();
        for (number, part) in self.parts.iter().enumerate() {
            self.go_on()?;
            let of_part = part.searcher.search(&*query, &DocSetCollector)?;
            pages.extend(of_part.into_iter().map(|at| (number, at)));
        }
        Ok(Some(pages))
    }

    /// Where a page is in its part.
    fn find(&self, page: &Page) -> Result<Option<DocAddress>, SearchError> {
        let Some(part) = self.parts.get(page.part) else {
            return Ok(None);
        };
        let must = |term| -> (Occur, Box<dyn EngineQuery>) {
            (
                Occur::Must,
                Box::new(TermQuery::new(term, IndexRecordOption::Basic)),
            )
        };
        let query = BooleanQuery::new(vec![
            must(Term::from_field_text(self.fields.volume, &page.volume)),
            must(Term::from_field_u64(self.fields.number, page.number)),
            must(Term::from_field_text(self.fields.kind, PAGE)),
        ]);
        let found = part
            .searcher
            .search(&query, &TopDocs::with_limit(1).order_by_score())?;
        Ok(found.first().map(|(_, at)| *at))
    }

    /// Reads a ranked page.
    fn hit(&self, ranked: Ranked, patterns: &[&Pattern], passage: Option<&str>) -> Result<Hit, SearchError> {
        self.go_on()?;
        let document = self.document(ranked)?;
        let lines = document.get_all(self.fields.lines);
        let lines: Vec<String> = lines
            .filter_map(|line| line.as_str().map(str::to_owned))
            .collect();
        let mut shown = highlights(&lines, patterns);
        // The passage says why, if no line does.
        if passage.is_some() && shown.iter().all(|line| line.marks.is_empty()) {
            shown.clear();
        }
        Ok(Hit {
            index: self.owners.get(ranked.part).copied().unwrap_or_default(),
            volume: self.text(&document, self.fields.volume),
            number: u32::try_from(self.number(&document)).unwrap_or(u32::MAX),
            name: self.text(&document, self.fields.name),
            score: ranked.score,
            lines: shown,
            passage: passage.map(str::to_owned),
        })
    }

    /// A query without the volumes of a part that were replaced.
    fn without_replaced(&self, query: &dyn EngineQuery, part: &OpenPart) -> BooleanQuery {
        let mut clauses = vec![(Occur::Must, query.box_clone())];
        if !part.replaced.is_empty() {
            clauses.push((Occur::MustNot, Box::new(of_volumes(&part.replaced, &self.fields))));
        }
        BooleanQuery::new(clauses)
    }
}
