//! Patterns as queries of the engine.

use tantivy::Term;
use tantivy::query::{
    BooleanQuery, BoostQuery, ConstScoreQuery, DisjunctionMaxQuery, EmptyQuery, Occur, PhraseQuery, Query,
    RegexPhraseQuery, RegexQuery, TermQuery, wildcard_query_to_regex_str,
};
use tantivy::schema::{Field, IndexRecordOption};

use super::plan::{Bounds, Node, Pattern, Place};
use super::{FilterField, Query as Question, TextField};
use crate::volume::{CHUNK, Fields, PAGE};

/// Share of the places of a pattern that a page must have, in fourths, where they need not be in a row.
const PLACES_NEEDED: usize = 3;
/// Weights of a pattern's readings: its terms in a row, terms like them in a row, and most of them anywhere on the page.
const IN_A_ROW: f32 = 2.0;
const LIKE_IN_A_ROW: f32 = 1.5;
const SCATTERED: f32 = 0.5;
/// Weight of a heading beside the text.
const HEADING: f32 = 1.0;
/// Part that the lesser readings have in the score.
const TIE: f32 = 0.1;

type Boxed = Box<dyn Query>;

/// Makes the query of the engine for a planned one; without one, for all pages that the query's filters leave.
pub(crate) fn compile(node: Option<&Node>, query: &Question, fields: &Fields) -> Boxed {
    let pages = || of_kind(PAGE, fields);
    let words = node.map_or_else(pages, |node| of_node(node, fields));
    filtered(words, query, |_| true, fields)
}

/// Makes the query of the engine for all pages that a query leaves whatever its words mean: by its filters, and by the conditions on
/// its words. `None` if it leaves all.
pub(crate) fn compile_bounds(bounds: &Bounds, query: &Question, fields: &Fields) -> Option<Boxed> {
    if bounds.must.is_empty() && bounds.must_not.is_empty() && query.is_unbounded() {
        return None;
    }
    let mut clauses = vec![(Occur::Must, of_kind(PAGE, fields))];
    clauses.extend(
        bounds
            .must
            .iter()
            .map(|node| (Occur::Must, of_node(node, fields))),
    );
    clauses.extend(
        bounds
            .must_not
            .iter()
            .map(|node| (Occur::MustNot, of_node(node, fields))),
    );
    Some(unscored(filtered(
        Box::new(BooleanQuery::new(clauses)),
        query,
        |_| true,
        fields,
    )))
}

/// Makes the query of the engine for all chunks in the volumes that a query leaves; what else it says is about pages.
pub(crate) fn chunks_of(query: &Question, fields: &Fields) -> Boxed {
    filtered(
        of_kind(CHUNK, fields),
        query,
        |field| field == FilterField::Volume,
        fields,
    )
}

