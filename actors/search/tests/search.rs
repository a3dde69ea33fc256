//! Indexes on disk and the queries that they answer.

#![expect(clippy::unwrap_used, reason = "a failed test should stop where it fails")]

mod requests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use parkhang_search::{
    AddedVolume, ChunkText, Found, Freedom, IndexFolder, PageText, QueryVectors, Request, SearchError,
    Snapshot, VolumeText, index_volume, search,
};
use proptest::prelude::*;

use self::requests::{FUZZY, request};

fn volume(name: &str, version: &str, pages: &[&[&str]]) -> AddedVolume {
    let page = |(number, lines): (u32, &&[&str])| PageText {
        number,
        name: format!("{name}-{number}"),
        language: ["en", "bo"][usize::from(lines.concat().contains('་'))].to_owned(),
        headings: lines
            .iter()
            .filter(|line| line.starts_with('#'))
            .map(|line| (*line).to_owned())
            .collect(),
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
    };
    let text = VolumeText {
        volume: name.to_owned(),
        pages: (1..).zip(pages).map(page).collect(),
        ..VolumeText::default()
    };
    AddedVolume::open(name, version, &index_volume(&text).unwrap()).unwrap()
}

fn index(folder: &Path, volumes: Vec<AddedVolume>) -> Snapshot {
    let folder = IndexFolder::new(folder.to_owned());
    folder.writer().unwrap().update(volumes, &[]).unwrap();
    folder.snapshot().unwrap()
}

/// Pages that are found, best first.
fn pages(found: &Found) -> Vec<String> {
    found.hits.iter().map(|hit| hit.name.clone()).collect()
}

fn find(snapshot: &Snapshot, query: &str) -> Vec<String> {
    pages(&search(&[snapshot], &request(query, FUZZY), &|| false).unwrap())
}

fn find_literally(snapshot: &Snapshot, query: &str) -> Vec<String> {
    let literal = Freedom {
        is_fuzzy: false,
        ..FUZZY
    };
    pages(&search(&[snapshot], &request(query, literal), &|| false).unwrap())
}

#[test]
fn text_is_found_by_words_phrases_fields_and_languages() {
    let folder = tempfile::tempdir().unwrap();
    let first = volume(
        "W1-I1",
        "1",
        &[
            &["# Notes on leases", "The rent of the property is paid"],
            &["fair value of the shares", "property held for rent"],
            &["བྱང་ཆུབ་སེམས་", "དཔའ་ཆེན་པོ།"],
        ],
    );
    let second = volume("W2-I1", "1", &[&["物業銷售收入增加", "the fair share of value"]]);
    let found = index(folder.path(), vec![first, second]);
    assert_eq!(find(&found, "rent paid"), ["W1-I1-1"]);
    assert_eq!(find(&found, "\"fair value\""), ["W1-I1-2"]);
    assert_eq!(find(&found, "fair value -shares"), ["W2-I1-1"]);
    assert_eq!(find(&found, "title:leases"), ["W1-I1-1"]);
    assert_eq!(find(&found, "value volume:W2*"), ["W2-I1-1"]);
    assert_eq!(find(&found, "fair lang:bo"), Vec::<String>::new());
    assert_eq!(find(&found, "銷售"), ["W2-I1-1"]);
    assert_eq!(find(&found, "\"byang chub\""), Vec::<String>::new());
    // A phrase goes over the end of a line.
    assert_eq!(find(&found, "\"སེམས་དཔའ་\""), ["W1-I1-3"]);
    assert_eq!(
        find(&found, "lang:bo"),
        ["W1-I1-3"],
        "a filter alone lists its pages"
    );
}

#[test]
fn an_error_of_reading_is_forgiven_unless_asked_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    // Print that was misread: ད for ང, and a vowel that is missing.
    let read = volume(
        "W1-I1",
        "1",
        &[&["བྱད་ཆུབ་སམས་དཔའ་"], &["the propcrty of others"], &["ཀ་ཁ་"]],
    );
    let found = index(folder.path(), vec![read]);
    assert_eq!(find(&found, "\"བྱང་ཆུབ་སེམས་\""), ["W1-I1-1"]);
    assert_eq!(find(&found, "property others"), ["W1-I1-2"]);
    assert_eq!(find_literally(&found, "\"བྱང་ཆུབ་སེམས་\""), Vec::<String>::new());
    assert_eq!(find_literally(&found, "property others"), Vec::<String>::new());
}

