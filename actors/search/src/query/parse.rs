//! Queries as people type them: words, `"phrases"`, `+must` and `-must not`, and fields.
//!
//! A query is never refused: what has no meaning as syntax is looked for as text.

use super::{Clause, Filter, FilterField, Occur, Query, TextField};

/// Longest query that is read, in bytes; the rest is left out.
const LONGEST: usize = 2 << 10;
/// Names of volumes with `*` that are looked for; others are left out. An automaton of some megabytes is made of each.
const MOST_PATTERNS: usize = 8;

/// Reads a query.
///
/// | typed | meaning |
/// |---|---|
/// | `word` | raises a page that has it; one of two words that a query consists of must be there |
/// | `"some words"` | these words in a row |
/// | `+word`, `-word` | the page must, or must not, have it; so too with phrases and fields |
/// | `title:word` | in a title or heading of the page |
/// | `volume:W1-I1`, `volume:W1*` | in this volume, or in those whose names fit; `*` stands for any letters |
/// | `lang:bo` | on pages of this language |
/// | `page:I1KG0003` | on the page of this name |
pub fn parse(text: &str) -> Query {
    let mut query = Query::default();
    let (mut rest, mut patterns) = (bounded(text), 0);
    while let Some((item, after)) = next(rest) {
        rest = after;
        let Item {
            occur,
            field,
            value,
            is_phrase,
        } = item;
        if value.trim().is_empty() {
            continue;
        }
        let text_field = match field {
            None => TextField::Text,
            Some(Field::Title) => TextField::Title,
            Some(Field::Filter(field)) => {
                let is_pattern = field == FilterField::Volume && value.contains('*');
                patterns += usize::from(is_pattern);
                if is_pattern && patterns > MOST_PATTERNS {
                    continue;
                }
                query.filters.push(Filter {
                    field,
                    value: value.to_owned(),
                    is_negative: occur == Occur::MustNot,
                });
                continue;
            }
        };
        query.clauses.push(Clause {
            occur,
            field: text_field,
            text: value.to_owned(),
            is_phrase,
        });
    }
    query
}

fn bounded(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

struct Item<'t> {
    occur: Occur,
    field: Option<Field>,
    value: &'t str,
    is_phrase: bool,
}

enum Field {
    Title,
    Filter(FilterField),
}

/// Takes the next item off a query.
fn next(text: &str) -> Option<(Item<'_>, &str)> {
    let text = text.trim_start();
    let first = text.chars().next()?;
    let (occur, text) = match first {
        '+' => (Occur::Must, text.get(1..)?),
        '-' => (Occur::MustNot, text.get(1..)?),
        _ => (Occur::Should, text),
    };
    let (field, text) = field(text);
    if let Some(quoted) = text.strip_prefix(is_quote) {
        // A phrase that nobody has closed yet goes to the end.
        let end = quoted.find(is_quote).unwrap_or(quoted.len());
        let (value, after) = quoted.split_at(end);
        let after = after.strip_prefix(is_quote).unwrap_or(after);
        return Some((
            Item {
                occur,
                field,
                value,
                is_phrase: true,
            },
            after,
        ));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (value, after) = text.split_at(end);
    Some((
        Item {
            occur,
            field,
            value,
            is_phrase: false,
        },
        after,
    ))
}

/// The field before a colon, if it is one; a Tibetan or Chinese text may have colons of its own.
fn field(text: &str) -> (Option<Field>, &str) {
    let Some((name, rest)) = text.split_once(':') else {
        return (None, text);
    };
    let field = match name {
        "title" => Field::Title,
        "volume" => Field::Filter(FilterField::Volume),
        "lang" => Field::Filter(FilterField::Language),
        "page" => Field::Filter(FilterField::Page),
        _ => return (None, text),
    };
    (Some(field), rest)
}

const fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '\u{201c}' | '\u{201d}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clause(occur: Occur, text: &str, is_phrase: bool) -> Clause {
        Clause {
            occur,
            field: TextField::Text,
            text: text.to_owned(),
            is_phrase,
        }
    }

    #[test]
    fn so_many_patterns_of_volumes_are_looked_for() {
        let many: String = (0..100)
            .map(|number| format!("volume:*{number}????????? "))
            .collect();
        let query = parse(&format!("{many} volume:W1-I1 lang:bo"));
        let values: Vec<&str> = query.filters.iter().map(|filter| filter.value.as_str()).collect();
        assert_eq!(values.len(), MOST_PATTERNS + 2);
        assert_eq!(values[MOST_PATTERNS..], ["W1-I1", "bo"]);
    }

    #[test]
    fn words_phrases_signs_and_fields_are_told_apart() {
        let query = parse("rent +\"fair value\" -lease title:notes volume:W1* -lang:zh https://a.b");
        assert_eq!(
            query.clauses,
            [
                clause(Occur::Should, "rent", false),
                clause(Occur::Must, "fair value", true),
                clause(Occur::MustNot, "lease", false),
                Clause {
                    field: TextField::Title,
                    ..clause(Occur::Should, "notes", false)
                },
                clause(Occur::Should, "https://a.b", false),
            ]
        );
        let filter = |field, value: &str, is_negative| Filter {
            field,
            value: value.to_owned(),
            is_negative,
        };
        assert_eq!(
            query.filters,
            [
                filter(FilterField::Volume, "W1*", false),
                filter(FilterField::Language, "zh", true)
            ]
        );
    }

    #[test]
    fn an_open_phrase_goes_to_the_end() {
        assert_eq!(
            parse("\"fair va").clauses,
            [clause(Occur::Should, "fair va", true)]
        );
        assert_eq!(parse(" - \"\" +").clauses, []);
    }

    proptest! {
        #[test]
        fn no_text_is_refused(text in "\\PC{0,80}") {
            let query = parse(&text);
            prop_assert!(query.clauses.iter().all(|clause| !clause.text.trim().is_empty()));
        }
    }
}
