use super::{Contour, Point};

/// Closed polygon with fewer corners, none of the dropped ones farther than `epsilon` pixels from it.
///
/// Douglas and Peucker (1973) with the start points and the final clean-up of OpenCV's `approxPolyDP(closed = true)`.
pub fn simplify(contour: &[Point], epsilon: f64) -> Contour {
    if contour.is_empty() {
        return Contour::new();
    }
    let tolerance = epsilon * epsilon;
    let (start, farthest, squared_distance) = far_apart(contour);
    if squared_distance <= tolerance {
        return vec![contour[start]];
    }

    let mut kept = Contour::new();
    // A stack, the piece that comes first on top: the corners come out in the order of the contour.
    let mut open = vec![(farthest, start), (start, farthest)];
    while let Some((from, to)) = open.pop() {
        match farthest_from_chord(contour, from, to, tolerance) {
            Some(middle) => open.extend([(middle, to), (from, middle)]),
            None => kept.push(contour[from]),
        }
    }
    drop_almost_straight(&mut kept, tolerance);
    kept
}

/// Two points far from each other, found by three sweeps from the farthest point of the sweep before, with their squared
/// distance.
fn far_apart(contour: &[Point]) -> (usize, usize, f64) {
    let count = contour.len();
    let (mut start, mut step, mut longest) = (0, 0, 0.0);
    for _ in 0..3 {
        start = (start + step) % count;
        longest = 0.0;
        for ahead in 1..count {
            let (dx, dy) = between(contour[start], contour[(start + ahead) % count]);
            let distance = dx * dx + dy * dy;
            if distance > longest {
                longest = distance;
                step = ahead;
            }
        }
    }
    (start, (start + step) % count, longest)
}

/// The corner strictly between `from` and `to` that is farthest from the line through both, if its squared distance is
/// above the tolerance.
fn farthest_from_chord(contour: &[Point], from: usize, to: usize, tolerance: f64) -> Option<usize> {
    let count = contour.len();
    let (dx, dy) = between(contour[from], contour[to]);
    let (mut farthest, mut largest) = (from, 0.0);
    let mut index = (from + 1) % count;
    while index != to {
        let (px, py) = between(contour[from], contour[index]);
        // Twice the area of the triangle is the distance times the length of the chord. The squares of both
        // sides are compared, which spares a root and a division for each point.
        let area = (py * dx - px * dy).abs();
        if area > largest {
            (farthest, largest) = (index, area);
        }
        index = (index + 1) % count;
    }
    (largest * largest > tolerance * (dx * dx + dy * dy)).then_some(farthest)
}

/// Drops corners that lie on the way between their neighbours, except on horizontal and vertical lines.
fn drop_almost_straight(corners: &mut Contour, tolerance: f64) {
    let count = corners.len();
    let mut remaining = count;
    let (mut before, mut corner) = (corners[count - 1], corners[0]);
    let (mut read, mut written, mut visited) = (1, 0, 0);
    while visited < count && remaining > 2 {
        let after = corners[read % count];
        let (dx, dy) = between(before, after);
        let (px, py) = between(before, corner);
        let (nx, ny) = between(corner, after);
        let area = (px * dy - py * dx).abs();
        let straight = area * area <= 0.5 * tolerance * (dx * dx + dy * dy);
        if straight && dx != 0.0 && dy != 0.0 && px * nx + py * ny >= 0.0 {
            remaining -= 1;
            // The corner after a dropped one is kept without being looked at, as in OpenCV: never two in a
            // row go.
            corners[written] = after;
            before = after;
            corner = corners[(read + 1) % count];
            read += 2;
            visited += 2;
        } else {
            corners[written] = corner;
            before = corner;
            corner = after;
            read += 1;
            visited += 1;
        }
        written += 1;
    }
    corners.truncate(remaining);
}

fn between(from: Point, to: Point) -> (f64, f64) {
    (
        f64::from(to.x) - f64::from(from.x),
        f64::from(to.y) - f64::from(from.y),
    )
}
