//! Regions of a page: the layout detector's input, and the boxes in its answer (PicoDet, Yu et al. 2021).

use image::RgbImage;
use parkhang_cv::resize::{resize_area, resize_linear};
use parkhang_documents::{LayoutClass, Region, area, intersection};
use parkhang_kernels::sigmoid;

use crate::imagenet::normalized;
use crate::inference::{ImageBatch, InferenceError, LayoutDetector, LayoutLevel, LayoutMaps};

/// Size of a page as the detector sees it.
const WIDTH: u32 = 608;
const HEIGHT: u32 = 800;
/// Pixels from one cell of the finest level to the next; each further level doubles them.
const FINEST: usize = 8;
/// Probability from which there is a region.
const LEAST_SCORE: f32 = 0.4;
/// Share that two regions of a class have in common from which they are one.
const OVERLAP: f32 = 0.5;
/// Largest number of cells of a class that are looked at, the likeliest ones.
const MAX_CANDIDATES: usize = 400;

/// Kinds of regions in the order of the detector's classes.
const KINDS: [LayoutClass; LayoutLevel::CLASSES] = [
    LayoutClass::Text,
    LayoutClass::Title,
    LayoutClass::Figure,
    LayoutClass::FigureCaption,
    LayoutClass::Table,
    LayoutClass::TableCaption,
    LayoutClass::Header,
    LayoutClass::Footer,
    LayoutClass::Reference,
    LayoutClass::Equation,
];

/// The regions of a page, which is upright, the surest first. Regions of different kinds may overlap.
///
/// # Errors
/// [`InferenceError`] of the network.
pub fn regions(page: &RgbImage, detector: &dyn LayoutDetector) -> Result<Vec<Region>, InferenceError> {
    if page.width() == 0 || page.height() == 0 {
        return Ok(Vec::new());
    }
    let answers = detector.maps(&input(page))?;
    Ok(answers
        .first()
        .map(|maps| regions_of(maps, page.dimensions()))
        .unwrap_or_default())
}

/// A page as the detector takes it, its sides scaled apart.
fn input(page: &RgbImage) -> ImageBatch {
    let shrinks = page.width() >= WIDTH && page.height() >= HEIGHT;
    let scaled = if shrinks {
        resize_area(page, WIDTH, HEIGHT)
    } else {
        resize_linear(page, WIDTH, HEIGHT)
    };
    ImageBatch {
        count: 1,
        height: HEIGHT as usize,
        width: WIDTH as usize,
        values: normalized(scaled.as_raw()),
    }
}

/// The regions in the maps of a page of `size` columns and rows.
fn regions_of(maps: &LayoutMaps, (width, height): (u32, u32)) -> Vec<Region> {
    let scale = [width as f32 / WIDTH as f32, height as f32 / HEIGHT as f32];
    let mut found = Vec::new();
    for (class, kind) in KINDS.into_iter().enumerate() {
        let mut candidates: Vec<Region> = Vec::new();
        for (number, level) in maps.levels.iter().enumerate() {
            let stride = FINEST << number;
            candidates.extend(candidates_of(level, stride, class, kind));
        }
        candidates.sort_by(|one, other| other.score.total_cmp(&one.score));
        candidates.truncate(MAX_CANDIDATES);
        let mut kept: Vec<Region> = Vec::new();
        for candidate in candidates {
            if kept
                .iter()
                .all(|kept| overlap(&kept.bounds, &candidate.bounds) <= OVERLAP)
            {
                kept.push(candidate);
            }
        }
        found.extend(kept);
    }
    for region in &mut found {
        for (place, edge) in region.bounds.iter_mut().enumerate() {
            let side = [width as f32, height as f32][place % 2];
            *edge = (*edge * scale[place % 2]).clamp(0.0, side);
        }
    }
    found.sort_by(|one, other| other.score.total_cmp(&one.score));
    found
}

