//! The lines of a hit that show why it is one, with the places that match.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use crate::query::{Pattern, TextField};
use crate::token::{Token, line_tokens};

/// Lines that are shown of a page at most.
const LINES: usize = 3;

/// Line of a page with the places that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HitLine {
    /// Number of the line on the page, from 1.
    pub number: u32,
    pub text: String,
    /// Bytes of the text that match, in order and apart.
    pub marks: Vec<Range<usize>>,
}

/// Match of a pattern: how many of its places, and which tokens.
struct Match {
    places: usize,
    tokens: Vec<usize>,
}

/// Rank of a line among those of its page that match.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    /// Places of the longest match.
    places: usize,
    /// Sum of the shares that the line has in the matches of each pattern: what stands on every other line tells little.
    share: f64,
}

/// Chooses the lines of a page that match patterns best.
pub(crate) fn highlights(lines: &[String], patterns: &[&Pattern]) -> Vec<HitLine> {
    let tokens = line_tokens(lines);
    let mut marks: BTreeMap<usize, BTreeSet<(usize, usize)>> = BTreeMap::new();
    let mut weights: BTreeMap<usize, Weight> = BTreeMap::new();
    for pattern in patterns.iter().filter(|pattern| pattern.field == TextField::Text) {
        let mut matching: BTreeSet<usize> = BTreeSet::new();
        for Match {
            places,
            tokens: matched,
        } in best_matches(pattern, &tokens)
        {
            for (line, token) in matched.iter().filter_map(|index| tokens.get(*index)) {
                marks
                    .entry(*line)
                    .or_default()
                    .insert((token.range.start, token.range.end));
                let weight = weights.entry(*line).or_default();
                weight.places = weight.places.max(places);
                matching.insert(*line);
            }
        }
        let share = 1.0 / matching.len() as f64;
        for line in matching {
            weights.entry(line).or_default().share += share;
        }
    }
    let mut best: Vec<(Weight, usize)> = weights.into_iter().map(|(line, weight)| (weight, line)).collect();
    // Those with the longest matches, of these those with the most and the rarest words, and of these the first.
    best.sort_by(|(one, line), (other, other_line)| {
        let rank = other
            .places
            .cmp(&one.places)
            .then(other.share.total_cmp(&one.share));
        rank.then(line.cmp(other_line))
    });
    best.truncate(LINES);
    let mut chosen: Vec<usize> = best.into_iter().map(|(_, line)| line).collect();
    // A page that matches by its heading, or by a filter alone, shows how it begins.
    if chosen.is_empty() && !lines.is_empty() {
        chosen.push(0);
    }
    chosen.sort_unstable();
    let shown = chosen.into_iter().filter_map(|line| {
        Some(HitLine {
            number: u32::try_from(line).ok()?.saturating_add(1),
            text: lines.get(line)?.clone(),
            marks: joined(marks.get(&line).into_iter().flatten(), lines.get(line)?),
        })
    });
    shown.collect()
}

/// Ranges as few as possible: those that touch, or have no letter or digit between them, are one.
fn joined<'r>(ranges: impl Iterator<Item = &'r (usize, usize)>, text: &str) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for (start, end) in ranges.copied() {
        match all.last_mut() {
            Some(last) if start <= last.end || is_between_words(text.get(last.end..start)) => {
                last.end = last.end.max(end);
            }
            _ => all.push(start..end),
        }
    }
    all
}

fn is_between_words(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.chars().any(char::is_alphanumeric))
}

/// The places of a page where most of a pattern stands in a row. Of a pattern of one place that is wherever it stands.
fn best_matches(pattern: &Pattern, tokens: &[(usize, Token)]) -> Vec<Match> {
    let mut by_term: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, (_, token)) in tokens.iter().enumerate() {
        by_term.entry(token.term.as_str()).or_default().push(index);
    }
    // Tokens that fit, by the position that the pattern would begin at.
    let mut beginnings: BTreeMap<isize, BTreeMap<usize, usize>> = BTreeMap::new();
    for place in &pattern.places {
        for (term, _) in &place.terms {
            for index in by_term.get(term.as_str()).into_iter().flatten() {
                let Some((_, token)) = tokens.get(*index) else {
                    continue;
                };
                let beginning = token.position.cast_signed() - place.position.cast_signed();
                beginnings
                    .entry(beginning)
                    .or_default()
                    .insert(place.position, *index);
            }
        }
    }
    let longest = beginnings.values().map(BTreeMap::len).max().unwrap_or(0);
    let matches = beginnings
        .into_values()
        .filter(|matched| matched.len() == longest);
    matches
        .map(|matched| Match {
            places: matched.len(),
            tokens: matched.into_values().collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Dictionary, Freedom, parse, plan};

    struct Nobody;

    impl Dictionary for Nobody {
        fn neighbours(&self, _: &str, _: usize) -> Vec<(String, u32)> {
            Vec::new()
        }
    }

    fn marked(lines: &[&str], query: &str) -> Vec<String> {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let freedom = Freedom {
            is_fuzzy: false,
            transliterate: |_| None,
        };
        let node = plan(&parse(query), freedom, &Nobody).node.unwrap();
        let shown = highlights(&lines, &node.patterns());
        let show = |line: &HitLine| {
            let mut text = line.text.clone();
            for mark in line.marks.iter().rev() {
                text.insert(mark.end, ']');
                text.insert(mark.start, '[');
            }
            format!("{} {text}", line.number)
        };
        shown.iter().map(show).collect()
    }

    #[test]
    fn a_run_is_marked_where_most_of_it_stands() {
        let lines = ["ཆུབ་དང་", "བྱང་ཆུབ་སེམས་", "དཔའ་ཆུབ་"];
        assert_eq!(
            marked(&lines, "བྱང་ཆུབ་སེམས་དཔའ་"),
            ["2 [བྱང་ཆུབ་སེམས]་", "3 [དཔའ]་ཆུབ་"]
        );
    }

    #[test]
    fn single_words_are_marked_wherever_they_stand() {
        assert_eq!(
            marked(&["the rent", "no", "rent of rent"], "rent"),
            ["1 the [rent]", "3 [rent] of [rent]"]
        );
        assert_eq!(marked(&["first", "second"], "title:notes"), ["1 first"]);
        let lines = [
            "one of",
            "two of",
            "three of",
            "mud of a port",
            "five of",
            "no mud",
        ];
        assert_eq!(
            marked(&lines, "mud of port"),
            ["1 one [of]", "4 [mud of] a [port]", "6 no [mud]"],
            "lines with a word that all have come after the others"
        );
        assert_eq!(marked(&["物業銷售收入"], "銷售收"), ["1 物業[銷售收]入"]);
    }
}
