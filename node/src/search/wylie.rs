//! Queries in Wylie: words in Latin letters that are Tibetan in transliteration.

use parkhang_models::recognition::ewts::{to_unicode, to_wylie};

/// Returns a text in Wylie as Tibetan; `None` if it is none. Text that Tibetan letters spell out again is taken for Wylie, as no
/// rule is broken by it: `byang chub`, and of English the few words that happen to be legal, such as `man`.
pub(super) fn transliterate(text: &str) -> Option<String> {
    let wylie = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let tibetan = to_unicode(&wylie);
    let is_tibetan = |letter: char| matches!(letter, '\u{f00}'..='\u{fff}');
    (tibetan.chars().any(is_tibetan) && tibetan.chars().all(is_tibetan) && to_wylie(&tibetan).trim() == wylie)
        .then_some(tibetan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_syllables_are_wylie_and_english_is_not() {
        assert_eq!(transliterate("byang chub").as_deref(), Some("བྱང་ཆུབ"));
        assert_eq!(transliterate("bsgrubs  pa'i").as_deref(), Some("བསྒྲུབས་པའི"));
        assert_eq!(transliterate("sangs rgyas").as_deref(), Some("སངས་རྒྱས"));
        for english in ["revenue", "the rent", "Property", "HK$3", "notes to"] {
            assert_eq!(transliterate(english), None, "{english}");
        }
    }
}
