//! Pictures of the lines of a page: those that `line_extraction` has stored, or, in a job that keeps tables alone, what the scan shows at
//! their places.
//!
//! Both come to the recogniser by one type, so that nothing behind it knows what a job keeps.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use image::GrayImage;
use parkhang_models::line_detection::straighten;
use parkhang_models::line_extraction::ExtractionConfig;
use parkhang_models::page::decode::{DecodeLimits, decode_page};

use super::line_extraction::{LineExtraction, contours_of, light, place_lines};
use super::ocr::PageLines;
use super::page_geometry::page_geometry;
use super::page_stage::VolumeRun;
use super::{compute, image_quality};
use crate::jpeg::encode_jpeg;
use crate::runner::CpuPool;
use parkhang_core::domain::{ErrorCategory, StageError};
use parkhang_store::artifact::{LineDetectionRow, LineImageRow};
use parkhang_store::pages::{PageRef, PageSource, Scan};
use parkhang_store::storage::{ArtifactKey, get_many};

/// Pictures of a page that are read from the store at once.
const READS: usize = 16;

/// Reason for which a page has no pixels.
type Failure = (ErrorCategory, String);

/// Pictures of some lines of a page, not decoded yet.
#[derive(Debug, Clone)]
pub(super) enum LinePictures {
    /// JPEG files, each with whether its page came as one bit per pixel.
    Stored(Vec<(Bytes, bool)>),
    /// The scan, and what was found on it.
    Scan(Box<ScanOfLines>),
}

/// Scan of a page whose lines were found.
#[derive(Debug, Clone)]
pub(super) struct ScanOfLines {
    scan: Scan,
    found: Arc<LineDetectionRow>,
    extraction: ExtractionConfig,
    /// Places in reading order of the lines that are wanted.
    wanted: Vec<usize>,
}

/// Reads the pictures that the rows name, in their order, or the scan that they are cut out of.
///
/// # Errors
///
/// When the store of artifacts or the source of scans does not give them.
pub(super) async fn line_pictures(
    run: &VolumeRun,
    scans: &Arc<dyn PageSource>,
    page: &PageLines,
    rows: &[LineImageRow],
) -> Result<LinePictures, StageError> {
    let Some(found) = &page.found else {
        return stored(run, rows).await.map(LinePictures::Stored);
    };
    if rows.is_empty() {
        return Ok(LinePictures::Stored(Vec::new()));
    }
    let place = |row: &LineImageRow| usize::try_from(row.line_index).unwrap_or(usize::MAX);
    Ok(LinePictures::Scan(Box::new(ScanOfLines {
        scan: scan_of(run, scans, found).await?,
        found: found.clone(),
        extraction: LineExtraction::extraction_config(run.config()),
        wanted: rows.iter().map(place).collect(),
    })))
}

/// The straightened page as a JPEG file, made from its scan.
///
/// # Errors
///
/// When the scan cannot be read, or is another one by now.
pub(super) async fn straightened_page(
    run: &VolumeRun,
    scans: &Arc<dyn PageSource>,
    cpu: &CpuPool,
    found: &Arc<LineDetectionRow>,
) -> Result<Bytes, StageError> {
    let (scan, found) = (scan_of(run, scans, found).await?, found.clone());
    compute(cpu, run, move |cancelled| {
        let page = straightened(&scan, &found, &|| cancelled.is_cancelled())?;
        encode_jpeg(&page, image_quality(found.is_binary))
            .map(Bytes::from)
            .map_err(|error| (ErrorCategory::Runtime, error.to_string()))
    })
    .await
}

async fn stored(run: &VolumeRun, rows: &[LineImageRow]) -> Result<Vec<(Bytes, bool)>, StageError> {
    let keys = rows
        .iter()
        .map(|row| ArtifactKey::new(row.line_image_path.as_str()));
    let keys: Result<Vec<ArtifactKey>, _> = keys.collect();
    let keys = keys.map_err(|error| run.error(ErrorCategory::Input, error))?;
    let pictures: Vec<Bytes> = get_many(run.store.as_ref(), keys, READS)
        .map(|(_, picture)| picture)
        .try_collect()
        .await
        .map_err(|error| run.storage_error(&error))?;
    Ok(pictures
        .into_iter()
        .zip(rows.iter().map(|row| row.is_binary))
        .collect())
}

async fn scan_of(
    run: &VolumeRun,
    scans: &Arc<dyn PageSource>,
    found: &LineDetectionRow,
) -> Result<Scan, StageError> {
    let page = PageRef::named(found.source_name.as_str());
    let read = run.scans(scans)?.read(run.volume(), &page).await;
    read.map_err(|error| run.source_error(&error))
}

impl LinePictures {
    /// Decodes or cuts the pictures, each with whether its page came as one bit per pixel.
    ///
    /// # Errors
    ///
    /// Failure of a picture that cannot be decoded, or of a scan that is not the one whose lines were found.
    pub(super) fn decoded(&self, cancelled: &dyn Fn() -> bool) -> Result<Vec<(GrayImage, bool)>, Failure> {
        match self {
            Self::Stored(pictures) => pictures
                .iter()
                .map(|(jpeg, bilevel)| {
                    let picture = decode_page(jpeg, &DecodeLimits::default());
                    let picture = picture.map_err(|error| (ErrorCategory::Input, error.to_string()))?;
                    Ok((picture.gray, *bilevel))
                })
                .collect(),
            Self::Scan(page) => page.cut(cancelled),
        }
    }
}

