//! Lines out of the network's answers, in one pass or two.

use std::cell::LazyCell;

use image::GrayImage;

use super::beside::{LEAST_PROBABILITY as LEAST_OF_REGION, Seen, beside};
use super::frame::{Frame, Straightening, binarise};
use super::gutters::part_columns;
use super::layout::{Region, RegionKind, regions};
use super::mask::{Findings, examine, line_contours};
use super::short::{LEAST_PROBABILITY, complete_short_lines, without_blanks};
use super::straight::{DegenerateDewarp, Dewarp, PageGeometry, straighten_onto};
use super::strip::{is_one_line, whole};
use super::tiling::{Plane, TileGrid};
use super::turned::Certainty;
use super::{DetectionConfig, gen1};
use crate::algorithms::Algorithms;
use crate::inference::{Classes, InferenceError};
use crate::page::geometry::{Contour, Point, Rect, bounding_rect, min_area_rect};
use crate::page::resize::resize_mask;

/// The lines of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PageLines {
    /// Angle by which the page is turned to make its lines level, in degrees counter-clockwise; 0 for not at all. That of a page on its side
    /// is near 90 or -90, that of a page upside down near 180.
    pub page_angle: f32,
    /// Dewarping that flattens the turned page, in pixels of the page's original resolution.
    pub dewarp: Option<Dewarp>,
    /// Share of the lines that is bent; `None` when there are no lines or dewarping is switched off.
    pub tps_ratio: Option<f32>,
    /// Contours of the lines, in pixels of the straightened page at its original resolution, in the order they were found:
    /// bottom to top.
    pub contours: Vec<Contour>,
    /// Regions that a layout network saw besides lines, in the same pixels as the contours; empty where it was not asked.
    pub regions: Vec<Region>,
    /// The straightened line mask at frame size, 0 and 255. In the first generation it has the size of the page.
    pub mask: GrayImage,
    /// Width and height of the page as scanned, in pixels.
    pub page_size: (u32, u32),
    /// Certainty of the network when it was last asked.
    pub certainty: Certainty,
    /// True for lines found on the negative of the page, whose writing is lighter than its paper.
    pub is_negative: bool,
}

impl PageLines {
    /// A page of this size that lies straight and has no lines, with the mask of its frame.
    pub(super) fn none(mask: GrayImage, page_size: (u32, u32)) -> Self {
        Self {
            page_angle: 0.0,
            dewarp: None,
            tps_ratio: None,
            contours: Vec::new(),
            regions: Vec::new(),
            mask,
            page_size,
            certainty: Certainty::default(),
            is_negative: false,
        }
    }

    /// The upright box of each contour, around the rounded corners of its minimum-area rectangle; a little larger than the
    /// box of the contour's points.
    pub fn boxes(&self) -> Vec<Rect> {
        self.contours
            .iter()
            .map(|contour| box_of_min_area_rect(contour))
            .collect()
    }

    /// Contours of the lines where they are on the page that the frame shows: unless that was straight already, on the page as scanned.
    fn on_frame(&self, straight: bool) -> Vec<Contour> {
        match self.geometry() {
            Ok(geometry) if !straight => {
                let back = |line: &Contour| line.iter().map(|point| geometry.to_page(*point)).collect();
                self.contours.iter().map(back).collect()
            }
            _ => self.contours.clone(),
        }
    }

    /// Takes what the network saw on the frame that these lines are from. Unless that frame was straight already, the
    /// regions are moved to where they are on the straightened page.
    fn add_regions(&mut self, mut seen: Vec<Region>, straight: bool) {
        if !straight && let Ok(geometry) = self.geometry() {
            for point in seen.iter_mut().flat_map(|region| &mut region.contour) {
                *point = geometry.from_page(*point);
            }
        }
        self.regions.append(&mut seen);
    }

    /// Map from straightened pixels to scanned ones.
    ///
    /// # Errors
    /// [`DegenerateDewarp`] when `dewarp` did not come from this crate and determines no spline.
    pub fn geometry(&self) -> Result<PageGeometry, DegenerateDewarp> {
        let (width, height) = self.page_size;
        PageGeometry::new(width, height, self.page_angle, self.dewarp.clone())
    }
}

