//! From frames to characters (CTC, Graves et al. 2006, by the likeliest path), and from characters to words.

use std::ops::Range;

use crate::charset::Charset;
use crate::inference::Frame;
use crate::ink::Ink;

/// Pixels of a line image for one frame.
pub(crate) const STRIDE: usize = 8;
/// Frames without a character after which another word begins although no space was read.
const GAP: usize = 5;

/// A character of a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Character<'a> {
    pub(crate) symbol: &'a str,
    /// Frames that read it.
    pub(crate) frames: Range<usize>,
    pub(crate) probability: f32,
}

impl Character<'_> {
    /// Middle of the character in pixels of the line image.
    fn middle(&self) -> usize {
        (self.frames.start + self.frames.end) * STRIDE / 2
    }
}

/// Characters of the likeliest path: equal classes that follow each other are one character, unless a blank stands between.
pub(crate) fn characters<'a>(frames: &[Frame], charset: &'a Charset) -> Vec<Character<'a>> {
    let mut characters: Vec<Character<'a>> = Vec::new();
    let mut before = 0;
    for (place, frame) in frames.iter().enumerate() {
        if let Some(symbol) = charset.symbol(frame.class) {
            match characters.last_mut().filter(|_| frame.class == before) {
                Some(last) => {
                    last.frames.end = place + 1;
                    last.probability = last.probability.max(frame.probability);
                }
                None => characters.push(Character {
                    symbol,
                    frames: place..place + 1,
                    probability: frame.probability,
                }),
            }
        }
        before = frame.class;
    }
    characters
}

/// A word of a line image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineWord {
    pub(crate) text: String,
    /// Columns of the line image.
    pub(crate) columns: Range<usize>,
    pub(crate) confidence: f32,
    /// A space, or a gap as wide as one, was read before it.
    pub(crate) space_before: bool,
}

/// Returns whether a character is a word by itself: ideographs, kana, and signs as wide.
fn stands_alone(symbol: &str) -> bool {
    symbol.chars().next().is_some_and(|first| {
        matches!(
            u32::from(first),
            0x3001..=0x30FF | 0x3400..=0x9FFF | 0xF900..=0xFAFF | 0xFF00..=0xFFEF | 0x2_0000..=0x3_FFFF | 0x25A0..=0x27BF
        )
    })
}

