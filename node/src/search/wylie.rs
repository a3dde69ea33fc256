//! Queries in Wylie: words in Latin letters that are Tibetan in transliteration.

use parkhang_models::recognition::ewts::{to_unicode, to_wylie};

/// Vowel signs, and the signs of long vowels.
const VOWELS: std::ops::RangeInclusive<char> = '\u{f71}'..='\u{f80}';
/// Letters that may end a syllable.
const SUFFIXES: &str = "གངདནབམའརལས";
/// Letters behind the vowel of a syllable at most.
const BEHIND_VOWEL: usize = 2;
/// Letters of a syllable without a vowel sign at most: prefix, root and two suffixes.
const WITHOUT_VOWEL: usize = 4;
/// Particles that are written together with a syllable and have a vowel of their own.
const PARTICLES: [&str; 6] = ["འིས", "འི", "འོ", "འུ", "འང", "འམ"];

/// Returns a text in Wylie as Tibetan; `None` if it is none: if its letters are no legal syllables, or Tibetan letters do not spell it
/// again. Of English the few words remain that are legal, such as `man`.
pub(super) fn transliterate(text: &str) -> Option<String> {
    let wylie = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let tibetan = to_unicode(&wylie);
    let syllables = || {
        tibetan
            .split(['་', '།', ' '])
            .filter(|syllable| !syllable.is_empty())
    };
    let is_legal = syllables().next().is_some() && syllables().all(is_syllable);
    (is_legal && to_wylie(&tibetan).trim() == wylie).then_some(tibetan)
}

fn is_syllable(syllable: &str) -> bool {
    let stem = PARTICLES
        .iter()
        .find_map(|particle| syllable.strip_suffix(particle));
    let stem = stem.filter(|stem| !stem.is_empty()).unwrap_or(syllable);
    // Nothing but letters: no digits, no marks, and not the sign of borrowed sounds.
    let is_letter = |letter: char| {
        matches!(letter, '\u{f40}'..='\u{f6c}' | '\u{f90}'..='\u{fbc}') || VOWELS.contains(&letter)
    };
    if !stem.chars().all(is_letter) {
        return false;
    }
    let is_suffixes = |letters: &str| letters.chars().all(|letter| SUFFIXES.contains(letter));
    match stem.rfind(|letter| VOWELS.contains(&letter)) {
        None => stem.chars().filter(|letter| *letter <= '\u{f6c}').count() <= WITHOUT_VOWEL,
        Some(last) => {
            let (before, from) = stem.split_at(last);
            // A long vowel is two signs.
            let before = before.trim_end_matches(|letter| VOWELS.contains(&letter));
            let behind = from.trim_start_matches(|letter| VOWELS.contains(&letter));
            !before.contains(|letter| VOWELS.contains(&letter))
                && behind.chars().count() <= BEHIND_VOWEL
                && is_suffixes(behind)
        }
    }
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
