use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::golden::golden;

static TOKENIZER: LazyLock<WordPiece> = LazyLock::new(|| {
    WordPiece::new(include_str!("../../../weights/embeddings/sparse/vocabulary.txt")).unwrap()
});

#[test]
fn ids_are_those_of_bert() {
    for case in golden() {
        assert_eq!(TOKENIZER.encode(&case.text), case.word_piece, "{:?}", case.text);
    }
    assert_eq!(TOKENIZER.marks(), [101, 102]);
    assert_eq!(TOKENIZER.vocabulary(), 30_522);
}

#[test]
fn a_vocabulary_that_contradicts_itself_is_refused() {
    let twice = WordPiece::new("[UNK]\n[CLS]\n[SEP]\na\na\n").unwrap_err();
    assert_eq!(twice.to_string(), "the vocabulary has `a` twice");
    assert!(matches!(
        WordPiece::new("[UNK]\n[SEP]\n"),
        Err(TokenizerError::NoSpecialToken("[CLS]"))
    ));
}

proptest! {
    #[test]
    fn any_text_has_ids_of_the_vocabulary(text in "(?s:.){0,200}") {
        let ids = TOKENIZER.encode(&text);
        prop_assert!(ids.iter().all(|id| (*id as usize) < TOKENIZER.vocabulary()));
        // A character decomposes into four at most, and each of these makes one token at most.
        prop_assert!(ids.len() <= 4 * text.chars().count());
    }
}
