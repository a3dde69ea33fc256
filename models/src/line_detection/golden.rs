//! Line detection against vectors made by running upstream's `ldv1` (see `tests/golden/lines_gen2/README.md`).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use image::GrayImage;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::curvature::Course;
use super::frame::Frame;
use super::mask::{examine, line_contours};
use super::passes::finish_mask;
use super::straight::straighten_onto;
use super::*;
use crate::page::geometry::{Contour, Point};

/// Folders of the vectors of a set: those in the repository, and the whole set when the environment names it.
pub(crate) fn roots(set: &str) -> Vec<PathBuf> {
    let mut roots = vec![
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(set),
    ];
    match std::env::var_os("PARKHANG_SHARED") {
        Some(shared) => roots.push(Path::new(&shared).join("golden").join(set)),
        None => eprintln!(
            "SKIPPED the whole set of vectors: PARKHANG_SHARED is not set; using the part in the repository"
        ),
    }
    roots
}

#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub id: String,
    mask: String,
    pub page: Option<String>,
    orig_w: u32,
    orig_h: u32,
    pub ldv1: Detection,
    pub ocrv1: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Detection {
    filtered_contours: Vec<Vec<i32>>,
    #[serde(rename = "rotation_angle_min_0.3")]
    angle: f32,
    rotated_contours: Option<Vec<Vec<i32>>>,
    line_tps: Vec<LineTps>,
    tps_points: Option<SplinePoints>,
    needs_pass2: bool,
    pass2_mask: Option<String>,
    pub parquet_row: Row,
}

#[derive(Debug, Deserialize)]
struct LineTps {
    tps: bool,
    input_pts: Option<Pixels>,
    output_pts: Option<Pixels>,
    max_ydelta: f32,
}

#[derive(Debug, Deserialize)]
struct SplinePoints {
    input_pts: Vec<[f64; 2]>,
    output_pts: Vec<[f64; 2]>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    pub rotation_angle: Option<f32>,
    /// `[in_y, in_x, out_y, out_x]`.
    pub tps_points: Option<Vec<[f64; 4]>>,
    pub tps_alpha: Option<f32>,
    pub contours: Vec<Vec<i32>>,
    contours_bboxes: Vec<[i32; 4]>,
}

