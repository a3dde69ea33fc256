//! Placement of words: lines, their directions and the spaces between words. Everything here is in points of the page as displayed.

use std::borrow::Cow;

use crate::boxes::{PageSize, Spacing, Word};
use crate::level::{Extent, level};

/// Least side of a box: viewers leave out text without extent.
const LEAST_SIDE: f64 = 0.1;
/// Gap between words of which one is in a script without spaces or ends a clause of Tibetan, in parts of the height, from which on a space
/// stands between them.
const GAP_OF_SPACE: f64 = 0.15;
/// The same if both words are in such scripts.
const GAP_OF_COLUMN: f64 = 0.6;
/// Least number of words of a turned line whose words are wider than high, as the shorter syllables of Tibetan are on their side, and how many
/// times farther such a line leads down or up than to a side. A few rows under one number are no such line.
const SYLLABLES: usize = 4;
const STEEP: f64 = 8.0;

/// Direction of reading on the page as displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Right,
    Down,
    Left,
    Up,
}

/// Line of text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line<'a> {
    pub(crate) direction: Direction,
    /// Words and spaces; their texts together are the text of the line.
    pub(crate) pieces: Vec<Piece<'a>>,
}

/// Text with its extent in the frame of its line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece<'a> {
    pub(crate) text: Cow<'a, str>,
    /// First and last edge in the direction of reading.
    pub(crate) along: [f64; 2],
    /// Upper and lower edge as seen by a reader of the line.
    pub(crate) across: [f64; 2],
}

/// Arranges the words of a page in lines.
pub(crate) fn lines<'a>(words: &[Word<'a>], spacing: Spacing, page: PageSize) -> Vec<Line<'a>> {
    words
        .chunk_by(|before, after| before.line == after.line)
        .map(|words| line(words, spacing, page))
        .filter(|line| !line.pieces.is_empty())
        .collect()
}

fn line<'a>(words: &[Word<'a>], spacing: Spacing, page: PageSize) -> Line<'a> {
    let words: Vec<(Cow<'a, str>, Rect)> = words
        .iter()
        .map(|word| (printable(word.text), Rect::on(page, word.bbox)))
        .filter(|(text, _)| !text.is_empty())
        .collect();
    let direction = direction(&words);
    let mut extents: Vec<Extent> = words.iter().map(|(_, rect)| rect.seen(direction, page)).collect();
    level(&mut extents);
    let mut pieces: Vec<Piece<'a>> = Vec::with_capacity(2 * words.len());
    for ((text, _), Extent { along, across }) in words.into_iter().zip(extents) {
        if let Some(before) = pieces.last_mut() {
            let gap = along[0] - before.along[1];
            let height = before.across[1] - before.across[0];
            if spacing == Spacing::Inferred && is_apart(&before.text, &text, gap / height) {
                let space = Piece {
                    text: Cow::Borrowed(" "),
                    along: [before.along[1], along[0].max(before.along[1] + LEAST_SIDE)],
                    across: before.across,
                };
                pieces.push(space);
            } else if along[0] > before.along[0] + LEAST_SIDE {
                // Viewers see a space in a gap, and a break in an overlap.
                before.along[1] = along[0];
            }
        }
        pieces.push(Piece { text, along, across });
    }
    Line { direction, pieces }
}

