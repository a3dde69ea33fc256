use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::golden::golden;

static FILE: &[u8] = include_bytes!("../../../weights/embeddings/dense/sp.model");
static TOKENIZER: LazyLock<SentencePiece> = LazyLock::new(|| SentencePiece::new(FILE).unwrap());

fn ids(text: &str) -> Vec<u32> {
    TOKENIZER.encode(text).iter().map(|token| token.id).collect()
}

#[test]
fn ids_are_those_of_sentence_piece() {
    for case in golden() {
        let mut ids = ids(&case.text);
        let unknown = TOKENIZER.unknown();
        ids.dedup_by(|one, other| *one == unknown && *other == unknown);
        assert_eq!(ids, case.sentence_piece, "{:?}", case.text);
    }
}

#[test]
fn tokens_cover_the_text_that_they_stand_for() {
    let text = "Revenue  rose \u{fb01}ne";
    let parts: Vec<&str> = TOKENIZER
        .tokens(text)
        .into_iter()
        .map(|bytes| &text[bytes])
        .collect();
    assert_eq!(parts.concat().replace(' ', ""), text.replace(' ', ""));
    assert_eq!(parts[0], "Revenue");
    assert_eq!(TOKENIZER.tokens("a\u{2603}\u{2603}b"), [0..1, 1..4, 4..7, 7..8]);
    // One character of the text that makes several tokens.
    let tokens = TOKENIZER.tokens("\u{fdfa}");
    assert!(tokens.len() > 2, "{tokens:?}");
    assert!(
        tokens.iter().all(|bytes| *bytes == (0..3) || bytes.is_empty()),
        "{tokens:?}"
    );
}

#[test]
fn a_damaged_model_is_refused_and_never_panics() {
    assert!(SentencePiece::new(&[]).is_err());
    for length in [1, 100, 10_000, FILE.len() - 300_000, FILE.len() - 10] {
        assert!(SentencePiece::new(&FILE[..length]).is_err(), "{length}");
    }
}

proptest! {
    #[test]
    fn any_text_has_tokens_in_its_order(text in "\\PC{0,80}|[ \t\n\u{3000}a-c\u{f00}-\u{fd8}\u{4e00}-\u{4e20}\u{fdf0}-\u{fdfc}]{0,60}") {
        let tokens = TOKENIZER.encode(&text);
        let mut end = 0;
        for token in &tokens {
            prop_assert!((token.id as usize) < TOKENIZER.vocabulary());
            prop_assert!(token.bytes.start >= end && token.bytes.end >= token.bytes.start);
            prop_assert!(text.is_char_boundary(token.bytes.start) && text.is_char_boundary(token.bytes.end));
            end = token.bytes.end;
        }
        prop_assert!(end <= text.len());
        prop_assert_eq!(tokens.len(), TOKENIZER.count(&text));
        // No token has more characters than the text makes, and the longest replacement makes 18.
        prop_assert!(tokens.len() <= 1 + 18 * text.chars().count());
    }
}
