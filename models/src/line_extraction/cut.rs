//! Cutting the image of one line out of a page.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use image::GrayImage;

use super::level::Levelling;
use super::shape::Shape;
use super::{ExtractionConfig, TextLine, Trim};
use crate::page::geometry::{Point, Rect};
use crate::page::morphology::dilate_rect;
use crate::page::polygon::fill_polygon_at;
use crate::page::simd::vectorised;

/// Step by which the factor shrinks when a line image came out too high, and the largest number of steps.
const K_STEP: f64 = 0.1;
const MAX_SHRINKS: usize = 10;
/// The factor stays above this.
const MIN_K: f64 = 0.1;

const BLACK: u8 = 0;

/// The image of one text line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineImage {
    /// Grey; 0 x 0 when nothing of the line lies on the page.
    pub image: GrayImage,
    /// Place of the cut, in pixels of the straightened page. With [`Trim::Edges`] it is as large as the image.
    pub origin: Rect,
    /// Levelling of the line; `None` for one that was cut as it lies.
    pub levelling: Option<Levelling>,
}

/// Cuts a line out of the page its contour belongs to, with the margin that a dilation of its contour by `h * k` by
/// `h * k * k` pixels leaves (`get_line_image` of `ocrv1`).
///
/// A result higher than the configured tolerance is cut again with a smaller `k`; the smaller one stays in `k` for the
/// page's next lines, so a page starts with `k` equal to [`ExtractionConfig::k_factor`].
///
/// A line that slants or is bent is cut as if it were level, if the configuration says so, by its shape alone.
pub fn cut_line(page: &GrayImage, line: &TextLine, k: &mut f64, config: &ExtractionConfig) -> LineImage {
    let shape = Shape::of(line, config);
    if shape.levelling.is_some() {
        return place(page.dimensions(), shape, k, config).cut(page, config);
    }
    fitting(&shape, k, config, |k| Cut::of_visible(page, &shape, k)).on_page(page, config)
}

/// Place of a line's image on its page, in pixels of the straightened page, with the part of it that belongs to the line.
#[derive(Debug)]
pub struct LinePlace {
    cut: Cut,
    /// Levelling of the line that was cut; `None` for one that is cut as it lies.
    levelling: Option<Levelling>,
}

/// Finds the place of a line's image on a page of this width and height by the shape of the line alone, as [`cut_line`] does on a page without a
/// black pixel. `k` is that of [`cut_line`].
pub fn place_line(size: (u32, u32), line: &TextLine, k: &mut f64, config: &ExtractionConfig) -> LinePlace {
    place(size, Shape::of(line, config), k, config)
}

fn place(size: (u32, u32), shape: Shape<'_>, k: &mut f64, config: &ExtractionConfig) -> LinePlace {
    LinePlace {
        cut: fitting(&shape, k, config, |k| Cut::of_shape(size, &shape, k)),
        levelling: shape.levelling,
    }
}

impl LinePlace {
    /// Place of the image, in pixels; empty where nothing of the line lies on the page.
    pub fn bounds(&self, config: &ExtractionConfig) -> Rect {
        self.cut.bounds(config.trim)
    }

    /// Returns true if the line is made level before it is cut.
    pub fn is_levelled(&self) -> bool {
        self.levelling.is_some()
    }

    /// Cuts the image out of its page, which has the size that the place was found for.
    pub fn cut(&self, page: &GrayImage, config: &ExtractionConfig) -> LineImage {
        match &self.levelling {
            Some(levelling) => {
                let part = levelling.part(page, self.cut.area(), config.background);
                LineImage {
                    levelling: Some(levelling.clone()),
                    ..self.cut.render(&part, Point::new(0, 0), config)
                }
            }
            None => self.cut.on_page(page, config),
        }
    }
}