/// Removes what no viewer can show or find.
fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        Cow::Owned(text.chars().filter(|letter| !letter.is_control()).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Decision whether a space stands between two words, by the gap in parts of the height of the line.
fn is_apart(before: &str, after: &str, gap: f64) -> bool {
    let (Some(last), Some(first)) = (before.chars().next_back(), after.chars().next()) else {
        return false;
    };
    if last.is_whitespace() || first.is_whitespace() {
        return false;
    }
    match (is_of_spaceless_script(last), is_of_spaceless_script(first)) {
        (false, false) => true,
        (true, true) if is_shad(last) => gap > GAP_OF_SPACE,
        (true, true) => gap > GAP_OF_COLUMN,
        _ => gap > GAP_OF_SPACE,
    }
}

/// Marks behind which Tibetan has its spaces.
fn is_shad(letter: char) -> bool {
    matches!(u32::from(letter), 0x0f0d..=0x0f14)
}

/// Membership of scripts that separate words, if at all, by marks of their own: Thai, Lao, Tibetan, Myanmar, Khmer, and those of East Asia
/// but for Hangul.
fn is_of_spaceless_script(letter: char) -> bool {
    matches!(u32::from(letter),
        0x0e00..=0x109f | 0x1780..=0x17ff | 0x2e80..=0x30ff | 0x3100..=0x312f | 0x31a0..=0x9fff | 0xf900..=0xfaff
        | 0xfe30..=0xfe4f | 0xff00..=0xff9f | 0x20000..=0x3ffff)
}

/// Direction of a line by the places of its words.
fn direction(words: &[(Cow<'_, str>, Rect)]) -> Direction {
    let (Some((text, first)), Some((_, last))) = (words.first(), words.last()) else {
        return Direction::Right;
    };
    let (widths, heights) = words.iter().fold((0.0, 0.0), |(widths, heights), (_, rect)| {
        (widths + rect.width(), heights + rect.height())
    });
    if words.len() == 1 {
        // A single tall box of several letters is a turned word; there is no telling which way.
        let is_turned = heights > 2.0 * widths && text.chars().count() > 2;
        return if is_turned {
            Direction::Down
        } else {
            Direction::Right
        };
    }
    let [from, to] = [first.centre(), last.centre()];
    let (right, down) = (to[0] - from[0], to[1] - from[1]);
    // Words of a turned line are at least as high as wide, but for syllables.
    let are_syllables = words.len() >= SYLLABLES && down.abs() > STEEP * right.abs();
    if down.abs() > right.abs() && (heights >= 0.8 * widths || are_syllables) {
        return if down > 0.0 {
            Direction::Down
        } else {
            Direction::Up
        };
    }
    let is_backwards = words
        .windows(2)
        .all(|pair| pair[1].1.centre()[0] < pair[0].1.centre()[0]);
    let is_right_to_left = words
        .iter()
        .flat_map(|(text, _)| text.chars())
        .any(|letter| matches!(u32::from(letter), 0x0590..=0x08ff | 0xfb1d..=0xfdff | 0xfe70..=0xfeff | 0x10800..=0x10fff | 0x1e800..=0x1efff));
    if is_backwards && !is_right_to_left {
        return Direction::Left;
    }
    Direction::Right
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Rect {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Rect {
    /// Box within the page with an extent, whatever was given.
    fn on(page: PageSize, [x0, y0, x1, y1]: [f32; 4]) -> Self {
        let [left, right] = side(x0, x1, page.width);
        let [top, bottom] = side(y0, y1, page.height);
        Self {
            left,
            top,
            right,
            bottom,
        }
    }

    fn width(&self) -> f64 {
        self.right - self.left
    }

    fn height(&self) -> f64 {
        self.bottom - self.top
    }

    fn centre(&self) -> [f64; 2] {
        [self.left + self.right, self.top + self.bottom].map(|sum| sum / 2.0)
    }

    /// Edges along and across a line of this direction.
    fn seen(&self, direction: Direction, page: PageSize) -> Extent {
        let PageSize { width, height } = page;
        let (along, across) = match direction {
            Direction::Right => ([self.left, self.right], [self.top, self.bottom]),
            Direction::Down => ([self.top, self.bottom], [width - self.right, width - self.left]),
            Direction::Left => (
                [width - self.right, width - self.left],
                [height - self.bottom, height - self.top],
            ),
            Direction::Up => ([height - self.bottom, height - self.top], [self.left, self.right]),
        };
        Extent { along, across }
    }
}

/// Orders two coordinates, moves them onto the page and keeps them apart.
fn side(one: f32, other: f32, length: f64) -> [f64; 2] {
    let on_page = |value: f32| {
        let value = f64::from(value);
        if value.is_nan() {
            0.0
        } else {
            value.clamp(0.0, length)
        }
    };
    let [one, other] = [one, other].map(on_page);
    let low = one.min(other).min((length - LEAST_SIDE).max(0.0));
    [low, one.max(other).max(low + LEAST_SIDE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageSize = PageSize {
        width: 100.0,
        height: 200.0,
    };

    fn word(text: &str, bbox: [f32; 4]) -> Word<'_> {
        Word { text, bbox, line: 0 }
    }

    fn text(words: &[Word<'_>], spacing: Spacing) -> String {
        let lines = lines(words, spacing, PAGE);
        let line = |line: &Line<'_>| line.pieces.iter().map(|piece| piece.text.clone()).collect();
        let lines: Vec<String> = lines.iter().map(line).collect();
        lines.join("\n")
    }

    #[test]
    fn spaces_stand_where_the_script_has_them() {
        let row = |first, second, gap: f32| {
            [
                word(first, [0.0, 0.0, 10.0, 10.0]),
                word(second, [10.0 + gap, 0.0, 30.0, 10.0]),
            ]
        };
        for (first, second, gap, expected) in [
            ("two", "words", 0.0, "two words"),
            ("two ", "words", 3.0, "two words"),
            ("年", "度", 1.0, "年度"),
            ("年", "度", 8.0, "年 度"),
            ("བཀྲ་", "ཤིས", 1.0, "བཀྲ་ཤིས"),
            ("བཀྲ་", "ཤིས", 3.0, "བཀྲ་ཤིས"),
            ("ཤིས།", "བདེ", 3.0, "ཤིས། བདེ"),
            ("年", "2023", 1.0, "年2023"),
            ("年", "2023", 3.0, "年 2023"),
            ("한국", "어", 3.0, "한국 어"),
        ] {
            assert_eq!(text(&row(first, second, gap), Spacing::Inferred), expected);
            assert_eq!(
                text(&row(first, second, gap), Spacing::Written),
                [first, second].concat()
            );
        }
    }

    #[test]
    fn lines_run_the_way_of_their_words() {
        let of = |boxes: [[f32; 4]; 2]| {
            let words = boxes.map(|bbox| word("word", bbox));
            lines(&words, Spacing::Inferred, PAGE)[0].direction
        };
        assert_eq!(
            of([[0.0, 0.0, 20.0, 10.0], [22.0, 1.0, 40.0, 11.0]]),
            Direction::Right
        );
        assert_eq!(
            of([[0.0, 0.0, 10.0, 20.0], [0.0, 22.0, 10.0, 40.0]]),
            Direction::Down
        );
        assert_eq!(
            of([[0.0, 22.0, 10.0, 40.0], [0.0, 0.0, 10.0, 20.0]]),
            Direction::Up
        );
        assert_eq!(
            of([[22.0, 0.0, 40.0, 10.0], [0.0, 0.0, 20.0, 10.0]]),
            Direction::Left
        );
        let syllables = [0.0, 12.0, 22.0, 30.0, 44.0].map(|top| word("ག་", [0.0, top, 20.0, top + 8.0]));
        assert_eq!(
            lines(&syllables, Spacing::Inferred, PAGE)[0].direction,
            Direction::Down
        );
        // Two rows under one number.
        assert_eq!(
            of([[0.0, 0.0, 40.0, 10.0], [0.0, 20.0, 40.0, 30.0]]),
            Direction::Right
        );
    }

    #[test]
    fn a_joined_word_reaches_to_the_next() {
        let words = [
            word("ཀ་", [0.0, 0.0, 10.0, 10.0]),
            word("ཁ་", [11.5, 0.0, 20.0, 10.0]),
        ];
        let line = &lines(&words, Spacing::Inferred, PAGE)[0];
        assert_eq!(line.pieces[0].along, [0.0, 11.5]);
    }

    #[test]
    fn any_box_has_an_extent_on_the_page() {
        for bbox in [
            [f32::NAN; 4],
            [f32::INFINITY; 4],
            [50.0; 4],
            [90.0, 150.0, 10.0, 20.0],
            [-5.0, -5.0, 500.0, 500.0],
            [101.0, 201.0, 102.0, 202.0],
        ] {
            let rect = Rect::on(PAGE, bbox);
            assert!(rect.left >= 0.0 && rect.top >= 0.0, "{rect:?}");
            assert!(
                rect.right <= 100.0 + 1e-9 && rect.bottom <= 200.0 + 1e-9,
                "{rect:?}"
            );
            assert!(rect.width() >= 0.09 && rect.height() >= 0.09, "{rect:?}");
        }
    }

    #[test]
    fn control_characters_are_left_out() {
        let words = [
            word("a\u{0}b\n", [0.0, 0.0, 9.0, 9.0]),
            word("\r", [0.0, 0.0, 9.0, 9.0]),
        ];
        assert_eq!(text(&words, Spacing::Inferred), "ab");
    }
}
