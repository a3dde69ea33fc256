//! Generations of BDRC's algorithms. Two generations of BDRC's programs find, cut and prepare lines differently; which one is
//! a setting, and each room says where its generations part.

use serde::{Deserialize, Serialize};

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
