//! CTC decoding against upstream programs; see `golden/ctc/README.md`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod golden;

use golden::Golden;
use parkhang_models::inference::Logits;
use parkhang_models::recognition::charset::{Charset, CharsetError};
use parkhang_models::recognition::ctc::{
    BeamSearch, Decoding, LogProbs, greedy, kept_classes, log_softmax, n_best,
};
use parkhang_models::recognition::line_image::PreparedLine;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(untagged)]
enum Labels {
    Characters(String),
    List(Vec<String>),
}

impl Labels {
    fn charset(&self) -> Result<Charset, CharsetError> {
        match self {
            Self::Characters(text) => Charset::new(text.chars().map(String::from)),
            Self::List(labels) => Charset::new(labels.iter().cloned()),
        }
    }
}

#[derive(Deserialize)]
struct Case {
    id: usize,
    kind: String,
    logprobs: String,
    charset: Labels,
    ocrv1: Option<Answers>,
    ocrv1_pruned: Option<Pruned>,
    greedy: Option<String>,
    greedy_confidence: Option<GreedyConfidence>,
}

/// Texts that the programs of the first generation read from the matrix of a case; no text where they failed.
#[derive(Deserialize)]
struct FirstGeneration {
    id: usize,
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answers {
    Beams(Vec<Beam>),
    Failed { upstream_error: String },
}

#[derive(Deserialize)]
struct Beam {
    text: String,
    logit_score: f32,
}

#[derive(Deserialize)]
struct Pruned {
    keep: Option<Vec<usize>>,
    text: Option<String>,
    logit_score: Option<f32>,
}

#[derive(Deserialize)]
struct GreedyConfidence {
    confidence: serde_json::Value,
}

/// Answers of upstream that this project does not repeat.
#[derive(Debug, PartialEq, Eq)]
enum UpstreamBug {
    /// A label `|` is taken for the space between words if the charset has no space: U+0F11 is lost.
    PipeBecomesSpace,
    /// A label that starts with `##` makes all labels parts of words, and spaces appear between them.
    HashLabelsAreWordPieces,
}

fn upstream_bug(charset: &Charset) -> Option<UpstreamBug> {
    let labels: Vec<&str> = (1..charset.classes()).map(|class| charset.label(class)).collect();
    if labels.iter().any(|label| label.starts_with("##")) {
        Some(UpstreamBug::HashLabelsAreWordPieces)
    } else if labels.contains(&"|") && !labels.contains(&" ") {
        Some(UpstreamBug::PipeBecomesSpace)
    } else {
        None
    }
}

fn is_close(ours: f32, theirs: f32) -> bool {
    (ours - theirs).abs() <= 1e-3 + 1e-5 * theirs.abs()
}

/// Our text as upstream would have written it.
fn as_upstream(text: &str, bug: Option<&UpstreamBug>) -> String {
    match bug {
        Some(UpstreamBug::PipeBecomesSpace) => text
            .replace('|', " ")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
        _ => text.to_owned(),
    }
}

fn check_beams(charset: &Charset, log_probs: &LogProbs, beams: &[Beam]) -> Result<(), String> {
    let bug = upstream_bug(charset);
    let search = BeamSearch {
        vocabulary_prune_log_prob: None,
        ..BeamSearch::default()
    };
    let ours: Vec<Decoding> = n_best(log_probs, charset, &search, None, 64);
    if bug == Some(UpstreamBug::HashLabelsAreWordPieces) {
        let first: String = ours[0]
            .tokens
            .iter()
            .map(|token| charset.label(token.class))
            .collect();
        assert_eq!(ours[0].text, first);
        return is_close(ours[0].log_score, beams[0].logit_score)
            .then_some(())
            .ok_or_else(|| "score".to_owned());
    }
    for (place, beam) in beams.iter().enumerate() {
        if !ours
            .get(place)
            .is_some_and(|ours| is_close(ours.log_score, beam.logit_score))
        {
            let scores: Vec<f32> = ours.iter().take(5).map(|ours| ours.log_score).collect();
            return Err(format!(
                "score {place}: {} expected in {scores:?}",
                beam.logit_score
            ));
        }
        // The order of equal beams is not defined, nor which of them survive.
        let is_tied = beams
            .iter()
            .filter(|other| (other.logit_score - beam.logit_score).abs() < 1e-4)
            .count()
            > 1;
        let known = ours
            .iter()
            .find(|ours| as_upstream(&ours.text, bug.as_ref()) == beam.text);
        if !is_tied && !known.is_some_and(|ours| is_close(ours.log_score, beam.logit_score)) {
            return Err(format!(
                "{:?} ({}), found {:?}",
                beam.text,
                beam.logit_score,
                known.map(|k| k.log_score)
            ));
        }
    }
    Ok(())
}

fn check_pruned(charset: &Charset, log_probs: &LogProbs, pruned: &Pruned) -> Result<(), String> {
    let bug = upstream_bug(charset);
    let Pruned {
        keep: Some(keep),
        text: Some(text),
        logit_score: Some(score),
    } = pruned
    else {
        return Ok(());
    };
    if kept_classes(log_probs, -10.0) != *keep {
        return Err("kept classes".to_owned());
    }
    let best = &n_best(log_probs, charset, &BeamSearch::default(), None, 2);
    let is_tied = best.len() > 1 && (best[0].log_score - best[1].log_score).abs() < 1e-4;
    let same_text = as_upstream(&best[0].text, bug.as_ref()) == *text || is_tied;
    if bug != Some(UpstreamBug::HashLabelsAreWordPieces) && !same_text || !is_close(best[0].log_score, *score)
    {
        return Err(format!(
            "pruned: {:?} {} for {text:?} {score}",
            best[0].text, best[0].log_score
        ));
    }
    Ok(())
}

fn check_greedy(case: &Case, charset: &Charset, log_probs: &LogProbs) -> Result<(), String> {
    let (Some(text), Some(expected)) = (&case.greedy, &case.greedy_confidence) else {
        return Ok(());
    };
    let ours = greedy(log_probs, charset);
    if ours.text != *text {
        return Err(format!("greedy: {:?} for {text:?}", ours.text));
    }
    assert!((0.0..=1.0).contains(&ours.confidence));
    // Upstream counts an empty label as written.
    let has_empty_label = (1..charset.classes()).any(|class| charset.label(class).is_empty());
    if let (Some(expected), false) = (expected.confidence.as_f64(), has_empty_label) {
        let first: f32 = ours
            .tokens
            .iter()
            .map(|token| log_probs.frame(token.start_frame)[token.class])
            .sum();
        let mean = first / ours.tokens.len() as f32;
        if (mean - expected as f32).abs() > 1e-4 {
            return Err(format!("greedy confidence {mean} for {expected}"));
        }
    }
    Ok(())
}

fn check_cases(golden: &Golden) {
    let cases: Vec<Case> = golden.json_lines("cases.jsonl");
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    for case in &cases {
        let (frames, classes, values) = golden.matrix(&case.logprobs);
        let charset = match case.charset.charset() {
            Ok(charset) if charset.classes() == classes => charset,
            _ => {
                let upstream_failed = matches!(&case.ocrv1, None | Some(Answers::Failed { .. }));
                assert!(upstream_failed, "case {}", case.id);
                refused.push(case.kind.as_str());
                continue;
            }
        };
        let log_probs = LogProbs::new(frames, classes, values).unwrap();
        let mut note = |result: Result<(), String>| {
            wrong.extend(
                result
                    .err()
                    .map(|error| format!("{} {}: {error}", case.id, case.kind)),
            );
        };
        match &case.ocrv1 {
            Some(Answers::Beams(beams)) => note(check_beams(&charset, &log_probs, beams)),
            Some(Answers::Failed { upstream_error }) => panic!("case {}: {upstream_error}", case.id),
            None => {}
        }
        if let Some(pruned) = &case.ocrv1_pruned {
            note(check_pruned(&charset, &log_probs, pruned));
        }
        note(check_greedy(case, &charset, &log_probs));
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    assert_eq!(refused, ["edge_duplicate_label", "edge_wrong_width"]);
}

/// Cases that the programs of the first generation read otherwise: one whose label `_` they take for the blank, one where they
/// lose the best hypothesis because another one ends alike (`prune_history` of pyctcdecode), and three noisy ones of the
/// desktop application, whose blank is a label of its own.
fn read_otherwise(file: &str) -> &[usize] {
    match file {
        "gen1_inf.jsonl" => &[27, 51],
        _ => &[12, 13, 24, 27, 51],
    }
}

/// The programs search 100 hypotheses, with classes from -5, over scores that they normalise first.
fn check_first_generation(golden: &Golden, file: &str) -> usize {
    let lines: Vec<FirstGeneration> = golden.json_lines(file);
    let cases: Vec<Case> = golden.json_lines("cases.jsonl");
    let search = BeamSearch {
        width: 100,
        token_min_log_prob: -5.0,
        vocabulary_prune_log_prob: None,
        ..BeamSearch::default()
    };
    let mut compared = 0;
    for FirstGeneration { id, text } in lines {
        let case = cases.iter().find(|case| case.id == id);
        let (Some(text), Some(case)) = (text, case) else {
            continue;
        };
        let charset = case.charset.charset().unwrap();
        let (frames, classes, values) = golden.matrix(&case.logprobs);
        let log_probs = log_softmax(Logits {
            frames,
            classes,
            values,
        });
        let ours = n_best(&log_probs.unwrap(), &charset, &search, None, 1)
            .remove(0)
            .text;
        let same = as_upstream(&ours, upstream_bug(&charset).as_ref()) == text;
        let what = format!("{file} {id} {}: {ours:?} and {text:?}", case.kind);
        assert_eq!(same, !read_otherwise(file).contains(&id), "{what}");
        compared += 1;
    }
    compared
}

#[test]
fn the_first_generation_read_the_same() {
    assert_eq!(check_first_generation(&Golden::open("ctc"), "gen1_inf.jsonl"), 8);
}

#[test]
fn the_first_generation_read_the_same_on_the_full_set() {
    if let Some(golden) = Golden::open_full("ctc") {
        let compared = ["gen1_inf.jsonl", "gen1_app.jsonl"].map(|file| check_first_generation(&golden, file));
        assert_eq!(compared, [22, 22]);
    }
}

#[test]
fn beam_search_and_greedy() {
    check_cases(&Golden::open("ctc"));
}

#[test]
fn beam_search_and_greedy_on_the_full_set() {
    if let Some(golden) = Golden::open_full("ctc") {
        check_cases(&golden);
    }
}

#[derive(Deserialize)]
struct Cases<T> {
    cases: Vec<T>,
}

fn line(width: usize, left_pad: usize, content_width: usize) -> PreparedLine {
    PreparedLine {
        height: 1,
        width,
        values: Vec::new(),
        left_pad,
        content_width,
        shown: 0..0,
        inked: None,
    }
}

#[test]
fn frames_of_the_line_are_kept() {
    #[derive(Deserialize)]
    struct Crop {
        input_width: usize,
        #[serde(rename = "T")]
        frames: usize,
        left_pad: usize,
        content_width: usize,
        start: usize,
        n: usize,
    }
    let Cases::<Crop> { cases } = Golden::open("ctc").json("frame_crop.json");
    assert!(cases.len() > 20);
    for case in cases {
        let frames = line(case.input_width, case.left_pad, case.content_width).content_frames(case.frames);
        assert_eq!((frames.start, frames.len()), (case.start, case.n));
    }
}

#[test]
fn scores_are_cropped_normalised_and_pruned() {
    #[derive(Deserialize)]
    struct Prune {
        raw: String,
        #[serde(rename = "V")]
        classes: usize,
        #[serde(rename = "T")]
        frames: usize,
        apply_log_softmax: bool,
        content_width: usize,
        left_pad: usize,
        input_width: usize,
        keep: Vec<usize>,
        out_first_row: Vec<f32>,
        out_sum: f64,
    }
    let golden = Golden::open("ctc");
    let Cases::<Prune> { cases } = golden.json("prune.json");
    assert!(cases.len() > 10);
    // Otherwise upstream takes the scores for normalised; here they always are.
    for case in cases.iter().filter(|case| case.apply_log_softmax) {
        let (classes, frames, raw) = golden.matrix(&case.raw);
        assert_eq!((classes, frames), (case.classes, case.frames));
        let values: Vec<f32> = (0..frames)
            .flat_map(|t| (0..classes).map(move |c| (c, t)))
            .map(|(c, t)| raw[c * frames + t])
            .collect();
        let log_probs = log_softmax(Logits {
            frames,
            classes,
            values,
        })
        .unwrap();
        let content = line(case.input_width, case.left_pad, case.content_width).content_frames(frames);
        let log_probs = log_probs.crop(content);
        let kept = kept_classes(&log_probs, -10.0);
        assert_eq!(kept, case.keep, "{}", case.raw);
        let sum: f64 = log_probs
            .iter()
            .flat_map(|row| kept.iter().map(|&class| f64::from(row[class])))
            .sum();
        assert!(
            (sum - case.out_sum).abs() < 1e-2,
            "{}: {sum} for {}",
            case.raw,
            case.out_sum
        );
        // Upstream's matrix is classes x frames.
        for (frame, expected) in case.out_first_row.iter().enumerate() {
            assert!(
                (log_probs.frame(frame)[kept[0]] - expected).abs() < 1e-3,
                "{}",
                case.raw
            );
        }
    }
}
