//! Decoding of a page of common size: grey JPEG, and Group 4 TIFF as scanners write it.

#![allow(
    clippy::expect_used,
    reason = "a benchmark without its input has nothing to measure"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use parkhang_cv::decode::{DecodeLimits, decode_page};

const WIDTH: u16 = 3000;
const HEIGHT: u16 = 1000;

/// Lines of text-like strokes, dark on a slightly uneven ground.
fn page() -> Vec<u8> {
    let ink = |x: u32, y: u32| y % 120 > 50 && (x * 7 + y / 9 * 13) % 31 < 9 && x / 400 % 7 < 6;
    (0..u32::from(HEIGHT))
        .flat_map(|y| (0..u32::from(WIDTH)).map(move |x| (x, y)))
        .map(|(x, y)| {
            if ink(x, y) {
                30
            } else {
                225 + ((x * x + y * 31) % 23) as u8
            }
        })
        .collect()
}

fn gray_jpeg(page: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut file, 90);
    encoder
        .encode(page, WIDTH, HEIGHT, jpeg_encoder::ColorType::Luma)
        .expect("the page can be encoded");
    file
}

fn group4_tiff(page: &[u8]) -> Vec<u8> {
    let mut encoder = fax::encoder::Encoder::new(fax::VecWriter::new());
    for row in page.chunks_exact(usize::from(WIDTH)) {
        let pixels = row.iter().map(|&v| {
            if v < 128 {
                fax::Color::Black
            } else {
                fax::Color::White
            }
        });
        let Ok(()) = encoder.encode_line(pixels, WIDTH);
    }
    let Ok(writer) = encoder.finish();
    fax::tiff::wrap(&writer.finish(), WIDTH.into(), HEIGHT.into())
}

fn decode(criterion: &mut Criterion) {
    let page = page();
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(page.len() as u64));
    for (name, file) in [
        ("gray_jpeg", gray_jpeg(&page)),
        ("group4_tiff", group4_tiff(&page)),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| decode_page(black_box(&file), &DecodeLimits::default()).expect("the page decodes"));
        });
    }
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
