//! Interior of polygons, row by row.

use image::GrayImage;

use super::line::Position;

/// Fractional bits of an edge's x.
const SHIFT: u32 = 16;

/// A polygon's edge over the rows `top..bottom`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    top: i64,
    bottom: i64,
    /// Column at which the edge crosses the current row, in fixed point.
    x: i64,
    step: i64,
}

impl Edge {
    /// The edge between two corners, on the line through `clipped`, the ends of the part that is drawn as boundary.
    /// `None` for a horizontal edge.
    pub(super) fn new(from: Position, to: Position, clipped: (Position, Position)) -> Option<Self> {
        if from.y == to.y {
            return None;
        }
        // OpenCV clips edges before it collects them and takes the slope from what is left. Its rounding
        // differs from that of the whole edge, so the clipped ends count wherever they have a slope.
        let (start, end) = if clipped.0.y == clipped.1.y {
            (from, to)
        } else {
            clipped
        };
        let step = ((end.x - start.x) << SHIFT) / (end.y - start.y);
        let (upper, anchor) = if from.y < to.y { (from, start) } else { (to, end) };
        Some(Self {
            top: upper.y,
            bottom: from.y.max(to.y),
            x: (anchor.x << SHIFT) + (upper.y - anchor.y) * step,
            step,
        })
    }

    fn skip_rows_above(&mut self, row: i64) {
        let skipped = (row - self.top).max(0);
        self.x += skipped * self.step;
        self.top += skipped;
    }
}

/// Fills between every odd crossing of a row and the next.
pub(super) fn fill(image: &mut GrayImage, mut edges: Vec<Edge>, value: u8) {
    let width = image.width() as usize;
    if width == 0 {
        return;
    }
    edges.retain(|edge| edge.bottom > 0);
    for edge in &mut edges {
        edge.skip_rows_above(0);
    }
    edges.sort_unstable_by_key(|edge| edge.top);
    let Some(first) = edges.first().map(|edge| edge.top as usize) else {
        return;
    };

    let mut waiting = edges.into_iter().peekable();
    let mut active: Vec<Edge> = Vec::new();
    for (y, row) in (first as i64..).zip(image.chunks_exact_mut(width).skip(first)) {
        // An edge has its top row and not its bottom row: a row through a corner is crossed once, by one of
        // two edges.
        active.retain(|edge| edge.bottom > y);
        while let Some(edge) = waiting.next_if(|edge| edge.top == y) {
            active.push(edge);
        }
        // Edges of a polygon that crosses itself change places from row to row.
        active.sort_unstable_by_key(|edge| edge.x);
        for pair in active.chunks_exact(2) {
            // Rounded inwards on both sides; pixels that the edge only touches belong to the lines, which are
            // drawn as well.
            let from = (pair[0].x + (1 << SHIFT) - 1) >> SHIFT;
            let to = pair[1].x >> SHIFT;
            let (from, end) = (from.max(0), to.min(width as i64 - 1) + 1);
            if from < end {
                row[from as usize..end as usize].fill(value);
            }
        }
        for edge in &mut active {
            edge.x += edge.step;
        }
        if active.is_empty() && waiting.peek().is_none() {
            break;
        }
    }
}
