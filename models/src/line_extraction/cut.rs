//! Cutting the image of one line out of a page.

use std::num::NonZeroU32;

use image::GrayImage;

use super::{ExtractionConfig, TextLine, Trim};
use crate::page::geometry::{Point, Rect};
use crate::page::morphology::dilate_rect;
use crate::page::polygon::fill_polygon_at;

/// By how much the factor shrinks when a line image came out too high, and how often at most.
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
    /// Where it was cut, in pixels of the straightened page. With [`Trim::Edges`] it is as large as the image.
    pub origin: Rect,
}

/// Cuts a line out of the page its contour belongs to, with the margin that a dilation of its contour by `h * k` by
/// `h * k * k` pixels leaves (`get_line_image` of `ocrv1`).
///
/// A result higher than the configured tolerance is cut again with a smaller `k`; the smaller one stays in `k` for the
/// page's next lines, so a page starts with `k` equal to [`ExtractionConfig::k_factor`].
pub fn cut_line(page: &GrayImage, line: &TextLine, k: &mut f64, config: &ExtractionConfig) -> LineImage {
    let height = f64::from(line.bounding_box.height);
    let mut cut = Cut::new(page, line, *k);
    for _ in 0..MAX_SHRINKS {
        if cut.height(config.trim) as f64 <= height * config.bbox_tolerance {
            break;
        }
        *k -= K_STEP;
        if *k <= MIN_K {
            break;
        }
        cut = Cut::new(page, line, *k);
    }
    cut.render(page, config)
}

/// One attempt: the part of the page under a line's dilated mask.
struct Cut {
    /// Left top corner of the mask on the page.
    origin: Point,
    mask: GrayImage,
    /// Which rows and columns of the mask show anything but black.
    rows: Vec<bool>,
    columns: Vec<bool>,
}

impl Cut {
    fn new(page: &GrayImage, line: &TextLine, k: f64) -> Self {
        let width = f64::from(line.bounding_box.height) * k;
        let (width, height) = (at_least_one(width), at_least_one(width.trunc() * k));
        let area = surroundings(line.bounding_box, width, height, page);
        let origin = Point::new(area.x, area.y);
        let mut mask = GrayImage::new(area.width.unsigned_abs(), area.height.unsigned_abs());
        fill_polygon_at(&mut mask, &line.contour, origin, u8::MAX);
        let mask = dilate_rect(&mask, width, height);

        let mut rows = vec![false; mask.height() as usize];
        let mut columns = vec![false; mask.width() as usize];
        for (shows, (page_row, mask_row)) in rows.iter_mut().zip(overlaid(page, &mask, origin)) {
            for ((column, &grey), &inside) in columns.iter_mut().zip(page_row).zip(mask_row) {
                let visible = inside != 0 && grey != BLACK;
                *column |= visible;
                *shows |= visible;
            }
        }
        Self {
            origin,
            mask,
            rows,
            columns,
        }
    }

    fn height(&self, trim: Trim) -> usize {
        kept(&self.rows, trim).count()
    }

    fn render(&self, page: &GrayImage, config: &ExtractionConfig) -> LineImage {
        let background = config.background.grey();
        let rows: Vec<usize> = kept(&self.rows, config.trim).collect();
        let columns: Vec<usize> = kept(&self.columns, config.trim).collect();
        let (Some((&top, &bottom)), Some((&left, &right))) =
            (rows.first().zip(rows.last()), columns.first().zip(columns.last()))
        else {
            return LineImage {
                image: GrayImage::new(0, 0),
                origin: Rect {
                    x: self.origin.x,
                    y: self.origin.y,
                    width: 0,
                    height: 0,
                },
            };
        };
        let mut image = GrayImage::new(columns.len() as u32, rows.len() as u32);
        let source: Vec<(&[u8], &[u8])> = overlaid(page, &self.mask, self.origin).collect();
        for (target, &row) in image.chunks_exact_mut(columns.len()).zip(&rows) {
            let (page_row, mask_row) = source[row];
            for (target, &column) in target.iter_mut().zip(&columns) {
                *target = if mask_row[column] != 0 {
                    page_row[column]
                } else {
                    background
                };
            }
        }
        let origin = Rect {
            x: self.origin.x + left as i32,
            y: self.origin.y + top as i32,
            width: (right - left) as i32 + 1,
            height: (bottom - top) as i32 + 1,
        };
        LineImage { image, origin }
    }
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
fn surroundings(bounds: Rect, width: NonZeroU32, height: NonZeroU32, page: &GrayImage) -> Rect {
    let reach = |start: i32, size: i32, kernel: NonZeroU32, end: u32| {
        let margin = i64::from(kernel.get() / 2);
        let end = i64::from(end);
        let from = (i64::from(start) - margin).clamp(0, end);
        let to = (i64::from(start) + i64::from(size) + margin).clamp(from, end);
        (from as i32, (to - from) as i32)
    };
    let (x, width) = reach(bounds.x, bounds.width, width, page.width());
    let (y, height) = reach(bounds.y, bounds.height, height, page.height());
    Rect { x, y, width, height }
}

/// The whole part of a kernel side.
fn at_least_one(side: f64) -> NonZeroU32 {
    NonZeroU32::new(side as u32).unwrap_or(NonZeroU32::MIN)
}
