//! Terms that a reader of print may have taken for one another: a distance in letters that counts a letter like its look-alike as half
//! a letter, and the bounds within which a term is still found.

/// Letters of Tibetan print that recognisers take for one another, as base letter and below others.
const LOOK_ALIKES: [&str; 11] = ["ངད", "པཕབ", "བའ", "ཏཉ", "ཚཙཛ", "ཞཤ", "ནཞ", "རང", "གཁ", "ཁམ", "དཏ"];
/// Vowels written above a letter, of which worn print shows little.
const VOWELS_ABOVE: &str = "\u{f72}\u{f7a}\u{f7c}\u{f80}\u{f7b}\u{f7d}";

/// Cost of another letter, or of one too many or missing.
const LETTER: u32 = 4;
/// Cost of a look-alike, and of a vowel that is not seen.
const LIKE: u32 = 2;

/// Largest distance at which a term is still taken for another one of `letters` letters; `None` where every term would be.
pub(crate) const fn bound(letters: usize, is_tibetan: bool) -> Option<u32> {
    match (letters, is_tibetan) {
        (0 | 1, _) | (2..=4, false) => None,
        (2 | 3, true) => Some(LIKE),
        _ => Some(LETTER),
    }
}

/// True for a letter of the Tibetan block.
pub(crate) const fn is_tibetan(letter: char) -> bool {
    matches!(letter, '\u{f00}'..='\u{fff}')
}

/// Distance of two terms: the least cost of letters changed, added and left out that makes one of the other.
pub(crate) fn distance(one: &str, other: &str) -> u32 {
    let other: Vec<char> = other.chars().collect();
    // One row of the table of Wagner and Fischer (1974) at a time: `row[j]` is the distance to the first `j` letters of the other.
    let mut row: Vec<u32> = vec![0];
    for letter in &other {
        row.push(row.last().copied().unwrap_or(0) + gap(*letter));
    }
    for letter in one.chars() {
        let mut diagonal = row.first().copied().unwrap_or(0);
        let mut left = diagonal + gap(letter);
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, to) in row.iter_mut().skip(1).zip(&other) {
            let above = *cell;
            left = (diagonal + change(letter, *to))
                .min(above + gap(letter))
                .min(left + gap(*to));
            diagonal = above;
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

fn gap(letter: char) -> u32 {
    if VOWELS_ABOVE.contains(letter) {
        LIKE
    } else {
        LETTER
    }
}

fn change(from: char, to: char) -> u32 {
    if from == to {
        return 0;
    }
    let (from, to) = (base(from), base(to));
    let is_alike = from == to
        || LOOK_ALIKES
            .iter()
            .any(|group| group.contains(from) && group.contains(to))
        || (VOWELS_ABOVE.contains(from) && VOWELS_ABOVE.contains(to));
    if is_alike { LIKE } else { LETTER }
}

/// The letter that a subjoined one is below others.
fn base(letter: char) -> char {
    match letter {
        '\u{f90}'..='\u{fb9}' => char::from_u32(u32::from(letter) - 0x50).unwrap_or(letter),
        letter => letter,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_look_alike_is_nearer_than_another_letter() {
        assert_eq!(distance("བང", "བད"), LIKE);
        assert_eq!(distance("བང", "བས"), LETTER);
        assert_eq!(distance("རིན", "རན"), LIKE, "a vowel that was not seen");
        assert_eq!(distance("བསྒྲུབས", "བསྒྲུབ"), LETTER);
        assert_eq!(distance("སྒྲ", "སྒྲ"), 0);
        assert_eq!(distance("revenue", "revenve"), LETTER);
    }

    #[test]
    fn a_group_has_each_letter_once() {
        for group in LOOK_ALIKES {
            let letters: std::collections::BTreeSet<char> = group.chars().collect();
            assert_eq!(letters.len(), group.chars().count(), "{group}");
        }
    }

    #[test]
    fn short_terms_have_no_neighbours() {
        assert_eq!(bound(1, true), None);
        assert_eq!(bound(4, false), None);
        assert_eq!(bound(3, true), Some(LIKE));
        assert_eq!(bound(7, false), Some(LETTER));
    }

    proptest! {
        #[test]
        fn the_distance_is_a_metric(one in "[ངདཔབ\u{f72}ས]{0,6}", two in "[ངདཔབ\u{f72}ས]{0,6}", three in "[ངདཔབ\u{f72}ས]{0,6}") {
            prop_assert_eq!(distance(&one, &two), distance(&two, &one));
            prop_assert_eq!(distance(&one, &two) == 0, one == two);
            prop_assert!(distance(&one, &three) <= distance(&one, &two) + distance(&two, &three));
        }
    }
}
