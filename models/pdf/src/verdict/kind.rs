use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Reason;

/// Kinds of pages by their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// The text can be used.
    Good,
    /// There is ink and no text, or text for a small part of it.
    None,
    /// The text is not what the page shows.
    Broken,
    /// Nothing is on the page.
    Blank,
}

/// Text that names no kind of page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no verdict: good, none, broken or blank")]
pub struct UnknownVerdict(String);

impl VerdictKind {
    pub const ALL: [Self; 4] = [Self::Good, Self::None, Self::Broken, Self::Blank];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::None => "none",
            Self::Broken => "broken",
            Self::Blank => "blank",
        }
    }

    /// Whether the page has to be read from its pixels.
    pub const fn needs_ocr(self) -> bool {
        matches!(self, Self::None | Self::Broken)
    }
}

impl fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for VerdictKind {
    type Err = UnknownVerdict;

    fn from_str(text: &str) -> Result<Self, UnknownVerdict> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| UnknownVerdict(text.to_owned()))
    }
}

/// Judgement of a page's text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub kind: VerdictKind,
    /// From 0, the text is certainly of no use, to 1.
    pub score: f32,
    pub reason: Reason,
}

impl Verdict {
    pub(super) fn of(kind: VerdictKind, score: f32, reason: Reason) -> Self {
        Self {
            kind,
            score: score.clamp(0.0, 1.0),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_as_it_is_written() {
        for kind in VerdictKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert!("fine".parse::<VerdictKind>().is_err());
    }
}
