use chrono::Utc;
use parkhang_core::domain::{Edit, RecordedEdit};
use parkhang_core::policy::correction::PageCorrections;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

const HEIGHT: i32 = 20;

/// Line of a page: its id, the number of its row, the columns it goes from and to, and its text.
type Row = (&'static str, i32, (i32, i32), &'static str);

fn line((id, row, (left, right), text): Row) -> PageLine {
    let (top, bottom) = (row * 2 * HEIGHT, row * 2 * HEIGHT + HEIGHT);
    PageLine {
        id: id.to_owned(),
        polygon: vec![[left, top], [right, top], [right, bottom], [left, bottom]],
        text: text.to_owned(),
    }
}

/// Texts of a page with the edits of another reading of it, and the number of corrections without a place.
fn shown(reading: &[Row], edits: &[(&[Row], &[Row])]) -> (Vec<String>, usize) {
    let recorded: Vec<RecordedEdit> = (1..)
        .zip(edits)
        .map(|(revision, (replaces, lines))| RecordedEdit {
            volume: "W1-I1".parse().unwrap(),
            image: "p1".to_owned(),
            revision,
            job: "press".parse().unwrap(),
            who: "eva".to_owned(),
            at: Utc::now(),
            edit: Edit {
                id: Uuid::new_v4(),
                replaces: replaces.iter().copied().map(line).collect(),
                lines: lines.iter().copied().map(line).collect(),
            },
        })
        .collect();
    let corrections = PageCorrections::of(&recorded).corrections;
    let read: Vec<PageLine> = reading.iter().copied().map(line).collect();
    let outlines: Vec<Vec<Point>> = read.iter().map(outline).collect();
    let lines: Vec<ReadLine<'_>> = read
        .iter()
        .zip(&outlines)
        .map(|(line, polygon)| ReadLine {
            id: &line.id,
            polygon,
        })
        .collect();
    let placement = place(&lines, &corrections);
    let texts = placement.items.into_iter().map(|item| match item {
        Item::Read(index) => read[index].text.clone(),
        Item::Corrected { correction, line } => {
            let mut lines = corrections[correction].lines();
            lines.nth(line).unwrap().line.text.clone()
        }
    });
    (texts.collect(), placement.unplaced.len())
}

fn assert_shown(reading: &[Row], edits: &[(&[Row], &[Row])], texts: &[&str], unplaced: usize) {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    assert_eq!(shown(reading, edits), (texts, unplaced));
}

const A: Row = ("a", 0, (0, 400), "1");
const B: Row = ("b", 1, (0, 400), "2");
const C: Row = ("c", 2, (0, 400), "3");

const fn with((id, row, columns, _): Row, text: &'static str) -> Row {
    (id, row, columns, text)
}

#[test]
fn on_the_reading_that_was_corrected_lines_are_known_by_their_ids() {
    let reading = [A, B, C];
    assert_shown(&reading, &[(&[B], &[with(B, "two")])], &["1", "two", "3"], 0);
    assert_shown(&reading, &[(&[B], &[])], &["1", "3"], 0);
    assert_shown(
        &reading,
        &[(&[C, B, A], &[A, C, B]), (&[C], &[with(C, "three")])],
        &["1", "three", "2"],
        0,
    );
    // A line that was added over others, as a note between lines is.
    let note = ("n", 1, (0, 500), "note");
    assert_shown(&reading, &[(&[A], &[A, note])], &["1", "note", "2", "3"], 0);
    // One whose place is that of another now.
    let moved = ("b", 0, (0, 400), "two");
    assert_shown(&reading, &[(&[B], &[moved])], &["1", "two", "3"], 0);
}

#[test]
fn another_reading_keeps_what_is_at_the_same_place() {
    let (a, b, c) = (
        ("x", 0, (2, 396), "I"),
        ("y", 1, (0, 380), "II"),
        ("z", 2, (4, 400), "III"),
    );
    let reading = [a, b, c];
    assert_shown(&reading, &[(&[B], &[with(B, "two")])], &["I", "two", "III"], 0);
    assert_shown(&reading, &[(&[B], &[])], &["I", "III"], 0);
    // Lines that were only moved are as they are read now.
    assert_shown(
        &reading,
        &[(&[A, B, C], &[C, A, B]), (&[A], &[with(A, "one")])],
        &["III", "one", "II"],
        0,
    );
    let gone = ("d", 9, (0, 400), "4");
    assert_shown(
        &reading,
        &[(&[gone], &[with(gone, "four")]), (&[A], &[with(A, "one")])],
        &["one", "II", "III"],
        1,
    );
    // What was deleted and is not found any more needs no place.
    assert_shown(&reading, &[(&[gone], &[])], &["I", "II", "III"], 0);
}