/// The cells of a level in which a region of a class is likely to have its middle.
fn candidates_of(
    level: &LayoutLevel,
    stride: usize,
    class: usize,
    kind: LayoutClass,
) -> impl Iterator<Item = Region> {
    let cells = level.rows * level.columns;
    let scores = level
        .values
        .get(class * cells..(class + 1) * cells)
        .unwrap_or_default();
    scores.iter().enumerate().filter_map(move |(cell, &score)| {
        let score = sigmoid(score);
        if score.is_nan() || score <= LEAST_SCORE {
            return None;
        }
        let stride = stride as f32;
        let middle = |place: usize| (place as f32 + 0.5) * stride;
        let (x, y) = (middle(cell % level.columns), middle(cell / level.columns));
        let [left, top, right, bottom] = std::array::from_fn(|side| distance(level, cell, side) * stride);
        let bounds = [x - left, y - top, x + right, y + bottom];
        let is_finite = bounds.iter().all(|edge| edge.is_finite());
        is_finite.then_some(Region { kind, bounds, score })
    })
}

/// Distance of a side from a cell in strides: the mean of the bins, weighed by the softmax of their scores (Li et al. 2020).
fn distance(level: &LayoutLevel, cell: usize, side: usize) -> f32 {
    let cells = level.rows * level.columns;
    let scores: [f32; LayoutLevel::BINS] = std::array::from_fn(|bin| {
        let plane = LayoutLevel::CLASSES + side * LayoutLevel::BINS + bin;
        level
            .values
            .get(plane * cells + cell)
            .copied()
            .unwrap_or(f32::MIN)
    });
    let largest = scores.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let (mut sum, mut weighed) = (0.0, 0.0);
    for (bin, score) in scores.into_iter().enumerate() {
        let share = (score - largest).exp();
        sum += share;
        weighed += share * bin as f32;
    }
    weighed / sum
}

/// Share of the area of both that two boxes have in common.
fn overlap(one: &[f32; 4], other: &[f32; 4]) -> f32 {
    let common = intersection(one, other);
    common / (area(one) + area(other) - common).max(f32::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level of one row on which each cell says `score` for a text whose sides are `bins` strides away.
    fn level(columns: usize, scores: &[f32], bins: [usize; 4]) -> LayoutLevel {
        let mut values = vec![-20.0; LayoutLevel::VALUES * columns];
        values[..columns].copy_from_slice(scores);
        for (side, bin) in bins.into_iter().enumerate() {
            let plane = LayoutLevel::CLASSES + side * LayoutLevel::BINS + bin;
            values[plane * columns..(plane + 1) * columns].fill(20.0);
        }
        LayoutLevel {
            rows: 1,
            columns,
            values,
        }
    }

    #[test]
    fn the_likeliest_of_overlapping_cells_stays() {
        let maps = LayoutMaps {
            levels: vec![level(
                9,
                &[1.0, 3.0, 2.0, -1.0, -1.0, -1.0, -1.0, 0.5, -9.0],
                [3, 0, 4, 1],
            )],
        };
        let found = regions_of(&maps, (2 * WIDTH, HEIGHT));
        let bounds: Vec<[f32; 4]> = found.iter().map(|region| region.bounds).collect();
        // The middle of cell 1 is at 12, that of cell 7 at 60; the page is twice as wide as the detector's, and ends at the left.
        assert_eq!(bounds, [[0.0, 4.0, 88.0, 12.0], [72.0, 4.0, 184.0, 12.0]]);
        assert!(found.iter().all(|region| region.kind == LayoutClass::Text));
        assert!(found[0].score > found[1].score);
    }

    #[test]
    fn a_page_of_any_size_has_one_form() {
        for (width, height) in [(1, 1), (30_000, 3), (2000, 3000)] {
            assert_eq!(input(&RgbImage::new(width, height)).values.len(), 3 * 608 * 800);
        }
    }
}
