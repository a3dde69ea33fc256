//! Filters and warps on a page of the size that line detection works with.

use std::{hint::black_box, num::NonZeroU32};

use criterion::{Criterion, criterion_group, criterion_main};
use image::{GrayImage, Luma};
use parkhang_cv::{
    contours::find_contours,
    morphology::dilate_rect,
    resize::{resize_area, resize_linear},
    spline::{ThinPlateSpline, warp_spline},
    threshold::adaptive_gaussian,
    warp::{rotation_matrix, warp_affine},
};

const WIDTH: u32 = 2500;
const HEIGHT: u32 = 1024;

/// Bright paper with eight rows of dark strokes.
fn page() -> GrayImage {
    GrayImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let in_line = y % 128 > 40 && y % 128 < 90;
        let in_stroke = (x * 7 + y * 3) % 31 < 9 && x > 100 && x < WIDTH - 100;
        let paper = 200 + (x * 31 + y * 17) % 23;
        Luma([if in_line && in_stroke { 40 } else { paper as u8 }])
    })
}

/// Eight long blobs, as a segmentation network gives for text lines.
fn line_mask() -> GrayImage {
    GrayImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let middle = 64.0 + 10.0 * (f64::from(x) / 90.0).sin();
        let ink = (f64::from(y % 128) - middle).abs() < 20.0 && x > 100 && x < WIDTH - 100;
        Luma([if ink { 255 } else { 0 }])
    })
}

fn benches(criterion: &mut Criterion) {
    let (page, mask) = (page(), line_mask());
    let (width, height) = (f64::from(WIDTH), f64::from(HEIGHT));
    criterion.bench_function("adaptive_gaussian 31", |b| {
        b.iter(|| adaptive_gaussian(black_box(&page), 31, 15))
    });
    criterion.bench_function("adaptive_gaussian 51", |b| {
        b.iter(|| adaptive_gaussian(black_box(&page), 51, 13))
    });
    criterion.bench_function("find_contours lines", |b| {
        b.iter(|| find_contours(black_box(&mask)))
    });
    let binary = adaptive_gaussian(&page, 51, 13);
    criterion.bench_function("find_contours text", |b| {
        b.iter(|| find_contours(black_box(&binary)))
    });
    if let Some((wide, high)) = NonZeroU32::new(70).zip(NonZeroU32::new(23)) {
        criterion.bench_function("dilate_rect", |b| {
            b.iter(|| dilate_rect(black_box(&mask), wide, high))
        });
    }
    criterion.bench_function("resize_area", |b| {
        b.iter(|| resize_area(black_box(&page), 1700, 696))
    });
    criterion.bench_function("resize_linear", |b| {
        b.iter(|| resize_linear(black_box(&page), 1700, 696))
    });
    let rotation = rotation_matrix((width / 2.0, height / 2.0), 1.3, 1.0);
    criterion.bench_function("warp_affine", |b| {
        b.iter(|| warp_affine(black_box(&page), &rotation, 0))
    });

    let output = [0.1, 0.3, 0.5, 0.7, 0.9].map(|share| (share * width, 400.0));
    let sag = [0.0, 18.0, 30.0, 20.0, 4.0];
    let corners = [(0.0, 0.0), (width, 0.0), (0.0, height), (width, height)];
    let source = output.iter().zip(sag).map(|(&(x, y), sag)| (x, y + sag));
    let source: Vec<_> = source.chain(corners).collect();
    let output: Vec<_> = output.into_iter().chain(corners).collect();
    if let Ok(spline) = ThinPlateSpline::fit(&output, &source, 0.5) {
        criterion.bench_function("warp_spline", |b| {
            b.iter(|| warp_spline(black_box(&page), &spline, 0))
        });
    }
}

criterion_group!(page_geometry, benches);
criterion_main!(page_geometry);
