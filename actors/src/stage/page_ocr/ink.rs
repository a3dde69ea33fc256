//! Ink of a line's image: where its syllables end, and the boxes that their ink fills.

use std::ops::Range;

use image::GrayImage;

/// Which pixels of a line are ink.
#[derive(Debug)]
pub(super) struct Ink {
    width: usize,
    /// True for ink, row after row.
    pixels: Vec<bool>,
    /// Pixels of ink in each column.
    columns: Vec<usize>,
}

/// Box of ink, in pixels: the columns and the rows that it fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InkBox {
    pub columns: Range<usize>,
    pub rows: Range<usize>,
}

impl Ink {
    /// Ink is what is darker than the grey which parts the image's pixels best (N. Otsu, A threshold selection method from gray-level
    /// histograms, 1979).
    pub(super) fn of(line: &GrayImage) -> Self {
        let width = line.width() as usize;
        let threshold = threshold(line);
        let pixels: Vec<bool> = line.as_raw().iter().map(|grey| *grey <= threshold).collect();
        let mut columns = vec![0; width];
        for row in pixels.chunks_exact(width.max(1)) {
            for (column, ink) in columns.iter_mut().zip(row) {
                *column += usize::from(*ink);
            }
        }
        Self {
            width,
            pixels,
            columns,
        }
    }

    /// Columns where neighbouring pieces of the line part: between the pieces where there is least ink. The pieces are given by the
    /// columns at which they were seen, from left to right; the first begins and the last ends within `margin` columns of that.
    pub(super) fn part(&self, pieces: &[Range<usize>], margin: usize) -> Vec<Range<usize>> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Vec::new();
        };
        let mut joints = vec![first.start.saturating_sub(margin).min(self.width)];
        for pair in pieces.windows(2) {
            let (left, right) = (&pair[0], &pair[1]);
            let from = left.end.min(right.start).saturating_sub(margin / 4);
            let to = left.end.max(right.start).saturating_add(margin / 4);
            let from = from.max(joints.last().copied().unwrap_or(0));
            joints.push(self.least(from..to.max(from)));
        }
        joints.push(last.end.saturating_add(margin).min(self.width));
        joints
            .windows(2)
            .map(|pair| pair[0]..pair[1].max(pair[0]))
            .collect()
    }

    /// Middle of the first and longest run of columns with the least ink.
    fn least(&self, columns: Range<usize>) -> usize {
        let from = columns.start.min(self.width);
        let within = &self.columns[from..columns.end.min(self.width).max(from)];
        let Some(least) = within.iter().min() else {
            return from;
        };
        let mut longest = 0..0;
        let mut run = 0..0;
        for (place, ink) in within.iter().enumerate() {
            if ink > least {
                run = place + 1..place + 1;
                continue;
            }
            run.end = place + 1;
            if run.len() > longest.len() {
                longest = run.clone();
            }
        }
        from + longest.start + longest.len() / 2
    }

    /// Box of the ink in these columns; `None` where there is none.
    pub(super) fn bounds(&self, columns: &Range<usize>) -> Option<InkBox> {
        let end = columns.end.min(self.width);
        let inked = |column: &usize| self.columns[*column] > 0;
        let first = (columns.start..end).find(inked)?;
        let last = (first..end).rev().find(inked)?;
        let has_ink = |row: &[bool]| row[first..=last].iter().any(|ink| *ink);
        let mut rows = self.pixels.chunks_exact(self.width);
        let top = rows.clone().position(has_ink)?;
        let bottom = rows.rposition(has_ink)?;
        Some(InkBox {
            columns: first..last + 1,
            rows: top..bottom + 1,
        })
    }

    /// The columns cut into so many parts at their widest blank gaps; fewer where there are not so many gaps.
    pub(super) fn split(&self, columns: Range<usize>, parts: usize) -> Vec<Range<usize>> {
        let end = columns.end.min(self.width);
        let mut gaps: Vec<Range<usize>> = Vec::new();
        let mut open: Option<usize> = None;
        let Some(inked) = self.bounds(&columns) else {
            return vec![columns];
        };
        for column in inked.columns.clone() {
            match (self.columns[column] == 0, open) {
                (true, None) => open = Some(column),
                (false, Some(start)) => {
                    gaps.push(start..column);
                    open = None;
                }
                _ => {}
            }
        }
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.len()));
        gaps.truncate(parts.saturating_sub(1));
        gaps.sort_by_key(|gap| gap.start);
        let mut starts = vec![columns.start];
        starts.extend(gaps.iter().map(|gap| gap.start + gap.len() / 2));
        let ends = starts[1..].iter().copied().chain([end]);
        starts.iter().zip(ends).map(|(start, end)| *start..end).collect()
    }
}

