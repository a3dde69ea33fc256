//! Language of a page's text, as far as its letters tell it.

use parkhang_pdf::{Script, script_of};

use super::document::LineDocument;

/// Language that exports name for a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Tibetan,
    /// Tibetan in extended Wylie.
    Wylie,
    Chinese,
    Japanese,
    /// Any language in Latin letters.
    Latin,
    /// Any other, or none.
    Unknown,
}

impl Language {
    /// Returns the language of the script that most letters of these lines have. Without a letter it is unknown.
    pub fn of(lines: &[LineDocument]) -> Self {
        if lines.first().is_some_and(|line| line.encoding == "wylie") {
            return Self::Wylie;
        }
        let (mut tibetan, mut han, mut kana, mut latin, mut other) = (0, 0, 0, 0, 0);
        for c in lines.iter().flat_map(|line| line.text.chars()) {
            match script_of(c) {
                Script::Tibetan => tibetan += 1,
                Script::Han => han += 1,
                Script::Kana => kana += 1,
                Script::Latin => latin += 1,
                Script::Greek | Script::Cyrillic | Script::Other => other += 1,
                Script::Common => {}
            }
        }
        // Japanese is written in Han characters, too, but hardly without kana.
        let east = if kana * 10 > han {
            Self::Japanese
        } else {
            Self::Chinese
        };
        let counts = [
            (tibetan, Self::Tibetan),
            (han + kana, east),
            (latin, Self::Latin),
            (other, Self::Unknown),
        ];
        let most = counts.into_iter().max_by_key(|(letters, _)| *letters);
        most.filter(|(letters, _)| *letters > 0)
            .map_or(Self::Unknown, |(_, language)| language)
    }

    /// BCP 47 tag.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Tibetan => "bo",
            Self::Wylie => "bo-x-ewts",
            Self::Chinese => "zh",
            Self::Japanese => "ja",
            Self::Latin => "und-Latn",
            Self::Unknown => "und",
        }
    }

    /// ISO 15924 code of its script.
    pub fn script(self) -> &'static str {
        match self {
            Self::Tibetan => "Tibt",
            Self::Chinese => "Hani",
            Self::Japanese => "Jpan",
            Self::Wylie | Self::Latin => "Latn",
            Self::Unknown => "Zyyy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(text: &str, encoding: &str) -> Language {
        Language::of(&[LineDocument {
            guid: "g".into(),
            polygon: Vec::new(),
            text: text.into(),
            encoding: encoding.into(),
            confidence: Some(1.0),
            segments: Vec::new(),
            corrected: None,
        }])
    }

    #[test]
    fn the_script_of_most_letters_names_the_language() {
        for (text, tag) in [
            ("བཀྲ་ཤིས་བདེ་ལེགས། OK", "bo"),
            ("本公司董事會 (the Board)，二零二四年年度業績公告", "zh"),
            ("ひらがなと漢字", "ja"),
            ("Annual results 2024", "und-Latn"),
            ("Отчёт", "und"),
            ("1,024.00", "und"),
        ] {
            assert_eq!(language(text, "unicode").tag(), tag, "{text}");
        }
        let wylie = language("bkra shis bde legs", "wylie");
        assert_eq!((wylie.tag(), wylie.script()), ("bo-x-ewts", "Latn"));
    }
}