#[test]
fn wylie_is_read_as_tibetan() {
    let folder = tempfile::tempdir().unwrap();
    let found = index(
        folder.path(),
        vec![volume("W1-I1", "1", &[&["བྱང་ཆུབ་སེམས་"], &["man overboard"]])],
    );
    let wylie = Freedom {
        transliterate: |text| (text == "byang chub").then(|| "བྱང་ཆུབ".to_owned()),
        ..FUZZY
    };
    let hits = search(&[&found], &request("byang chub", wylie), &|| false).unwrap();
    assert_eq!(pages(&hits), ["W1-I1-1"]);
    assert_eq!(hits.hits[0].lines[0].marks.len(), 1);
    assert_eq!(find(&found, "man"), ["W1-I1-2"]);
}

const MODEL: &str = "sha256:1";

/// Text, direction of its meaning, and terms of a chunk.
type Chunk<'c> = (&'c str, [f32; 3], &'c [(u32, f32)]);

/// Volume of one page for each chunk, with the direction of the meaning of each.
fn embedded(name: &str, version: &str, chunks: &[Chunk<'_>]) -> AddedVolume {
    let page = |(number, (text, _, _)): (u32, &Chunk<'_>)| PageText {
        number,
        name: format!("{name}-{number}"),
        lines: vec![(*text).to_owned()],
        ..PageText::default()
    };
    let chunk = |(page, (text, dense, terms)): (u32, &Chunk<'_>)| ChunkText {
        page,
        language: "en".to_owned(),
        text: (*text).to_owned(),
        dense: dense.to_vec(),
        terms: terms.to_vec(),
    };
    let text = VolumeText {
        volume: name.to_owned(),
        pages: (1..).zip(chunks).map(page).collect(),
        chunks: (1..).zip(chunks).map(chunk).collect(),
        model: MODEL.to_owned(),
    };
    AddedVolume::open(name, version, &index_volume(&text).unwrap()).unwrap()
}

fn by_meaning(
    snapshot: &Snapshot,
    query: &str,
    dense: [f32; 3],
    terms: &[(u32, f32)],
    by_words: bool,
) -> Found {
    let vectors = QueryVectors {
        model: MODEL.to_owned(),
        dense: dense.to_vec(),
        terms: terms.to_vec(),
    };
    let request = Request {
        by_words,
        vectors: Some(vectors),
        ..request(query, FUZZY)
    };
    search(&[snapshot], &request, &|| false).unwrap()
}

#[test]
fn pages_are_found_by_the_meaning_of_their_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let index = IndexFolder::new(folder.path().to_owned());
    let mut writer = index.writer().unwrap();
    let (near, far) = ([0.9, 0.1, 0.0], [0.0, 0.1, 0.9]);
    writer
        .update(
            vec![embedded(
                "W1-I1",
                "1",
                &[("lease", far, &[(7, 1.0)]), ("rent", near, &[])],
            )],
            &[],
        )
        .unwrap();
    writer
        .update(vec![volume("W2-I1", "1", &[&["rent as a word"]])], &[])
        .unwrap();
    writer
        .update(vec![embedded("W3-I1", "1", &[("gone", near, &[])])], &[])
        .unwrap();
    writer
        .update(vec![embedded("W3-I1", "2", &[("other", far, &[])])], &[])
        .unwrap();
    for _ in 0..2 {
        let found = index.snapshot().unwrap();
        assert!(!found.has_vectors_of_others(MODEL) && found.has_vectors_of_others("sha256:2"));
        let hits = by_meaning(&found, "hire", [1.0, 0.0, 0.0], &[], false);
        assert_eq!(pages(&hits), ["W1-I1-2"]);
        assert_eq!(hits.hits[0].passage.as_deref(), Some("rent"));
        assert_eq!(hits.hits[0].lines, []);
        let hits = by_meaning(&found, "hire", [1.0, 0.0, 0.0], &[(7, 2.0)], false);
        assert_eq!(pages(&hits), ["W1-I1-2", "W1-I1-1"], "by its terms, too");
        let hits = by_meaning(&found, "rent", [1.0, 0.0, 0.0], &[], true);
        assert_eq!(
            pages(&hits),
            ["W1-I1-2", "W2-I1-1"],
            "what is found in both ways is first"
        );
        let hits = by_meaning(&found, "hire -lease +rent", [1.0, 0.0, 0.0], &[(7, 2.0)], true);
        assert_eq!(
            pages(&hits),
            ["W1-I1-2", "W2-I1-1"],
            "what must and must not be there"
        );
        // More chunks than pages have this language, which is no part of the statistics of words.
        let hits = by_meaning(&found, "rent -lang:en", [1.0, 0.0, 0.0], &[], true);
        assert_eq!(pages(&hits), ["W1-I1-2"], "the other page is English");
        let hits = by_meaning(&found, "volume:W3-I1 hire", [0.0, 0.0, 1.0], &[], true);
        assert_eq!(pages(&hits), ["W3-I1-1"]);
        assert_eq!(
            hits.hits[0].passage.as_deref(),
            Some("other"),
            "of the version that counts"
        );
        // The same again when all parts have become one.
        for number in 4..12 {
            writer
                .update(vec![volume(&format!("W{number}-I1"), "1", &[&["more"]])], &[])
                .unwrap();
        }
        while writer.compact().unwrap() {}
    }
}