/// A mask in the first generation.
#[derive(Debug, Deserialize)]
pub(crate) struct Gen1Case {
    pub id: String,
    pub mask: String,
    pub w: u32,
    pub h: u32,
    pub page: Option<String>,
    pub angle: f64,
    pub build_lines_status: String,
    pub rotated: Option<bool>,
    #[serde(default)]
    pub filtered_contours: Vec<Vec<i32>>,
    pub rot_mask: Option<String>,
    pub tps: Option<Gen1Tps>,
    /// Expectations about its lines.
    #[serde(flatten)]
    pub extraction: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Gen1Tps {
    pub lines: Vec<gen1::golden::LineTps>,
    /// Index of the line, or an error.
    pub chosen_line: serde_json::Value,
}

pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> T {
    serde_json::from_reader(fs::File::open(path).unwrap()).unwrap()
}

pub(crate) fn gen1_cases(root: &Path) -> Vec<Gen1Case> {
    json_lines(root)
}

pub(crate) fn cases(root: &Path) -> Vec<Case> {
    json_lines(root)
}

fn json_lines<T: DeserializeOwned>(root: &Path) -> Vec<T> {
    let mut text = String::new();
    let file = fs::File::open(root.join("expected.jsonl.gz")).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(crate) fn grey(path: &Path) -> GrayImage {
    image::open(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .into_luma8()
}

pub(crate) fn contour(flat: &[i32]) -> Contour {
    flat.chunks_exact(2)
        .map(|pair| Point::new(pair[0], pair[1]))
        .collect()
}

pub(crate) fn contours(flat: &[Vec<i32>]) -> Vec<Contour> {
    flat.iter().map(|flat| contour(flat)).collect()
}

/// `[y, x]` each.
type Pixels = Vec<[i32; 2]>;

/// The points of a bend as upstream gives them.
fn sources_and_targets(line: &[Point]) -> Option<(Pixels, Pixels)> {
    let bend = Course::of(line).bend()?;
    let sources = bend.centers.iter().map(|center| [center.y, center.x]).collect();
    let targets = bend.centers.iter().map(|center| [bend.level, center.x]).collect();
    Some((sources, targets))
}

fn config() -> DetectionConfig {
    DetectionConfig::ldv1()
}

fn frame_of(mask: &GrayImage, case: &Case) -> Frame {
    let grid = TileGrid::new(mask.width(), mask.height(), 512);
    let page_size = (case.orig_w, case.orig_h);
    Frame {
        tiles: grid.cut(mask),
        grid,
        grey: mask.clone(),
        page_size,
        straightening: None,
    }
}

#[test]
fn contours_skew_and_bends_of_every_mask() {
    for root in roots("lines_gen2") {
        for case in cases(&root) {
            let (id, expected) = (&case.id, &case.ldv1);
            let mask = grey(&root.join(&case.mask));
            let found = line_contours(&mask, &config());
            assert_eq!(found, contours(&expected.filtered_contours), "{id}");

            let findings = examine(found, mask.dimensions(), &config());
            let angle = findings.geometry.angle();
            assert!(
                (angle - expected.angle).abs() <= 1e-4,
                "{id}: {angle} is not {}",
                expected.angle
            );
            let turned = expected
                .rotated_contours
                .as_ref()
                .unwrap_or(&expected.filtered_contours);
            assert_eq!(findings.contours, contours(turned), "{id}");

            for (line, expected) in findings.contours.iter().zip(&expected.line_tps) {
                let points = expected.input_pts.clone().zip(expected.output_pts.clone());
                assert_eq!(sources_and_targets(line), points, "{id}");
                assert_eq!(
                    Course::of(line).bend().map_or(0.0, |bend| bend.rise as f32),
                    expected.max_ydelta,
                    "{id}"
                );
            }
            let bent = expected.line_tps.iter().filter(|line| line.tps).count();
            let ratio = findings
                .tps_ratio
                .map_or(0.0, |ratio| ratio * findings.contours.len() as f32);
            assert_eq!(ratio.round() as usize, bent, "{id}");

            let points = findings.geometry.dewarp().map(|dewarp| {
                let exchanged = |[x, y]: [f64; 2]| [y, x];
                let sources = dewarp.control_points.iter().map(|pair| exchanged(pair.source));
                let targets = dewarp.control_points.iter().map(|pair| exchanged(pair.target));
                (sources.collect::<Vec<_>>(), targets.collect::<Vec<_>>())
            });
            let expected_points = expected
                .tps_points
                .as_ref()
                .map(|points| (points.input_pts.clone(), points.output_pts.clone()));
            assert_eq!(points, expected_points, "{id}");
        }
    }
}

#[test]
fn rows_of_every_mask_after_one_pass_or_two() {
    for root in roots("lines_gen2") {
        for case in cases(&root) {
            let id = &case.id;
            let mask = grey(&root.join(&case.mask));
            let frame = frame_of(&mask, &case);
            let lines = match finish_mask(frame, mask, &config()) {
                Pass1::Done(lines) => {
                    assert!(!case.ldv1.needs_pass2, "{id} needs a second pass");
                    lines
                }
                Pass1::NeedsSecondPass(frame) => {
                    assert!(case.ldv1.needs_pass2, "{id} needs no second pass");
                    let second = grey(&root.join(case.ldv1.pass2_mask.as_ref().unwrap()));
                    match finish_mask(frame, second, &config()) {
                        Pass1::Done(lines) => lines,
                        Pass1::NeedsSecondPass(_) => panic!("{id} wants a third pass"),
                    }
                }
            };
            let row = &case.ldv1.parquet_row;
            assert!(
                (lines.page_angle - row.rotation_angle.unwrap_or(0.0)).abs() <= 1e-4,
                "{id}"
            );
            assert_eq!(lines.contours, contours(&row.contours), "{id}");
            let boxes: Vec<_> = lines
                .boxes()
                .iter()
                .map(|r| [r.x, r.y, r.width, r.height])
                .collect();
            assert_eq!(boxes, row.contours_bboxes, "{id}");
            assert_eq!(lines.dewarp.is_some(), row.tps_points.is_some(), "{id}");
            for (pair, expected) in lines
                .dewarp
                .iter()
                .flat_map(|dewarp| &dewarp.control_points)
                .zip(row.tps_points.iter().flatten())
            {
                let ours = [pair.source[1], pair.source[0], pair.target[1], pair.target[0]];
                for (ours, theirs) in ours.iter().zip(expected) {
                    // Upstream scales y by the ratio of the widths and x by that of the heights.
                    assert!(
                        (ours - theirs).abs() <= 0.003 * theirs.abs() + 1e-3,
                        "{id}: {ours} is not {theirs}"
                    );
                }
            }
        }
    }
}

#[test]
fn straightened_frames_of_every_second_pass() {
    for root in roots("lines_gen2") {
        for case in cases(&root) {
            let Some(second) = &case.ldv1.pass2_mask else {
                continue;
            };
            let mask = grey(&root.join(&case.mask));
            let found = line_contours(&mask, &config());
            let geometry = examine(found, mask.dimensions(), &config()).geometry;
            let straight = straighten_onto(&mask, &geometry, 0);
            let expected = grey(&root.join(second));
            let differing = straight
                .iter()
                .zip(expected.iter())
                .filter(|&(ours, theirs)| (*ours > 127) != (*theirs > 127))
                .count();
            // Where control points all but coincide the spline is steep, and a rounding error crosses the threshold.
            let allowed = straight.len() / 2_000;
            assert!(differing <= allowed, "{}: {differing} pixels differ", case.id);
        }
    }
}

#[test]
fn bends_of_very_narrow_lines() {
    #[derive(Deserialize)]
    struct Cases {
        cases: Vec<Narrow>,
    }
    #[derive(Deserialize)]
    struct Narrow {
        contour: Vec<i32>,
        optimized: LineTps,
    }
    let file = fs::File::open(roots("lines_gen2")[0].join("narrow_lines.json")).unwrap();
    let Cases { cases } = serde_json::from_reader(file).unwrap();
    assert!(!cases.is_empty());
    for Narrow {
        contour: flat,
        optimized,
    } in cases
    {
        let points = optimized.input_pts.zip(optimized.output_pts);
        assert_eq!(sources_and_targets(&contour(&flat)), points, "{flat:?}");
    }
}
