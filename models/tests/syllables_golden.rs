//! Syllables and Wylie against upstream programs; see `golden/ctc/README.md`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod golden;

use golden::Golden;
use parkhang_models::recognition::charset::Charset;
use parkhang_models::recognition::ctc::{Decoding, LogProbs, greedy};
use parkhang_models::recognition::ewts::to_unicode;
use parkhang_models::recognition::syllable::{FrameToPixel, segments};
use serde::Deserialize;

#[derive(Deserialize)]
struct Syllables {
    delimiters: Vec<char>,
    split: Vec<Split>,
    segments: Vec<Segments>,
}

#[derive(Deserialize)]
struct Split {
    text: String,
    /// Letters and delimiters of each syllable.
    syllables: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Segments {
    original_width: u32,
    num_frames: usize,
    frames: String,
    text_frames: Vec<(String, (usize, usize))>,
    segments: Vec<(u32, u32, String, serde_json::Value)>,
}

/// Writes a text with one class per character, each in a frame of its own.
fn write(text: &str) -> (Charset, Decoding) {
    let mut labels: Vec<char> = text.chars().chain(['x']).collect();
    labels.sort_unstable();
    labels.dedup();
    let classes = labels.len() + 1;
    let shown = text
        .chars()
        .flat_map(|c| [labels.binary_search(&c).unwrap() + 1, 0]);
    let values: Vec<f32> = shown
        .flat_map(|shown| (0..classes).map(move |class| if class == shown { 0.0 } else { -30.0 }))
        .collect();
    let charset = Charset::new(labels.iter().map(char::to_string)).unwrap();
    let decoding = greedy(
        &LogProbs::new(values.len() / classes, classes, values).unwrap(),
        &charset,
    );
    assert_eq!(decoding.text, text);
    (charset, decoding)
}

#[test]
fn lines_are_split_into_the_same_syllables() {
    let golden: Syllables = Golden::open("ctc").json("syllables.json");
    for Split {
        text,
        syllables: expected,
    } in golden.split
    {
        let (charset, decoding) = write(&text);
        let ours = segments(
            &decoding,
            &charset,
            &FrameToPixel {
                frames: 0..decoding.frames,
                columns: 0..1000,
            },
        );
        assert_eq!(
            ours.iter()
                .map(|syllable| syllable.text.as_str())
                .collect::<String>(),
            text
        );
        let letters: Vec<String> = ours
            .iter()
            .map(|syllable| syllable.text.replace(golden.delimiters.as_slice(), ""))
            .collect();
        let expected: Vec<String> = expected.into_iter().map(|(letters, _)| letters).collect();
        assert_eq!(letters, expected, "{text:?}");
    }
}

#[test]
fn frames_stand_at_the_same_columns() {
    let golden: Syllables = Golden::open("ctc").json("syllables.json");
    let mut compared = 0;
    for case in golden.segments.iter().filter(|case| case.frames == "matching") {
        let scale = FrameToPixel {
            frames: 0..case.num_frames,
            columns: 0..case.original_width,
        };
        for ((_, (start, end)), (x_start, x_end, ..)) in case.text_frames.iter().zip(&case.segments) {
            assert_eq!((scale.column(*start), scale.column(*end)), (*x_start, *x_end));
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn decoded_wylie_lines_become_unicode() {
    #[derive(Deserialize)]
    struct Line {
        after_strip_and_section_sign: Option<String>,
        unicode: Option<String>,
    }
    let lines: Vec<Line> = Golden::open("ctc").json_lines("gen1_inf.jsonl");
    let converted = lines.iter().filter_map(|line| {
        line.after_strip_and_section_sign
            .as_ref()
            .zip(line.unicode.as_ref())
    });
    // `pyewts` 0.2.0 does not know `&`.
    let converted = converted.filter(|(wylie, _)| !wylie.contains('&'));
    let mut compared = 0;
    for (wylie, unicode) in converted {
        assert_eq!(to_unicode(wylie), *unicode);
        compared += 1;
    }
    assert!(compared >= 10, "{compared}");
}
