//! Map between the straightened page and the page as scanned, and the straightening itself.

use std::borrow::Cow;

use image::GrayImage;
use serde::{Deserialize, Serialize};

use super::config::PAPER;
use crate::page::geometry::{Contour, Point};
use crate::page::spline::{SingularSystem, ThinPlateSpline, warp_spline};
use crate::page::turn::Turn;
use crate::page::warp::{Affine, rotation_matrix, warp_affine};

/// Quarter of a turn, in degrees.
const QUARTER: f32 = 90.0;

/// A pair of places: `target` on the straightened page shows what `source` shows on the turned page. Both are `[x, y]`
/// in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ControlPoint {
    pub source: [f64; 2],
    pub target: [f64; 2],
}

/// A thin-plate spline that flattens a page after it has been turned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dewarp {
    pub control_points: Vec<ControlPoint>,
    /// Regularisation; 0 interpolates the control points exactly.
    pub alpha: f32,
}

/// Control points that do not determine a spline: too few, or all on one straight line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} control points do not determine a spline")]
pub struct DegenerateDewarp(pub usize);

impl Dewarp {
    /// This dewarping for a page scaled by these factors.
    pub fn scaled(&self, x: f64, y: f64) -> Self {
        let scale = |[at_x, at_y]: [f64; 2]| [at_x * x, at_y * y];
        let control_points = self
            .control_points
            .iter()
            .map(|pair| ControlPoint {
                source: scale(pair.source),
                target: scale(pair.target),
            })
            .collect();
        Self {
            control_points,
            alpha: self.alpha,
        }
    }

    /// The map from the straightened page back to the turned one.
    fn fit(&self) -> Result<ThinPlateSpline, DegenerateDewarp> {
        let targets: Vec<(f64, f64)> = self
            .control_points
            .iter()
            .map(|pair| pair.target.into())
            .collect();
        let sources: Vec<(f64, f64)> = self
            .control_points
            .iter()
            .map(|pair| pair.source.into())
            .collect();
        ThinPlateSpline::fit(&targets, &sources, f64::from(self.alpha))
            .map_err(|SingularSystem| DegenerateDewarp(self.control_points.len()))
    }
}

/// Straightening of a page: turned by quarters, turned about its centre by what is left of the angle, then flattened. A page that lay on its
/// side is as wide then as it was high.
#[derive(Debug, Clone)]
pub struct PageGeometry {
    width: u32,
    height: u32,
    angle: f32,
    /// Turn that the whole quarters of the angle undo.
    turn: Turn,
    /// Rest of the angle, in degrees counter-clockwise, between -45 and 45.
    skew: f32,
    flattening: Option<Flattening>,
}

#[derive(Debug, Clone)]
struct Flattening {
    dewarp: Dewarp,
    /// Map from the straightened page to the turned one.
    spline: ThinPlateSpline,
}

impl PageGeometry {
    /// Geometry of a scan of this size. `angle` is in degrees counter-clockwise, `dewarp` in pixels of the page turned by it.
    ///
    /// # Errors
    /// [`DegenerateDewarp`] when the control points do not determine a spline.
    pub fn new(
        width: u32,
        height: u32,
        angle: f32,
        dewarp: Option<Dewarp>,
    ) -> Result<Self, DegenerateDewarp> {
        let turned = Self::turned(width, height, angle);
        dewarp.map_or(Ok(turned.clone()), |dewarp| turned.flattened(dewarp))
    }

    /// A page that is turned but not flattened.
    pub fn turned(width: u32, height: u32, angle: f32) -> Self {
        let quarters = (angle / QUARTER).round();
        Self {
            width,
            height,
            angle,
            turn: turn_undone_by(quarters),
            skew: angle - quarters * QUARTER,
            flattening: None,
        }
    }

    pub(super) fn flattened(&self, dewarp: Dewarp) -> Result<Self, DegenerateDewarp> {
        let spline = dewarp.fit()?;
        Ok(Self {
            flattening: Some(Flattening { dewarp, spline }),
            ..*self
        })
    }