/// Outcome of the first pass.
#[derive(Debug, Clone)]
pub enum Pass1 {
    Done(PageLines),
    /// A page that is skewed or bent too much for its contours to be merely turned: ask the network about this straightened
    /// frame and call [`finish`] again, which then is done.
    NeedsSecondPass(Frame),
}

/// Reads lines off the network's answer to a frame: `probabilities` in the order of [`Frame::tiles`], each tile with one
/// plane for each of `config.classes`.
///
/// # Errors
/// [`InferenceError::Shape`] when the number of probabilities is not that of the tiles' pixels.
pub fn finish(
    frame: Frame,
    probabilities: &[f32],
    config: &DetectionConfig,
) -> Result<Pass1, InferenceError> {
    let (grid, page_size, straight) = (frame.grid, frame.page_size, frame.straightening.is_some());
    let plane = |index| Plane {
        index,
        of: config.classes.planes(),
    };
    let mask_of = |index, threshold| {
        let mask = grid.stitch(probabilities, plane(index), above(threshold))?;
        Ok::<_, InferenceError>(sized_mask(mask, page_size, config))
    };
    let line_plane = config.classes.line_plane();
    let mut mask = mask_of(line_plane, config.threshold)?;
    if config.short_lines {
        let doubtful = grid.stitch(probabilities, plane(line_plane), above(LEAST_PROBABILITY))?;
        complete_short_lines(&mut mask, &doubtful, config);
    }
    let mut pass = finish_mask(frame, mask, config);
    if let Pass1::Done(lines) = &mut pass {
        lines.certainty = certainty(&grid, probabilities, plane(line_plane), config);
        if config.classes == Classes::Layout {
            let mut seen = Seen::default();
            let mut shares = Vec::new();
            for kind in RegionKind::ALL {
                let above = |least| Ok(regions(&mask_of(kind.plane(), least)?, kind, page_size));
                let sure = above(config.layout_threshold)?;
                if config.line_kinds {
                    if !sure.is_empty() {
                        seen.likely.extend(above(LEAST_OF_REGION)?);
                    }
                    shares.push((kind, grid.stitch(probabilities, plane(kind.plane()), in_255ths)?));
                }
                seen.sure.extend(sure);
            }
            let regions = beside(&lines.on_frame(straight), seen, &shares, page_size);
            lines.add_regions(regions, straight);
        }
    }
    Ok(pass)
}

fn certainty(grid: &TileGrid, probabilities: &[f32], plane: Plane, config: &DetectionConfig) -> Certainty {
    let of = (probabilities.len() / plane.of).max(1) as f64;
    let share = |least: f32| grid.count_where(probabilities, plane, |p| p > least) as f64 / of;
    let lines = share(config.threshold);
    Certainty {
        lines,
        doubtful: share(Certainty::DOUBTFUL) - lines,
    }
}

/// The mask of a class, which has the size of the frame: as it is, or in the first generation at the size of the page.
pub(super) fn sized_mask(
    mask: GrayImage,
    (width, height): (u32, u32),
    config: &DetectionConfig,
) -> GrayImage {
    match config.algorithms {
        Algorithms::Gen1 => resize_mask(&mask, width, height),
        Algorithms::Gen2 => mask,
    }
}

fn in_255ths(probability: f32) -> u8 {
    (255.0 * probability) as u8
}

/// Pixel of a mask of what is more probable than `least`.
pub(super) fn above(least: f32) -> impl Fn(f32) -> u8 {
    move |p| if p > least { u8::MAX } else { 0 }
}

