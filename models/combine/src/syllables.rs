//! Syllables: the unit in which readings are compared.

/// Signs that end a syllable: tsheg, shad and their kin, brackets, white space.
const DELIMITERS: &str = "་༌ །༎༏༐༑༔༴ཿ࿒༼༽࿙࿚\u{a0}";

/// Syllable with the signs after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Syllable {
    /// Its letters and the signs after them; signs at the beginning of a line stand before its first letters.
    pub text: String,
    /// Confidence of the reading in it, 0 to 1; absent where the reading has none.
    pub confidence: Option<f32>,
}

impl Syllable {
    /// The letters without the signs after them; all of it where there are only signs.
    pub fn letters(&self) -> &str {
        let letters = self.text.trim_end_matches(is_delimiter);
        if letters.is_empty() { &self.text } else { letters }
    }

    /// The signs after the letters.
    pub fn signs(&self) -> &str {
        &self.text[self.letters().len()..]
    }
}

fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || DELIMITERS.contains(c)
}

/// Splits a line into syllables, each with the signs after it. Their texts joined are the line.
pub fn syllables(line: &str) -> Vec<Syllable> {
    let mut parts = Vec::new();
    let (mut start, mut has_letter, mut ended) = (0, false, false);
    for (place, c) in line.char_indices() {
        let is_sign = is_delimiter(c);
        if ended && !is_sign {
            parts.push(&line[start..place]);
            (start, has_letter) = (place, false);
        }
        has_letter |= !is_sign;
        ended = has_letter && is_sign;
    }
    if start < line.len() {
        parts.push(&line[start..]);
    }
    let syllable = |text: &str| Syllable {
        text: text.to_owned(),
        confidence: None,
    };
    parts.into_iter().map(syllable).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(line: &str) -> Vec<String> {
        syllables(line)
            .into_iter()
            .map(|syllable| syllable.text)
            .collect()
    }

    #[test]
    fn signs_stay_with_the_letters_before_them() {
        assert_eq!(texts("༄༅། །རྒྱ་གར་སྐད་དུ། "), ["༄༅། །", "རྒྱ་", "གར་", "སྐད་", "དུ། "]);
        assert_eq!(texts("།།བྱང་ཆུབ"), ["།།བྱང་", "ཆུབ"]);
        assert_eq!(texts("one two"), ["one ", "two"]);
        assert_eq!(texts(""), [""; 0]);
        let syllable = &syllables("དུ། །")[0];
        assert_eq!((syllable.letters(), syllable.signs()), ("དུ", "། །"));
        let signs = &syllables("། །")[0];
        assert_eq!((signs.letters(), signs.signs()), ("། །", ""));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(line in "[ཀ-ང་། a-c]{0,30}") {
            prop_assert_eq!(texts(&line).concat(), line.clone());
            for syllable in syllables(&line) {
                prop_assert_eq!(format!("{}{}", syllable.letters(), syllable.signs()), syllable.text);
            }
        }
    }
}