#[test]
fn an_answer_goes_on_where_the_last_one_ended_over_several_jobs() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let lines: &[&str] = &["rent"];
    let one = index(folders[0].path(), vec![volume("W1-I1", "1", &[lines; 7])]);
    let other = index(folders[1].path(), vec![volume("W1-I1", "1", &[lines; 6])]);
    let all = search(
        &[&one, &other],
        &Request {
            limit: 20,
            ..request("rent", FUZZY)
        },
        &|| false,
    )
    .unwrap();
    assert_eq!((all.total, all.hits.len()), (13, 13));
    let page = |offset| {
        search(
            &[&one, &other],
            &Request {
                offset,
                limit: 5,
                ..request("rent", FUZZY)
            },
            &|| false,
        )
        .unwrap()
        .hits
    };
    let parts: Vec<_> = [0, 5, 10, 15].into_iter().flat_map(page).collect();
    assert_eq!(parts, all.hits);
}

#[test]
fn what_is_open_does_not_change_and_what_is_merged_does_not_move() {
    let folder = tempfile::tempdir().unwrap();
    let index = IndexFolder::new(folder.path().to_owned());
    let mut writer = index.writer().unwrap();
    for number in 0..20 {
        let line = format!("word{number}");
        writer
            .update(
                vec![volume(&format!("W{number}-I1"), "1", &[&[&line], &["all"]])],
                &[],
            )
            .unwrap();
    }
    let before = index.snapshot().unwrap();
    assert!(matches!(index.writer(), Err(SearchError::Locked(_))));
    writer
        .update(
            vec![volume("W3-I1", "2", &[&["other"], &["all"]])],
            &["W4-I1".to_owned()],
        )
        .unwrap();
    while writer.compact().unwrap() {}
    drop(writer);

    assert_eq!(find_literally(&before, "word3"), ["W3-I1-1"]);
    let after = index.snapshot().unwrap();
    assert_eq!(find_literally(&after, "word3"), Vec::<String>::new());
    assert_eq!(find_literally(&after, "other"), ["W3-I1-1"]);
    assert_eq!(find_literally(&after, "word4"), Vec::<String>::new());
    let all = search(
        &[&after],
        &Request {
            limit: 100,
            ..request("all", FUZZY)
        },
        &|| false,
    )
    .unwrap();
    assert_eq!(all.total, 19);
    let parts = fs::read_dir(folder.path()).unwrap().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with("part-")
    });
    assert!(parts.count() < 8);
    assert_eq!(index.volumes().unwrap().len(), 19);
    assert_eq!(index.volumes().unwrap()["W3-I1"], "2");
}

#[test]
fn a_part_without_a_list_is_removed_and_a_damaged_list_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let index = IndexFolder::new(folder.path().to_owned());
    assert!(index.volumes().unwrap().is_empty());
    index
        .writer()
        .unwrap()
        .update(vec![volume("W1-I1", "1", &[&["one"]])], &[])
        .unwrap();
    // As of a process that died between a part and its list.
    fs::create_dir(folder.path().join("part-000002")).unwrap();
    drop(index.writer().unwrap());
    assert!(!folder.path().join("part-000002").exists());
    assert_eq!(find(&index.snapshot().unwrap(), "one"), ["W1-I1-1"]);

    // A part that is gone is no longer in the index, and can be put in again.
    fs::remove_dir_all(folder.path().join("part-000001")).unwrap();
    assert!(index.snapshot().is_err());
    let mut writer = index.writer().unwrap();
    assert!(writer.volumes().is_empty());
    writer
        .update(vec![volume("W1-I1", "1", &[&["one"]])], &[])
        .unwrap();
    drop(writer);
    assert_eq!(find(&index.snapshot().unwrap(), "one"), ["W1-I1-1"]);

    fs::write(folder.path().join("index.json"), "{").unwrap();
    let error = index.snapshot().unwrap_err().to_string();
    assert!(error.contains("delete the folder"), "{error}");
    // Whoever writes begins anew.
    index
        .writer()
        .unwrap()
        .update(vec![volume("W2-I1", "1", &[&["two"]])], &[])
        .unwrap();
    assert_eq!(
        index.volumes().unwrap().into_keys().collect::<Vec<_>>(),
        ["W2-I1"]
    );
}

