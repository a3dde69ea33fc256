//! The models that come with the program, compiled into it, so that the binary works anywhere by itself.

use std::borrow::Cow;
use std::path::PathBuf;

use super::{Bundle, WeightsError};

/// The recogniser in `models/weights/recogniser`.
///
/// # Errors
/// None, as long as its files are those of the repository; a test opens it.
pub fn recogniser() -> Result<Bundle, WeightsError> {
    built_in(
        "recogniser",
        &[
            (
                Bundle::DESCRIPTION,
                include_bytes!("../../weights/recogniser/model.json"),
            ),
            (
                "charset.json",
                include_bytes!("../../weights/recogniser/charset.json"),
            ),
            (
                "model.safetensors",
                include_bytes!("../../weights/recogniser/model.safetensors"),
            ),
            (
                "stacks.ngrams",
                include_bytes!("../../weights/recogniser/stacks.ngrams"),
            ),
        ],
    )
}

/// The line segmenter in `models/weights/line-segmenter`.
///
/// # Errors
/// None, as long as its files are those of the repository; a test opens it.
pub fn line_segmenter() -> Result<Bundle, WeightsError> {
    built_in(
        "line-segmenter",
        &[
            (
                Bundle::DESCRIPTION,
                include_bytes!("../../weights/line-segmenter/model.json"),
            ),
            (
                "weights.safetensors",
                include_bytes!("../../weights/line-segmenter/weights.safetensors"),
            ),
        ],
    )
}

fn built_in(name: &str, files: &[(&str, &'static [u8])]) -> Result<Bundle, WeightsError> {
    let origin = format!("built-in {name}");
    Bundle::assemble(origin.clone(), |wanted| {
        files
            .iter()
            .find(|(file, _)| *file == wanted)
            .map(|(_, bytes)| Cow::Borrowed(*bytes))
            .ok_or_else(|| WeightsError::Read {
                path: PathBuf::from(&origin).join(wanted),
                source: std::io::ErrorKind::NotFound.into(),
            })
    })
}
