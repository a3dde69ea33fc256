use super::{Contour, Point};

/// Convex hull without points inside its edges, clockwise on screen.
///
/// Andrew's monotone chain. The first point is the one OpenCV's `convexHull` chooses: if the corners appear in the input
/// in the hull's order or its reverse up to rotation, the first or last of them in the input, otherwise the rightmost.
/// [`min_area_rect`](super::min_area_rect) depends on it to break ties.
pub fn convex_hull(points: &[Point]) -> Contour {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_unstable_by_key(|&index| (points[index], index));
    let (Some(&leftmost), Some(&rightmost)) = (order.first(), order.last()) else {
        return Contour::new();
    };
    // The order is by x and then by y: equal ends mean that all points are one.
    if points[leftmost] == points[rightmost] {
        return vec![points[leftmost]];
    }

    let mut top = 0;
    let mut bottom = 0;
    for rank in 1..order.len() {
        let y = points[order[rank]].y;
        // Strictly: of several highest or lowest points OpenCV takes the leftmost, where it parts the chains.
        if y < points[order[top]].y {
            top = rank;
        }
        if y > points[order[bottom]].y {
            bottom = rank;
        }
    }

    let from_left = |end: usize, side| chain(points, order[..=end].iter().copied(), side);
    let from_right = |end: usize, side| chain(points, order[end..].iter().rev().copied(), side);
    let halves = [
        (from_right(bottom, Side::Right), from_left(bottom, Side::Left)),
        (from_left(top, Side::Right), from_right(top, Side::Left)),
    ];
    let mut hull = Vec::new();
    for (towards, back) in halves {
        // Each chain ends where the next begins; that point is taken from one of them only.
        hull.extend_from_slice(&towards[..towards.len() - 1]);
        hull.extend(back[1..].iter().rev());
    }
    rotate_to_input_order(&mut hull);
    hull.into_iter().map(|index| points[index]).collect()
}

/// Side to which a chain turns at each of its points, on screen.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// The part of the hull from the first to the last of the points given, which are sorted by x.
fn chain(points: &[Point], order: impl ExactSizeIterator<Item = usize>, side: Side) -> Vec<usize> {
    let mut chain: Vec<usize> = Vec::new();
    let last_rank = order.len() - 1;
    for (rank, index) in order.enumerate() {
        // A point that occurs twice, at both ends of the chain: this quarter of the hull has no extent.
        if rank == last_rank && chain.first().is_some_and(|&first| points[first] == points[index]) {
            chain.truncate(1);
            break;
        }
        while let [.., before, middle] = chain[..] {
            let turn = cross(points[before], points[middle], points[index]);
            let convex = match side {
                Side::Left => turn < 0,
                Side::Right => turn > 0,
            };
            if convex {
                break;
            }
            chain.pop();
        }
        chain.push(index);
    }
    chain
}

/// Positive if the way from `a` over `b` to `c` turns right on screen.
fn cross(a: Point, b: Point, c: Point) -> i64 {
    // In 64 bits: products of differences of coordinates leave 32 bits from 46341 pixels on.
    let (ax, ay) = (i64::from(b.x) - i64::from(a.x), i64::from(b.y) - i64::from(a.y));
    let (bx, by) = (i64::from(c.x) - i64::from(b.x), i64::from(c.y) - i64::from(b.y));
    ax * by - ay * bx
}

fn rotate_to_input_order(hull: &mut [usize]) {
    if hull.len() < 3 {
        return;
    }
    let position = |extreme: Option<(usize, &usize)>| extreme.map_or(0, |(position, _)| position);
    let lowest = position(hull.iter().enumerate().min_by_key(|(_, index)| **index));
    let highest = position(hull.iter().enumerate().max_by_key(|(_, index)| **index));
    let rotated = |first: usize| hull[first..].iter().chain(&hull[..first]);
    if rotated(lowest).is_sorted() {
        hull.rotate_left(lowest);
    } else if rotated(highest).rev().is_sorted() {
        hull.rotate_left(highest);
    }
}