pub(super) fn finish_mask(frame: Frame, mut mask: GrayImage, config: &DetectionConfig) -> Pass1 {
    if config.algorithms == Algorithms::Gen1 {
        return Pass1::Done(gen1_lines(frame.page_size, gen1::examine(mask, config)));
    }
    let contours = contours_with_ink(&mut mask, &frame.grey, config);
    // The second pass never asks for a third: what is left of the skew is not estimated again.
    if let Some(straightening) = frame.straightening {
        return Pass1::Done(page_lines(mask, frame.page_size, &contours, straightening));
    }
    // Before the skew is measured: the edges of neighbouring lines on a crop would have a say in it.
    if is_one_line(frame.page_size, &contours, config) {
        return Pass1::Done(one_line(mask, frame.page_size));
    }
    let Findings {
        contours,
        geometry,
        tps_ratio,
    } = examine(contours, mask.dimensions(), config);
    // A second pass doubles the work of the network, so a small skew only turns the contours.
    let steep = geometry.angle().abs() >= config.second_pass_angle_deg;
    let needs_second_pass = steep || geometry.dewarp().is_some();
    let straightening = Straightening { geometry, tps_ratio };
    if needs_second_pass {
        return Pass1::NeedsSecondPass(frame.straightened(straightening, config));
    }
    let mask = turned_mask(mask, &straightening.geometry);
    Pass1::Done(page_lines(mask, frame.page_size, &contours, straightening))
}

/// The contours of the lines of a frame, after what has no ink is taken off their mask: short lines, and gaps between columns.
fn contours_with_ink(mask: &mut GrayImage, frame: &GrayImage, config: &DetectionConfig) -> Vec<Contour> {
    let mut contours = line_contours(mask, config);
    let binarised = LazyCell::new(|| binarise(frame, config));
    if config.short_lines {
        contours = without_blanks(mask, contours, &binarised, config);
    }
    if config.part_columns {
        contours = part_columns(mask, contours, &binarised, config);
    }
    contours
}

/// A picture of one line, which is cut as it is.
fn one_line(mask: GrayImage, page_size: (u32, u32)) -> PageLines {
    PageLines {
        contours: vec![whole(page_size)],
        ..PageLines::none(mask, page_size)
    }
}

/// Lines of the first generation; everything is in pixels of the page already.
fn gen1_lines(page_size: (u32, u32), findings: gen1::Findings) -> PageLines {
    PageLines {
        page_angle: findings.angle,
        dewarp: findings.dewarp,
        tps_ratio: findings.tps_ratio,
        contours: findings.contours,
        ..PageLines::none(findings.mask, page_size)
    }
}

fn turned_mask(mask: GrayImage, geometry: &PageGeometry) -> GrayImage {
    if geometry.angle() == 0.0 {
        return mask;
    }
    let mut turned = straighten_onto(&mask, geometry, 0);
    for value in turned.iter_mut() {
        // Bilinear sampling leaves greys at the edges; half keeps the lines as thick as they were.
        *value = if *value > 127 { u8::MAX } else { 0 };
    }
    turned
}

fn page_lines(
    mask: GrayImage,
    page_size: (u32, u32),
    contours: &[Contour],
    straightening: Straightening,
) -> PageLines {
    let frame_size = mask.dimensions();
    let (x, y) = factors(frame_size, page_size);
    PageLines {
        page_angle: straightening.geometry.angle(),
        dewarp: straightening.geometry.dewarp().map(|dewarp| dewarp.scaled(x, y)),
        tps_ratio: straightening.tps_ratio,
        contours: contours.iter().map(|contour| scaled(contour, x, y)).collect(),
        ..PageLines::none(mask, page_size)
    }
}

fn box_of_min_area_rect(contour: &[Point]) -> Rect {
    // Half to even, as NumPy rounds.
    let corner = |(x, y): (f32, f32)| Point::new(x.round_ties_even() as i32, y.round_ties_even() as i32);
    bounding_rect(&min_area_rect(contour).corners().map(corner))
}

/// Factors along and down from pixels of a picture of one size to those of the same picture of another.
pub(super) fn factors(from: (u32, u32), to: (u32, u32)) -> (f64, f64) {
    let factor = |to: u32, from: u32| f64::from(to) / f64::from(from.max(1));
    (factor(to.0, from.0), factor(to.1, from.1))
}

pub(super) fn scaled(contour: &[Point], x: f64, y: f64) -> Contour {
    // Both factors are needed: the sides of a frame are cut to whole pixels each by itself.
    let scale = |value: i32, factor: f64| (f64::from(value) * factor).round_ties_even() as i32;
    contour
        .iter()
        .map(|point| Point::new(scale(point.x, x), scale(point.y, y)))
        .collect()
}

