//! Known places in a misread library: runs of six syllables, as they are spelled, are looked for in pages of which so many letters were taken
//! for look-alikes or for any other letter, with misread letters forgiven and as spelled. Printed are the shares of queries whose page is the
//! first, and among the first ten. The text is that of the file that `PARKHANG_BENCH_TEXT` names, each line once.

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::fs;

use parkhang_search::{
    AddedVolume, Freedom, IndexFolder, PageText, Request, Snapshot, VolumeText, index_volume, parse,
    query_tokens, search,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const LINES_OF_PAGE: usize = 6;
const LENGTH: usize = 110;
const QUERIES: usize = 400;
const SYLLABLES: usize = 6;
/// Letters that stand for each other, in pairs.
const ALIKE: [&str; 6] = ["ངད", "པབ", "ཚཙ", "\u{f72}\u{f7a}", "ཞན", "རང"];
/// Share of look-alikes among misread letters.
const LOOK_ALIKE: f64 = 0.6;

fn misread(text: &str, share: f64, rng: &mut StdRng) -> String {
    let letters: Vec<char> = text.chars().collect();
    let read = letters.iter().map(|letter| {
        let is_letter = matches!(letter, '\u{f40}'..='\u{fbc}');
        if !is_letter || !rng.random_bool(share) {
            return Some(*letter);
        }
        let pair = ALIKE
            .iter()
            .find(|pair| pair.contains(*letter))
            .filter(|_| rng.random_bool(LOOK_ALIKE));
        match pair {
            Some(pair) => pair.chars().find(|other| other != letter),
            None if rng.random_bool(0.5) => None,
            None => Some(letters[rng.random_range(0..letters.len())]),
        }
    });
    read.flatten().collect()
}

/// Place of a page among those that a query finds, from 0.
fn rank(snapshot: &Snapshot, query: &str, is_fuzzy: bool, page: &str) -> Option<usize> {
    let request = Request {
        query: parse(query),
        freedom: Freedom {
            is_fuzzy,
            transliterate: |_| None,
        },
        by_words: true,
        vectors: None,
        offset: 0,
        limit: 10,
    };
    search(&[snapshot], &request, &|| false)
        .unwrap()
        .hits
        .iter()
        .position(|hit| hit.name == page)
}

fn main() {
    let Ok(file) = std::env::var("PARKHANG_BENCH_TEXT") else {
        println!("PARKHANG_BENCH_TEXT names no file of lines: nothing is measured");
        return;
    };
    let text = fs::read_to_string(file).unwrap();
    let lines: Vec<String> = text
        .lines()
        .flat_map(|line| {
            let letters: Vec<char> = line.chars().collect();
            letters
                .chunks(LENGTH)
                .map(|letters| letters.iter().collect())
                .collect::<Vec<String>>()
        })
        .collect();
    println!(
        "{} lines, {QUERIES} queries of {SYLLABLES} syllables",
        lines.len()
    );
    println!(
        "{:>14} {:>22} {:>22}",
        "misread", "forgiven: first, 10", "as spelled: first, 10"
    );
    for share in [0.0, 0.01, 0.02, 0.05, 0.1] {
        let mut rng = StdRng::seed_from_u64(7);
        let pages = lines
            .chunks(LINES_OF_PAGE)
            .zip(1..)
            .map(|(lines, number)| PageText {
                number,
                name: format!("p{number}"),
                lines: lines.iter().map(|line| misread(line, share, &mut rng)).collect(),
                ..PageText::default()
            });
        let volume = VolumeText {
            volume: "W1-I1".to_owned(),
            pages: pages.collect(),
            ..VolumeText::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let index = IndexFolder::new(folder.path().to_owned());
        let added = AddedVolume::open("W1-I1", "1", &index_volume(&volume).unwrap()).unwrap();
        index.writer().unwrap().update(vec![added], &[]).unwrap();
        let snapshot = index.snapshot().unwrap();
        let mut found = [[0_usize; 2]; 2];
        let mut asked = 0;
        while asked < QUERIES {
            let at = rng.random_range(0..lines.len());
            let tokens = query_tokens(&lines[at]);
            if tokens.len() <= SYLLABLES {
                continue;
            }
            let first = rng.random_range(0..tokens.len() - SYLLABLES);
            let query = &lines[at][tokens[first].range.start..tokens[first + SYLLABLES - 1].range.end];
            // A formula that many pages have says nothing of one of them.
            if text.matches(query).count() > 1 {
                continue;
            }
            asked += 1;
            let page = format!("p{}", at / LINES_OF_PAGE + 1);
            for (way, is_fuzzy) in [true, false].into_iter().enumerate() {
                if let Some(rank) = rank(&snapshot, query, is_fuzzy, &page) {
                    found[way][1] += 1;
                    found[way][0] += usize::from(rank == 0);
                }
            }
        }
        let share_of = |count: usize| format!("{:.3}", count as f64 / QUERIES as f64);
        let [forgiven, spelled] = found.map(|[first, ten]| format!("{} {}", share_of(first), share_of(ten)));
        println!("{share:14.2} {forgiven:>22} {spelled:>22}");
    }
}
