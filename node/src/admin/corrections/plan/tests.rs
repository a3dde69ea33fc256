use proptest::prelude::*;

use super::*;
use crate::export::tests::page;

fn outline(row: i32) -> Vec<Point> {
    let (top, bottom) = (row * 20, row * 20 + 10);
    [(0, top), (90, top), (90, bottom), (0, bottom)]
        .map(|(x, y)| Point::new(x, y))
        .to_vec()
}

/// Page with lines in these rows, with their numbers as texts.
fn page_of(rows: &[i32]) -> PageDocument {
    let template = page();
    let line = |row: &i32| LineDocument {
        guid: format!("line-{row}"),
        polygon: outline(*row),
        text: row.to_string(),
        ..template.lines[0].clone()
    };
    PageDocument {
        width: 100,
        height: 400,
        lines: rows.iter().map(line).collect(),
        ..template
    }
}

fn transcribed(lines: &[(i32, &str)]) -> Vec<TranscribedLine> {
    let line = |(row, text): &(i32, &str)| TranscribedLine {
        polygon: outline(*row),
        text: Some((*text).to_owned()),
        marginal: false,
    };
    lines.iter().map(line).collect()
}

/// Texts of a page behind the changes.
fn after(page: &PageDocument, changes: &[Change]) -> Vec<String> {
    let mut lines: Vec<PageLine> = page.lines.iter().map(page_line).collect();
    for change in changes {
        let at = match change.replaces.first() {
            Some(first) => lines
                .iter()
                .position(|line| line == first)
                .expect("the line is seen as it is"),
            None => lines.len(),
        };
        for seen in &change.replaces {
            assert!(lines.contains(seen), "{seen:?} is not there");
        }
        lines.retain(|line| !change.replaces.contains(line));
        lines.splice(at..at, change.lines.iter().cloned());
    }
    lines.into_iter().map(|line| line.text).collect()
}

fn texts(lines: &[TranscribedLine]) -> Vec<String> {
    lines.iter().filter_map(|line| line.text.clone()).collect()
}

#[test]
fn what_is_the_same_is_no_change() {
    let page = page_of(&[0, 1, 2]);
    assert_eq!(
        changes(&page, &transcribed(&[(0, "0"), (1, " 1 "), (2, "2")])),
        []
    );
    let mut without_text = transcribed(&[(0, "0"), (1, "1"), (2, "2"), (7, "x")]);
    without_text[1].text = None;
    without_text[3].text = None;
    assert_eq!(changes(&page, &without_text), []);
}

#[test]
fn each_change_is_of_its_own_lines() {
    let page = page_of(&[0, 1, 2, 3, 5]);
    let wanted = transcribed(&[(0, "zero"), (1, "1"), (3, "3"), (4, "four"), (5, "5")]);
    let made = changes(&page, &wanted);
    assert_eq!(after(&page, &made), texts(&wanted));
    let counts: Vec<_> = made
        .iter()
        .map(|change| (change.changed, change.added, change.deleted))
        .collect();
    assert_eq!(counts, [(1, 0, 0), (0, 0, 1), (0, 1, 0)]);
    assert_eq!((made[2].replaces.len(), made[2].lines.len()), (1, 2));
}

#[test]
fn lines_in_another_order_are_the_same_lines() {
    let page = page_of(&[0, 1, 2]);
    let wanted = transcribed(&[(2, "2"), (0, "0"), (1, "1")]);
    let made = changes(&page, &wanted);
    assert_eq!(after(&page, &made), ["2", "0", "1"]);
    let moved: Vec<&str> = made
        .iter()
        .flat_map(|change| &change.lines)
        .map(|line| line.id.as_str())
        .collect();
    assert!(moved.contains(&line_id(&page.lines[2]).as_str()), "{moved:?}");
}

proptest! {
    #[test]
    fn a_page_becomes_the_transcription(
        rows in Just((0..12).collect::<Vec<i32>>()).prop_shuffle(),
        on_page in 0..8_usize,
        wanted in Just((0..12).collect::<Vec<i32>>()).prop_shuffle(),
        in_file in 1..8_usize,
        edited in proptest::collection::vec(any::<bool>(), 12),
    ) {
        let page = page_of(&rows[..on_page]);
        let wanted: Vec<(i32, String)> = wanted[..in_file]
            .iter()
            .map(|row| (*row, if edited[*row as usize] { format!("new {row}") } else { row.to_string() }))
            .collect();
        let wanted: Vec<(i32, &str)> = wanted.iter().map(|(row, text)| (*row, text.as_str())).collect();
        let wanted = transcribed(&wanted);
        prop_assert_eq!(after(&page, &changes(&page, &wanted)), texts(&wanted));
    }
}
