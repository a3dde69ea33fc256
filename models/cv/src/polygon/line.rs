//! Eight-connected lines inside an image.

use image::{GrayImage, Luma};

use crate::geometry::Point;

/// A pixel position in 64 bits, for products of coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) x: i64,
    pub(super) y: i64,
}

impl Position {
    pub(super) fn relative(point: Point, origin: Point) -> Self {
        Self {
            x: i64::from(point.x) - i64::from(origin.x),
            y: i64::from(point.y) - i64::from(origin.y),
        }
    }
}

/// The last column and row of an image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    right: i64,
    bottom: i64,
}

impl Bounds {
    pub(super) fn of(image: &GrayImage) -> Self {
        Self {
            right: i64::from(image.width()) - 1,
            bottom: i64::from(image.height()) - 1,
        }
    }

    fn is_empty(self) -> bool {
        self.right < 0 || self.bottom < 0
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Clipped {
    /// The ends after clipping; for a line outside the image whatever clipping had reached.
    pub(super) ends: (Position, Position),
    /// Ends of the part inside the image; `None` for a line that does not cross it.
    pub(super) visible: Option<(Position, Position)>,
}

/// Cohen-Sutherland clipping, rounded towards zero and in the order of OpenCV's `clipLine`.
pub(super) fn clip(mut from: Position, mut to: Position, bounds: Bounds) -> Clipped {
    if bounds.is_empty() {
        return Clipped {
            ends: (from, to),
            visible: None,
        };
    }
    if undecided(outside(from, bounds), outside(to, bounds)) {
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        // Rows before columns, and the second end along the line from the first as it was clipped and
        // rounded: another order gives other pixels than OpenCV's.
        clip_y(&mut from, (dx, dy), bounds);
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        clip_y(&mut to, (dx, dy), bounds);
        if undecided(outside(from, bounds), outside(to, bounds)) {
            let (dx, dy) = (to.x - from.x, to.y - from.y);
            clip_x(&mut from, (dx, dy), bounds);
            let (dx, dy) = (to.x - from.x, to.y - from.y);
            clip_x(&mut to, (dx, dy), bounds);
        }
    }
    let ends = (from, to);
    let inside = outside(from, bounds) | outside(to, bounds) == 0;
    Clipped {
        ends,
        visible: inside.then_some(ends),
    }
}

const LEFT: u8 = 1;
const RIGHT: u8 = 2;
const ABOVE: u8 = 4;
const BELOW: u8 = 8;

fn outside(position: Position, bounds: Bounds) -> u8 {
    let horizontal = match position.x {
        x if x < 0 => LEFT,
        x if x > bounds.right => RIGHT,
        _ => 0,
    };
    let vertical = match position.y {
        y if y < 0 => ABOVE,
        y if y > bounds.bottom => BELOW,
        _ => 0,
    };
    horizontal | vertical
}

/// Neither wholly inside nor on one side of the image.
fn undecided(from: u8, to: u8) -> bool {
    from & to == 0 && from | to != 0
}

fn clip_y(end: &mut Position, (dx, dy): (i64, i64), bounds: Bounds) {
    let edge = match outside(*end, bounds) & (ABOVE | BELOW) {
        ABOVE => 0,
        BELOW => bounds.bottom,
        _ => return,
    };
    // The other end does not lie beyond the same side, so the line has a slope here and dy is not zero.
    end.x += ((edge - end.y) as f64 * dx as f64 / dy as f64) as i64;
    end.y = edge;
}

fn clip_x(end: &mut Position, (dx, dy): (i64, i64), bounds: Bounds) {
    let edge = match outside(*end, bounds) & (LEFT | RIGHT) {
        LEFT => 0,
        RIGHT => bounds.right,
        _ => return,
    };
    end.y += ((edge - end.x) as f64 * dy as f64 / dx as f64) as i64;
    end.x = edge;
}

/// Bresenham's line between two pixels of the image, always drawn from left to right.
pub(super) fn draw(image: &mut GrayImage, from: Position, to: Position, value: u8) {
    // OpenCV draws from left to right; in the other direction ties of the error would fall on other pixels.
    let (from, to) = if to.x < from.x { (to, from) } else { (from, to) };
    let (dx, dy) = (to.x - from.x, (to.y - from.y).abs());
    let down = (to.y - from.y).signum();
    let steep = dy > dx;
    let (long, short) = if steep { (dy, dx) } else { (dx, dy) };
    let (along, across) = if steep {
        ((0, down), (1, 0))
    } else {
        ((1, 0), (0, down))
    };

    let mut at = from;
    let mut error = long - 2 * short;
    for _ in 0..=long {
        image.put_pixel(at.x as u32, at.y as u32, Luma([value]));
        if error < 0 {
            error += 2 * long;
            at.x += across.0;
            at.y += across.1;
        }
        error -= 2 * short;
        at.x += along.0;
        at.y += along.1;
    }
}
