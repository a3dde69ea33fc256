//! Texts with the ids that other programs give them.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Golden {
    pub(crate) text: String,
    pub(crate) sentence_piece: Vec<u32>,
    pub(crate) word_piece: Vec<u32>,
}

pub(crate) fn golden() -> Vec<Golden> {
    let texts: Vec<Golden> = serde_json::from_str(include_str!("../tests/data/tokens.json")).unwrap();
    assert!(texts.len() > 150);
    texts
}