/// The cut with the largest `k` that makes the image of a line no higher than its configured tolerance.
fn fitting(shape: &Shape<'_>, k: &mut f64, config: &ExtractionConfig, attempt: impl Fn(f64) -> Cut) -> Cut {
    let height = f64::from(shape.height);
    let mut cut = attempt(*k);
    for _ in 0..MAX_SHRINKS {
        if cut.height(config.trim) as f64 <= height * config.bbox_tolerance {
            break;
        }
        // Upstream tries smaller factors in the same steps, rounding errors of the subtraction included.
        *k -= K_STEP;
        if *k <= MIN_K {
            break;
        }
        cut = attempt(*k);
    }
    cut
}

/// One attempt: the part of the page under a line's dilated mask.
#[derive(Debug)]
struct Cut {
    /// Left top corner of the mask on the page.
    origin: Point,
    mask: GrayImage,
    /// Rows and columns of the mask, `true` for those that show anything but black.
    rows: Vec<bool>,
    columns: Vec<bool>,
}

impl Cut {
    fn of_visible(page: &GrayImage, shape: &Shape<'_>, k: f64) -> Self {
        Self::new(
            page.dimensions(),
            shape,
            k,
            #[inline(always)]
            |mask, origin, columns, rows| {
                for (shows, (page_row, mask_row)) in rows.iter_mut().zip(overlaid(page, mask, origin)) {
                    *shows = mark_visible(page_row, mask_row, columns);
                }
            },
        )
    }

    fn of_shape(size: (u32, u32), shape: &Shape<'_>, k: f64) -> Self {
        Self::new(
            size,
            shape,
            k,
            #[inline(always)]
            |mask, _, columns, rows| {
                let width = (mask.width() as usize).max(1);
                for (shows, mask_row) in rows.iter_mut().zip(mask.as_raw().chunks_exact(width)) {
                    *shows = mark_visible(mask_row, mask_row, columns);
                }
            },
        )
    }

    /// `mark` is given the mask and its corner, and marks the columns and rows that show anything.
    #[inline(always)]
    fn new(
        size: (u32, u32),
        shape: &Shape<'_>,
        k: f64,
        mark: impl Fn(&GrayImage, Point, &mut [u8], &mut [bool]),
    ) -> Self {
        // By the height of the line in both directions; the whole part of the width makes the height, as in
        // `ocrv1`.
        let width = f64::from(shape.height) * k;
        let (width, height) = (at_least_one(width), at_least_one(width.trunc() * k));
        let area = surroundings(shape.bounds, width, height, size);
        let origin = Point::new(area.x, area.y);
        let mut mask = GrayImage::new(area.width.unsigned_abs(), area.height.unsigned_abs());
        fill_polygon_at(&mut mask, &shape.contour, origin, u8::MAX);
        // Within the box that the dilation can reach, not on the whole page, which upstream dilates for every
        // line and attempt.
        let mask = dilate_rect(&mask, width, height);

        let mut rows = vec![false; mask.height() as usize];
        // Bytes, which are combined with those of the mask as vectors.
        let mut columns = vec![0; mask.width() as usize];
        vectorised(
            #[inline(always)]
            || mark(&mask, origin, &mut columns, &mut rows),
        );
        let columns = columns.into_iter().map(|seen| seen != 0).collect();
        Self {
            origin,
            mask,
            rows,
            columns,
        }
    }

    /// Rows and columns of the mask that stay, from the first one to the last; `None` where nothing does.
    fn extent(&self, trim: Trim) -> Option<(RangeInclusive<usize>, RangeInclusive<usize>)> {
        let ends = |shows: &[bool]| {
            let mut kept = kept(shows, trim);
            let first = kept.next()?;
            Some(first..=kept.last().unwrap_or(first))
        };
        ends(&self.rows).zip(ends(&self.columns))
    }

    fn bounds(&self, trim: Trim) -> Rect {
        let Some((rows, columns)) = self.extent(trim) else {
            return Rect {
                x: self.origin.x,
                y: self.origin.y,
                width: 0,
                height: 0,
            };
        };
        Rect {
            x: self.origin.x + *columns.start() as i32,
            y: self.origin.y + *rows.start() as i32,
            width: (columns.end() - columns.start()) as i32 + 1,
            height: (rows.end() - rows.start()) as i32 + 1,
        }
    }

