//! Lines of text: words that follow each other in a row.

use unicode_segmentation::UnicodeSegmentation;

use crate::geometry::{Bounds, around, height, median};
use crate::word::PageWord;

/// Gap within a row from which its parts are lines of their own, in heights of the row.
const GAP: f32 = 2.0;
/// Gap between words from which a space is written where the words themselves do not say, in heights of the row.
const SPACE: f32 = 0.15;

/// A line of text, or the part of a row that stands in one column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TextLine {
    /// Places of its words.
    pub(crate) words: Vec<usize>,
    pub(crate) bounds: Bounds,
    pub(crate) text: String,
    /// Height of its letters in points.
    pub(crate) size: f32,
}

/// The lines of the words that are not taken.
pub(crate) fn lines(words: &[PageWord<'_>], taken: &[bool]) -> Vec<TextLine> {
    let free: Vec<usize> = (0..words.len()).filter(|&place| !taken[place]).collect();
    let mut lines = Vec::new();
    for row in free.chunk_by(|&one, &other| words[one].line == words[other].line) {
        let Some(size) = median(row.iter().map(|&place| height(&words[place].bounds)).collect()) else {
            continue;
        };
        let is_near = |&one: &usize, &other: &usize| {
            let (one, other) = (&words[one].bounds, &words[other].bounds);
            let apart = (other[0] - one[2]).max(one[0] - other[2]);
            apart <= GAP * size
        };
        lines.extend(row.chunk_by(is_near).filter_map(|part| line(words, part, size)));
    }
    lines
}

fn line(words: &[PageWord<'_>], part: &[usize], size: f32) -> Option<TextLine> {
    let bounds = around(part.iter().map(|&place| &words[place].bounds))?;
    Some(TextLine {
        words: part.to_vec(),
        bounds,
        text: joined(part.iter().map(|&place| &words[place])),
        size,
    })
}

/// The text of words of one row. Words of scripts without spaces are written together.
pub(crate) fn joined<'w>(words: impl IntoIterator<Item = &'w PageWord<'w>>) -> String {
    let mut text = String::new();
    let mut last: Option<&PageWord<'_>> = None;
    for word in words {
        if let Some(last) = last
            && has_space_between(last, word)
        {
            text.push(' ');
        }
        text.push_str(word.text);
        last = Some(word);
    }
    text
}

fn has_space_between(one: &PageWord<'_>, other: &PageWord<'_>) -> bool {
    if one.text.ends_with(char::is_whitespace) || other.text.starts_with(char::is_whitespace) {
        return false;
    }
    let before = one
        .text
        .graphemes(true)
        .next_back()
        .and_then(|last| last.chars().next());
    let after = other.text.chars().next();
    let (Some(before), Some(after)) = (before, after) else {
        return false;
    };
    if is_written_together(before) && is_written_together(after) {
        return false;
    }
    // A word beside an ideograph is apart from it only where the page shows it.
    let height = height(&one.bounds).max(height(&other.bounds));
    let apart = other.bounds[0] - one.bounds[2] > SPACE * height;
    apart || !(is_written_together(before) || is_written_together(after))
}

/// True for letters of scripts that write words without spaces.
pub(crate) fn is_written_together(letter: char) -> bool {
    matches!(letter,
        '\u{0F00}'..='\u{0FFF}'
        | '\u{2E80}'..='\u{30FF}'
        | '\u{3400}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FE30}'..='\u{FE4F}'
        | '\u{FF00}'..='\u{FF60}'
        | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, x0: f32, x1: f32, line: i32) -> PageWord<'_> {
        PageWord {
            text,
            bounds: [x0, 0.0, x1, 10.0],
            line,
        }
    }

    #[test]
    fn spaces_are_those_of_the_script() {
        let texts = |words: &[PageWord<'_>]| joined(words);
        assert_eq!(
            texts(&[word("two", 0.0, 9.0, 0), word("words", 12.0, 30.0, 0)]),
            "two words"
        );
        assert_eq!(
            texts(&[word("港", 0.0, 9.0, 0), word("元", 12.0, 20.0, 0)]),
            "港元"
        );
        assert_eq!(
            texts(&[word("བཀྲ་", 0.0, 9.0, 0), word("ཤིས་", 12.0, 20.0, 0)]),
            "བཀྲ་ཤིས་"
        );
        assert_eq!(
            texts(&[word("港", 0.0, 9.0, 0), word("2025", 9.5, 20.0, 0)]),
            "港2025"
        );
        assert_eq!(
            texts(&[word("港", 0.0, 9.0, 0), word("2025", 12.0, 20.0, 0)]),
            "港 2025"
        );
    }

    #[test]
    fn a_row_is_parted_where_a_column_ends() {
        let words = [
            word("left", 0.0, 20.0, 0),
            word("column", 23.0, 60.0, 0),
            word("right", 90.0, 120.0, 0),
            word("below", 0.0, 20.0, 1),
        ];
        let found = lines(&words, &[false; 4]);
        let texts: Vec<&str> = found.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["left column", "right", "below"]);
        assert_eq!(lines(&words, &[true, true, false, true]).len(), 1);
    }
}
