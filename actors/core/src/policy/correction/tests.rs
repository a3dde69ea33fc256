use chrono::TimeZone;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn line(id: &str, text: &str) -> PageLine {
    PageLine {
        id: id.to_owned(),
        polygon: vec![[0, 0], [9, 0], [9, 9]],
        text: text.to_owned(),
    }
}

fn lines(all: &[(&str, &str)]) -> Vec<PageLine> {
    all.iter().map(|(id, text)| line(id, text)).collect()
}

fn edit_of(replaces: Vec<PageLine>, lines: Vec<PageLine>) -> Edit {
    Edit {
        id: Uuid::nil(),
        replaces,
        lines,
    }
}

/// A page that people edit one after the other.
#[derive(Debug, Default)]
struct Page {
    edits: Vec<RecordedEdit>,
}

impl Page {
    fn corrections(&self) -> PageCorrections {
        PageCorrections::of(&self.edits)
    }

    fn edit(&mut self, who: &str, replaces: &[(&str, &str)], with: &[(&str, &str)]) -> Result<(), Conflict> {
        self.make(who, lines(replaces), lines(with))
    }

    fn make(&mut self, who: &str, replaces: Vec<PageLine>, lines: Vec<PageLine>) -> Result<(), Conflict> {
        let edit = edit_of(replaces, lines);
        if let Some(conflict) = self.corrections().conflict(&edit) {
            return Err(conflict);
        }
        let revision = u32::try_from(self.edits.len()).unwrap() + 1;
        self.edits.push(RecordedEdit {
            volume: "W1-I1".parse().unwrap(),
            image: "p1".to_owned(),
            revision,
            job: "press".parse().unwrap(),
            who: who.to_owned(),
            at: Utc.timestamp_opt(i64::from(revision), 0).unwrap(),
            edit,
        });
        Ok(())
    }

    /// Ids, texts and authors of the lines of each correction.
    fn shown(&self) -> Vec<Vec<String>> {
        let shown = |corrected: &CorrectedLine| {
            let CorrectedLine { line, who, .. } = corrected;
            format!("{} {} {who}", line.id, line.text)
        };
        let corrections = self.corrections().corrections;
        corrections
            .iter()
            .map(|correction| correction.lines().map(shown).collect())
            .collect()
    }
}

#[test]
fn edits_of_different_lines_know_nothing_of_each_other() {
    let mut page = Page::default();
    page.edit("eva", &[("a", "1")], &[("a", "one")]).unwrap();
    page.edit("otto", &[("c", "3")], &[("c", "three")]).unwrap();
    page.edit("eva", &[("a", "one")], &[("a", "One")]).unwrap();
    assert_eq!(page.shown(), [["a One eva"], ["c three otto"]]);
    assert_eq!(page.corrections().revision, 3);
    assert_eq!(page.corrections().corrections[0].originals, [line("a", "1")]);
}

#[test]
fn lines_are_added_split_merged_moved_and_deleted() {
    let mut page = Page::default();
    page.edit("eva", &[("a", "1")], &[("a", "1"), ("n", "new")])
        .unwrap();
    let added = page.corrections().corrections[0].clone();
    assert_eq!(added.original_of(&line("a", "1")), Some(0));
    assert_eq!(added.original_of(&line("n", "new")), None);
    page.edit("otto", &[("n", "new")], &[("n", "ne"), ("m", "w")])
        .unwrap();
    assert_eq!(page.shown(), [["a 1 eva", "n ne otto", "m w otto"]]);
    page.edit(
        "eva",
        &[("n", "ne"), ("m", "w"), ("b", "2")],
        &[("b", "2"), ("m", "w"), ("n", "ne")],
    )
    .unwrap();
    assert_eq!(page.shown(), [["a 1 eva", "b 2 eva", "m w otto", "n ne otto"]]);
    page.edit("eva", &[("m", "w"), ("n", "ne")], &[("m", "wne")])
        .unwrap();
    page.edit("eva", &[("b", "2")], &[]).unwrap();
    assert_eq!(page.shown(), [["a 1 eva", "m wne eva"]]);
    assert_eq!(
        page.corrections().corrections[0].originals,
        lines(&[("a", "1"), ("b", "2")])
    );
}

#[test]
fn an_edit_of_what_another_has_changed_is_refused_with_the_name() {
    let mut page = Page::default();
    page.edit("eva", &[("a", "1"), ("b", "2")], &[("a", "one"), ("b", "2")])
        .unwrap();
    let conflict = page.edit("otto", &[("a", "1")], &[("a", "eins")]).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "eva has changed line a since, at 1970-01-01 00:00:01 UTC"
    );
    page.edit("eva", &[("b", "2")], &[]).unwrap();
    let gone = page.edit("otto", &[("b", "2")], &[("b", "zwei")]).unwrap_err();
    assert_eq!(gone.line, "b");
    // The id of a line that is there.
    assert!(page.edit("otto", &[("c", "3")], &[("a", "x")]).is_err());
}

#[test]
fn what_was_read_anew_beside_a_correction_is_no_conflict() {
    let mut page = Page::default();
    page.edit("eva", &[("a", "1")], &[("a", "1"), ("n", "new")])
        .unwrap();
    page.edit("otto", &[("a", "1!")], &[("a", "one")]).unwrap();
    let corrections = page.corrections().corrections;
    assert_eq!(corrections[0].originals, [line("a", "1!")]);
    page.edit("otto", &[("a", "one")], &[("a", "1!")]).unwrap();
    assert_eq!(
        page.corrections().corrections[0].original_of(&line("a", "1!")),
        Some(0)
    );
}

