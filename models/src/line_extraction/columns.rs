//! Columns of text, which are read one after the other.

use super::{TextLine, line_outline};
use crate::page::geometry::bounding_rect;
use crate::page::reading_order::{Bounds, ColumnRules, text_blocks};

/// Parts of lines in blocks: what stands above columns, each of them, and what stands below. Their own order stays within a block.
pub(super) fn columns(parts: Vec<TextLine>) -> Vec<Vec<TextLine>> {
    let bounds: Vec<Bounds> = parts.iter().map(bounds).collect();
    let places = text_blocks(&bounds, &ColumnRules::LINES);
    let mut numbers = vec![0; parts.len()];
    for (number, block) in places.iter().enumerate() {
        for &place in block {
            numbers[place] = number;
        }
    }
    let mut blocks = vec![Vec::new(); places.len()];
    for (part, number) in parts.into_iter().zip(numbers) {
        blocks[number].push(part);
    }
    blocks
}

/// Bounds of a line as high as its letters, of which a part is the core, and no wider than that: gaps are narrow.
fn bounds(part: &TextLine) -> Bounds {
    let (core, outline) = (part.bounding_box, bounding_rect(&line_outline(&part.contour)));
    [core.x, outline.y, core.x + core.width, outline.y + outline.height].map(|edge| edge as f32)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;
    use crate::page::geometry::Point;

    const HEIGHT: i32 = 20;
    const PITCH: i32 = 50;

    fn line(x: i32, y: i32, width: i32) -> TextLine {
        let (right, bottom) = (x + width - 1, y + HEIGHT - 1);
        let corners = [(x, y), (x, bottom), (right, bottom), (right, y)];
        TextLine::new(0, corners.map(|(x, y)| Point::new(x, y)).to_vec()).unwrap()
    }

    /// Lines of text that begin at `x`; the last of each four is short.
    fn column(x: i32, width: i32, rows: Range<i32>) -> Vec<TextLine> {
        let width_of = |row: i32| if row % 4 == 3 { width / 2 } else { width };
        rows.map(|row| line(x, row * PITCH, width_of(row))).collect()
    }

    /// Left edge and row of every part, block by block.
    fn places(parts: Vec<TextLine>) -> Vec<Vec<(i32, i32)>> {
        let place = |part: &TextLine| (part.bounding_box.x, part.bounding_box.y / PITCH);
        let blocks = columns(parts).into_iter();
        blocks.map(|block| block.iter().map(place).collect()).collect()
    }

    fn rows(x: i32, rows: Range<i32>) -> Vec<(i32, i32)> {
        rows.map(|row| (x, row)).collect()
    }

    #[test]
    fn columns_are_blocks_between_what_lies_across() {
        let parts = [
            vec![line(200, 0, 700), line(100, 10 * PITCH, 900)],
            column(600, 400, 2..9),
            column(100, 400, 1..9),
        ];
        assert_eq!(
            places(parts.concat()),
            [vec![(200, 0)], rows(100, 1..9), rows(600, 2..9), vec![(100, 10)]]
        );
    }

    #[test]
    fn gaps_in_a_few_lines_are_read_across() {
        let mut leaf = [100, 600].map(|x| column(x, 400, 2..5)).concat();
        leaf.extend([0, 1, 5, 6].map(|row| line(100, row * PITCH, 900)));
        assert_eq!(places(leaf).len(), 1);
        assert_eq!(places(column(100, 900, 0..12)).len(), 1);
    }

    proptest! {
        #[test]
        fn every_part_is_in_one_block(places in prop::collection::vec((0..2000, 0..900, 2..600), 0..60)) {
            let parts: Vec<TextLine> = places.into_iter().map(|(x, y, width)| line(x, y, width)).collect();
            let key = |part: &TextLine| (part.bounding_box.x, part.bounding_box.y, part.bounding_box.width);
            let mut all: Vec<_> = parts.iter().map(key).collect();
            let mut found: Vec<_> = columns(parts).concat().iter().map(key).collect();
            all.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, all);
        }
    }
}