    /// Returns whether the page is straight as scanned.
    pub fn is_identity(&self) -> bool {
        self.angle == 0.0 && self.flattening.is_none()
    }

    /// Angle of the turn in degrees, counter-clockwise.
    pub fn angle(&self) -> f32 {
        self.angle
    }

    /// Turn of the content of the page as scanned, which whole quarters of the angle undo.
    pub fn turn(&self) -> Turn {
        self.turn
    }

    pub fn dewarp(&self) -> Option<&Dewarp> {
        self.flattening.as_ref().map(|flattening| &flattening.dewarp)
    }

    /// Width and height of the straightened page, in pixels.
    pub fn straightened_size(&self) -> (u32, u32) {
        self.turn.upright_size((self.width, self.height))
    }

    /// Map from the page turned by quarters to the page turned by the whole angle.
    fn level(&self) -> Affine {
        let (width, height) = self.straightened_size();
        turn_about_center(width, height, self.skew)
    }

    /// Position on the page turned by quarters of a pixel of the page as scanned.
    fn upright(&self, point: Point) -> Point {
        self.turn.upright_pixel(point, (self.width, self.height))
    }

    pub(super) fn turn_contours(&self, contours: Vec<Contour>) -> Vec<Contour> {
        if self.angle == 0.0 {
            return contours;
        }
        let level = self.level();
        let turned = |contour: Contour| {
            let points = contour.into_iter();
            points
                .map(|point| level.apply_to_pixel(self.upright(point)))
                .collect()
        };
        contours.into_iter().map(turned).collect()
    }

    /// Position of a pixel of the page as scanned on the turned page, to the nearest pixel. Flattening, which moves it by a part of a
    /// line's height, is left out.
    pub fn to_turned(&self, point: Point) -> Point {
        self.level().apply_to_pixel(self.upright(point))
    }

    /// Position of a pixel of the straightened page on the page as scanned, to the nearest pixel.
    pub fn to_page(&self, point: Point) -> Point {
        let turned = exact(point);
        let turned = self
            .flattening
            .as_ref()
            .map_or(turned, |f| f.spline.transform(turned));
        let (width, height) = self.straightened_size();
        let upright = rounded(turn_about_center(width, height, -self.skew).apply(turned));
        self.turn.pixel_as_it_lies(upright, (self.width, self.height))
    }

    /// Position of a pixel of the page as scanned on the straightened page: the inverse of [`Self::to_page`].
    pub fn from_page(&self, point: Point) -> Point {
        let turned = self.level().apply(exact(self.upright(point)));
        rounded(
            self.flattening
                .as_ref()
                .map_or(turned, |f| invert(&f.spline, turned)),
        )
    }
}

/// The turn of a page that so many quarters counter-clockwise undo.
fn turn_undone_by(quarters: f32) -> Turn {
    // The remainder has a turn. A damaged table may have no number as an angle, which is cast to 0.
    let degrees = (quarters.rem_euclid(4.0) * QUARTER) as u16;
    Turn::from_degrees(degrees).unwrap_or_default()
}

/// The map from a page to the page turned by `angle`, in single precision as in `ldv1`.
fn turn_about_center(width: u32, height: u32, angle: f32) -> Affine {
    let center = (f64::from(width) / 2.0, f64::from(height) / 2.0);
    rotation_matrix(center, f64::from(angle), 1.0).to_single_precision()
}

/// Finds the argument for which a map close to the identity has this value, by fixed-point iteration.
fn invert(spline: &ThinPlateSpline, value: (f64, f64)) -> (f64, f64) {
    // A spline far from the identity may never come close; the bound keeps bad control points from hanging a
    // page.
    const STEPS: usize = 50;
    const CLOSE: f64 = 0.01;
    let mut argument = value;
    for _ in 0..STEPS {
        let (x, y) = spline.transform(argument);
        let (dx, dy) = (value.0 - x, value.1 - y);
        argument = (argument.0 + dx, argument.1 + dy);
        if dx.abs().max(dy.abs()) < CLOSE {
            break;
        }
    }
    argument
}

