//! Doc comments begin with what the item is: they are read in a hover, where a sentence that begins in its middle has no subject.

use super::source::{SOURCES, Source};
use super::tokens::{Kind, Token};

/// First words of a comment whose sentence has no subject.
const SUBJECTLESS: [&str; 10] = [
    "What", "How", "Where", "Whether", "Of", "As", "For", "That", "Who", "Whoever",
];

/// Highest share of such comments, in per cent.
const BOUND: f64 = 2.0;

/// First lines of the doc comments, with their numbers.
fn first_lines(tokens: &[Token]) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut last = 0;
    for token in tokens.iter().filter(|token| token.kind == Kind::Doc) {
        if token.line != last + 1 || last == 0 {
            found.push((token.line, token.text.as_str()));
        }
        last = token.line;
    }
    found
}

/// Whether a comment begins without its subject.
fn is_subjectless(comment: &str) -> bool {
    let first = comment.trim_start().split(|c: char| !c.is_alphanumeric()).next();
    first.is_some_and(|word| SUBJECTLESS.contains(&word))
}

/// Places of subjectless comments in a file, and the number of all comments.
fn measured(source: &Source) -> (Vec<String>, usize) {
    let comments = first_lines(&source.shipped);
    let subjectless = comments.iter().filter(|(_, text)| is_subjectless(text));
    let places = subjectless.map(|(line, text)| format!("{}:{line}:{text}", source.path));
    (places.collect(), comments.len())
}

#[test]
fn doc_comments_begin_with_what_the_item_is() {
    let (mut places, mut all) = (Vec::new(), 0);
    for source in SOURCES.iter() {
        let (found, comments) = measured(source);
        places.extend(found);
        all += comments;
    }
    let (some, whole) = (places.len() as f64, all as f64);
    let share = some / whole * 100.0;
    println!(
        "{} of {all} doc comments begin without a subject: {share:.2} %",
        places.len()
    );
    assert!(
        share <= BOUND,
        "{share:.2} % of doc comments begin with one of {SUBJECTLESS:?}; at most {BOUND} % may:\n  {}",
        places.join("\n  ")
    );
}

#[test]
fn a_comment_is_judged_by_its_first_word() {
    let text = "//! As a file.\n\n/// Whether it is so.\nfn a() {}\n/// Lifetime,\n/// as it is.\nfn b() {}\n\
        struct S {\n /// Asked for.\n a: u8,\n /// What's in it.\n b: u8 }\n#[cfg(test)]\nmod tests {\n /// Who knows.\n fn c() {} }";
    let (places, all) = measured(&Source::made_up("actors/src/a.rs", text));
    assert_eq!(all, 5);
    let lines: Vec<&str> = places
        .iter()
        .filter_map(|place| place.split(':').nth(1))
        .collect();
    assert_eq!(lines, ["1", "3", "11"]);
}