impl ScanOfLines {
    fn cut(&self, cancelled: &dyn Fn() -> bool) -> Result<Vec<(GrayImage, bool)>, Failure> {
        let bilevel = self.found.is_binary;
        let mut page = straightened(&self.scan, &self.found, cancelled)?;
        light(&mut page, bilevel, &self.extraction);
        let lines = place_lines(page.dimensions(), contours_of(&self.found), &self.extraction);
        self.wanted
            .iter()
            .map(|wanted| {
                let (_, place) = lines.get(*wanted).ok_or_else(|| {
                    let message = format!("the page has {} lines, and none at place {wanted}", lines.len());
                    (ErrorCategory::Runtime, message)
                })?;
                Ok((place.cut(&page, &self.extraction).image, bilevel))
            })
            .collect()
    }
}

/// Decodes a scan and straightens it as its row says.
fn straightened(
    scan: &Scan,
    found: &LineDetectionRow,
    cancelled: &dyn Fn() -> bool,
) -> Result<GrayImage, Failure> {
    // Lines are where they were on that scan, and nowhere on another.
    if scan.digest().to_string() != found.input_sha256 {
        let message = format!("{} has changed since its lines were found", found.source_name);
        return Err((ErrorCategory::Input, message));
    }
    let page = scan.pixels(&DecodeLimits::default(), cancelled);
    let page = page.map_err(|error| (error.category(), error.to_string()))?.page;
    let page = match found.is_negative {
        Some(true) => page.negative(),
        Some(false) | None => page,
    };
    let geometry = page_geometry(found).map_err(|error| (ErrorCategory::Runtime, error.to_string()))?;
    Ok(straighten(&page.gray, &geometry))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{ImageFormat, Luma};

    use super::*;
    use crate::stage::line_extraction::place_page;
    use parkhang_store::artifact::Digest;

    /// A page with a bar of ink where its line is.
    fn scan() -> GrayImage {
        GrayImage::from_fn(300, 120, |x, y| {
            let ink = (50..250).contains(&x) && (40..60).contains(&y);
            Luma([if ink { 10 } else { 220 }])
        })
    }

    fn file(page: &GrayImage) -> Scan {
        let mut png = Cursor::new(Vec::new());
        page.write_to(&mut png, ImageFormat::Png).unwrap();
        Scan::Image(png.into_inner().into())
    }

    fn found(scan: &Scan, angle: f32) -> Arc<LineDetectionRow> {
        Arc::new(LineDetectionRow {
            image_name: "p".to_owned(),
            rotated_image_path: String::new(),
            rot_mask: Vec::new(),
            page_angle: angle,
            dewarping_applied: false,
            tps_ratio: None,
            filtered_contours: vec![vec![[50, 40], [50, 59], [249, 59], [249, 40]]],
            page_index: 0,
            source_name: "p.png".to_owned(),
            image_width: 300,
            image_height: 120,
            rotated_width: 300,
            rotated_height: 120,
            tps_points: None,
            tps_alpha: None,
            input_sha256: scan.digest().to_string(),
            is_binary: false,
            regions: None,
            is_negative: None,
        })
    }

    fn cut(scan: Scan, found: Arc<LineDetectionRow>, wanted: Vec<usize>) -> Result<Vec<GrayImage>, Failure> {
        let extraction = ExtractionConfig::default();
        let page = ScanOfLines {
            scan,
            found,
            extraction,
            wanted,
        };
        let pictures = LinePictures::Scan(Box::new(page)).decoded(&|| false)?;
        Ok(pictures.into_iter().map(|(picture, _)| picture).collect())
    }

    #[test]
    fn a_line_is_cut_where_line_extraction_has_placed_it() {
        for angle in [0.0, 2.0] {
            let scan = file(&scan());
            let found = found(&scan, angle);
            let placed = place_page((300, 120), contours_of(&found), &ExtractionConfig::default());
            let pictures = cut(scan, found, vec![0]).unwrap();
            assert_eq!(pictures[0].dimensions(), placed[0].size);
            let darkest = pictures[0].pixels().map(|pixel| pixel.0[0]).min();
            assert_eq!(darkest, Some(10), "the ink is on it");
        }
    }

    #[test]
    fn lines_are_cut_out_of_no_other_scan_and_nowhere_else() {
        let scan_found = file(&scan());
        let mut other = scan();
        other.put_pixel(0, 0, Luma([0]));
        let (category, message) = cut(file(&other), found(&scan_found, 0.0), vec![0]).unwrap_err();
        assert_eq!(category, ErrorCategory::Input);
        assert_eq!(message, "p.png has changed since its lines were found");
        let (category, _) = cut(scan_found.clone(), found(&scan_found, 0.0), vec![1]).unwrap_err();
        assert_eq!(category, ErrorCategory::Runtime);
        let damaged = Scan::Image(b"no picture".as_slice().into());
        let found = found(&damaged, 0.0);
        assert_eq!(damaged.digest(), Digest::of(b"no picture"));
        assert_eq!(cut(damaged, found, vec![0]).unwrap_err().0, ErrorCategory::Input);
    }
}
