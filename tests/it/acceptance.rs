//! docs/acceptance.md: which test proves which row of docs/acceptance.toml. A test says so itself, in a line above it.

use std::collections::BTreeMap;
use std::fmt::Write;

use parkhang_test_support::assert_documented;
use serde::Deserialize;

use crate::tidy::{root, tracked};

const INTRODUCTION: &str = "# Acceptance\n\n\
    What the commands, launchers and interfaces of Parkhang are measured by, and the tests that prove it. Rows with plain numbers are\n\
    requirements; rows with an F are functions of the program that the archive runs today, and rows with a U its defects that there are\n\
    not to be. A row holds where tests that would fail without it say so, in a line `Rows:` above them; whether the words of a row are met is for readers to judge. This page is made from\n\
    those lines and from [acceptance.toml](acceptance.toml).\n";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    row: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    row: String,
    group: String,
    asks: String,
    instead: Option<String>,
    missing: Option<String>,
    declined: Option<String>,
}

impl Row {
    fn state(&self, proofs: &[Proof]) -> &'static str {
        match (proofs, &self.declined, &self.missing, &self.instead) {
            (_, Some(_), ..) => "not ours",
            ([], ..) => "open",
            (_, _, Some(_), _) => "in part",
            (_, _, _, Some(_)) => "in another form",
            _ => "holds",
        }
    }
}

/// A test that says which rows it proves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Proof {
    path: String,
    test: String,
}

/// The rows that the tests of a file name, each with the test; or the lines that name rows and belong to no test.
fn proofs(path: &str, text: &str) -> Result<Vec<(String, Proof)>, Vec<String>> {
    let mark = if path.ends_with(".py") {
        "# Rows: "
    } else {
        "/// Rows: "
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let (mut found, mut stray) = (Vec::new(), Vec::new());
    for (index, line) in lines.iter().enumerate() {
        let Some(rows) = line.strip_prefix(mark) else {
            continue;
        };
        let test = test_below(path, &lines[index + 1..]);
        match (rows.strip_suffix('.'), test) {
            (Some(rows), Some(test)) => {
                let proof = Proof {
                    path: path.to_owned(),
                    test,
                };
                found.extend(rows.split(", ").map(|row| (row.to_owned(), proof.clone())));
            }
            _ => stray.push(format!("{path}:{}: {line}", index + 1)),
        }
    }
    if stray.is_empty() { Ok(found) } else { Err(stray) }
}

/// The name of the function that begins below; in Rust it must be a test, or a case of a conformance suite.
fn test_below(path: &str, lines: &[&str]) -> Option<String> {
    let python = path.ends_with(".py");
    let start = if python { "def " } else { "fn " };
    let head: Vec<&str> = lines
        .iter()
        .take_while(|line| !line.is_empty() && !line.ends_with('}'))
        .copied()
        .collect();
    let at = head.iter().position(|line| {
        let line = line.trim_start_matches("pub ").trim_start_matches("pub(super) ");
        line.trim_start_matches("async ").starts_with(start)
    })?;
    let attributes = &head[..at];
    let is_test = |line: &&str| line.starts_with("#[") && line.contains("test");
    if !python && !path.contains("conformance") && !attributes.iter().any(is_test) {
        return None;
    }
    let (_, name) = head[at].split_once(start)?;
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    Some(name[..end].to_owned())
}

fn page(rows: &[Row], proofs: &BTreeMap<String, Vec<Proof>>) -> String {
    let proofs_of = |row: &Row| proofs.get(&row.row).map(Vec::as_slice).unwrap_or_default();
    let mut page = INTRODUCTION.to_owned();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.state(proofs_of(row))).or_default() += 1;
    }
    let reported = ["holds", "in another form", "in part", "open", "not ours"];
    let reported = reported.map(|state| format!("{state}: {}", counts.get(state).unwrap_or(&0)));
    let _ = write!(page, "\nOf {} rows, {}.\n", rows.len(), reported.join(", "));
    for group in rows.chunk_by(|one, next| one.group == next.group) {
        let _ = write!(
            page,
            "\n## {}\n\n| row | what it asks for | state | proven by |\n|---|---|---|---|\n",
            group[0].group
        );
        for row in group {
            let proofs = proofs_of(row);
            let mut asks = row.asks.clone();
            for (word, more) in [
                ("Instead", &row.instead),
                ("Missing", &row.missing),
                ("Not ours", &row.declined),
            ] {
                if let Some(more) = more {
                    let _ = write!(asks, "<br>{word}: {more}");
                }
            }
            let proven = proofs.chunk_by(|one, next| one.path == next.path).map(|tests| {
                let names: Vec<String> = tests.iter().map(|proof| format!("`{}`", proof.test)).collect();
                format!("{}: {}", tests[0].path, names.join(", "))
            });
            let proven: Vec<String> = proven.collect();
            let state = row.state(proofs);
            let _ = writeln!(
                page,
                "| {} | {asks} | {state} | {} |",
                row.row,
                proven.join("<br>")
            );
        }
    }
    page
}

