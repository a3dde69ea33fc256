//! A query as patterns of terms: the form from which both the engine's query and the marks in the lines of a hit are made.

use std::cell::Cell;

use super::{Clause, Freedom, Occur, Query, TextField};
use crate::token::query_tokens;

/// Terms that stand for one term of a query at most, itself included.
const ALTERNATIVES: usize = 24;
/// Terms of a query at most; a longer one is looked for by its beginning. Each is looked up in all dictionaries.
const MOST_TERMS: usize = 64;

/// Dictionary of the terms in an index.
pub(crate) trait Dictionary {
    /// Terms that a term may have been misread as, or be the right form of, with their distances in fourths of a letter; nearest first.
    fn neighbours(&self, term: &str, at_most: usize) -> Vec<(String, u32)>;
}

/// Text of a query as terms in a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pattern {
    pub field: TextField,
    pub places: Vec<Place>,
    /// The terms must be in a row.
    pub is_phrase: bool,
}

/// Place in a pattern with the terms that may stand there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    /// Number of the place in the pattern, as positions of tokens count.
    pub position: usize,
    /// Terms with their weights, from 1 for the term itself down.
    pub terms: Vec<(String, f32)>,
}

/// Condition on a page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Pattern(Pattern),
    /// The best of several readings counts.
    Best(Vec<Node>),
    All {
        must: Vec<Node>,
        should: Vec<Node>,
        must_not: Vec<Node>,
        /// Number of `should` that must be there.
        at_least: usize,
    },
}

impl Node {
    /// Patterns whose places are marked in a hit.
    pub(crate) fn patterns(&self) -> Vec<&Pattern> {
        match self {
            Self::Pattern(pattern) => vec![pattern],
            Self::Best(nodes) => nodes.iter().flat_map(Self::patterns).collect(),
            Self::All { must, should, .. } => must.iter().chain(should).flat_map(Self::patterns).collect(),
        }
    }
}

/// Query as conditions on pages.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Plan {
    /// Condition on the words of a page; `None` if the query looks for no text.
    pub node: Option<Node>,
    pub bounds: Bounds,
}

/// Plans a query; each of its terms is looked up once.
pub(crate) fn plan(query: &Query, freedom: Freedom, dictionary: &dyn Dictionary) -> Plan {
    let planner = Planner::new(freedom, dictionary);
    let typed = planner.patterns(&query.clauses);
    let transliterated = transliterated(query, freedom);
    let other = transliterated.and_then(|clauses| node(&planner.patterns(&clauses)));
    let node = match (node(&typed), other) {
        (Some(typed), Some(other)) => Some(Node::Best(vec![typed, other])),
        (typed, other) => typed.or(other),
    };
    Plan {
        node,
        bounds: Bounds::of(typed),
    }
}

/// The condition that clauses are together; `None` if they look for no text.
fn node(clauses: &[(&Clause, Pattern)]) -> Option<Node> {
    let of = |occur| -> Vec<Node> {
        let chosen = clauses.iter().filter(|(clause, _)| clause.occur == occur);
        chosen
            .map(|(_, pattern)| Node::Pattern(pattern.clone()))
            .collect()
    };
    let (must, mut should, must_not) = (of(Occur::Must), of(Occur::Should), of(Occur::MustNot));
    if must.is_empty() && must_not.is_empty() && should.len() <= 1 {
        return should.pop();
    }
    if must.is_empty() && should.is_empty() {
        return None;
    }
    let at_least = if must.is_empty() { needed(should.len()) } else { 0 };
    Some(Node::All {
        must,
        should,
        must_not,
        at_least,
    })
}

/// Conditions on a page that hold however it is found, also by meaning: what must and must not be there, phrases, and headings.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Bounds {
    pub must: Vec<Node>,
    pub must_not: Vec<Node>,
}

