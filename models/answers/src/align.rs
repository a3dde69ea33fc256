//! Division of a text without geometry among lines whose places are known.
//!
//! Another reading of the lines, however poor, tells which part of the text stands on which of them: both are aligned by edit distance,
//! and the text is cut where the other reading ends its lines. Line breaks of the text count as one character, so that they decide
//! where the letters do not.

/// Cells of the table of distances at most, one byte each. A page of 4,000 characters needs 16 million.
const CELLS: usize = 100_000_000;
/// Characters by which a cut is moved to the end of a syllable.
const REACH: usize = 6;
/// Likeness under which a page counts as poorly aligned.
pub const POOR: f32 = 0.5;

/// Text divided among lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Alignment {
    /// One for each line, in their order.
    pub lines: Vec<AlignedLine>,
    /// Likeness of the whole text to the other reading, 0 to 1.
    pub score: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AlignedLine {
    pub text: String,
    /// Likeness to the other reading of the line, 0 to 1.
    pub score: f32,
}

impl Alignment {
    /// True if the places of the lines are not to be relied on.
    pub fn is_poor(&self) -> bool {
        self.score < POOR
    }
}

/// Step to a cell of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    /// A character of each, the same or not.
    Both,
    /// A character of the known reading that the text lacks.
    Known,
    /// A character of the text that the known reading lacks.
    Text,
}

/// Text that is too long to be aligned with the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a text of {text} characters cannot be aligned with lines of {known}")]
pub struct TooLong {
    pub text: usize,
    pub known: usize,
}

/// Divides `text` among lines of which `known` is another reading.
///
/// # Errors
///
/// [`TooLong`] if there is no memory to be had for it.
pub fn align(text: &str, known: &[impl AsRef<str>]) -> Result<Alignment, TooLong> {
    let text: Vec<char> = lines_of(text).join("\n").chars().collect();
    let mut reading: Vec<char> = Vec::new();
    let mut ends = Vec::with_capacity(known.len());
    for (index, line) in known.iter().enumerate() {
        if index > 0 {
            reading.push('\n');
        }
        reading.extend(line.as_ref().trim().chars());
        ends.push(reading.len());
    }
    let too_long = TooLong {
        text: text.len(),
        known: reading.len(),
    };
    if (text.len() + 1).saturating_mul(reading.len() + 1) > CELLS {
        return Err(too_long);
    }
    let cuts = cuts(&text, &reading, &ends);
    let mut lines = Vec::with_capacity(known.len());
    let (mut start, mut likes, mut weights) = (0, 0.0, 0.0);
    for (cut, known) in cuts.into_iter().zip(known) {
        let part: String = text[start..cut]
            .iter()
            .map(|c| if *c == '\n' { ' ' } else { *c })
            .collect();
        let part = part.trim().to_owned();
        let known = known.as_ref().trim();
        let score = likeness(&part, known);
        let weight = part.chars().count().max(known.chars().count()) as f32;
        likes += weight * score;
        weights += weight;
        lines.push(AlignedLine { text: part, score });
        start = cut;
    }
    let score = match (known.is_empty(), weights > 0.0) {
        (true, _) => f32::from(u8::from(text.is_empty())),
        (false, true) => likes / weights,
        (false, false) => 1.0,
    };
    Ok(Alignment { lines, score })
}

fn lines_of(text: &str) -> Vec<&str> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect()
}

/// Places in the text at which the lines of the reading end; the last one is its end.
fn cuts(text: &[char], reading: &[char], ends: &[usize]) -> Vec<usize> {
    let steps = steps(text, reading);
    let width = text.len() + 1;
    let mut cuts = vec![text.len(); ends.len()];
    let (mut row, mut column) = (reading.len(), text.len());
    let mut open = ends.len();
    while row > 0 || column > 0 {
        // The last character of the reading that ends a line is met once the path comes to its row.
        while open > 0 && ends[open - 1] >= row {
            open -= 1;
            cuts[open] = column;
        }
        match steps[row * width + column] {
            Step::Both => (row, column) = (row - 1, column - 1),
            Step::Known => row -= 1,
            Step::Text => column -= 1,
        }
    }
    cuts[..open].fill(0);
    if let Some(last) = cuts.last_mut() {
        *last = text.len();
    }
    let mut least = 0;
    let last = cuts.len().saturating_sub(1);
    for cut in &mut cuts[..last] {
        *cut = at_a_break(text, *cut).max(least);
        least = *cut;
    }
    cuts
}

/// The break of the text that is nearest to a cut, if one is near; of two, the one before it.
fn at_a_break(text: &[char], cut: usize) -> usize {
    let is_break = |c: char| c.is_whitespace() || matches!(c, '\u{0F0B}'..='\u{0F0D}' | '\u{0F14}');
    let ends = |place: usize| {
        place == 0
            || place >= text.len()
            || text[place] == '\n'
            // Not between two marks, which belong together: a shad stays with its line.
            || (is_break(text[place - 1]) && !is_break(text[place]))
    };
    let near = (0..=REACH).flat_map(|distance| [cut.checked_sub(distance), Some(cut + distance)]);
    near.flatten()
        .find(|place| *place <= text.len() && ends(*place))
        .unwrap_or(cut)
}