/// The words of a line: what stands between spaces, ideographs one by one.
pub(crate) fn words(characters: &[Character<'_>], ink: &Ink) -> Vec<LineWord> {
    let mut parts: Vec<(Range<usize>, bool)> = Vec::new();
    let mut space = false;
    for (place, character) in characters.iter().enumerate() {
        if character.symbol.trim().is_empty() {
            space = true;
            continue;
        }
        let before = place.checked_sub(1).map(|before| &characters[before]);
        let gap = before.is_some_and(|before| character.frames.start.saturating_sub(before.frames.end) > GAP);
        let alone = stands_alone(character.symbol);
        let after_one = before.is_some_and(|before| stands_alone(before.symbol));
        match parts
            .last_mut()
            .filter(|_| !space && !gap && !alone && !after_one)
        {
            Some((part, _)) => part.end = place + 1,
            None => parts.push((
                place..place + 1,
                !parts.is_empty() && (space || (gap && !alone && !after_one)),
            )),
        }
        space = false;
    }
    let edges = edges(characters, &parts, ink);
    parts
        .into_iter()
        .zip(edges)
        .map(|((part, space_before), columns)| {
            let characters = &characters[part];
            let sum: f32 = characters.iter().map(|character| character.probability).sum();
            LineWord {
                text: characters.iter().map(|character| character.symbol).collect(),
                columns,
                confidence: sum / characters.len().max(1) as f32,
                space_before,
            }
        })
        .collect()
}

/// The columns of each word: frames are coarse, so a word ends where the ink does.
fn edges(characters: &[Character<'_>], parts: &[(Range<usize>, bool)], ink: &Ink) -> Vec<Range<usize>> {
    let width = ink.columns.len();
    let pitch = pitch(characters);
    // Letters of a word are closer to each other than this; what lies farther off is a speck or a neighbour.
    let gap = (pitch / 2).max(4);
    let mut edges: Vec<Range<usize>> = Vec::with_capacity(parts.len());
    let mut start = None;
    for (number, (part, _)) in parts.iter().enumerate() {
        let (first, last) = (characters[part.start].middle(), characters[part.end - 1].middle());
        let (first, last) = (first.min(width), last.min(width));
        let begin = start.unwrap_or_else(|| {
            ink.reach((first + gap).min(width), 2 * gap, false)
                .unwrap_or(first.saturating_sub(pitch / 2))
        });
        let (end, next) = match parts.get(number + 1) {
            Some((next, _)) => {
                let to = characters[next.start].middle().min(width);
                let close = stands_alone(characters[part.end - 1].symbol)
                    || stands_alone(characters[next.start].symbol);
                parting(ink, last.min(to)..to.max(last), pitch, close)
            }
            None => {
                let end = ink
                    .reach(last.saturating_sub(gap), 2 * gap, true)
                    .map_or((last + pitch / 2).min(width), |column| column + 1);
                (end, width)
            }
        };
        edges.push(begin.min(end)..end.max(begin + 1).min(width.max(1)));
        start = Some(next);
    }
    widen_signs(characters, parts, width, &mut edges);
    edges
}

/// End of one word and begin of the next between the middles of their characters. `close` are ideographs, which have gaps within
/// them that may be wider than those between them.
fn parting(ink: &Ink, between: Range<usize>, pitch: usize, close: bool) -> (usize, usize) {
    let middle = (between.start + between.end) / 2;
    let near = middle.saturating_sub(pitch / 3).max(between.start)..(middle + pitch / 3 + 1).min(between.end);
    let searched = if close && between.len() < 2 * pitch {
        near.clone()
    } else {
        between
    };
    if let Some(gap) = ink.widest_gap(searched) {
        return (gap.start, gap.end);
    }
    let cut = ink.thinnest(near).unwrap_or(middle);
    (cut, cut)
}

/// Gives signs such as the full stop, which have little ink in the place of an ideograph, that place.
fn widen_signs(
    characters: &[Character<'_>],
    parts: &[(Range<usize>, bool)],
    width: usize,
    edges: &mut [Range<usize>],
) {
    let alone = |number: usize| {
        parts
            .get(number)
            .is_some_and(|(part, _)| stands_alone(characters[part.start].symbol))
    };
    let mut widths: Vec<usize> = (0..parts.len())
        .filter(|&number| alone(number))
        .map(|number| edges[number].len())
        .collect();
    widths.sort_unstable();
    // Most of them fill their places.
    let Some(&place) = widths.get(widths.len() * 3 / 4) else {
        return;
    };
    for (number, (part, _)) in parts.iter().enumerate() {
        let symbol = characters[part.start].symbol;
        let is_sign = part.len() == 1 && !symbol.chars().all(char::is_alphanumeric);
        let beside = alone(number) || (number > 0 && alone(number - 1));
        if !is_sign || !beside || 5 * edges[number].len() > 3 * place {
            continue;
        }
        let before = number.checked_sub(1).map(|before| edges[before].end);
        let after = edges.get(number + 1).map_or(width, |next| next.start);
        let own = edges[number].clone();
        // Where there is no neighbour, the sign's place ends with it or begins with it.
        let start = before.map_or((own.end).saturating_sub(place), |before| {
            before.max(own.end.saturating_sub(place))
        });
        let end = after.min(start + place).max(own.end);
        edges[number] = start.min(own.start)..end;
    }
}

/// Usual distance of two characters in pixels.
fn pitch(characters: &[Character<'_>]) -> usize {
    let mut distances: Vec<usize> = characters
        .windows(2)
        .map(|pair| pair[1].middle().saturating_sub(pair[0].middle()))
        .collect();
    distances.sort_unstable();
    let usual = distances.get(distances.len() / 2).copied();
    // One character alone is at most as wide as the line is high.
    usual.unwrap_or(3 * STRIDE).clamp(STRIDE, 6 * STRIDE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charset() -> Charset {
        Charset::new(["a", "b", "中", "文"].map(str::to_owned).to_vec())
    }

    fn frames(classes: &[u32]) -> Vec<Frame> {
        classes
            .iter()
            .map(|&class| Frame {
                class,
                probability: if class == 0 { 1.0 } else { 0.8 },
            })
            .collect()
    }

    fn no_ink(frames: usize) -> Ink {
        Ink {
            columns: vec![9; frames * STRIDE],
            rows: vec![1; 48],
        }
    }

    fn read(classes: &[u32]) -> Vec<(String, bool)> {
        let charset = charset();
        let frames = frames(classes);
        let characters = characters(&frames, &charset);
        words(&characters, &no_ink(frames.len()))
            .into_iter()
            .map(|word| (word.text, word.space_before))
            .collect()
    }

    #[test]
    fn repeats_are_one_character_and_blanks_part_them() {
        let charset = charset();
        let frames = frames(&[0, 1, 1, 0, 1, 2, 0]);
        let symbols: Vec<_> = characters(&frames, &charset)
            .into_iter()
            .map(|character| (character.symbol, character.frames))
            .collect();
        assert_eq!(symbols, [("a", 1..3), ("a", 4..5), ("b", 5..6)]);
    }

    #[test]
    fn words_end_at_spaces_at_wide_gaps_and_around_ideographs() {
        let word = |text: &str, space| (text.to_owned(), space);
        assert_eq!(read(&[1, 2, 5, 2, 1]), [word("ab", false), word("ba", true)]);
        assert_eq!(
            read(&[1, 3, 4, 2]),
            [
                word("a", false),
                word("中", false),
                word("文", false),
                word("b", false)
            ]
        );
        assert_eq!(
            read(&[1, 0, 0, 0, 0, 0, 0, 2]),
            [word("a", false), word("b", true)]
        );
        assert_eq!(read(&[5, 5, 0]), []);
        assert_eq!(read(&[]), []);
    }

    #[test]
    fn words_end_where_the_ink_does() {
        let charset = charset();
        let frames = frames(&[0, 1, 0, 5, 0, 2, 0, 0]);
        let mut ink = no_ink(frames.len());
        for column in (0..6).chain(19..37).chain(50..64) {
            ink.columns[column] = 0;
        }
        let found = words(&characters(&frames, &charset), &ink);
        assert_eq!(found[0].columns, 6..19);
        assert_eq!(found[1].columns, 37..50);
        assert!((found[0].confidence - 0.8).abs() < 1e-6);
    }
}
