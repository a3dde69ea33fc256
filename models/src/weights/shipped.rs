//! The models that come with the program, compiled into it, so that the binary works anywhere by itself.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::{Bundle, WeightsError};
use crate::recognition::perplexity::TextScorer;

/// Head of the recogniser that the n-grams are for.
const HEAD: &str = "stacks";

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
                "second.safetensors",
                include_bytes!("../../weights/recogniser/second.safetensors"),
            ),
            (
                "stacks.ngrams",
                include_bytes!("../../weights/recogniser/stacks.ngrams"),
            ),
        ],
    )
}

/// The scorer with the n-grams of the recogniser, made once in a process. It does not depend on the models of a node, so that scores of all jobs
/// can be compared.
///
/// # Errors
/// None, as long as the files of the recogniser are those of the repository; a test makes it.
pub fn text_scorer() -> Result<&'static TextScorer, WeightsError> {
    static SCORER: OnceLock<TextScorer> = OnceLock::new();
    if let Some(scorer) = SCORER.get() {
        return Ok(scorer);
    }
    let bundle = recogniser()?;
    let model = bundle
        .language_model(HEAD)?
        .ok_or_else(|| bundle.invalid("language_model", format!("has none for head `{HEAD}`")))?;
    let scorer = TextScorer::new(&bundle.charset(HEAD)?, model.ngrams);
    Ok(SCORER.get_or_init(|| scorer))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misread_text_is_more_surprising() {
        let scorer = text_scorer().unwrap();
        let perplexity = |text| scorer.score(text).perplexity().unwrap();
        let (right, misread, shuffled) = (
            perplexity("བཅོམ་ལྡན་འདས་མཉན་ཡོད་ན་རྒྱལ་བུ་རྒྱལ་བྱེད་ཀྱི་ཚལ་"),
            perplexity("བཙོམ་ལྡན་འདས་མཉན་ཡོང་ན་རྒྱལ་བུ་རྒྱལ་བྱེང་ཀྱི་ཆལ་"),
            perplexity("ལཚ་ཀྱིབྱེ་རྒྱདལ་བུརྒྱ་ནལ་ཡོ་མཉདན་འ་ལྡནདས་མབཅོ"),
        );
        assert!(right < 10.0, "{right}");
        assert!(misread > 2.0 * right, "{misread}");
        assert!(shuffled > 2.0 * misread, "{shuffled}");
    }
}
