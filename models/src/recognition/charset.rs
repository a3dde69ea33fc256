//! The classes of a recogniser and the text that each one stands for.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Class 0 of every CTC network: "nothing new here".
pub const BLANK: usize = 0;

/// Spelling of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Tibetan letters.
    #[default]
    Unicode,
    /// Extended Wylie transliteration. Charsets write `§` for a space in it.
    Wylie,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CharsetError {
    #[error("the charset has no labels")]
    Empty,
    #[error("classes {first} and {second} of the charset have the same label {label:?}")]
    Duplicate {
        label: String,
        first: usize,
        second: usize,
    },
    #[error("the model has {model} classes, its charset needs {charset} (labels and the blank)")]
    ClassCount { model: usize, charset: usize },
}

/// The labels of a recogniser: class 0 is the CTC blank, class `i + 1` has label `i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charset {
    labels: Vec<String>,
    encoding: Encoding,
}

impl Charset {
    /// A charset of these labels, for the classes from 1 on. One label may be empty, as in the published stack charset: its
    /// class writes nothing, so that decoding treats it as a second blank.
    ///
    /// # Errors
    /// [`CharsetError`] if there is no label or one occurs twice.
    pub fn new<S: Into<String>>(labels: impl IntoIterator<Item = S>) -> Result<Self, CharsetError> {
        let labels: Vec<String> = labels.into_iter().map(Into::into).collect();
        if labels.is_empty() {
            return Err(CharsetError::Empty);
        }
        let mut first_use: HashMap<&str, usize> = HashMap::with_capacity(labels.len());
        for (index, label) in labels.iter().enumerate() {
            // `pyctcdecode` refuses such a charset too: one text would have two classes.
            if let Some(first) = first_use.insert(label, index) {
                return Err(CharsetError::Duplicate {
                    label: label.clone(),
                    first: first + 1,
                    second: index + 1,
                });
            }
        }
        Ok(Self {
            labels,
            encoding: Encoding::Unicode,
        })
    }

    /// This charset, read as spelled in `encoding`.
    pub fn spelled_in(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Number of classes, the blank included.
    pub fn classes(&self) -> usize {
        self.labels.len() + 1
    }

    /// Text of a class; empty for the blank and for a class outside the charset.
    pub fn label(&self, class: usize) -> &str {
        class
            .checked_sub(1)
            .and_then(|index| self.labels.get(index))
            .map_or("", String::as_str)
    }

    /// Compares the classes of this charset with the `model` classes of a network.
    ///
    /// # Errors
    /// [`CharsetError::ClassCount`] if they differ.
    pub fn check_classes(&self, model: usize) -> Result<(), CharsetError> {
        if model == self.classes() {
            Ok(())
        } else {
            Err(CharsetError::ClassCount {
                model,
                charset: self.classes(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_zero_is_the_blank_and_labels_follow() {
        let charset = Charset::new(["ཀ", "", "ཁ"]).unwrap();
        assert_eq!(charset.classes(), 4);
        assert_eq!(
            (0..5).map(|class| charset.label(class)).collect::<Vec<_>>(),
            ["", "ཀ", "", "ཁ", ""]
        );
        assert_eq!(charset.check_classes(4), Ok(()));
        assert_eq!(
            charset.check_classes(3),
            Err(CharsetError::ClassCount { model: 3, charset: 4 })
        );
    }

    #[test]
    fn labels_are_unique() {
        assert_eq!(
            Charset::new(["a", "b", "a"]),
            Err(CharsetError::Duplicate {
                label: "a".to_owned(),
                first: 1,
                second: 3
            })
        );
        assert!(Charset::new(["", ""]).is_err());
        assert_eq!(Charset::new(Vec::<String>::new()), Err(CharsetError::Empty));
    }
}