#[test]
fn a_page_is_full_after_so_many_edits_or_so_much_text() {
    let deletion = edit_of(lines(&[("a", "2")]), Vec::new());
    let is_full = |page: &Page| !page.corrections().has_room(&deletion);
    let mut page = Page::default();
    page.edit("eva", &[("a", "1")], &[("a", "2")]).unwrap();
    assert!(!is_full(&page));
    page.edits[0].revision = MOST_EDITS - 1;
    assert!(!is_full(&page));
    page.edits[0].revision = MOST_EDITS;
    assert!(is_full(&page));

    let mut page = Page::default();
    let long = "ཀ".repeat(usize::try_from(MOST_SIGNS - 2 * SIGNS_OF_LINE).unwrap() - 8);
    page.edit("eva", &[("a", "1")], &[("a", &long)]).unwrap();
    assert!(!is_full(&page), "a sign is left");
    page.edits[0].edit.lines[0].text.push('ཀ');
    assert!(is_full(&page));
}

#[test]
fn a_page_takes_so_many_lines_and_lets_them_be_changed_and_deleted() {
    let ids: Vec<String> = (0..=MOST_LINES).map(|number| number.to_string()).collect();
    let all: Vec<PageLine> = ids.iter().map(|id| line(id, "ཀ")).collect();
    let (last, most) = all.split_last().unwrap();
    let mut page = Page::default();
    for lines in most.chunks(500) {
        assert!(page.corrections().has_room(&edit_of(Vec::new(), lines.to_vec())));
        page.make("eva", Vec::new(), lines.to_vec()).unwrap();
    }
    let corrections = page.corrections();
    let one_more = edit_of(Vec::new(), vec![last.clone()]);
    assert!(!corrections.has_room(&one_more));
    assert!(corrections.has_room(&edit_of(vec![most[0].clone()], vec![line("0", "ཁ")])));
    page.make("eva", vec![most[0].clone()], Vec::new()).unwrap();
    assert!(page.corrections().has_room(&one_more), "a line was deleted");
}

/// What somebody does to the lines of a page.
fn arbitrary_edit() -> impl Strategy<Value = (usize, usize, Vec<u8>)> {
    (
        0..6_usize,
        0..4_usize,
        proptest::collection::vec(any::<u8>(), 0..4),
    )
}

proptest! {
    /// Every line of the page is in one place, as the last edit left it, and undoing everything leaves nothing.
    #[test]
    fn edits_and_their_inverses(edits in proptest::collection::vec(arbitrary_edit(), 0..12)) {
        let read = lines(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5")]);
        let (mut now, mut page, mut fresh) = (read.clone(), Page::default(), 0);
        let mut done = Vec::new();
        for (from, length, with) in edits {
            let from = from.min(now.len());
            let to = (from + length).min(now.len());
            // Lines are added to a neighbour where there is one.
            let from = if from == to { from.saturating_sub(1) } else { from };
            let is_added = from < to && length == 0;
            let replaces = now[from..to].to_vec();
            let kept: Vec<PageLine> = replaces.iter().filter(|_| is_added).cloned().collect();
            let written = with
                .iter()
                .enumerate()
                .map(|(index, text)| {
                    fresh += 1;
                    let seen = replaces.get(index).filter(|_| !is_added);
                    let kept = seen.map_or_else(|| format!("n{fresh}"), |seen| seen.id.clone());
                    line(&kept, &format!("{text} {fresh}"))
                });
            let made: Vec<PageLine> = kept.into_iter().chain(written).collect();
            if replaces == made {
                continue;
            }
            page.make("eva", replaces.clone(), made.clone()).unwrap();
            now.splice(from..to, made.clone());
            done.push((replaces, made));
            let corrected: Vec<PageLine> = page
                .corrections()
                .corrections
                .iter()
                .flat_map(|correction| correction.lines().map(|corrected| corrected.line.clone()))
                .collect();
            for line in &corrected {
                prop_assert_eq!(now.iter().filter(|there| *there == line).count(), 1);
            }
            let untouched = now.iter().filter(|line| !corrected.contains(line));
            for line in untouched {
                prop_assert!(read.contains(line));
            }
        }
        for (replaces, made) in done.into_iter().rev() {
            page.make("otto", made, replaces).unwrap();
        }
        prop_assert_eq!(page.corrections().corrections, []);
    }
}

/// Whatever edits there are, made by whom, folding them ends, and knows of each line that was read once.
#[test]
fn fuzz_edits() {
    let edit = |number: u128, replaces: &[(&str, &str)], with: &[(&str, &str)]| Edit {
        id: Uuid::from_u128(number),
        replaces: lines(replaces),
        lines: lines(with),
    };
    let corpus = [
        vec![
            edit(1, &[("a", "x")], &[("a", "y")]),
            edit(2, &[("a", "y"), ("b", "z")], &[("a", "yz")]),
        ],
        vec![edit(3, &[], &[("n", "note")]), edit(4, &[("n", "note")], &[])],
        vec![edit(5, &[("a", "x"), ("b", "z")], &[("b", "z"), ("a", "x")])],
    ];
    let corpus = corpus.map(|edits| serde_json::to_string(&edits).unwrap());
    parkhang_fuzz::Fuzz::of_texts("edits", corpus).feeds_texts(|text| {
        let Ok(edits) = serde_json::from_str::<Vec<Edit>>(text) else {
            return;
        };
        let mut page = Page::default();
        for edit in edits {
            let checked = edit.validated((1_000, 1_000), &[]);
            if let Ok(Edit { replaces, lines, .. }) = checked {
                let _ = page.make("eva", replaces, lines);
            }
        }
        let corrections = page.corrections().corrections;
        let originals = corrections.iter().flat_map(|correction| &correction.originals);
        let mut ids: Vec<&str> = originals.map(|line| line.id.as_str()).collect();
        let number = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), number, "{corrections:?}");
    });
}