fn exact(point: Point) -> (f64, f64) {
    (f64::from(point.x), f64::from(point.y))
}

fn rounded((x, y): (f64, f64)) -> Point {
    Point::new(x.round() as i32, y.round() as i32)
}

/// Turns and flattens a page, which may have another resolution than the one the geometry was found at. The result has
/// the size of `page`, or that with its sides exchanged; what it does not cover is paper.
pub fn straighten(page: &GrayImage, geometry: &PageGeometry) -> GrayImage {
    straighten_onto(page, geometry, PAPER)
}

/// Straightens a page like [`straighten`], on a background of this grey level.
pub fn straighten_onto(page: &GrayImage, geometry: &PageGeometry, background: u8) -> GrayImage {
    let upright = geometry.turn.undone(page).map_or(Cow::Borrowed(page), Cow::Owned);
    // Two warps and not one of both maps: upstream turns first and then flattens what was turned, with its
    // rounding.
    let turned = match geometry.skew {
        0.0 => upright,
        skew => {
            let level = turn_about_center(upright.width(), upright.height(), skew);
            Cow::Owned(warp_affine(&upright, &level, background))
        }
    };
    let Some(flattening) = &geometry.flattening else {
        return turned.into_owned();
    };
    let ratio = |to: u32, from: u32| f64::from(to) / f64::from(from.max(1));
    // A spline can be scaled by one factor only. Those of the two sides differ by rounding, and `ocrv1` takes
    // the smaller one as well.
    let scale = ratio(page.width(), geometry.width).min(ratio(page.height(), geometry.height));
    warp_spline(&turned, &flattening.spline.scaled(scale), background)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WIDTH: u32 = 2000;
    const HEIGHT: u32 = 600;

    /// A page whose lines rise and fall by `rise`, with the corners held in place.
    fn bent(rise: f64) -> Dewarp {
        let (right, bottom) = (f64::from(WIDTH) - 1.0, f64::from(HEIGHT) - 1.0);
        let offsets = [0.0, 0.6 * rise, rise, 0.6 * rise, 0.0];
        let line = offsets.iter().enumerate().map(|(index, offset)| {
            let x = 100.0 + 450.0 * index as f64;
            ControlPoint {
                source: [x, 300.0 + offset],
                target: [x, 300.0],
            }
        });
        let corners = [[0.0, 0.0], [right, 0.0], [0.0, bottom], [right, bottom]];
        let fixed = corners.map(|corner| ControlPoint {
            source: corner,
            target: corner,
        });
        Dewarp {
            control_points: line.chain(fixed).collect(),
            alpha: 0.5,
        }
    }

    /// Geometry of a scan whose straightened page is of the size above.
    fn geometry(turn: Turn, skew: f32, rise: f64) -> PageGeometry {
        let dewarp = (rise != 0.0).then(|| bent(rise));
        let (width, height) = turn.upright_size((WIDTH, HEIGHT));
        PageGeometry::new(width, height, f32::from(turn.degrees()) + skew, dewarp).unwrap()
    }

    /// White with a black 3 x 3 dot.
    fn page_with_dot((width, height): (u32, u32), at: Point) -> GrayImage {
        let mut page = GrayImage::from_pixel(width, height, image::Luma([255]));
        for (dx, dy) in (-1..=1).flat_map(|dx| (-1..=1).map(move |dy| (dx, dy))) {
            page.put_pixel((at.x + dx) as u32, (at.y + dy) as u32, image::Luma([0]));
        }
        page
    }

    fn darkest(page: &GrayImage) -> Point {
        let weighted = page.enumerate_pixels().filter(|(.., value)| value.0[0] < 128);
        let (mut x_sum, mut y_sum, mut count) = (0, 0, 0);
        for (x, y, _) in weighted {
            (x_sum, y_sum, count) = (x_sum + x, y_sum + y, count + 1);
        }
        Point::new((x_sum / count) as i32, (y_sum / count) as i32)
    }

    fn distance(a: Point, b: Point) -> f64 {
        f64::from(a.x - b.x).hypot(f64::from(a.y - b.y))
    }

    proptest! {
        #[test]
        fn there_and_back_is_the_same_place(
            (x, y) in (0..WIDTH as i32, 0..HEIGHT as i32),
            turn in prop::sample::select(&Turn::ALL[..]),
            skew in -5.0_f32..5.0,
            rise in -80.0_f64..80.0,
        ) {
            let geometry = geometry(turn, skew, rise);
            prop_assert_eq!(geometry.straightened_size(), (WIDTH, HEIGHT));
            let straight = Point::new(x, y);
            prop_assert!(distance(geometry.from_page(geometry.to_page(straight)), straight) < 1.5);
            let (x, y) = turn.upright_size((x, y));
            let scanned = Point::new(x, y);
            prop_assert!(distance(geometry.to_page(geometry.from_page(scanned)), scanned) < 1.5);
        }
    }

    #[test]
    fn pixels_move_where_the_geometry_says() {
        let bends = [(0.0, 0.0), (2.0, 0.0), (-4.0, 0.0), (0.0, 60.0), (3.0, -50.0)];
        let places = [(300, 200), (1000, 350), (1800, 420)];
        for (turn, (skew, rise)) in Turn::ALL
            .into_iter()
            .flat_map(|turn| bends.map(|bend| (turn, bend)))
        {
            let geometry = geometry(turn, skew, rise);
            for place in places {
                let (x, y) = turn.upright_size(place);
                let at = Point::new(x, y);
                let straight = straighten(&page_with_dot(turn.upright_size((WIDTH, HEIGHT)), at), &geometry);
                assert_eq!(straight.dimensions(), (WIDTH, HEIGHT));
                let found = darkest(&straight);
                assert!(
                    distance(found, geometry.from_page(at)) < 1.5,
                    "{turn:?} {skew} {rise} {at:?}: {found:?}"
                );
                assert!(
                    distance(geometry.to_page(found), at) < 1.5,
                    "{turn:?} {skew} {rise} {at:?}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn another_resolution_is_straightened_alike() {
        for turn in Turn::ALL {
            let (x, y) = turn.upright_size((1200, 240));
            let (width, height) = turn.upright_size((WIDTH, HEIGHT));
            let full = geometry(turn, 2.5, 55.0);
            let bend = bent(55.0).scaled(0.5, 0.5);
            let half = PageGeometry::new(width / 2, height / 2, full.angle(), Some(bend)).unwrap();
            let page = page_with_dot((width, height), Point::new(x, y));
            let page = image::imageops::thumbnail(&page, width / 2, height / 2);
            let (by_full, by_half) = (straighten(&page, &full), straighten(&page, &half));
            let worst = by_full
                .iter()
                .zip(by_half.iter())
                .map(|(a, b)| a.abs_diff(*b))
                .max()
                .unwrap();
            assert!(worst <= 2, "{turn:?} {worst}");
        }
    }

    #[test]
    fn what_a_turned_page_does_not_cover_is_paper() {
        let black = GrayImage::new(200, 100);
        let straight = straighten(&black, &PageGeometry::turned(200, 100, 5.0));
        assert_eq!(straight.get_pixel(0, 0).0, [255]);
        assert_eq!(straight.get_pixel(100, 50).0, [0]);
    }

    #[test]
    fn points_on_one_straight_line_are_refused() {
        let on_line = |x: f64| ControlPoint {
            source: [x, 2.0 * x],
            target: [x, 2.0 * x],
        };
        let dewarp = Dewarp {
            control_points: [1.0, 5.0, 9.0, 20.0].map(on_line).to_vec(),
            alpha: 0.5,
        };
        assert_eq!(
            PageGeometry::new(100, 100, 0.0, Some(dewarp)).unwrap_err(),
            DegenerateDewarp(4)
        );
    }
}