impl Bounds {
    fn of(clauses: Vec<(&Clause, Pattern)>) -> Self {
        let mut bounds = Self::default();
        for (clause, pattern) in clauses {
            let is_demand =
                clause.occur == Occur::Must || clause.is_phrase || clause.field == TextField::Title;
            let side = match clause.occur {
                Occur::MustNot => &mut bounds.must_not,
                Occur::Must | Occur::Should if is_demand => &mut bounds.must,
                Occur::Must | Occur::Should => continue,
            };
            side.push(Node::Pattern(pattern));
        }
        bounds
    }
}

/// The query with its words read as transliteration. Words that follow each other are one text, as a space is only the end of a syllable.
fn transliterated(query: &Query, freedom: Freedom) -> Option<Vec<Clause>> {
    let mut clauses: Vec<Clause> = Vec::new();
    for clause in &query.clauses {
        match clauses.last_mut() {
            Some(last) if is_plain(last) && is_plain(clause) => {
                last.text.push(' ');
                last.text.push_str(&clause.text);
            }
            _ => clauses.push(clause.clone()),
        }
    }
    let mut is_other = false;
    for clause in &mut clauses {
        if clause.text.is_ascii() {
            clause.text = (freedom.transliterate)(&clause.text)?;
            is_other = true;
        }
    }
    is_other.then_some(clauses)
}

fn is_plain(clause: &Clause) -> bool {
    clause.occur == Occur::Should
        && !clause.is_phrase
        && clause.field == TextField::Text
        && clause.text.is_ascii()
}

struct Planner<'d> {
    freedom: Freedom,
    dictionary: &'d dyn Dictionary,
    /// Terms that may still be looked up.
    left: Cell<usize>,
}

impl<'d> Planner<'d> {
    const fn new(freedom: Freedom, dictionary: &'d dyn Dictionary) -> Self {
        Self {
            freedom,
            dictionary,
            left: Cell::new(MOST_TERMS),
        }
    }

    /// The clauses that look for text, with their patterns.
    fn patterns<'c>(&self, clauses: &'c [Clause]) -> Vec<(&'c Clause, Pattern)> {
        let patterns = clauses
            .iter()
            .filter_map(|clause| Some((clause, self.pattern(clause)?)));
        patterns.collect()
    }

    fn pattern(&self, clause: &Clause) -> Option<Pattern> {
        let tokens = query_tokens(&clause.text);
        let first = tokens.first()?.position;
        let taken = tokens.len().min(self.left.get());
        self.left.set(self.left.get() - taken);
        let places = tokens.into_iter().take(taken).map(|token| Place {
            position: token.position - first,
            terms: self.terms(token.term, clause.occur),
        });
        let places: Vec<Place> = places.collect();
        (!places.is_empty()).then_some(Pattern {
            field: clause.field,
            places,
            is_phrase: clause.is_phrase || clause.occur == Occur::MustNot,
        })
    }

    fn terms(&self, term: String, occur: Occur) -> Vec<(String, f32)> {
        let mut near = Vec::new();
        // A number that is nearly another one is another one, and nothing is left out for a word that it does not have.
        if self.freedom.is_fuzzy
            && occur != Occur::MustNot
            && !term.starts_with(|letter: char| letter.is_numeric())
        {
            near = self.dictionary.neighbours(&term, ALTERNATIVES - 1);
        }
        let near = near.into_iter().map(|(term, distance)| (term, weight(distance)));
        std::iter::once((term, 1.0)).chain(near).collect()
    }
}

/// Weight of a term at a distance in fourths of a letter.
fn weight(distance: u32) -> f32 {
    1.0 / (1.0 + distance as f32 / 2.0)
}