#[test]
fn the_documented_acceptance_is_that_of_the_tests() {
    let list = std::fs::read_to_string(root().join("docs/acceptance.toml")).unwrap();
    let List { row: rows } = toml::from_str(&list).unwrap();
    let mut proven: BTreeMap<String, Vec<Proof>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        if rows[..place].iter().any(|other| other.row == row.row) {
            wrong.push(format!("{} is listed twice", row.row));
        }
    }
    for path in tracked() {
        if !path.ends_with(".rs") && !path.ends_with(".py") {
            continue;
        }
        match proofs(&path, &std::fs::read_to_string(root().join(&path)).unwrap()) {
            Ok(found) => found
                .into_iter()
                .for_each(|(row, proof)| proven.entry(row).or_default().push(proof)),
            Err(stray) => wrong.extend(stray),
        }
    }
    for (row, proofs) in &mut proven {
        proofs.sort();
        match rows.iter().find(|known| known.row == *row) {
            None => wrong.push(format!("{row} is no row of docs/acceptance.toml: {proofs:?}")),
            Some(row) if row.declined.is_some() => wrong.push(format!("{} is declined and proven", row.row)),
            Some(_) => {}
        }
    }
    assert!(
        wrong.is_empty(),
        "rows are listed once, and lines `Rows:` are above a test and name rows that there are:\n  {}",
        wrong.join("\n  ")
    );

    assert_documented("acceptance.md", &page(&rows, &proven));
}

#[test]
fn a_line_belongs_to_the_test_below_it() {
    let found = |path: &str, text: &str| {
        let found = proofs(path, text).map_err(|stray| stray.len())?;
        Ok(found
            .into_iter()
            .map(|(row, proof)| format!("{row} {}", proof.test))
            .collect::<Vec<_>>())
    };
    let mark = concat!("/// ", "Rows: 74, F3.");
    let test = format!("/// What it does.\n{mark}\n#[tokio::test]\nasync fn it_does() {{\n}}\n");
    assert_eq!(
        found("a.rs", &test),
        Ok(vec!["74 it_does".to_owned(), "F3 it_does".to_owned()])
    );
    let case = format!("{mark}\npub(super) async fn case(store: &dyn Store) {{\n");
    assert_eq!(found("conformance/a.rs", &case).unwrap().len(), 2);
    assert_eq!(found("a.rs", &case), Err(1), "no test");
    assert_eq!(
        found("a.rs", &format!("{mark}\n\n{test}")),
        Err(1),
        "a line between them"
    );
    assert_eq!(found("a.rs", &test.replace("F3.", "F3")), Err(1), "no full stop");
    let python = "    # Rows: 102.\ndef check_requests(url):\n";
    assert_eq!(found("a.py", python), Ok(vec!["102 check_requests".to_owned()]));
}
