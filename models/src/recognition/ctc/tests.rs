use std::collections::HashMap;

use proptest::prelude::*;

use super::{BeamSearch, Decoder, LogProbs, beam_search, greedy, log_softmax, n_best};
use crate::inference::Logits;
use crate::recognition::charset::Charset;
use crate::recognition::language::LanguageModel;
use crate::recognition::language::tests::ngrams;

const EVERYTHING: BeamSearch = BeamSearch {
    width: 100_000,
    token_min_log_prob: -1e9,
    beam_prune_log_prob: -1e9,
    vocabulary_prune_log_prob: None,
};

fn letters() -> Charset {
    Charset::new(["a", "b", "c"]).unwrap()
}

/// Up to `frames` frames of the blank and three letters.
fn log_probs(frames: usize) -> impl Strategy<Value = LogProbs> {
    prop::collection::vec(-6.0_f32..6.0, 4..=4 * frames).prop_map(|mut values| {
        let frames = values.len() / 4;
        values.truncate(frames * 4);
        log_softmax(Logits {
            frames,
            classes: 4,
            values,
        })
        .unwrap()
    })
}

/// Probability of every text, from all paths one by one.
fn probability_of_texts(log_probs: &LogProbs, charset: &Charset) -> HashMap<String, f64> {
    let classes = log_probs.classes();
    let mut texts = HashMap::new();
    for mut path in 0..classes.pow(log_probs.frames() as u32) {
        let (mut text, mut last, mut score) = (String::new(), 0, 0.0);
        for row in log_probs.iter() {
            let class = path % classes;
            path /= classes;
            if class != last {
                text.push_str(charset.label(class));
            }
            last = class;
            score += f64::from(row[class]);
        }
        *texts.entry(text).or_insert(0.0) += score.exp();
    }
    texts
}

proptest! {
    #[test]
    fn an_unpruned_search_finds_every_text_with_its_probability(log_probs in log_probs(5)) {
        let charset = letters();
        let expected = probability_of_texts(&log_probs, &charset);
        let found = n_best(&log_probs, &charset, &EVERYTHING, None, usize::MAX);
        prop_assert_eq!(found.len(), expected.len());
        for decoding in &found {
            let probability = f64::from(decoding.log_score).exp();
            prop_assert!((probability - expected[&decoding.text]).abs() < 1e-5, "{:?}", decoding.text);
        }
        let total: f64 = found.iter().map(|decoding| f64::from(decoding.log_score).exp()).sum();
        prop_assert!((total - 1.0).abs() < 1e-4, "{}", total);
        prop_assert!(found.is_sorted_by(|a, b| a.log_score >= b.log_score));
    }

    #[test]
    fn the_default_search_finds_the_most_probable_text_unless_it_is_close(log_probs in log_probs(5)) {
        let charset = letters();
        let all = n_best(&log_probs, &charset, &EVERYTHING, None, 2);
        let pruned = beam_search(&log_probs, &charset, &BeamSearch::default(), None);
        prop_assert!(pruned.log_score <= all[0].log_score + 1e-4);
        // What the pruning of classes below e^-3 takes away is at most this share of a frame.
        let is_clear = all.len() < 2 || all[0].log_score - all[1].log_score > 3.0;
        prop_assert!(!is_clear || pruned.text == all[0].text, "{:?} for {:?}", pruned.text, all[0].text);
    }

    #[test]
    fn one_beam_of_best_classes_is_the_best_path(log_probs in log_probs(30)) {
        let charset = letters();
        let search = BeamSearch { width: 1, token_min_log_prob: 1.0, ..BeamSearch::default() };
        let (beam, path) = (beam_search(&log_probs, &charset, &search, None), greedy(&log_probs, &charset));
        prop_assert!((beam.log_score - path.log_score).abs() < 1e-3);
        prop_assert_eq!(beam.tokens, path.tokens);
        prop_assert_eq!(beam.text, path.text);
    }

    #[test]
    fn tokens_lie_in_order_within_the_frames(log_probs in log_probs(40)) {
        let charset = letters();
        for decoder in [Decoder::Greedy, Decoder::default()] {
            let decoding = decoder.decode(&log_probs, &charset, None);
            let mut at = 0;
            for token in &decoding.tokens {
                prop_assert!(at <= token.start_frame && token.start_frame < token.end_frame);
                prop_assert!(token.log_prob <= 0.0);
                at = token.end_frame;
            }
            prop_assert!(at <= log_probs.frames());
            prop_assert!((0.0..=1.0).contains(&decoding.confidence));
            let text: String = decoding.tokens.iter().map(|token| charset.label(token.class)).collect();
            prop_assert_eq!(text, decoding.text);
        }
    }
}

/// Frames that are sure of one class each.
fn sure_of(shown: &[usize], classes: usize) -> LogProbs {
    let values = shown
        .iter()
        .flat_map(|&shown| (0..classes).map(move |class| if class == shown { -0.01 } else { -12.0 }))
        .collect();
    LogProbs::new(shown.len(), classes, values).unwrap()
}

