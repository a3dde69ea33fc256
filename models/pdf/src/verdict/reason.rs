use std::fmt;

use serde::{Deserialize, Serialize};

/// Reason of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    TextIsPlausible,
    NothingDrawn,
    NoText,
    OutlinedText,
    TextOverPartOfScan,
    GlyphsWithoutUnicode,
    PrivateUse,
    ReplacementCharacters,
    ControlCharacters,
    MixedScripts,
    SignsForLetters,
    LettersExchanged,
    CharactersExchanged,
}

impl Reason {
    /// Short name, for tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TextIsPlausible => "text_is_plausible",
            Self::NothingDrawn => "nothing_drawn",
            Self::NoText => "no_text",
            Self::OutlinedText => "outlined_text",
            Self::TextOverPartOfScan => "text_over_part_of_scan",
            Self::GlyphsWithoutUnicode => "glyphs_without_unicode",
            Self::PrivateUse => "private_use",
            Self::ReplacementCharacters => "replacement_characters",
            Self::ControlCharacters => "control_characters",
            Self::MixedScripts => "mixed_scripts",
            Self::SignsForLetters => "signs_for_letters",
            Self::LettersExchanged => "letters_exchanged",
            Self::CharactersExchanged => "characters_exchanged",
        }
    }
}

impl fmt::Display for Reason {
    /// Writes a sentence for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::TextIsPlausible => "the text is plausible",
            Self::NothingDrawn => "nothing is on the page",
            Self::NoText => "there is no text",
            Self::OutlinedText => "the text is drawn as outlines",
            Self::TextOverPartOfScan => "the text covers a small part of the scan",
            Self::GlyphsWithoutUnicode => "a font does not say what its glyphs are",
            Self::PrivateUse => "the characters are of the private use areas",
            Self::ReplacementCharacters => "the characters are replacement characters",
            Self::ControlCharacters => "there are control characters among the letters",
            Self::MixedScripts => "letters and signs that do not go together make words",
            Self::SignsForLetters => "there are signs where letters should be",
            Self::LettersExchanged => "the letters make no words of any language",
            Self::CharactersExchanged => "the characters do not follow each other in any text",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_name_is_that_of_json() {
        for reason in [
            Reason::NoText,
            Reason::TextOverPartOfScan,
            Reason::LettersExchanged,
        ] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
