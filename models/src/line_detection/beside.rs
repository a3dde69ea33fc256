//! Regions beside the text, of a network whose classes of a layout are rough: lines say where writing is, and the classes what it is.
//!
//! The network sees some letters of a running head as such and others not. So a line is taken as a whole: where most of what it may be is
//! not text, it has the likeliest of the other kinds, and is a region of that kind. What lies on no line is a region only if what the network
//! is sure of is large enough to be no chance: a picture as a share of the page, writing that is no line, as that which runs down a margin, as
//! some letters. It is then taken as far as the network finds it likely, which is as far as the picture or the title goes.

use image::GrayImage;

use super::layout::{Region, RegionKind};
use super::mask::thickness;
use super::passes::{factors, scaled};
use super::{REACH_ABOVE, REACH_BELOW};
use crate::page::geometry::{Contour, Point, Rect, bounding_rect, contour_area};
use crate::page::polygon::{Overlap, shape_of};

/// Probability, from 0 to 1, of something other than text from which a line is not of the text: the mean of its pixels.
const LEAST_SHARE: f64 = 0.3;
/// Area of the smallest picture, as a share of the page.
const LEAST_PICTURE: f64 = 0.004;
/// Area of the smallest writing on no line, in pixels of the frame: some letters of a small hand.
const LEAST_WRITING: f64 = 500.0;
/// Probability from which a pixel beside what the network is sure of is taken to it.
pub(super) const LEAST_PROBABILITY: f32 = 0.25;

/// Kind of a line, whose contour is in pixels of the frame; `None` for a line of the text.
fn kind_of(line: &[Point], shares: &[(RegionKind, GrayImage)]) -> Option<RegionKind> {
    let (shape, Rect { x, y, .. }) = shape_of(line);
    let mut count = 0_u32;
    let mut sums = vec![0_u32; shares.len()];
    let inside = shape.enumerate_pixels().filter(|(.., pixel)| pixel.0[0] > 0);
    for (column, row) in
        inside.filter_map(|(column, row, _)| column.checked_add_signed(x).zip(row.checked_add_signed(y)))
    {
        for (sum, (_, probabilities)) in sums.iter_mut().zip(shares) {
            *sum += probabilities
                .get_pixel_checked(column, row)
                .map_or(0, |pixel| u32::from(pixel.0[0]));
        }
        count += 1;
    }
    let all: u32 = sums.iter().sum();
    if f64::from(all) <= LEAST_SHARE * 255.0 * f64::from(count) {
        return None;
    }
    let writing = shares
        .iter()
        .zip(sums)
        .filter(|((kind, _), _)| *kind != RegionKind::Image);
    writing.max_by_key(|(_, sum)| *sum).map(|((kind, _), _)| *kind)
}

/// Box around a line with its letters.
fn with_letters(line: &[Point]) -> Rect {
    let bounds = bounding_rect(line);
    let band = thickness(line, &bounds);
    let above = (REACH_ABOVE * band).round() as i32;
    let below = (REACH_BELOW * band).round() as i32;
    Rect {
        y: bounds.y - above,
        height: bounds.height + above + below,
        ..bounds
    }
}

/// Regions that a network sees on a page, in pixels of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) sure: Vec<Region>,
    /// Regions that are likely at least, among them those around what is sure.
    pub(super) likely: Vec<Region>,
}

/// Regions of the lines that are not of the text, and likely ones around sure ones that lie on no line and are large enough, in pixels of the
/// page. `shares` are the probabilities of each kind in its frame, in 255ths.
pub(super) fn beside(
    lines: &[Contour],
    seen: Seen,
    shares: &[(RegionKind, GrayImage)],
    page_size: (u32, u32),
) -> Vec<Region> {
    let Some((_, frame)) = shares.first() else {
        return seen.sure;
    };
    let (x, y) = factors(page_size, frame.dimensions());
    let page = f64::from(page_size.0) * f64::from(page_size.1);
    let boxes: Vec<Rect> = lines.iter().map(|line| with_letters(line)).collect();
    let of_lines = lines.iter().zip(&boxes).filter_map(|(line, bounds)| {
        let kind = kind_of(&scaled(line, x, y), shares)?;
        Some(Region {
            kind,
            contour: corners(bounds),
        })
    });
    let is_region = |region: &Region| {
        let area = contour_area(&region.contour);
        if region.kind == RegionKind::Image {
            return area >= LEAST_PICTURE * page;
        }
        let bounds = bounding_rect(&region.contour);
        area * x * y >= LEAST_WRITING
            && boxes
                .iter()
                .all(|line| Overlap::of_bounds(&bounds, line).of_first() <= 0.0)
    };
    let sure: Vec<Region> = seen.sure.into_iter().filter(is_region).collect();
    let is_around = |likely: &Region| {
        sure.iter().any(|sure| {
            sure.kind == likely.kind && Overlap::of(&sure.contour, &likely.contour).of_first() > 0.5
        })
    };
    of_lines
        .chain(seen.likely.into_iter().filter(is_around))
        .collect()
}

