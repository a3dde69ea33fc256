//! Vectors of texts.

use std::collections::BTreeSet;

use crate::inference::{InferenceError, Terms};
use crate::models::EmbeddingModels;
use crate::terms::counted;

/// Vectors of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// Direction of the text's meaning, of length 1.
    pub dense: Vec<f32>,
    pub sparse: Terms,
}

/// Dense vectors of texts, in order. What is longer than the network takes is cut off.
///
/// # Errors
/// [`InferenceError`] of the network.
pub fn dense(texts: &[&str], models: &EmbeddingModels) -> Result<Vec<Vec<f32>>, InferenceError> {
    let [start, end] = models.dense_tokenizer.marks();
    let longest = models.dense.longest().saturating_sub(2);
    let tokens = |text: &&str| {
        let tokens = models.dense_tokenizer.encode(text);
        let mut ids = vec![start];
        ids.extend(tokens.into_iter().take(longest).map(|token| token.id));
        // Its own program takes a text without tokens for an unknown one.
        if ids.len() == 1 {
            ids.push(models.dense_tokenizer.unknown());
        }
        ids.push(end);
        ids
    };
    let texts: Vec<Vec<u32>> = texts.iter().map(tokens).collect();
    models.dense.vectors(&texts)
}

/// Sparse vectors of texts, in order: of words the largest weight of each term in windows of as many tokens as the network takes, of
/// Chinese and Tibetan the counted terms.
///
/// # Errors
/// [`InferenceError`] of the network.
pub fn sparse(texts: &[&str], models: &EmbeddingModels) -> Result<Vec<Terms>, InferenceError> {
    let [start, end] = models.sparse_tokenizer.marks();
    let of_a_window = models.sparse.longest().saturating_sub(2).max(1);
    let (mut windows, mut vectors) = (Vec::new(), Vec::with_capacity(texts.len()));
    for text in texts {
        let (terms, words) = counted(text);
        let before = windows.len();
        // Marks alone are about nothing, though the network says something of them.
        let ids = match words.contains(char::is_alphanumeric) {
            true => models.sparse_tokenizer.encode(&words),
            false => Vec::new(),
        };
        windows.extend(
            ids.chunks(of_a_window)
                .map(|ids| [&[start], ids, &[end]].concat()),
        );
        // Nor are numbers, such as those of a Chinese text: the network weighs them, and adds nothing.
        let only = (!words.contains(char::is_alphabetic)).then(|| BTreeSet::from_iter(ids));
        vectors.push((windows.len() - before, only, terms));
    }
    let mut of_windows = models.sparse.vectors(&windows)?.into_iter();
    Ok(vectors
        .into_iter()
        .map(|(count, only, counted)| {
            let mut words = largest(of_windows.by_ref().take(count));
            if let Some(only) = only {
                words.retain(|(term, _)| only.contains(term));
            }
            // The counted terms are behind those of the network.
            words.into_iter().chain(counted).collect()
        })
        .collect())
}

/// The largest weight of each term.
fn largest(windows: impl Iterator<Item = Terms>) -> Terms {
    let mut terms: Terms = windows.flatten().collect();
    terms.sort_by(|(one, heavy), (other, light)| one.cmp(other).then(light.total_cmp(heavy)));
    terms.dedup_by_key(|(term, _)| *term);
    terms
}
