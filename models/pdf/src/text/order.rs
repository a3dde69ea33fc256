//! Reading order of a text layer. Most pages are drawn in it; where the places of lines contradict, as with columns that are drawn side by
//! side, and blocks that are drawn in any order, the places are right.

use parkhang_cv::reading_order::{Bounds, MAX_BOXES, reading_order};

use super::Word;
use crate::geometry::Rect;

/// Gap within a line from which on its parts may be of two columns, in its height.
const GAP: f32 = 1.0;
/// Agreement of two orders, as Kendall's tau of them, from which on they tell of the same columns, and that of the file stays: it knows
/// better in which order the cells of a table are read.
const AGREED: f64 = 0.9;

/// Part of a line.
struct Part {
    words: std::ops::Range<usize>,
    bounds: Bounds,
}

/// Puts the words of a page into reading order, and numbers their lines. `rotation` is the turn of most of its text.
pub(crate) fn ordered(words: Vec<Word>, rotation: u16) -> Vec<Word> {
    let parts = parts(&words, rotation);
    if parts.len() > MAX_BOXES {
        return words;
    }
    let bounds: Vec<Bounds> = parts.iter().map(|part| part.bounds).collect();
    let order = reading_order(&bounds);
    if agreement(&order, &parts) >= AGREED {
        return words;
    }
    let mut read: Vec<Word> = Vec::with_capacity(words.len());
    let mut line = 0;
    let mut before: Option<(usize, u32)> = None;
    for place in order {
        let Some(part) = parts.get(place).and_then(|part| words.get(part.words.clone())) else {
            continue;
        };
        let drawn = part.first().map_or(0, |word| word.line);
        if before.is_some_and(|before| before != (place, drawn)) {
            line += 1;
        }
        // Parts that follow each other still are one line.
        before = Some((place + 1, drawn));
        read.extend(part.iter().map(|word| Word { line, ..word.clone() }));
    }
    read
}

/// Parts of lines as they are drawn, with their bounds on the page turned upright.
fn parts(words: &[Word], rotation: u16) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut before: Option<(u32, Bounds)> = None;
    for (index, word) in words.iter().enumerate() {
        let bounds = upright(word.bbox, rotation);
        let continues = before.is_some_and(|(line, before)| line == word.line && is_close(before, bounds));
        match parts.last_mut().filter(|_| continues) {
            Some(part) => {
                part.words.end = index + 1;
                part.bounds = [
                    part.bounds[0].min(bounds[0]),
                    part.bounds[1].min(bounds[1]),
                    part.bounds[2].max(bounds[2]),
                    part.bounds[3].max(bounds[3]),
                ];
            }
            None => parts.push(Part {
                words: index..index + 1,
                bounds,
            }),
        }
        before = Some((word.line, bounds));
    }
    parts
}

fn is_close(before: Bounds, after: Bounds) -> bool {
    after[0] - before[2] <= GAP * (before[3] - before[1])
}

/// Bounds on the page turned so that its text runs to the right.
fn upright(Rect { x0, y0, x1, y1 }: Rect, rotation: u16) -> Bounds {
    match rotation {
        90 => [y0, -x1, y1, -x0],
        180 => [-x1, -y1, -x0, -y0],
        270 => [-y1, x0, -y0, x1],
        _ => [x0, y0, x1, y1],
    }
}

/// Kendall's tau of the words in an order of their parts and in the order of the file, without the pairs within a part.
fn agreement(order: &[usize], parts: &[Part]) -> f64 {
    let words = |place: &usize| parts.get(*place).map_or(0, |part| part.words.len());
    let (mut pairs, mut swapped) = (0, 0);
    for (at, one) in order.iter().enumerate() {
        for other in order.iter().skip(at + 1) {
            let of_both = words(one) * words(other);
            pairs += of_both;
            if other < one {
                swapped += of_both;
            }
        }
    }
    if pairs == 0 {
        return 1.0;
    }
    1.0 - 2.0 * swapped as f64 / pairs as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: String, line: u32, bbox: [f32; 4]) -> Word {
        let [x0, y0, x1, y1] = bbox;
        Word {
            text,
            bbox: Rect { x0, y0, x1, y1 },
            line,
            visible: true,
        }
    }

    /// Two columns of eight lines of three words, as rows across both.
    fn rows() -> Vec<Word> {
        let mut words = Vec::new();
        for row in 0..8_u8 {
            for place in 0..6_u8 {
                let column = place / 3;
                let (x, y) = (
                    f32::from(column) * 140.0 + f32::from(place % 3) * 43.0,
                    f32::from(row) * 13.0,
                );
                words.push(word(
                    format!("{column}{row}{}", place % 3),
                    row.into(),
                    [x, y, x + 38.0, y + 10.0],
                ));
            }
        }
        words
    }

    fn turned(words: &[Word], of: impl Fn([f32; 4]) -> [f32; 4]) -> Vec<Word> {
        let turn = |word: &Word| {
            let Rect { x0, y0, x1, y1 } = word.bbox;
            self::word(word.text.clone(), word.line, of([x0, y0, x1, y1]))
        };
        words.iter().map(turn).collect()
    }

    #[test]
    fn columns_that_are_drawn_side_by_side_are_read_one_after_the_other() {
        let rows = rows();
        let mut expected: Vec<String> = rows.iter().map(|word| word.text.clone()).collect();
        expected.sort();
        for (rotation, words) in [
            (0, rows.clone()),
            (
                90,
                turned(&rows, |[x0, y0, x1, y1]| [300.0 - y1, x0, 300.0 - y0, x1]),
            ),
            (
                180,
                turned(&rows, |[x0, y0, x1, y1]| {
                    [300.0 - x1, 300.0 - y1, 300.0 - x0, 300.0 - y0]
                }),
            ),
            (
                270,
                turned(&rows, |[x0, y0, x1, y1]| [y0, 300.0 - x1, y1, 300.0 - x0]),
            ),
        ] {
            let read = ordered(words, rotation);
            let texts: Vec<&str> = read.iter().map(|word| word.text.as_str()).collect();
            assert_eq!(texts, expected, "{rotation}");
            let lines: Vec<u32> = read.iter().map(|word| word.line).collect();
            let by_three: Vec<u32> = (0..48).map(|word| word / 3).collect();
            assert_eq!(lines, by_three, "{rotation}");
        }
    }

    #[test]
    fn what_is_drawn_in_order_stays_as_it_is() {
        let mut words = rows();
        words.sort_by(|one, other| one.text.cmp(&other.text));
        for (place, word) in (0..).zip(&mut words) {
            word.line = place / 3;
        }
        assert_eq!(ordered(words.clone(), 0), words);
        // A page number that is drawn first is no reason to order the page anew.
        words.insert(0, word("1".to_owned(), 99, [130.0, 200.0, 134.0, 210.0]));
        assert_eq!(ordered(words.clone(), 0), words);
        assert_eq!(ordered(Vec::new(), 0), Vec::new());
    }

    #[test]
    fn cells_of_a_table_are_lines_as_they_were() {
        let cells: Vec<Word> = (0..12_u8)
            .map(|cell| {
                let (x, y) = (f32::from(cell % 3) * 35.0, f32::from(cell / 3) * 20.0);
                word(cell.to_string(), u32::from(cell / 3), [x, y, x + 20.0, y + 10.0])
            })
            .collect();
        let mut drawn_upwards: Vec<Word> = cells.chunks(3).rev().flatten().cloned().collect();
        for (place, word) in (0..).zip(&mut drawn_upwards) {
            word.line = place / 3;
        }
        assert_eq!(ordered(drawn_upwards, 0), cells);
    }
}