#[test]
fn lines_that_are_cut_otherwise_are_replaced_as_a_whole() {
    let (left, right) = (("l", 1, (0, 190), "II a"), ("r", 1, (210, 400), "II b"));
    assert_shown(
        &[A, left, right, C],
        &[(&[B], &[with(B, "two")])],
        &["1", "two", "3"],
        0,
    );
    let (b1, b2) = (("b", 1, (0, 200), "tw"), ("n", 1, (200, 400), "o"));
    let whole = ("w", 1, (0, 400), "II");
    assert_shown(&[A, whole, C], &[(&[B], &[b1, b2])], &["1", "tw", "o", "3"], 0);
    assert_shown(
        &[A, whole, C],
        &[(&[left, right], &[("l", 1, (0, 400), "two")])],
        &["1", "two", "3"],
        0,
    );
    // A third of the line is not the line.
    let third = ("t", 1, (0, 130), "I");
    assert_shown(&[A, third, C], &[(&[B], &[with(B, "two")])], &["1", "I", "3"], 1);
}

#[test]
fn what_was_added_is_kept_and_takes_the_place_of_what_is_found_there_now() {
    let added: (&[Row], &[Row]) = (&[A], &[A, with(B, "two")]);
    let (x, y) = (("x", 0, (0, 400), "I"), ("y", 2, (0, 400), "III"));
    assert_shown(&[x, y], &[added], &["I", "two", "III"], 0);
    let found = ("z", 1, (5, 395), "II");
    assert_shown(&[x, found, y], &[added], &["I", "two", "III"], 0);
    // Its neighbour is not there any more.
    assert_shown(&[y], &[added], &["two", "III"], 0);
    // A page on which nothing was found.
    let first: (&[Row], &[Row]) = (&[], &[with(B, "two")]);
    assert_shown(&[], &[first], &["two"], 0);
    assert_shown(&[A, C], &[first], &["1", "two", "3"], 0);
    assert_shown(&[A, found, C], &[first], &["1", "two", "3"], 0);
}

#[test]
fn a_line_of_a_later_reading_may_be_corrected_beside_one_of_an_earlier() {
    let x = ("x", 0, (0, 400), "I");
    let edits: [(&[Row], &[Row]); 2] = [(&[A], &[A, ("n", 1, (0, 400), "new")]), (&[x], &[with(x, "one")])];
    assert_shown(&[x, C], &edits, &["one", "new", "3"], 0);
    assert_shown(&[A, C], &edits, &["one", "new", "3"], 0);
}

proptest! {
    /// However a page is read, a line that was read is there once or was replaced, and every line of a person that has a place is there
    /// once.
    #[test]
    fn nothing_is_lost_or_doubled(
        rows in proptest::collection::vec((0..6_i32, 0..300_i32, 20..300_i32), 0..8),
        edited in proptest::collection::vec((0..3_usize, any::<bool>()), 0..4),
    ) {
        const IDS: [&str; 8] = ["a", "b", "c", "s", "t", "u", "v", "w"];
        let reading: Vec<Row> = rows
            .iter()
            .zip(IDS)
            .map(|((row, left, width), id)| (id, *row, (*left, left + width), "read"))
            .collect();
        let mut edits: Vec<(Vec<Row>, Vec<Row>)> = Vec::new();
        for (which, is_deleted) in edited {
            let line = [A, B, C][which];
            if edits.iter().all(|(replaces, _)| replaces[0].0 != line.0) {
                let made = if is_deleted { Vec::new() } else { vec![with(line, "written")] };
                edits.push((vec![line], made));
            }
        }
        let written = edits.iter().filter(|(_, made)| !made.is_empty()).count();
        let given: Vec<(&[Row], &[Row])> = edits.iter().map(|(replaces, made)| (&replaces[..], &made[..])).collect();
        let (texts, unplaced) = shown(&reading, &given);
        let count = |wanted: &str| texts.iter().filter(|text| *text == wanted).count();
        prop_assert_eq!(count("written") + unplaced, written);
        prop_assert!(count("read") <= reading.len());
    }
}