    fn height(&self, trim: Trim) -> usize {
        kept(&self.rows, trim).count()
    }

    /// The part of the page under the mask.
    fn area(&self) -> Rect {
        Rect {
            x: self.origin.x,
            y: self.origin.y,
            width: self.mask.width() as i32,
            height: self.mask.height() as i32,
        }
    }

    fn on_page(&self, page: &GrayImage, config: &ExtractionConfig) -> LineImage {
        self.render(page, self.origin, config)
    }

    /// Cuts the image out of a picture with the corner of the mask at `corner`.
    fn render(&self, picture: &GrayImage, corner: Point, config: &ExtractionConfig) -> LineImage {
        let background = config.background.grey();
        let origin = self.bounds(config.trim);
        let rows: Vec<usize> = kept(&self.rows, config.trim).collect();
        let columns: Vec<usize> = kept(&self.columns, config.trim).collect();
        let Some((&left, &right)) = columns.first().zip(columns.last()) else {
            let image = GrayImage::new(0, 0);
            return LineImage {
                image,
                origin,
                levelling: None,
            };
        };
        let mut image = GrayImage::new(columns.len() as u32, rows.len() as u32);
        let source: Vec<(&[u8], &[u8])> = overlaid(picture, &self.mask, corner).collect();
        for (target, &row) in image.chunks_exact_mut(columns.len()).zip(&rows) {
            let (page_row, mask_row) = source[row];
            // Nothing is cut out of the middle, so a row is one run and is copied by vectors.
            if columns.len() == right + 1 - left {
                let (page_row, mask_row) = (&page_row[left..=right], &mask_row[left..=right]);
                vectorised(
                    #[inline(always)]
                    || overlay(page_row, mask_row, background, target),
                );
                continue;
            }
            for (target, &column) in target.iter_mut().zip(&columns) {
                *target = if mask_row[column] != 0 {
                    page_row[column]
                } else {
                    background
                };
            }
        }
        LineImage {
            image,
            origin,
            levelling: None,
        }
    }
}

/// The page where the mask is, else the background.
#[inline(always)]
fn overlay(page_row: &[u8], mask_row: &[u8], background: u8, target: &mut [u8]) {
    for ((target, &grey), &inside) in target.iter_mut().zip(page_row).zip(mask_row) {
        *target = if inside == 0 { background } else { grey };
    }
}

/// Marks the columns where a row shows anything; whether it does anywhere.
#[inline(always)]
fn mark_visible(page_row: &[u8], mask_row: &[u8], columns: &mut [u8]) -> bool {
    let mut shows = 0;
    for ((column, &grey), &inside) in columns.iter_mut().zip(page_row).zip(mask_row) {
        // Upstream combines page and mask by AND and looks for what is not zero, so that black of the page
        // counts as empty.
        let visible = if grey == BLACK { 0 } else { inside };
        *column |= visible;
        shows |= visible;
    }
    shows != 0
}

/// Indices of the rows or columns that stay.
fn kept(shows: &[bool], trim: Trim) -> impl Iterator<Item = usize> {
    let first = shows.iter().position(|&shows| shows).unwrap_or(shows.len());
    let end = shows
        .iter()
        .rposition(|&shows| shows)
        .map_or(first, |last| last + 1);
    (first..end).filter(move |&index| trim == Trim::Edges || shows[index])
}

/// Rows of the page beside the rows of the mask that lies on it at `origin`.
fn overlaid<'a>(
    page: &'a GrayImage,
    mask: &'a GrayImage,
    origin: Point,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let (x, y) = (origin.x as usize, origin.y as usize);
    let width = mask.width() as usize;
    let page_rows = page.as_raw().chunks_exact((page.width() as usize).max(1)).skip(y);
    page_rows
        .zip(mask.as_raw().chunks_exact(width.max(1)))
        .map(move |(page, mask)| (&page[x..x + width], mask))
}