/// Table of the last steps of the cheapest ways, row by row.
fn steps(text: &[char], reading: &[char]) -> Vec<Step> {
    let width = text.len() + 1;
    let mut steps = vec![Step::Text; width * (reading.len() + 1)];
    let mut above: Vec<u32> = (0..).take(width).collect();
    let mut current = vec![0; width];
    for (index, known) in reading.iter().enumerate() {
        let row = index + 1;
        steps[row * width] = Step::Known;
        current[0] = above[0] + 1;
        for (place, letter) in text.iter().enumerate() {
            let column = place + 1;
            let both = above[place] + substitution(*known, *letter);
            let (less, more) = (above[column] + 1, current[place] + 1);
            let least = both.min(less).min(more);
            current[column] = least;
            steps[row * width + column] = match least {
                _ if least == both => Step::Both,
                _ if least == less => Step::Known,
                _ => Step::Text,
            };
        }
        std::mem::swap(&mut above, &mut current);
    }
    steps
}

/// Cost of one character for another. The end of a line is nothing else: dropping one and adding the other costs no more.
fn substitution(known: char, letter: char) -> u32 {
    match (known == letter, known == '\n' || letter == '\n') {
        (true, _) => 0,
        (false, true) => 3,
        (false, false) => 1,
    }
}

/// Share of the longer of two texts that an edit leaves; 1 for two empty ones.
pub fn likeness(one: &str, other: &str) -> f32 {
    let longer = one.chars().count().max(other.chars().count());
    if longer == 0 {
        return 1.0;
    }
    1.0 - edit_distance(one, other) as f32 / longer as f32
}

/// Levenshtein distance in characters.
pub fn edit_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut corner = above[0];
        above[0] = row + 1;
        for (column, known) in other.iter().enumerate() {
            let both = corner + usize::from(*known != letter);
            corner = above[column + 1];
            above[column + 1] = both.min(corner + 1).min(above[column] + 1);
        }
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::golden::{cases, shared};

    fn texts(alignment: &Alignment) -> Vec<&str> {
        alignment.lines.iter().map(|line| line.text.as_str()).collect()
    }

    /// Rows: 84.
    #[test]
    fn a_text_is_cut_where_the_other_reading_ends_its_lines() {
        let known = ["བོད་ཀྱི་སྐད་ཡིག་", "ཤེས་རབ་ཀྱི་ཕ་རོལ", "ཕྱིན་པ།"];
        let one_line = "བོད་ཀྱི་སྐད་ཡིག་ཤེས་རབ་ཀྱི་ཕ་རོལ་ཏུ་ཕྱིན་པ།";
        let aligned = align(one_line, &known).unwrap();
        assert_eq!(texts(&aligned), ["བོད་ཀྱི་སྐད་ཡིག་", "ཤེས་རབ་ཀྱི་ཕ་རོལ་ཏུ་", "ཕྱིན་པ།"]);
        assert!(aligned.score > 0.8 && !aligned.is_poor(), "{}", aligned.score);
        let broken = "བོད་ཀྱི་\nསྐད་ཡིག་\nཤེས་རབ་ཀྱི་ཕ་རོལ\nཕྱིན་པ།";
        assert_eq!(texts(&align(broken, &known).unwrap())[0], "བོད་ཀྱི་ སྐད་ཡིག་");
    }

    /// Rows: 84.
    #[test]
    fn line_breaks_decide_where_the_letters_do_not() {
        let aligned = align("ཀཀ\nxyz\nཁཁ", &["ཀཀ", "", "ཁཁ"]).unwrap();
        assert_eq!(texts(&aligned), ["ཀཀ", "xyz", "ཁཁ"]);
        let aligned = align("ཀཀ\nཁཁ", &["ཀཀ", "གགགགགག", "ཁཁ"]).unwrap();
        assert_eq!(
            texts(&aligned),
            ["ཀཀ", "", "ཁཁ"],
            "a line that the model left out"
        );
    }

    /// Rows: 84.
    #[test]
    fn another_text_is_aligned_poorly_and_says_so() {
        let aligned = align("The quick brown fox", &["བོད་ཀྱི་སྐད་", "ཡིག་"]).unwrap();
        assert!(aligned.is_poor());
        assert!(align("text", &[] as &[&str]).unwrap().is_poor());
        assert!(!align("", &["", ""]).unwrap().is_poor());
        let long = "ཀ".repeat(11_000);
        assert_eq!(
            align(&long, &[&long]),
            Err(TooLong {
                text: 11_000,
                known: 11_000
            })
        );
    }

    #[test]
    fn distances_are_those_of_the_archive() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        let Some(path) = shared("qwen/blind_edit_distance.jsonl") else {
            return;
        };
        for case in cases(&path) {
            let distance = edit_distance(case["a"].as_str().unwrap(), case["b"].as_str().unwrap());
            assert_eq!(Some(distance as u64), case["distance"].as_u64(), "{case}");
        }
    }

    proptest! {
        #[test]
        fn every_character_goes_to_one_line(
            text in "[ab་\\n ]{0,60}",
            known in prop::collection::vec("[ab་]{0,12}", 1..6),
        ) {
            let aligned = align(&text, &known).unwrap();
            prop_assert_eq!(aligned.lines.len(), known.len());
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            let parts: String = texts(&aligned).concat();
            prop_assert_eq!(letters(&parts), letters(&text));
            prop_assert!((0.0..=1.0).contains(&aligned.score));
        }

        #[test]
        fn the_same_lines_are_found_again(known in prop::collection::vec("[a-e་]{4,12}x", 1..6)) {
            let aligned = align(&known.join("\n"), &known).unwrap();
            prop_assert_eq!(texts(&aligned), known.iter().map(|line| line.trim()).collect::<Vec<_>>());
            prop_assert!(aligned.score > 0.999);
        }
    }
}