#[test]
fn an_index_that_is_written_is_not_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let index = IndexFolder::new(folder.path().join("job"));
    let mut writer = index.writer().unwrap();
    writer
        .update(vec![volume("W1-I1", "1", &[&["one"]])], &[])
        .unwrap();
    assert!(matches!(index.delete(), Err(SearchError::Locked(_))));
    drop(writer);
    index.delete().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_one_volume_that_is_searched_is_no_alternative() {
    let folder = tempfile::tempdir().unwrap();
    let volumes = vec![
        volume("W1-I1", "1", &[&["rent"]]),
        volume("W2-I1", "1", &[&["rent"]]),
    ];
    let found = index(folder.path(), volumes);
    let mut request = request("rent volume:W2-I1", FUZZY);
    assert_eq!(search(&[&found], &request, &|| false).unwrap().total, 1);
    request.query.volume = Some("W1-I1".to_owned());
    assert_eq!(search(&[&found], &request, &|| false).unwrap().total, 0);
}

#[test]
fn a_search_that_nobody_waits_for_ends_at_its_next_look() {
    let folder = tempfile::tempdir().unwrap();
    let found = index(
        folder.path(),
        vec![volume("W1-I1", "1", &[&["rent of the lease"][..]; 20])],
    );
    let request = request("rent lease", FUZZY);
    let ends_after = |most: usize| {
        let looks = std::cell::Cell::new(0);
        let ended = search(&[&found], &request, &|| looks.replace(looks.get() + 1) >= most);
        (matches!(ended, Err(SearchError::Cancelled)), looks.get())
    };
    let (is_cancelled, all) = ends_after(usize::MAX);
    assert!(!is_cancelled && all > 10, "{all}");
    for most in 0..all {
        let (is_cancelled, looks) = ends_after(most);
        // One in a dictionary ends the look-up of each term first.
        assert!(is_cancelled && looks <= most + 3, "{most} {looks}");
    }
}

/// Change of an index.
#[derive(Debug, Clone)]
enum Change {
    Update { volume: u8, words: Vec<u8> },
    Remove { volume: u8 },
    Compact,
    Reopen,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (0_u8..6, prop::collection::vec(0_u8..5, 0..4)).prop_map(|(volume, words)| Change::Update { volume, words }),
        2 => (0_u8..6).prop_map(|volume| Change::Remove { volume }),
        2 => Just(Change::Compact),
        1 => Just(Change::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Each word is a page of its own, so what is found can be told without an engine.
    #[test]
    fn whatever_happens_to_an_index_it_holds_the_last_version_of_each_volume(changes in prop::collection::vec(change(), 1..20)) {
        let folder = tempfile::tempdir().unwrap();
        let index = IndexFolder::new(folder.path().to_owned());
        let mut writer = index.writer().unwrap();
        let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (version, change) in changes.into_iter().enumerate() {
            match change {
                Change::Update { volume: number, words } => {
                    let name = format!("W{number}-I1");
                    let lines: Vec<String> = words.iter().map(|word| format!("word{word}")).collect();
                    let pages: Vec<[&str; 1]> = lines.iter().map(|line| [line.as_str()]).collect();
                    let pages: Vec<&[&str]> = pages.iter().map(|page| page.as_slice()).collect();
                    writer.update(vec![volume(&name, &version.to_string(), &pages)], &[]).unwrap();
                    model.insert(name, words);
                }
                Change::Remove { volume } => {
                    let name = format!("W{volume}-I1");
                    writer.update(Vec::new(), std::slice::from_ref(&name)).unwrap();
                    model.remove(&name);
                }
                Change::Compact => { writer.compact().unwrap(); }
                Change::Reopen => {
                    drop(writer);
                    writer = index.writer().unwrap();
                }
            }
        }
        let snapshot = index.snapshot().unwrap();
        prop_assert_eq!(index.volumes().unwrap().into_keys().collect::<Vec<_>>(), model.keys().cloned().collect::<Vec<_>>());
        for word in 0..5_u8 {
            let mut expected: Vec<String> = model
                .iter()
                .flat_map(|(name, words)| words.iter().zip(1..).filter(|(other, _)| **other == word).map(move |(_, page)| format!("{name}-{page}")))
                .collect();
            let literal = Freedom { is_fuzzy: false, ..FUZZY };
            let found = search(&[&snapshot], &Request { limit: 100, ..request(&format!("word{word}"), literal) }, &|| false).unwrap();
            let mut found_pages = pages(&found);
            expected.sort();
            found_pages.sort();
            prop_assert_eq!(found.total, expected.len());
            prop_assert_eq!(found_pages, expected);
        }
    }
}
