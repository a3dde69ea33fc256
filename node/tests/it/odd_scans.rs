//! Scans of pages on their side, of pages upside down, and negatives.

use image::{DynamicImage, GrayImage, ImageFormat};
use parkhang_actors::stage::page_geometry;
use parkhang_models::page::geometry::{Point, bounding_rect};
use parkhang_models::page::turn::Turn;
use parkhang_store::artifact::{LineDetectionRow, OcrResultRow};
use rapidfuzz::distance::levenshtein;

use crate::support::{Fixture, VOLUME, finish, node, rows, small_page};

/// A scan of the page with its content turned, as a PNG.
fn scan(page: &DynamicImage, turn: Turn) -> Vec<u8> {
    let page = match turn {
        Turn::Upright => page.clone(),
        Turn::Quarter => page.rotate90(),
        Turn::Half => page.rotate180(),
        Turn::ThreeQuarters => page.rotate270(),
    };
    let mut png = std::io::Cursor::new(Vec::new());
    page.write_to(&mut png, ImageFormat::Png).unwrap();
    png.into_inner()
}

/// Middle of each line on its scan, in pixels.
fn middles(page: &LineDetectionRow) -> Vec<(f32, f32)> {
    let geometry = page_geometry(page).unwrap();
    let middle = |contour: &Vec<[i32; 2]>| {
        let points: Vec<Point> = contour.iter().map(|[x, y]| Point::new(*x, *y)).collect();
        let bounds = bounding_rect(&points);
        let (x, y) = (bounds.x + bounds.width / 2, bounds.y + bounds.height / 2);
        let place = geometry.to_page(Point::new(x, y));
        (place.x as f32, place.y as f32)
    };
    page.filtered_contours.iter().map(middle).collect()
}

#[test]
fn a_page_is_read_whichever_way_it_was_scanned() {
    let fixture = Fixture::new();
    let upright = image::load_from_memory(&small_page()).unwrap();
    let (width, height) = (upright.width() as f32, upright.height() as f32);
    for (number, turn) in Turn::ALL.into_iter().enumerate() {
        fixture.put(&format!("page{number}.png"), &scan(&upright, turn));
    }
    let blank = DynamicImage::ImageLuma8(GrayImage::from_pixel(800, 300, image::Luma([235])));
    fixture.put("page4.png", &scan(&blank, Turn::Upright));
    let mut negative = upright.clone();
    negative.invert();
    fixture.put("page5.png", &scan(&negative, Turn::Upright));

    for options in [&["--config", "artifacts=tables"][..], &[]] {
        fixture.read(options).exits(0);
        let layout = fixture.layout();
        let pages: Vec<LineDetectionRow> = rows(&fixture.out(), &layout.line_detection());
        let lines: Vec<OcrResultRow> = rows(&fixture.out(), &layout.ocr_results());
        let text_of = |page: &LineDetectionRow| -> String {
            let lines = lines.iter().filter(|line| line.image_name == page.image_name);
            lines.map(|line| line.text.as_str()).collect()
        };
        let angles: Vec<f32> = pages.iter().map(|page| page.page_angle.round()).collect();
        assert_eq!(angles, [0.0, 90.0, 180.0, -90.0, 0.0, 0.0]);
        let negatives: Vec<Option<bool>> = pages.iter().map(|page| page.is_negative).collect();
        assert_eq!(negatives[..5], [Some(false); 5]);
        assert_eq!(negatives[5], Some(true));
        let (text, expected) = (text_of(&pages[0]), middles(&pages[0]));
        assert!(text.chars().count() > 500, "{text}");
        let turned = pages.iter().zip(Turn::ALL);
        for (page, turn) in turned.chain([(&pages[5], Turn::Upright)]) {
            let read = text_of(page);
            let alike = levenshtein::normalized_similarity(read.chars(), text.chars());
            assert!(alike > 0.98, "{turn:?} {alike}: {read} {text}");
            assert_eq!(
                (page.rotated_width, page.rotated_height),
                turn.upright_size((page.image_width, page.image_height))
            );
            let found = middles(page);
            assert_eq!(found.len(), expected.len());
            for ((x, y), place) in found.into_iter().zip(&expected) {
                let (expected_x, expected_y) = turn.redone(*place, turn.upright_size((width, height)));
                let off = (x - expected_x).hypot(y - expected_y);
                assert!(off < 5.0, "{turn:?}: a line is {off} pixels off");
            }
        }
        assert!(pages[4].filtered_contours.is_empty());
    }

    // Straightened pages stand in for scans that are gone, and lie as these did.
    std::fs::remove_dir_all(fixture.pages()).unwrap();
    let mut export = node(["export", "--format", "pdf"]);
    export.arg(fixture.out());
    finish(export).exits(0);
    let file = fixture.out().join("export/pdf").join(format!("{VOLUME}.pdf"));
    let document = lopdf::Document::load(file).unwrap();
    for (page, turn) in document.get_pages().into_values().zip(Turn::ALL) {
        let pictures = document.get_page_images(page).unwrap();
        let is_wide = pictures[0].width > pictures[0].height;
        assert_eq!(is_wide, turn.upright_size((width, height)).0 > height, "{turn:?}");
    }
}
