//! Borders of the ink in a mask.
//!
//! Suzuki and Abe, "Topological structural analysis of digitized binary images by border following", CVGIP 30 (1985),
//! with the conventions of OpenCV's `findContours(RETR_LIST, CHAIN_APPROX_SIMPLE)`.

use image::GrayImage;

use super::geometry::{Contour, Point};

/// Neighbours counter-clockwise on screen, beginning in the east.
const DIRECTIONS: [(isize, isize); 8] = [
    (1, 0),
    (1, -1),
    (0, -1),
    (-1, -1),
    (-1, 0),
    (-1, 1),
    (0, 1),
    (1, 1),
];
const EAST: usize = 0;
const WEST: usize = 4;

const BACKGROUND: u8 = 0;
const INK: u8 = 1;
/// Ink that lies on a border already followed.
const FOLLOWED: u8 = 2;
/// Mark of a pixel that is [`FOLLOWED`], and whose border passed between this pixel and the background to its east.
const FOLLOWED_EAST: u8 = 3;

/// All borders of the ink (pixels above zero, 8-connected): the outer border of every component and the border of every
/// hole, the latter as the ink pixels around it.
///
/// The list is the reverse of the order in which a raster scan meets the borders. Only the end points of straight runs
/// (horizontal, vertical, diagonal) are kept, so a start point in the middle of a run is not. Outer borders run
/// counter-clockwise on screen, holes clockwise.
pub fn find_contours(mask: &GrayImage) -> Vec<Contour> {
    let mut labels = Labels::new(mask);
    let mut contours = Vec::new();
    for row in 1..=mask.height() as usize {
        let row_start = row * labels.stride;
        let row_end = row_start + labels.stride - 1;
        let mut at = row_start;
        // A border can only begin where the mask changes along a row, so the scan goes from change to change and looks at the
        // labels as they are by then: a border that was followed has left its mark on the way.
        loop {
            let left = labels.cells[at];
            at = first_other(&labels.cells[..row_end], at + 1, left);
            // The frame to the right of the image is outside and never a hole, so a change to it is none to
            // follow.
            if at >= row_end {
                break;
            }
            // Ink that no border has touched after background is the west end of an outer border. Background after ink is the
            // east side of a border; if that side has been passed (FOLLOWED_EAST) its border is known, otherwise it is the
            // border of a hole, even where the pixel lies on an outer border too. These are the two conditions of Suzuki and
            // Abe; their numbers of borders, which tell who surrounds whom, are left out, as nobody asks for the tree.
            match (left, labels.cells[at]) {
                (BACKGROUND, INK) => contours.push(labels.follow(at, WEST)),
                (INK | FOLLOWED, BACKGROUND) => contours.push(labels.follow(at - 1, EAST)),
                _ => {}
            }
        }
    }
    contours.reverse();
    contours
}

/// Index of the first cell at or after `from` that is not `value`.
fn first_other(cells: &[u8], from: usize, value: u8) -> usize {
    // Masks are mostly long runs: a block at a time is compared as one or two vectors.
    const WIDTH: usize = 32;
    let (blocks, _) = cells[from..].as_chunks::<WIDTH>();
    let equal_blocks = blocks
        .iter()
        .take_while(|block| **block == [value; WIDTH])
        .count();
    let from = from + equal_blocks * WIDTH;
    cells[from..]
        .iter()
        .position(|&cell| cell != value)
        .map_or(cells.len(), |skipped| from + skipped)
}

/// The mask framed by one pixel of background, with the marks of the borders that were followed. The frame spares every look
/// at a neighbour a test for the edge of the image.
struct Labels {
    cells: Vec<u8>,
    stride: usize,
    offsets: [isize; 8],
}

impl Labels {
    fn new(mask: &GrayImage) -> Self {
        let (width, height) = (mask.width() as usize, mask.height() as usize);
        let stride = width + 2;
        let mut cells = vec![BACKGROUND; stride * (height + 2)];
        if width > 0 {
            for (cells, pixels) in cells[stride..]
                .chunks_exact_mut(stride)
                .zip(mask.chunks_exact(width))
            {
                for (cell, &pixel) in cells[1..=width].iter_mut().zip(pixels) {
                    *cell = u8::from(pixel > 0);
                }
            }
        }
        let offsets = DIRECTIONS.map(|(x, y)| x + y * stride as isize);
        Self {
            cells,
            stride,
            offsets,
        }
    }

    fn neighbour(&self, at: usize, direction: usize) -> usize {
        at.wrapping_add_signed(self.offsets[direction])
    }

    fn is_ink(&self, at: usize, direction: usize) -> bool {
        self.cells[self.neighbour(at, direction)] != BACKGROUND
    }

    fn point(&self, at: usize) -> Point {
        Point::new((at % self.stride) as i32 - 1, (at / self.stride) as i32 - 1)
    }

    /// Follows the border through `start`, whose neighbour in the direction `background` belongs to what it bounds.
    fn follow(&mut self, start: usize, background: usize) -> Contour {
        // The first ink clockwise from the background is the pixel from which a walk along this border would arrive here: the
        // walk below goes counter-clockwise, and is over when it comes back by this way.
        let clockwise = (1..8).map(|turn| (background + 8 - turn) % 8);
        let Some(first) = clockwise
            .into_iter()
            .find(|&direction| self.is_ink(start, direction))
        else {
            // A single pixel: its border passes on all sides, so the scan must not begin another one to its east.
            self.cells[start] = FOLLOWED_EAST;
            return vec![self.point(start)];
        };
        let last = self.neighbour(start, first);

        let mut contour = Contour::new();
        let mut at = start;
        let mut came_from = first;
        loop {
            // From the pixel that the walk came from, counter-clockwise to the next ink: all directions in between are
            // background that this border touches.
            let mut heading = came_from;
            let mut passed_east = false;
            loop {
                heading = (heading + 1) % 8;
                if self.is_ink(at, heading) {
                    break;
                }
                passed_east |= heading == EAST;
            }
            // FOLLOWED_EAST stays for good: a later visit, on another part of the same border, may not pass the east.
            if passed_east {
                self.cells[at] = FOLLOWED_EAST;
            } else if self.cells[at] == INK {
                self.cells[at] = FOLLOWED;
            }
            // A walk that goes straight on is within a run, of which only the ends are kept.
            let arrived_by = (came_from + 4) % 8;
            if heading != arrived_by {
                contour.push(self.point(at));
            }
            let next = self.neighbour(at, heading);
            // Coming back to the start is not enough: a border passes a pixel several times where the ink is one pixel wide. It
            // is closed when it comes back from `last`, as the first step assumed.
            if next == start && at == last {
                return contour;
            }
            at = next;
            came_from = (heading + 4) % 8;
        }
    }
}
