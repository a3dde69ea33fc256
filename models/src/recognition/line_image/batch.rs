//! Putting lines of one width together.

use super::{PreparedLine, Preprocessing};
use crate::inference::LineBatch;

/// Multiple to which widths are rounded up, in pixels.
const WIDTH_STEP: usize = 64;

/// Limits of what goes through the network at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    pub lines: usize,
    /// Values of a batch, padding included; a single line may exceed it.
    pub pixels: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            lines: 16,
            pixels: 16 * 3200 * 100,
        }
    }
}

impl Preprocessing {
    /// Puts lines into batches and says for each the places of its lines in `lines`.
    ///
    /// A batch holds only lines that round up to its width: what a network answers for a line then does not depend on
    /// the lines beside it. Equal lines give equal batches.
    pub fn batch(&self, lines: &[PreparedLine], limits: BatchLimits) -> Vec<(LineBatch, Vec<usize>)> {
        let shape = |index: &usize| {
            (
                lines[*index].height,
                lines[*index].width.next_multiple_of(self.width_step()),
            )
        };
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by_key(shape);
        let mut batches = Vec::new();
        for group in order.chunk_by(|a, b| shape(a) == shape(b)) {
            let (height, width) = shape(&group[0]);
            let most = (limits.pixels / (height * width).max(1)).min(limits.lines).max(1);
            for indices in group.chunks(most) {
                batches.push((self.fill(lines, indices, height, width), indices.to_vec()));
            }
        }
        batches
    }

    fn width_step(&self) -> usize {
        match self {
            // All prepared lines have the size of the canvas.
            Self::BdrcGen1 { .. } | Self::BdrcGen2 { .. } => 1,
            Self::Ink { .. } => WIDTH_STEP,
        }
    }

    fn fill(&self, lines: &[PreparedLine], indices: &[usize], height: usize, width: usize) -> LineBatch {
        let mut values = Vec::with_capacity(indices.len() * height * width);
        for &index in indices {
            let line = &lines[index];
            for row in line.values.chunks_exact(line.width.max(1)) {
                values.extend_from_slice(row);
                values.resize(values.len() + width - line.width, self.paper());
            }
        }
        let line_widths = indices.iter().map(|&index| lines[index].width).collect();
        LineBatch {
            height,
            width,
            line_widths,
            values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INK: Preprocessing = Preprocessing::Ink {
        height: 2,
        stroke_pitch: None,
    };

    fn line(width: usize, value: f32) -> PreparedLine {
        PreparedLine {
            height: 2,
            width,
            values: vec![value; 2 * width],
            left_pad: 0,
            content_width: width,
            shown: 0..0,
            inked: None,
        }
    }

    #[test]
    fn lines_of_one_width_meet_and_are_padded_with_paper() {
        let lines = [line(100, 0.1), line(60, 0.2), line(128, 0.3), line(64, 0.4)];
        let batches = INK.batch(&lines, BatchLimits::default());
        assert_eq!(
            batches
                .iter()
                .map(|(_, indices)| indices.as_slice())
                .collect::<Vec<_>>(),
            [&[1, 3][..], &[0, 2]]
        );
        let (narrow, _) = &batches[0];
        assert_eq!(
            (narrow.height, narrow.width, narrow.line_widths.as_slice()),
            (2, 64, &[60, 64][..])
        );
        let row: Vec<f32> = [vec![0.2; 60], vec![0.0; 4]].concat();
        assert_eq!(narrow.values, [row.clone(), row, vec![0.4; 128]].concat());
    }

    #[test]
    fn batches_keep_to_their_limits() {
        let lines: Vec<PreparedLine> = (0..7).map(|_| line(64, 0.5)).collect();
        let sizes = |limits| {
            INK.batch(&lines, limits)
                .iter()
                .map(|(batch, _)| batch.line_widths.len())
                .collect()
        };
        let by_count: Vec<usize> = sizes(BatchLimits {
            lines: 3,
            pixels: usize::MAX,
        });
        assert_eq!(by_count, [3, 3, 1]);
        let by_pixels: Vec<usize> = sizes(BatchLimits {
            lines: 16,
            pixels: 2 * 64 * 5,
        });
        assert_eq!(by_pixels, [5, 2]);
        let too_small: Vec<usize> = sizes(BatchLimits { lines: 0, pixels: 1 });
        assert_eq!(too_small, [1; 7]);
    }

    #[test]
    fn a_line_is_padded_alike_in_any_company() {
        let alone = INK.batch(&[line(70, 0.5)], BatchLimits::default());
        let together = INK.batch(
            &[line(70, 0.5), line(128, 0.5), line(900, 0.5)],
            BatchLimits::default(),
        );
        assert_eq!(alone[0].0.values, together[0].0.values[..2 * 128]);
    }
}
