//! One spelling for texts that look the same.

use unicode_normalization::UnicodeNormalization;

/// Unicode's canonical decomposition (NFD): deprecated letters in parts, and the signs around a letter in canonical
/// order. Applied to what a recogniser writes, so that equal text has equal bytes.
pub fn canonical_order(text: &str) -> String {
    text.nfd().collect()
}

/// Folds what scoring does not tell apart, on top of [`canonical_order`]: ligatures and long vowels in parts, the tsheg
/// that forbids a line break as a plain tsheg, double and ornamented shad as shads, the fixed-form ra as ra, and no
/// characters without width. White space stays.
pub fn canonical(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for letter in text.nfd() {
        match letter {
            '\u{f00}' => folded.push_str("\u{f68}\u{f7c}\u{f7e}"),
            '\u{f0c}' => folded.push('\u{f0b}'),
            '\u{f0e}' => folded.push_str("\u{f0d}\u{f0d}"),
            '\u{f11}' => folded.push('\u{f0d}'),
            '\u{f6a}' => folded.push('\u{f62}'),
            '\u{f77}' => folded.push_str("\u{fb2}\u{f71}\u{f80}"),
            '\u{f79}' => folded.push_str("\u{fb3}\u{f71}\u{f80}"),
            '\u{200b}'..='\u{200d}' | '\u{feff}' => {}
            other => folded.push(other),
        }
    }
    folded
}

/// [`canonical`] text with every run of white space as one space and none at the ends.
pub fn canonical_words(text: &str) -> String {
    canonical(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// [`canonical`] text without white space: what character error rates are measured on.
pub fn canonical_letters(text: &str) -> String {
    canonical(text).split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_come_in_canonical_order() {
        assert_eq!(canonical_order("ཧ\u{f74}\u{f71}"), "ཧ\u{f71}\u{f74}");
        assert_eq!(
            canonical_order("\u{f73}\u{f43}\u{f76}"),
            "\u{f71}\u{f72}\u{f42}\u{fb7}\u{fb2}\u{f80}"
        );
        assert_eq!(canonical_order("ཀ༌ཁ༎"), "ཀ༌ཁ༎");
    }

    #[test]
    fn scoring_folds_equal_looks() {
        assert_eq!(canonical("ༀ༌ༀ"), "ཨོཾ་ཨོཾ");
        assert_eq!(canonical("༎༑\u{feff}ཪྐ"), "།།།རྐ");
        assert_eq!(
            canonical("\u{f77}\u{f79}\u{f81}"),
            "\u{fb2}\u{f71}\u{f80}\u{fb3}\u{f71}\u{f80}\u{f71}\u{f80}"
        );
        assert_eq!(canonical_words("  ཀ།  ཁ \n"), "ཀ། ཁ");
        assert_eq!(canonical_letters(" ཀ།  ཁ\u{a0}\n"), "ཀ།ཁ");
    }
}
