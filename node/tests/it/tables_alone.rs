//! Jobs that keep tables and no pictures.

use std::path::Path;

use parkhang_store::artifact::{LineDetectionRow, LineImageRow, OcrResultRow};
use rapidfuzz::distance::levenshtein;

use crate::exports::check_viewer;
use crate::support::{Fixture, VOLUME, rows, small_page};

fn pictures(out: &Path) -> usize {
    ["line_detection/rotated_images", "line_extraction/lines"]
        .into_iter()
        .filter_map(|folder| std::fs::read_dir(out.join("jobs/ocr/volumes").join(VOLUME).join(folder)).ok())
        .map(Iterator::count)
        .sum()
}

/// The page turned by a few degrees, as a colour scan of it would be.
fn turned() -> Vec<u8> {
    let page = image::load_from_memory(&small_page()).unwrap().to_luma8();
    let (width, height) = page.dimensions();
    let (sine, cosine) = 2.5_f64.to_radians().sin_cos();
    let turned = image::GrayImage::from_fn(width, height, |x, y| {
        let (dx, dy) = (
            f64::from(x) - f64::from(width) / 2.0,
            f64::from(y) - f64::from(height) / 2.0,
        );
        let (x, y) = (cosine * dx - sine * dy, sine * dx + cosine * dy);
        let (x, y) = (x + f64::from(width) / 2.0, y + f64::from(height) / 2.0);
        let inside = x >= 0.0 && y >= 0.0 && x < f64::from(width) && y < f64::from(height);
        if inside {
            *page.get_pixel(x as u32, y as u32)
        } else {
            image::Luma([230])
        }
    });
    let mut png = std::io::Cursor::new(Vec::new());
    turned.write_to(&mut png, image::ImageFormat::Png).unwrap();
    png.into_inner()
}

#[test]
fn a_job_that_keeps_tables_alone_reads_the_same_lines() {
    let fixture = Fixture::new();
    fixture.put("page00.tif", &small_page());
    fixture.put("page01.png", &turned());
    let lines = || -> (Vec<LineImageRow>, Vec<OcrResultRow>) {
        let layout = fixture.layout();
        (
            rows(&fixture.out(), &layout.line_images()),
            rows(&fixture.out(), &layout.ocr_results()),
        )
    };
    fixture.read(&[]).exits(0);
    assert!(pictures(&fixture.out()) > 2);
    let (cut, with_pictures) = lines();
    std::fs::remove_dir_all(fixture.out()).unwrap();

    let options = [
        "--config",
        "artifacts=tables",
        "--export",
        "text,html,pagexml,pdf",
    ];
    fixture.read(&options).exits(0);
    assert_eq!(pictures(&fixture.out()), 0);
    let (placed, alone) = lines();
    let pages: Vec<LineDetectionRow> = rows(&fixture.out(), &fixture.layout().line_detection());
    assert!(
        pages.iter().any(|page| page.page_angle != 0.0),
        "one page was turned"
    );
    assert!(pages.iter().all(|page| page.rotated_image_path.is_empty()));
    assert!(placed.iter().all(|line| line.line_image_path.is_empty()));
    let guids =
        |lines: &[LineImageRow]| -> Vec<String> { lines.iter().map(|line| line.line_guid.clone()).collect() };
    assert_eq!(guids(&placed), guids(&cut));
    let text = |lines: &[OcrResultRow]| lines.iter().map(|line| line.text.as_str()).collect::<String>();
    let (alone, with_pictures) = (text(&alone), text(&with_pictures));
    let alike = levenshtein::normalized_similarity(alone.chars(), with_pictures.chars());
    assert!(alike > 0.98, "{alike}: {alone} {with_pictures}");

    check_viewer(&fixture.out().join("export"), VOLUME, true);

    // It stands as it is, and a job that keeps pictures makes everything anew.
    let made = || ["line_detection", "line_extraction", "ocr"].map(|stage| fixture.made(stage));
    fixture.read(&options).exits(0);
    assert_eq!(made(), [0, 0, 0]);
    fixture.read(&[]).exits(0);
    assert_eq!(made(), [2, 2, 2]);
}
