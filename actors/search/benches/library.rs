//! A library of a million lines: how long its index takes to be made, how large it is, how soon it answers after a restart, and how long
//! ten kinds of queries take. The lines are those of the file that `PARKHANG_BENCH_TEXT` names, repeated with the look-alikes of a recogniser;
//! `PARKHANG_BENCH_LINES` is their number. Without a file nothing is measured.

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use parkhang_search::{
    AddedVolume, Freedom, IndexFolder, IndexWriter, PageText, Request, Snapshot, VolumeText, index_volume,
    parse, query_tokens, search,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const LINES_OF_PAGE: usize = 6;
const PAGES_OF_VOLUME: usize = 500;
/// Lines of a page of print are about so long, in letters.
const LENGTH: usize = 110;
/// Share of lines with a letter that was misread.
const MISREAD: f64 = 0.4;
const VOLUMES_AT_ONCE: usize = 64;
const QUERIES: usize = 200;

struct Library {
    lines: Vec<String>,
    rng: StdRng,
}

impl Library {
    fn read(file: &str) -> Self {
        let text = fs::read_to_string(file).unwrap();
        let lines = text.lines().flat_map(|line| {
            let letters: Vec<char> = line.chars().collect();
            letters
                .chunks(LENGTH)
                .map(|letters| letters.iter().collect())
                .collect::<Vec<String>>()
        });
        Self {
            lines: lines.filter(|line| line.chars().count() > LENGTH / 3).collect(),
            rng: StdRng::seed_from_u64(1),
        }
    }

    fn line(&mut self) -> String {
        let line = self.lines[self.rng.random_range(0..self.lines.len())].clone();
        if !self.rng.random_bool(MISREAD) {
            return line;
        }
        let alike = [("ང", "ད"), ("པ", "བ"), ("\u{f72}", ""), ("ཚ", "ཙ"), ("ས", "པ")];
        let (from, to) = alike[self.rng.random_range(0..alike.len())];
        line.replacen(from, to, 1)
    }

    fn volume(&mut self, number: usize, lines: usize) -> VolumeText {
        let pages = lines.div_ceil(LINES_OF_PAGE);
        let page = |number| PageText {
            number,
            name: format!("page-{number}"),
            language: "bo".to_owned(),
            headings: Vec::new(),
            lines: (0..LINES_OF_PAGE).map(|_| self.line()).collect(),
        };
        VolumeText {
            volume: format!("W{number}-I1"),
            pages: (1..).take(pages).map(page).collect(),
            ..VolumeText::default()
        }
    }

    /// So many syllables in a row, from somewhere.
    fn run(&mut self, syllables: usize) -> String {
        loop {
            let line = self.lines[self.rng.random_range(0..self.lines.len())].clone();
            let tokens = query_tokens(&line);
            if tokens.len() > syllables {
                let first = self.rng.random_range(0..tokens.len() - syllables);
                return line[tokens[first].range.start..tokens[first + syllables - 1].range.end].to_owned();
            }
        }
    }

    fn misread_run(&mut self, syllables: usize) -> String {
        loop {
            let run = self.run(syllables);
            let other = run.replacen('ང', "ད", 1);
            if other != run {
                return other;
            }
        }
    }
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            if path.is_dir() {
                size(&path)
            } else {
                path.metadata().unwrap().len()
            }
        })
        .sum()
}

fn ask(snapshot: &Snapshot, query: &str, is_fuzzy: bool, offset: usize) -> usize {
    let request = Request {
        query: parse(query),
        freedom: Freedom {
            is_fuzzy,
            transliterate: |_| None,
        },
        by_words: true,
        vectors: None,
        offset,
        limit: 10,
    };
    search(&[snapshot], &request, &|| false).unwrap().total
}

/// Merges what there is to merge, and returns the time since.
fn compacted(writer: &mut IndexWriter, began: Instant) -> Duration {
    while writer.compact().unwrap() {}
    began.elapsed()
}

