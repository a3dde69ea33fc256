//! Queries that anybody may type, and damaged indexes of volumes: each is answered or refused, soon.

#![expect(clippy::unwrap_used, reason = "a failed test should stop where it fails")]

mod requests;

use parkhang_fuzz::Fuzz;
use parkhang_search::{AddedVolume, IndexFolder, PageText, VolumeText, index_volume, search};

use self::requests::{FUZZY, request};

fn packed() -> Vec<u8> {
    let page = |(number, lines): (u32, &[&str])| PageText {
        number,
        name: format!("p{number}"),
        language: ["bo", "en"][number as usize % 2].to_owned(),
        headings: Vec::new(),
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
    };
    let pages: [&[&str]; 2] = [
        &["# Annual report", "profit of the year 2024"],
        &["བཀྲ་ཤིས་བདེ་ལེགས།", "ཨོཾ་མ་ཎི་པདྨེ"],
    ];
    let text = VolumeText {
        volume: "W1-I1".to_owned(),
        pages: (1..).zip(pages).map(page).collect(),
        ..VolumeText::default()
    };
    index_volume(&text).unwrap()
}

#[test]
fn fuzz_queries() {
    let folder = tempfile::tempdir().unwrap();
    let folder = IndexFolder::new(folder.path().to_owned());
    let volume = AddedVolume::open("W1-I1", "1", &packed()).unwrap();
    folder.writer().unwrap().update(vec![volume], &[]).unwrap();
    let snapshot = folder.snapshot().unwrap();
    let corpus = [
        "\"annual report\" -profit volume:W1-I1",
        "བཀྲ་ཤིས~ lang:bo heading:report",
        "(profit OR year) page:2 \"unfinished",
    ];
    Fuzz::of_texts("queries", corpus).feeds_texts(|text| {
        let _ = search(&[&snapshot], &request(text, FUZZY), &|| false);
    });
}

#[test]
fn fuzz_indexes_of_volumes() {
    Fuzz::new("indexes-of-volumes", [packed()]).feeds(|bytes| {
        let _ = AddedVolume::open("W1-I1", "1", bytes);
    });
}
