use super::{Point, convex_hull};

/// A rectangle in any orientation, with the conventions of OpenCV 4.5.1 and later.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RotatedRect {
    /// (x, y).
    pub center: (f32, f32),
    /// Width along the direction of `angle`, and height across it.
    pub size: (f32, f32),
    /// Degrees, clockwise on screen. Rectangles with an area have 0 to 90; which of two equal descriptions is chosen
    /// depends on the points. Points on one straight line give their direction, -180 to 180.
    pub angle: f32,
}

impl RotatedRect {
    /// The four corners (x, y): the lower left of the unrotated rectangle first, then clockwise on screen.
    pub fn corners(&self) -> [(f32, f32); 4] {
        let radians = f64::from(self.angle).to_radians();
        // OpenCV takes sine and cosine in double precision and goes on in single. The corners are rounded to
        // pixels later, so the same mixture is needed for the same boxes.
        let half_cos = radians.cos() as f32 * 0.5;
        let half_sin = radians.sin() as f32 * 0.5;
        let ((x, y), (width, height)) = (self.center, self.size);
        let lower_left = (
            x - half_sin * height - half_cos * width,
            y + half_cos * height - half_sin * width,
        );
        let upper_left = (
            x + half_sin * height - half_cos * width,
            y - half_cos * height - half_sin * width,
        );
        let opposite = |corner: (f32, f32)| (2.0 * x - corner.0, 2.0 * y - corner.1);
        [lower_left, upper_left, opposite(lower_left), opposite(upper_left)]
    }
}

/// The rectangle of least area around the points; all zero if there are none.
///
/// Rotating calipers on the convex hull in `f32`, as in OpenCV's `minAreaRect`, so that ties fall the same way.
pub fn min_area_rect(points: &[Point]) -> RotatedRect {
    let hull: Vec<Vector> = convex_hull(points)
        .iter()
        .map(|point| Vector {
            x: point.x as f32,
            y: point.y as f32,
        })
        .collect();
    match hull[..] {
        [] => RotatedRect::default(),
        [Vector { x, y }] => RotatedRect {
            center: (x, y),
            ..RotatedRect::default()
        },
        [from, to] => {
            let along = to - from;
            RotatedRect {
                center: ((from.x + to.x) * 0.5, (from.y + to.y) * 0.5),
                size: (along.length() as f32, 0.0),
                angle: along.degrees(),
            }
        }
        _ => rotating_calipers(&hull),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Vector {
    x: f32,
    y: f32,
}

impl std::ops::Sub for Vector {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            x: self.x - other.x,
            y: self.y - other.y,
        }
    }
}

impl Vector {
    fn dot(self, other: Self) -> f32 {
        self.x * other.x + self.y * other.y
    }

    fn length(self) -> f64 {
        let (x, y) = (f64::from(self.x), f64::from(self.y));
        (x * x + y * y).sqrt()
    }

    fn degrees(self) -> f32 {
        // OpenCV keeps the radians in a float before it makes degrees of them.
        let radians = f64::from(self.y).atan2(f64::from(self.x)) as f32;
        (f64::from(radians) * 180.0 / std::f64::consts::PI) as f32
    }

    fn quarter_turned(self) -> Self {
        Self {
            x: -self.y,
            y: self.x,
        }
    }

    /// Turned back by `quarters` right angles, each from +y to +x.
    fn turned_back(self, quarters: usize) -> Self {
        match quarters % 4 {
            0 => self,
            1 => Self {
                x: self.y,
                y: -self.x,
            },
            2 => Self {
                x: -self.x,
                y: -self.y,
            },
            _ => self.quarter_turned(),
        }
    }
}

/// The least rectangle around `hull`, which has at least three corners, clockwise on screen.
fn rotating_calipers(hull: &[Vector]) -> RotatedRect {
    let edge = |index: usize| hull[(index + 1) % hull.len()] - hull[index];
    let extreme = |key: fn(Vector) -> f32| {
        (1..hull.len()).fold(0, |best, index| {
            if key(hull[index]) < key(hull[best]) {
                index
            } else {
                best
            }
        })
    };
    // The rectangle of least area has a side along an edge of the hull (Freeman and Shapira, 1975), so one rectangle for each
    // edge is enough. The calipers start upright and turn with the hull. The four sides touch the hull at these corners: top,
    // right, bottom, left.
    let mut touching = [
        extreme(|p| p.y),
        extreme(|p| -p.x),
        extreme(|p| -p.y),
        extreme(|p| p.x),
    ];

    let mut least_area = f32::MAX;
    let mut best = RotatedRect::default();
    for _ in 0..hull.len() {
        // The calipers turn until one side lies along an edge. To find which, the edge after each touching corner is turned
        // back by as many right angles as its side is away from the top: all four then compare as directions from the top's,
        // and the one least far along is next. The sign of a dot product with a normal decides, as the angles lie within a
        // half-turn; no angle is computed.
        let turned = |side: usize| edge(touching[side]).turned_back(side);
        let next_side = (1..4).fold(0, |first, side| {
            let earlier = turned(side).turned_back(1).dot(turned(first)) < 0.0;
            if earlier { side } else { first }
        });
        let direction = turned(next_side);
        // The length is taken from the edge itself: rounding in another order would choose another of two equal rectangles
        // than OpenCV does.
        let scale = (1.0 / edge(touching[next_side]).length()) as f32;
        let across = Vector {
            x: direction.x * scale,
            y: direction.y * scale,
        };
        touching[next_side] = (touching[next_side] + 1) % hull.len();

        let down = across.quarter_turned();
        let [top, right, bottom, left] = touching.map(|index| hull[index]);
        let width = (right - left).dot(across);
        let height = (bottom - top).dot(down);
        let area = width * height;
        // Not `<`: of equal rectangles OpenCV keeps the last.
        if area <= least_area {
            least_area = area;
            best = around(across, left, width, top, height);
        }
    }
    best
}

/// The rectangle with one side through `left`, the adjacent one through `top`.
fn around(across: Vector, left: Vector, width: f32, top: Vector, height: f32) -> RotatedRect {
    let down = across.quarter_turned();
    let left_distance = across.dot(left);
    let top_distance = down.dot(top);
    // The corner lies on the line through `left` across the width and on the one through `top` across the height: two linear
    // equations, by Cramer's rule.
    let determinant = 1.0 / (across.x * down.y - down.x * across.y);
    let corner = Vector {
        x: (left_distance * down.y - top_distance * across.y) * determinant,
        y: (across.x * top_distance - down.x * left_distance) * determinant,
    };
    let along_width = Vector {
        x: across.x * width,
        y: across.y * width,
    };
    let along_height = Vector {
        x: down.x * height,
        y: down.y * height,
    };
    RotatedRect {
        center: (
            corner.x + (along_width.x + along_height.x) * 0.5,
            corner.y + (along_width.y + along_height.y) * 0.5,
        ),
        size: (along_width.length() as f32, along_height.length() as f32),
        angle: along_width.degrees(),
    }
}