fn main() {
    let Ok(file) = std::env::var("PARKHANG_BENCH_TEXT") else {
        println!("PARKHANG_BENCH_TEXT names no file of lines: nothing is measured");
        return;
    };
    let wanted: usize =
        std::env::var("PARKHANG_BENCH_LINES").map_or(1_000_000, |lines| lines.parse().unwrap());
    let mut library = Library::read(&file);
    let folder = tempfile::tempdir().unwrap();
    let index = IndexFolder::new(folder.path().join("index"));
    let mut writer = index.writer().unwrap();
    let (mut text, mut packed) = (0, 0);
    let (mut indexing, mut merging) = (Duration::ZERO, Duration::ZERO);
    let lines_of_volume = PAGES_OF_VOLUME * LINES_OF_PAGE;
    let volumes = wanted.div_ceil(lines_of_volume);
    for first in (0..volumes).step_by(VOLUMES_AT_ONCE) {
        let mut added = Vec::new();
        for number in first..volumes.min(first + VOLUMES_AT_ONCE) {
            let lines = (wanted - number * lines_of_volume).min(lines_of_volume);
            let volume = library.volume(number, lines);
            let lines = volume.pages.iter().flat_map(|page| &page.lines);
            text += lines.map(String::len).sum::<usize>();
            let began = Instant::now();
            let bytes = index_volume(&volume).unwrap();
            indexing += began.elapsed();
            packed += bytes.len();
            added.push(AddedVolume::open(&volume.volume, "1", &bytes).unwrap());
        }
        let began = Instant::now();
        writer.update(added, &[]).unwrap();
        merging += compacted(&mut writer, began);
    }
    drop(writer);
    let on_disk = size(folder.path());
    println!("{wanted} lines of {volumes} volumes, {} MB of text", text >> 20);
    println!(
        "volumes indexed in {:.1} s ({:.0} lines a second), put together in {:.1} s",
        indexing.as_secs_f64(),
        wanted as f64 / indexing.as_secs_f64(),
        merging.as_secs_f64()
    );
    println!(
        "index {} MB, {:.2} of the text; indexes of volumes {:.2}",
        on_disk >> 20,
        on_disk as f64 / text as f64,
        packed as f64 / text as f64
    );
    let first = library.run(3);
    let began = Instant::now();
    let snapshot = index.snapshot().unwrap();
    ask(&snapshot, &first, true, 0);
    println!(
        "first result after opening {:.1} ms",
        began.elapsed().as_secs_f64() * 1e3
    );
    println!("{:34} {:>9} {:>9} {:>10}", "query", "p50 ms", "p99 ms", "pages");
    type Kind = (&'static str, fn(&mut Library) -> String, bool, usize);
    let kinds: [Kind; 10] = [
        ("a syllable, as spelled", |library| library.run(1), false, 0),
        ("a syllable", |library| library.run(1), true, 0),
        ("2 syllables in a row", |library| library.run(2), true, 0),
        ("6 syllables in a row", |library| library.run(6), true, 0),
        (
            "6 syllables, one misread",
            |library| library.misread_run(6),
            true,
            0,
        ),
        ("20 syllables in a row", |library| library.run(20), true, 0),
        (
            "a phrase of 4, as spelled",
            |library| format!("\"{}\"", library.run(4)),
            false,
            0,
        ),
        (
            "three runs of 2",
            |library| format!("{} {} {}", library.run(2), library.run(2), library.run(2)),
            true,
            0,
        ),
        (
            "a run of 3 and not another",
            |library| format!("{} -{}", library.run(3), library.run(2)),
            true,
            0,
        ),
        (
            "a run of 2 in a volume, 100 deep",
            |library| format!("{} volume:W1*", library.run(2)),
            true,
            100,
        ),
    ];
    for (name, query, is_fuzzy, offset) in kinds {
        let mut times = Vec::new();
        let mut pages = 0;
        for _ in 0..QUERIES {
            let query = query(&mut library);
            let began = Instant::now();
            pages += ask(&snapshot, &query, is_fuzzy, offset);
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        println!("{name:34} {:9.1} {:9.1} {:10}", at(50), at(99), pages / QUERIES);
    }
}