fn corners(bounds: &Rect) -> Contour {
    let (right, bottom) = (bounds.x + bounds.width - 1, bounds.y + bounds.height - 1);
    let corners = [
        (bounds.x, bounds.y),
        (right, bounds.y),
        (right, bottom),
        (bounds.x, bottom),
    ];
    corners.map(|(x, y)| Point::new(x, y)).to_vec()
}

#[cfg(test)]
mod tests {
    use image::Luma;

    use super::*;

    const SIZE: (u32, u32) = (600, 400);

    fn block(x: i32, y: i32, width: i32, height: i32) -> Contour {
        corners(&Rect { x, y, width, height })
    }

    /// Frames of 600 x 400 pixels in which each kind has its probability in some blocks.
    fn shares(blocks: &[(RegionKind, Rect, u8)]) -> Vec<(RegionKind, GrayImage)> {
        let frame = |kind| {
            let mut frame = GrayImage::new(SIZE.0, SIZE.1);
            for (_, bounds, share) in blocks.iter().filter(|(of, ..)| *of == kind) {
                let columns = bounds.x..bounds.x + bounds.width;
                for (x, y) in columns.flat_map(|x| (bounds.y..bounds.y + bounds.height).map(move |y| (x, y)))
                {
                    frame.put_pixel(x as u32, y as u32, Luma([*share]));
                }
            }
            (kind, frame)
        };
        RegionKind::ALL.map(frame).to_vec()
    }

    const fn rect(x: i32, y: i32, width: i32, height: i32) -> Rect {
        Rect { x, y, width, height }
    }

    #[test]
    fn a_line_is_what_most_of_it_may_be() {
        let lines = [
            block(100, 50, 200, 10),
            block(100, 100, 400, 10),
            block(100, 150, 400, 10),
        ];
        let shares = shares(&[
            (RegionKind::Margin, rect(100, 50, 80, 10), 200),
            (RegionKind::Caption, rect(180, 50, 60, 10), 200),
            (RegionKind::Note, rect(100, 100, 40, 10), 255),
        ]);
        let found = beside(&lines, Seen::default(), &shares, SIZE);
        let expected = Region {
            kind: RegionKind::Margin,
            contour: block(100, 44, 200, 26),
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn writing_in_a_picture_is_writing() {
        let whole = rect(0, 0, 600, 400);
        let shares = shares(&[(RegionKind::Image, whole, 150), (RegionKind::Caption, whole, 20)]);
        let found = beside(&[block(10, 10, 50, 10)], Seen::default(), &shares, SIZE);
        assert_eq!(found[0].kind, RegionKind::Caption);
    }

    #[test]
    fn what_is_small_or_on_a_line_is_no_region_and_others_go_as_far_as_they_are_likely() {
        let lines = [block(100, 100, 400, 10)];
        let region = |kind, contour| Region { kind, contour };
        let margin = region(RegionKind::Margin, block(20, 20, 20, 100));
        let picture = region(RegionKind::Image, block(200, 90, 60, 60));
        let around = region(RegionKind::Image, block(190, 80, 80, 80));
        let likely = vec![
            margin.clone(),
            around.clone(),
            region(RegionKind::Margin, block(195, 85, 70, 70)),
            region(RegionKind::Image, block(400, 300, 80, 80)),
        ];
        let sure = vec![
            region(RegionKind::Note, block(150, 92, 60, 12)),
            region(RegionKind::PageNumber, block(20, 200, 10, 10)),
            region(RegionKind::Image, block(300, 200, 20, 20)),
            margin.clone(),
            picture,
        ];
        let found = beside(&lines, Seen { sure, likely }, &shares(&[]), SIZE);
        assert_eq!(found, [margin, around]);
    }
}