/// Grey that parts the pixels of an image into two classes which differ most.
fn threshold(image: &GrayImage) -> u8 {
    let mut counts = [0_u64; 256];
    for grey in image.as_raw() {
        counts[usize::from(*grey)] += 1;
    }
    let total: u64 = counts.iter().sum();
    let sum: f64 = (0_u32..)
        .zip(counts)
        .map(|(grey, count)| f64::from(grey) * count as f64)
        .sum();
    let (mut below, mut sum_below, mut best) = (0_u64, 0.0, (0.0, 127_u8));
    for (grey, count) in (0_u8..=255).zip(counts) {
        below += count;
        sum_below += f64::from(grey) * count as f64;
        let above = total - below;
        if below == 0 || above == 0 {
            continue;
        }
        let distance = sum_below / below as f64 - (sum - sum_below) / above as f64;
        let parted = below as f64 * above as f64 * distance * distance;
        if parted > best.0 {
            best = (parted, grey);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use image::Luma;
    use proptest::prelude::*;

    use super::*;

    /// A line in which each `x` of the text is a column of ink, two pixels high from the third row on.
    fn line(text: &str) -> Ink {
        let columns: Vec<bool> = text.chars().map(|letter| letter == 'x').collect();
        Ink::of(&GrayImage::from_fn(columns.len() as u32, 6, |x, y| {
            let ink = columns[x as usize] && (2..4).contains(&y);
            Luma([if ink { 30 } else { 240 }])
        }))
    }

    #[test]
    fn pieces_part_where_there_is_no_ink() {
        let line = line("..xxx..xxxx...xx.");
        // Seen at their middles only.
        let parts = line.part(&[3..4, 8..9, 15..16], 4);
        let boxes: Vec<InkBox> = parts.iter().filter_map(|part| line.bounds(part)).collect();
        let columns: Vec<Range<usize>> = boxes.iter().map(|ink| ink.columns.clone()).collect();
        assert_eq!(columns, [2..5, 7..11, 14..16]);
        assert!(boxes.iter().all(|ink| ink.rows == (2..4)));
    }

    #[test]
    fn a_piece_is_split_at_its_widest_gaps() {
        let line = line("xx.x....x.");
        assert_eq!(line.split(0..10, 2), [0..6, 6..10]);
        assert_eq!(line.split(0..10, 9), [0..2, 2..6, 6..10]);
        assert_eq!(
            line.split(4..7, 2).as_slice(),
            std::slice::from_ref(&(4..7)),
            "it has no ink"
        );
    }

    proptest! {
        #[test]
        fn parts_lie_one_behind_the_other_and_on_the_line(
            text in "[x.]{0,40}", places in prop::collection::vec((0_usize..50, 0_usize..9), 0..6), margin in 0_usize..9,
        ) {
            let line = line(&text);
            let mut pieces: Vec<Range<usize>> = places.into_iter().map(|(start, length)| start..start + length).collect();
            pieces.sort_by_key(|piece| piece.start);
            let parts = line.part(&pieces, margin);
            prop_assert_eq!(parts.len(), pieces.len());
            prop_assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].start));
            for part in parts {
                if let Some(ink) = line.bounds(&part) {
                    prop_assert!(part.start <= ink.columns.start && ink.columns.end <= part.end);
                }
                let split = line.split(part.clone(), 3);
                prop_assert!(!split.is_empty() && split.len() <= 3);
            }
        }
    }
}
