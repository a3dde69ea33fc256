use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Classes 0 to 4 with the units 0, 1, 2, 2 and 0; the n-grams 1, 2, 1 1 and 1 2, and after 1 2 again 1.
fn file() -> Vec<u8> {
    let mut bytes = b"PKNG\x01\x03".to_vec();
    bytes.extend(5_u16.to_le_bytes());
    for size in [2_u32, 2, 1] {
        bytes.extend(size.to_le_bytes());
    }
    for unit in [0_u16, 1, 2, 2, 0] {
        bytes.extend(unit.to_le_bytes());
    }
    // Units, costs, weights, children.
    bytes.extend([
        1,
        0,
        2,
        0,
        16,
        32,
        0_i8.cast_unsigned(),
        (-16_i8).cast_unsigned(),
        2,
        0,
        0,
        0,
    ]);
    bytes.extend([1, 0, 2, 0, 8, 4, 0, (-8_i8).cast_unsigned(), 0, 0, 1, 0]);
    bytes.extend([1, 0, 2]);
    bytes
}

pub(crate) fn ngrams() -> Ngrams {
    Ngrams::parse(&packed(&file())).unwrap()
}

fn log_probs(ngrams: &Ngrams, classes: &[usize]) -> Vec<f32> {
    let mut history = History::EMPTY;
    let steps = classes.iter().map(|class| {
        let (log_prob, after) = ngrams.step(&history, *class).unwrap_or((0.0, history));
        history = after;
        log_prob
    });
    steps.collect()
}

#[test]
fn the_longest_n_gram_counts_and_what_is_missing_backs_off() {
    let ngrams = ngrams();
    assert_eq!(log_probs(&ngrams, &[1, 1]), [-1.0, -0.5]);
    assert_eq!(log_probs(&ngrams, &[1, 2, 1]), [-1.0, -0.25, -0.125]);
    // Nothing begins with 2: its weight and the single unit.
    assert_eq!(log_probs(&ngrams, &[2, 2]), [-2.0, -1.0 + -2.0]);
    // 1 2 2 is missing, and so is 2 2: the weights of 1 2 and of 2.
    assert_eq!(log_probs(&ngrams, &[1, 2, 2]), [-1.0, -0.25, -0.5 + -1.0 + -2.0]);
    // Class 3 is the same unit as class 2.
    assert_eq!(log_probs(&ngrams, &[1, 3, 1]), log_probs(&ngrams, &[1, 2, 1]));
}

#[test]
fn what_is_passed_over_changes_nothing() {
    let ngrams = ngrams();
    assert_eq!(log_probs(&ngrams, &[1, 4, 2]), [-1.0, 0.0, -0.25]);
    let model = LanguageModel {
        ngrams,
        weight: 0.5,
        bonus: 1.0,
    };
    assert_eq!(model.step(&History::EMPTY, 4), (0.0, History::EMPTY));
    assert_eq!(model.step(&History::EMPTY, 1).0, 0.5);
}

#[test]
fn a_damaged_file_is_refused() {
    let refused = |bytes: &[u8]| Ngrams::parse(&packed(bytes)).unwrap_err().to_string();
    let whole = file();
    for end in 0..whole.len() {
        assert!(Ngrams::parse(&packed(&whole[..end])).is_err(), "{end}");
    }
    assert_eq!(
        refused(&[&whole[..], &[0]].concat()),
        "ends too early, or too late"
    );
    assert_eq!(refused(b"PKNH\x01\x03"), "not a file of n-grams");
    assert_eq!(
        refused(b"PKNG\x02\x03"),
        "format version 2; this program knows version 1"
    );
    assert_eq!(
        refused(b"PKNG\x01\x09"),
        "n-grams of up to 9; this program reads 1 to 8"
    );
    let mut disordered = whole;
    disordered[30] = 3;
    assert_eq!(refused(&disordered), "n-grams of length 1 are not in order");
    assert!(matches!(Ngrams::parse(b"no gzip"), Err(NgramError::Unpack(_))));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), classes in prop::collection::vec(0..300_usize, 0..20)) {
        let mut file = b"PKNG\x01".to_vec();
        file.extend(&bytes);
        if let Ok(ngrams) = Ngrams::parse(&packed(&file)) {
            log_probs(&ngrams, &classes);
        }
    }

    #[test]
    fn a_step_does_not_depend_on_what_is_further_back_than_the_order(far in prop::collection::vec(1..4_usize, 0..6), near in prop::collection::vec(1..4_usize, 2..4), class in 1..4_usize) {
        let ngrams = ngrams();
        let last = |classes: Vec<usize>| *log_probs(&ngrams, &classes).last().unwrap();
        let long = [far, near.clone(), vec![class]].concat();
        prop_assert_eq!(last(long), last([near, vec![class]].concat()));
    }
}