fn of_kind(kind: &str, fields: &Fields) -> Boxed {
    let term = Term::from_field_text(fields.kind, kind);
    unscored(Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
}

fn filtered(words: Boxed, query: &Question, counts: impl Fn(FilterField) -> bool, fields: &Fields) -> Boxed {
    let mut clauses = vec![(Occur::Must, words)];
    let filters = || query.filters.iter().filter(|filter| counts(filter.field));
    // Two values of one field are alternatives, as no page has both.
    for field in [FilterField::Volume, FilterField::Language, FilterField::Page] {
        let values = filters().filter(|filter| filter.field == field && !filter.is_negative);
        let values: Vec<(Occur, Boxed)> = values
            .map(|filter| (Occur::Should, of_filter(filter.field, &filter.value, fields)))
            .collect();
        if !values.is_empty() {
            clauses.push((Occur::Must, unscored(Box::new(BooleanQuery::new(values)))));
        }
    }
    let excluded = filters().filter(|filter| filter.is_negative);
    clauses.extend(excluded.map(|filter| (Occur::MustNot, of_filter(filter.field, &filter.value, fields))));
    let only = query.volume.iter();
    clauses.extend(only.map(|volume| (Occur::Must, of_filter(FilterField::Volume, volume, fields))));
    Box::new(BooleanQuery::new(clauses))
}

fn unscored(query: Boxed) -> Boxed {
    Box::new(ConstScoreQuery::new(query, 0.0))
}

fn boosted(query: Boxed, weight: f32) -> Boxed {
    Box::new(BoostQuery::new(query, weight))
}

/// A filter has no part in scores, and its terms none in their statistics, which are of pages.
fn of_filter(field: FilterField, value: &str, fields: &Fields) -> Boxed {
    let name = match field {
        FilterField::Volume => fields.volume,
        FilterField::Language => fields.language,
        FilterField::Page => fields.name,
    };
    if field == FilterField::Volume && value.contains('*') {
        let pattern = wildcard_query_to_regex_str(value);
        // A pattern that is too large for an automaton is the name of no volume.
        return RegexQuery::from_pattern(&pattern, name).map_or_else(
            |_| Box::new(EmptyQuery) as Boxed,
            |query| unscored(Box::new(query)),
        );
    }
    let term = Term::from_field_text(name, value);
    unscored(Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
}

fn of_node(node: &Node, fields: &Fields) -> Boxed {
    match node {
        Node::Pattern(pattern) => of_pattern(pattern, fields),
        Node::Best(nodes) => best(nodes.iter().map(|node| of_node(node, fields)).collect()),
        Node::All {
            must,
            should,
            must_not,
            at_least,
        } => {
            let of = |occur: Occur, nodes: &[Node]| -> Vec<(Occur, Boxed)> {
                nodes.iter().map(|node| (occur, of_node(node, fields))).collect()
            };
            let mut clauses = of(Occur::Must, must);
            clauses.extend(of(Occur::Should, should));
            clauses.extend(of(Occur::MustNot, must_not));
            Box::new(BooleanQuery::with_minimum_required_clauses(clauses, *at_least))
        }
    }
}

fn best(mut queries: Vec<Boxed>) -> Boxed {
    match queries.len() {
        0 => Box::new(EmptyQuery),
        1 => queries.remove(0),
        _ => Box::new(DisjunctionMaxQuery::with_tie_breaker(queries, TIE)),
    }
}

fn of_pattern(pattern: &Pattern, fields: &Fields) -> Boxed {
    match pattern.field {
        TextField::Title => readings(pattern, fields.title),
        TextField::Text => {
            let text = readings(pattern, fields.text);
            let heading = boosted(literal(pattern, fields.title), HEADING);
            Box::new(BooleanQuery::new(vec![
                (Occur::Must, text),
                (Occur::Should, heading),
            ]))
        }
    }
}

/// All that a pattern may look like in a field, each with its weight.
fn readings(pattern: &Pattern, field: Field) -> Boxed {
    let [place] = pattern.places.as_slice() else {
        let mut readings = vec![boosted(literal(pattern, field), IN_A_ROW)];
        if pattern.places.iter().any(|place| place.terms.len() > 1) {
            readings.push(boosted(like_in_a_row(pattern, field), LIKE_IN_A_ROW));
        }
        if !pattern.is_phrase {
            readings.push(boosted(scattered(pattern, field), SCATTERED));
        }
        return best(readings);
    };
    of_place(place, field)
}

/// The terms themselves, in a row.
fn literal(pattern: &Pattern, field: Field) -> Boxed {
    let mut terms: Vec<(usize, Term)> = pattern
        .places
        .iter()
        .filter_map(|place| {
            Some((
                place.position,
                Term::from_field_text(field, &place.terms.first()?.0),
            ))
        })
        .collect();
    match terms.len() {
        0 => Box::new(EmptyQuery),
        1 => Box::new(TermQuery::new(terms.remove(0).1, IndexRecordOption::WithFreqs)),
        _ => Box::new(PhraseQuery::new_with_offset(terms)),
    }
}

fn like_in_a_row(pattern: &Pattern, field: Field) -> Boxed {
    let places = pattern.places.iter().map(|place| {
        let terms: Vec<String> = place
            .terms
            .iter()
            .map(|(term, _)| wildcard_query_to_regex_str(term))
            .collect();
        (place.position, format!("({})", terms.join("|")))
    });
    Box::new(RegexPhraseQuery::new_with_offset(field, places.collect()))
}

/// Most of the terms, wherever they are.
fn scattered(pattern: &Pattern, field: Field) -> Boxed {
    let places: Vec<(Occur, Boxed)> = pattern
        .places
        .iter()
        .map(|place| (Occur::Should, of_place(place, field)))
        .collect();
    let needed = (places.len() * PLACES_NEEDED).div_ceil(4);
    Box::new(BooleanQuery::with_minimum_required_clauses(places, needed))
}

fn of_place(place: &Place, field: Field) -> Boxed {
    let terms = place.terms.iter().map(|(term, weight)| {
        let query: Boxed = Box::new(TermQuery::new(
            Term::from_field_text(field, term),
            IndexRecordOption::WithFreqs,
        ));
        if *weight < 1.0 {
            boosted(query, *weight)
        } else {
            query
        }
    });
    best(terms.collect())
}