/// The part of the page that a dilation of `bounds` can reach.
fn surroundings(bounds: Rect, width: NonZeroU32, height: NonZeroU32, size: (u32, u32)) -> Rect {
    let reach = |start: i32, size: i32, kernel: NonZeroU32, end: u32| {
        // Half of an even kernel reaches one pixel further on one side; the larger half is taken for both.
        let margin = i64::from(kernel.get() / 2);
        let end = i64::from(end);
        let from = (i64::from(start) - margin).clamp(0, end);
        let to = (i64::from(start) + i64::from(size) + margin).clamp(from, end);
        (from as i32, (to - from) as i32)
    };
    let (x, width) = reach(bounds.x, bounds.width, width, size.0);
    let (y, height) = reach(bounds.y, bounds.height, height, size.1);
    Rect { x, y, width, height }
}

/// The whole part of a kernel side.
fn at_least_one(side: f64) -> NonZeroU32 {
    NonZeroU32::new(side as u32).unwrap_or(NonZeroU32::MIN)
}

#[cfg(test)]
mod tests {
    use image::Luma;

    use super::*;
    use crate::line_extraction::Background;

    fn block(x: i32, y: i32, width: i32, height: i32) -> TextLine {
        let (right, bottom) = (x + width - 1, y + height - 1);
        let corners = [(x, y), (x, bottom), (right, bottom), (right, y)];
        TextLine::new(0, corners.map(|(x, y)| Point::new(x, y)).to_vec()).unwrap()
    }

    fn cut(page: &GrayImage, line: &TextLine, config: &ExtractionConfig) -> (LineImage, f64) {
        let mut k = config.k_factor;
        (cut_line(page, line, &mut k, config), k)
    }

    #[test]
    fn a_line_image_is_the_page_at_its_origin() {
        let page = GrayImage::from_fn(600, 300, |x, y| Luma([(1 + (x * 3 + y * 5) % 255) as u8]));
        let (cut, k) = cut(&page, &block(100, 120, 300, 40), &ExtractionConfig::default());
        assert!((k - 1.4).abs() < 1e-9, "{k}");
        // Kernel sides are 40 k = 55 and 55 k = 76, which reach 27 and 38 pixels to either side.
        assert_eq!(
            cut.origin,
            Rect {
                x: 73,
                y: 83,
                width: 354,
                height: 115
            }
        );
        assert_eq!(cut.image.dimensions(), (354, 115));
        for (x, y, pixel) in cut.image.enumerate_pixels() {
            assert_eq!(pixel, page.get_pixel(x + 73, y + 83));
        }
    }

    #[test]
    fn the_place_of_a_line_is_where_it_is_cut_on_a_page_without_black() {
        let page = GrayImage::from_fn(600, 300, |x, y| Luma([(1 + (x * 7 + y * 3) % 255) as u8]));
        let slanting = [(100, 100), (100, 130), (500, 190), (500, 160)].map(|(x, y)| Point::new(x, y));
        let slanting = TextLine::new(0, slanting.to_vec()).unwrap();
        for config in [ExtractionConfig::default(), ExtractionConfig::ocrv1()] {
            for line in [
                block(100, 120, 300, 40),
                block(-20, 280, 300, 40),
                block(900, 20, 100, 20),
                slanting.clone(),
            ] {
                let mut k = config.k_factor;
                let place = place_line(page.dimensions(), &line, &mut k, &config);
                let (image, other) = cut(&page, &line, &config);
                assert_eq!(place.bounds(&config), image.origin);
                assert_eq!(place.cut(&page, &config), image);
                assert_eq!(k, other);
            }
        }
        // Unlike a cut, it keeps the black edge of a scan.
        let scan = GrayImage::from_fn(600, 300, |x, _| Luma([if x < 90 { 0 } else { 200 }]));
        let (line, config) = (block(100, 120, 300, 40), ExtractionConfig::default());
        let mut k = config.k_factor;
        let place = place_line(scan.dimensions(), &line, &mut k, &config).bounds(&config);
        assert_eq!((place.x, cut(&scan, &line, &config).0.origin.x), (73, 90));
    }