/// Finds the lines of one page with a network that answers at once.
#[cfg(test)]
pub(super) fn detect_lines(
    page: &GrayImage,
    bilevel: bool,
    segmenter: &dyn crate::inference::Segmenter,
    config: &DetectionConfig,
) -> Result<PageLines, InferenceError> {
    let mut frame = super::prepare(page, bilevel, segmenter.tile_size(), config);
    loop {
        let probabilities = segmenter.probabilities(&frame.tiles, config.classes)?;
        match finish(frame, &probabilities, config)? {
            Pass1::Done(lines) => return Ok(lines),
            Pass1::NeedsSecondPass(straightened) => frame = straightened,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use image::Luma;

    use super::*;
    use crate::inference::{Segmenter, TileBatch};

    /// A segmenter that takes every ink pixel for a line.
    #[derive(Debug, Default)]
    struct InkIsLine {
        calls: AtomicUsize,
    }

    impl Segmenter for InkIsLine {
        fn tile_size(&self) -> usize {
            256
        }

        fn line_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            Ok(tiles.values.iter().map(|paper| 1.0 - paper).collect())
        }
    }

    /// Four black bars on white, which rise to the right by `slope` pixels a pixel.
    fn page_of_bars(slope: f64) -> GrayImage {
        GrayImage::from_fn(1000, 500, |x, y| {
            let level = f64::from(y) + slope * (f64::from(x) - 500.0);
            let in_bar = (0..4).any(|bar| (level - 100.0 - 100.0 * f64::from(bar)).abs() <= 10.0);
            Luma([if in_bar && (100..900).contains(&x) { 0 } else { 255 }])
        })
    }

    fn detect(page: &GrayImage) -> (PageLines, usize) {
        let segmenter = InkIsLine::default();
        let lines = detect_lines(page, true, &segmenter, &DetectionConfig::default()).unwrap();
        (lines, segmenter.calls.into_inner())
    }

    #[test]
    fn a_picture_of_one_line_stays_whole() {
        let page = GrayImage::from_fn(1600, 90, |x, y| {
            let rises = y + x / 40;
            Luma([if x > 100 && (40..60).contains(&rises) {
                0
            } else {
                255
            }])
        });
        let (lines, passes) = detect(&page);
        assert_eq!((passes, lines.page_angle, lines.contours.len()), (1, 0.0, 1));
        let bounds = bounding_rect(&lines.contours[0]);
        assert_eq!(
            (bounds.x, bounds.y, bounds.width, bounds.height),
            (0, 0, 1600, 90)
        );
    }

    #[test]
    fn a_straight_page_takes_one_pass() {
        let (lines, passes) = detect(&page_of_bars(0.0));
        assert_eq!((lines.contours.len(), lines.page_angle, passes), (4, 0.0, 1));
        assert_eq!(lines.tps_ratio, Some(0.0));
        assert_eq!(
            (lines.page_size, lines.mask.dimensions()),
            ((1000, 500), (1000, 500))
        );
    }

    #[test]
    fn little_skew_is_undone_without_asking_again() {
        let (lines, passes) = detect(&page_of_bars(1.5_f64.to_radians().tan()));
        assert_eq!((lines.contours.len(), passes), (4, 1));
        assert!((lines.page_angle + 1.5).abs() < 0.2, "{}", lines.page_angle);
        assert!(lines.contours.iter().all(|line| bounding_rect(line).height < 30));
    }

    #[test]
    fn much_skew_takes_a_second_pass() {
        let (lines, passes) = detect(&page_of_bars(4.0_f64.to_radians().tan()));
        assert_eq!((lines.contours.len(), passes), (4, 2));
        assert!((lines.page_angle + 4.0).abs() < 0.2, "{}", lines.page_angle);
        assert!(lines.contours.iter().all(|line| bounding_rect(line).height < 35));
    }

    #[test]
    fn a_page_without_lines_is_a_success() {
        let (lines, passes) = detect(&GrayImage::from_pixel(300, 200, Luma([255])));
        assert_eq!((lines.contours.len(), lines.tps_ratio, passes), (0, None, 1));
        assert!(lines.boxes().is_empty());
    }

    #[test]
    fn a_page_of_one_pixel_is_a_success() {
        let (lines, _) = detect(&GrayImage::new(1, 1));
        assert!(lines.contours.is_empty());
    }
}
