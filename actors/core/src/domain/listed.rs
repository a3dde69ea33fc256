//! Lists in configurations, which may be written in one line.

use serde::Deserialize;

/// Written form of a list: a list, or one text with commas.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Listed {
    Line(String),
    List(Vec<String>),
}

impl Listed {
    /// The texts without the space around them, but for empty ones.
    pub(super) fn texts(self) -> impl Iterator<Item = String> {
        let texts = match self {
            Self::Line(line) => line.split(',').map(str::to_owned).collect(),
            Self::List(list) => list,
        };
        let texts = texts.into_iter().map(|text| text.trim().to_owned());
        texts.filter(|text| !text.is_empty())
    }
}