#[test]
fn spaces_stand_only_between_words() {
    let charset = Charset::new(["a", "b", " "]).unwrap();
    let read = |shown: &[usize]| beam_search(&sure_of(shown, 4), &charset, &BeamSearch::default(), None);
    assert_eq!(read(&[3, 1, 3, 0, 3, 2, 3]).text, "a b");
    assert_eq!(read(&[3, 0, 3]).text, "");
    let words = read(&[3, 3, 1, 3, 3, 0, 3, 2, 2, 3, 0]);
    let frames: Vec<_> = words
        .tokens
        .iter()
        .map(|token| (token.start_frame, token.end_frame))
        .collect();
    assert_eq!(
        (words.text.as_str(), frames),
        ("a b", vec![(2, 3), (3, 5), (7, 9)])
    );
}

#[test]
fn one_text_in_two_spellings_is_one_hypothesis() {
    // Either the stack as a whole in the first frame, or its two parts.
    let charset = Charset::new(["ཀྲ", "ཀ", "ྲ", "ང"]).unwrap();
    let quarter = 0.25_f32.ln();
    let rows = [
        [-20.0, quarter, 0.3_f32.ln(), -20.0, 0.45_f32.ln()],
        [0.5_f32.ln(), -20.0, -20.0, 0.5_f32.ln(), -20.0],
    ];
    let log_probs = LogProbs::new(2, 5, rows.concat()).unwrap();
    let best = beam_search(&log_probs, &charset, &BeamSearch::default(), None);
    // 0.25 * 0.5 + 0.3 * 0.5 beats 0.45 * 0.5; neither spelling alone does.
    assert_eq!(best.text, "ཀྲ");
    assert!((best.log_score.exp() - 0.275).abs() < 1e-5);
}

#[test]
fn an_empty_label_parts_like_a_blank() {
    let charset = Charset::new(["a", ""]).unwrap();
    let log_probs = sure_of(&[1, 2, 1, 1, 2], 3);
    assert_eq!(
        beam_search(&log_probs, &charset, &BeamSearch::default(), None).text,
        "aa"
    );
    assert_eq!(greedy(&log_probs, &charset).text, "aa");
}

#[test]
fn nothing_to_read_is_no_text() {
    let charset = letters();
    let none = beam_search(
        &LogProbs::new(0, 4, vec![]).unwrap(),
        &charset,
        &BeamSearch::default(),
        None,
    );
    assert_eq!((none.text.as_str(), none.confidence), ("", 0.0));
    let blank = beam_search(&sure_of(&[0; 50], 4), &charset, &BeamSearch::default(), None);
    assert_eq!(blank.text, "");
    assert!((blank.confidence - (-0.01_f32).exp()).abs() < 1e-4);
}

#[test]
fn settings_have_names_and_defaults() {
    let named: Decoder = serde_json::from_str(r#"{"kind":"beam_search","width":8}"#).unwrap();
    assert_eq!(
        named,
        Decoder::BeamSearch(BeamSearch {
            width: 8,
            ..BeamSearch::default()
        })
    );
    assert_eq!(
        serde_json::to_string(&Decoder::Greedy).unwrap(),
        r#"{"kind":"greedy"}"#
    );
}

/// Classes for [`ngrams`]: after `a`, `b` is likelier than another `a`.
fn language(weight: f32, bonus: f32) -> LanguageModel {
    LanguageModel {
        ngrams: ngrams(),
        weight,
        bonus,
    }
}

#[test]
fn the_language_model_decides_between_what_looks_alike() {
    let charset = Charset::new(["a", "b", "c", " "]).unwrap();
    let rows: [[f32; 5]; 3] = [
        [0.01, 0.96, 0.01, 0.01, 0.01],
        [0.96, 0.01, 0.01, 0.01, 0.01],
        [0.01, 0.54, 0.43, 0.01, 0.01],
    ];
    let values = rows
        .iter()
        .flatten()
        .map(|probability| probability.ln())
        .collect();
    let log_probs = LogProbs::new(3, 5, values).unwrap();
    let read =
        |model: Option<&LanguageModel>| beam_search(&log_probs, &charset, &BeamSearch::default(), model);
    assert_eq!(read(None).text, "aa");
    let helped = read(Some(&language(1.0, 0.0)));
    assert_eq!(helped.text, "ab");
    assert!(
        helped.log_score < read(None).log_score,
        "the score is that of what was seen"
    );
    assert!(helped.confidence > 0.5 && helped.confidence < read(None).confidence);
}

proptest! {
    #[test]
    fn a_language_model_of_no_weight_changes_nothing(log_probs in log_probs(6)) {
        let (charset, search) = (letters(), BeamSearch::default());
        let without = n_best(&log_probs, &charset, &search, None, 9);
        let with = n_best(&log_probs, &charset, &search, Some(&language(0.0, 0.0)), 9);
        prop_assert_eq!(without, with);
    }
}
