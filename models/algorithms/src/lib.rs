//! Settings that the domain and the models share.
//!
//! Two generations of BDRC's programs find, cut and prepare lines differently; which one is a setting, and each room says where
//! its generations part. [`Combination`] is the way in which several readings become one text, and [`Trust`] what is known of each of them.

mod trust;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use trust::{InvalidTrust, Knot, Trust};

/// A generation of BDRC's algorithms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithms {
    /// Algorithms of `tibetan-ocr-app` and `ocr-inference`, for comparison with their results and for recognisers trained on
    /// line images that these programs cut.
    Gen1,
    /// Algorithms of the production fleet, `ldv1` and `ocrv1`.
    #[default]
    Gen2,
}

/// Way to decide between several readings of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Combination {
    /// Each line as the first reading has it that has the line.
    First,
    /// Each line as the surest reading has it, by its confidences.
    #[default]
    Best,
    /// Each syllable as the readings say together, by their confidences.
    Vote,
}

impl Combination {
    pub const ALL: [Self; 3] = [Self::First, Self::Best, Self::Vote];

    /// Name in configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Best => "best",
            Self::Vote => "vote",
        }
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