    #[test]
    fn a_black_row_inside_a_line_goes_only_where_upstream_is_copied() {
        let page = GrayImage::from_fn(600, 300, |_, y| Luma([if y == 140 { 0 } else { 200 }]));
        let line = block(100, 120, 300, 40);
        let (ours, _) = cut(&page, &line, &ExtractionConfig::default());
        let (theirs, _) = cut(&page, &line, &ExtractionConfig::ocrv1());
        assert_eq!(ours.image.height(), theirs.image.height() + 1);
        assert_eq!(ours.origin, theirs.origin);
    }

    #[test]
    fn what_surrounds_a_slanting_line_is_paper_or_black() {
        let page = GrayImage::from_pixel(900, 500, Luma([100]));
        let corners = [(100, 100), (100, 130), (800, 330), (800, 300)];
        let line = TextLine::new(0, corners.map(|(x, y)| Point::new(x, y)).to_vec()).unwrap();
        let narrow = ExtractionConfig {
            k_factor: 0.2,
            ..ExtractionConfig::default()
        };
        let (paper, _) = cut(&page, &line, &narrow);
        let corner = |image: &GrayImage| image.get_pixel(image.width() - 1, 0).0[0];
        assert_eq!(corner(&paper.image), 255);
        let (black, _) = cut(
            &page,
            &line,
            &ExtractionConfig {
                background: Background::Black,
                ..narrow
            },
        );
        assert_eq!(corner(&black.image), 0);
    }

    #[test]
    fn a_bent_line_is_cut_as_if_it_were_level() {
        let middle = |x: u32| 150 + (x.abs_diff(400).pow(2) / 2000) as i32;
        let page = GrayImage::from_fn(800, 300, |x, y| {
            Luma([if middle(x).abs_diff(y as i32) <= 8 {
                20
            } else {
                200
            }])
        });
        let edge = |by: i32| (0..800).map(move |x| Point::new(x as i32, middle(x) + by));
        let line = TextLine::new(0, edge(-8).chain(edge(8).rev()).collect()).unwrap();
        let (level, _) = cut(&page, &line, &ExtractionConfig::default());
        let as_it_lies = ExtractionConfig {
            level_lines: false,
            ..ExtractionConfig::default()
        };
        let (bent, _) = cut(&page, &line, &as_it_lies);
        let inked = |image: &GrayImage| {
            let inked = image.rows().map(|mut row| row.any(|level| level.0[0] == 20));
            inked.filter(|inked| *inked).count()
        };
        assert!(inked(&bent.image) > 90 && inked(&level.image) <= 24);
        assert!(2 * level.image.height() < bent.image.height());
        let (least, most) = level.levelling.unwrap().shifts(0..800);
        assert!(least < -15 && most > 40, "{least} to {most}");
        assert_eq!(bent.levelling, None);
    }

    #[test]
    fn a_line_beside_the_page_has_an_empty_image() {
        let page = GrayImage::from_pixel(100, 100, Luma([255]));
        for line in [
            block(500, 20, 100, 20),
            block(10, -400, 50, 20),
            block(-900, 950, 40, 20),
        ] {
            let (cut, _) = cut(&page, &line, &ExtractionConfig::default());
            assert_eq!(cut.image.dimensions(), (0, 0));
        }
    }

    #[test]
    fn a_line_of_one_pixel_can_be_cut() {
        let page = GrayImage::from_pixel(100, 100, Luma([255]));
        let (cut, _) = cut(&page, &block(50, 50, 1, 1), &ExtractionConfig::default());
        assert_eq!(cut.image.dimensions(), (1, 1));
    }
}