/// Number of words or runs that a page must have of so many: both of two, most of more, so that a question in a sentence finds what
/// answers it in other words.
const fn needed(count: usize) -> usize {
    if count <= 2 { count } else { count.div_ceil(2) }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    struct Nobody;

    impl Dictionary for Nobody {
        fn neighbours(&self, _: &str, _: usize) -> Vec<(String, u32)> {
            Vec::new()
        }
    }

    struct Similar;

    impl Dictionary for Similar {
        fn neighbours(&self, term: &str, _: usize) -> Vec<(String, u32)> {
            vec![(format!("{term}x"), 2)]
        }
    }

    const LITERAL: Freedom = Freedom {
        is_fuzzy: false,
        transliterate: |_| None,
    };

    fn places(pattern: &Pattern) -> Vec<(usize, &str)> {
        pattern
            .places
            .iter()
            .map(|place| (place.position, place.terms[0].0.as_str()))
            .collect()
    }

    #[test]
    fn a_run_of_syllables_is_one_pattern() {
        let Some(Node::Pattern(pattern)) = plan(&parse("བྱང་ཆུབ་སེམས་"), LITERAL, &Nobody).node
        else {
            panic!("one pattern");
        };
        assert_eq!(places(&pattern), [(0, "བྱང"), (1, "ཆུབ"), (2, "སེམས")]);
        assert!(!pattern.is_phrase);
    }

    #[test]
    fn half_of_many_words_are_enough() {
        let Some(Node::All { should, at_least, .. }) =
            plan(&parse("how much was the rent"), LITERAL, &Nobody).node
        else {
            panic!("several words");
        };
        assert_eq!((should.len(), at_least), (5, 3));
        assert_eq!(
            plan(&parse("lang:bo -rent"), LITERAL, &Nobody).node,
            None,
            "nothing is looked for"
        );
    }

    #[test]
    fn terms_that_may_be_misread_weigh_less_and_numbers_are_exact() {
        let fuzzy = Freedom {
            is_fuzzy: true,
            ..LITERAL
        };
        let Some(Node::All { should, .. }) = plan(&parse("rent 2024"), fuzzy, &Similar).node else {
            panic!("two words");
        };
        let terms: Vec<_> = should
            .iter()
            .flat_map(Node::patterns)
            .flat_map(|pattern| &pattern.places)
            .map(|place| &place.terms)
            .collect();
        assert_eq!(*terms[0], [("rent".to_owned(), 1.0), ("rentx".to_owned(), 0.5)]);
        assert_eq!(*terms[1], [("2024".to_owned(), 1.0)]);
    }

    #[test]
    fn a_query_has_so_many_terms_and_no_more() {
        let words: Vec<String> = (0..200).map(|word| format!("word{word}")).collect();
        let Some(Node::All { should, .. }) = plan(&parse(&words.join(" ")), LITERAL, &Nobody).node else {
            panic!("many words");
        };
        assert_eq!(should.len(), MOST_TERMS);
    }

    #[test]
    fn what_must_be_there_must_be_so_however_a_page_is_found() {
        let Plan { bounds, .. } = plan(
            &parse("rent +lease -tax \"fair value\" title:notes"),
            LITERAL,
            &Nobody,
        );
        assert_eq!((bounds.must.len(), bounds.must_not.len()), (3, 1));
    }

    #[test]
    fn latin_words_may_be_tibetan_in_transliteration() {
        let wylie = Freedom {
            transliterate: |text| (text == "byang chub").then(|| "བྱང་ཆུབ".to_owned()),
            ..LITERAL
        };
        let Some(Node::Best(readings)) = plan(&parse("byang chub"), wylie, &Nobody).node else {
            panic!("two readings");
        };
        assert_eq!(readings.len(), 2);
        assert_eq!(places(readings[1].patterns()[0]), [(0, "བྱང"), (1, "ཆུབ")]);
        assert!(matches!(
            plan(&parse("byang rent"), wylie, &Nobody).node,
            Some(Node::All { .. })
        ));
    }

    #[test]
    fn each_term_is_looked_up_once() {
        struct Counting(Cell<usize>);
        impl Dictionary for Counting {
            fn neighbours(&self, _: &str, _: usize) -> Vec<(String, u32)> {
                self.0.set(self.0.get() + 1);
                Vec::new()
            }
        }
        let counting = Counting(Cell::new(0));
        let fuzzy = Freedom {
            is_fuzzy: true,
            ..LITERAL
        };
        let planned = plan(&parse("rent +lease \"fair value\""), fuzzy, &counting);
        assert_eq!(planned.bounds.must.len(), 2);
        assert_eq!(counting.0.get(), 4);
    }
}
