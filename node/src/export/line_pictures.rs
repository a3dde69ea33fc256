//! Pictures of single lines, for data sets: as the pipeline cut them, or cut out of the scan.

use std::collections::HashMap;

use anyhow::{Context, Result};
use image::{GrayImage, Luma};
use parkhang_actors::jpeg::encode_jpeg;
use parkhang_models::page::geometry::{Point, Rect, bounding_rect};
use parkhang_models::page::polygon::extent_at;
use parkhang_store::artifact::{LineImageRow, read_table};
use parkhang_store::pages::Scan;
use parkhang_store::storage::{ArtifactKey, ArtifactStore, StorageError};

use super::corrections::line_id;
use super::document::{LineDocument, PageDocument, VolumeDocument};
use super::results::StoredVolume;
use super::scan::stored_scan;
use super::scanned::Scanned;

const QUALITY: u8 = 92;
/// Share of the pixels around a line that are darker than its paper: most are paper, and a few lie outside of the page.
const PAPER: usize = 75;

/// Pictures of the lines of a volume.
#[derive(Debug)]
pub struct LinePictures<'v> {
    store: &'v dyn ArtifactStore,
    stored: &'v StoredVolume,
    /// Pictures that the pipeline has cut, with the outlines of their lines, by the ids of these.
    cut: HashMap<String, (ArtifactKey, Vec<Point>)>,
}

impl<'v> LinePictures<'v> {
    /// Looks up the pictures that the pipeline has cut of a volume, of which `original` is the document as it was read.
    ///
    /// # Errors
    ///
    /// If the table of lines is damaged, or the store cannot be reached.
    pub async fn open(
        store: &'v dyn ArtifactStore,
        stored: &'v StoredVolume,
        original: &VolumeDocument,
    ) -> Result<Self> {
        let table = stored.layout.line_images();
        let mut cut = HashMap::new();
        if store.head(&table).await?.is_some() {
            let rows = read_table::<LineImageRow>(store, &table).await?.rows;
            let lines = original.pages.iter().flat_map(|page| &page.lines);
            let lines: HashMap<&str, &LineDocument> = lines.map(|line| (line.guid.as_str(), line)).collect();
            for row in rows {
                let line = lines.get(row.line_guid.as_str());
                if let (Some(line), Ok(key)) = (line, ArtifactKey::new(row.line_image_path)) {
                    cut.insert(line_id(line), (key, line.polygon.clone()));
                }
            }
        }
        Ok(Self { store, stored, cut })
    }

    /// Returns JPEGs of lines of a page, each with its line; lines without a picture are left out.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached.
    pub async fn of_page<'p>(
        &self,
        page: &PageDocument,
        lines: &[&'p LineDocument],
    ) -> Result<Vec<(&'p LineDocument, Vec<u8>)>> {
        let (mut pictures, mut drawn) = (Vec::new(), Vec::new());
        for line in lines {
            match self.as_cut(line).await? {
                Some(picture) => pictures.push((*line, picture)),
                None => drawn.push(*line),
            }
        }
        if drawn.is_empty() {
            return Ok(pictures);
        }
        let Some(scan) = stored_scan(self.store, self.stored, page).await? else {
            return Ok(pictures);
        };
        let outlines: Vec<Vec<Point>> = drawn.iter().map(|line| page.on_page(&line.polygon)).collect();
        // Decoding and cutting is computation, which must not hold a thread of the runtime.
        let scanned = page.scanned;
        let made = tokio::task::spawn_blocking(move || cut_out(&scan, scanned, &outlines)).await;
        let made = made.context("cutting lines out of a scan")?;
        let found = drawn.into_iter().zip(made);
        pictures.extend(found.filter_map(|(line, picture)| Some((line, picture?))));
        Ok(pictures)
    }

    /// Returns the picture that the pipeline has cut of a line, if its outline is still that.
    async fn as_cut(&self, line: &LineDocument) -> Result<Option<Vec<u8>>> {
        let Some((key, _)) = self
            .cut
            .get(&line_id(line))
            .filter(|(_, outline)| *outline == line.polygon)
        else {
            return Ok(None);
        };
        match self.store.get(key).await {
            Ok(picture) => Ok(Some(picture.into())),
            // A job may keep tables only.
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Cuts lines out of a scan; `None` for lines without an area. A scan that cannot be decoded has none.
fn cut_out(scan: &Scan, scanned: Scanned, outlines: &[Vec<Point>]) -> Vec<Option<Vec<u8>>> {
    let Ok(displayed) = scan.displayed(|size| size) else {
        return vec![None; outlines.len()];
    };
    let size = displayed.picture.dimensions();
    let page = scanned.page_of(displayed.picture);
    let jpeg = |outline: &Vec<Point>| {
        let on_page = outline
            .iter()
            .map(|place| scanned.turn.upright_pixel(*place, size));
        let outline: Vec<Point> = on_page.collect();
        encode_jpeg(&straightened(&page, &outline)?, QUALITY).ok()
    };
    outlines.iter().map(jpeg).collect()
}

/// Returns a line with each of its columns moved so that the middle of its outline is a straight line, and paper around it; `None`
/// where the outline has no area within the page.
fn straightened(page: &GrayImage, outline: &[Point]) -> Option<GrayImage> {
    let Rect { x, width, .. } = bounding_rect(outline);
    let spans: Vec<Option<(f64, f64)>> = (x..x + width)
        .map(|column| extent_at(outline, f64::from(column) + 0.5))
        .collect();
    let heights = spans.iter().flatten().map(|(top, bottom)| bottom - top);
    let height = heights.fold(0.0, f64::max).round() as u32;
    let width = u32::try_from(width).ok()?;
    if height == 0 || width == 0 || height > page.height() {
        return None;
    }
    let pixel = |x: i32, y: f64| {
        let (x, y) = (u32::try_from(x).ok()?, y.round());
        let y = (y >= 0.0).then_some(y as u32)?;
        page.get_pixel_checked(x, y).map(|pixel| pixel.0[0])
    };
    let mut line = GrayImage::new(width, height);
    let mut known: Vec<u8> = Vec::new();
    let mut outside: Vec<(u32, u32)> = Vec::new();
    for (column, span) in (0..).zip(&spans) {
        for row in 0..height {
            let inside = span.and_then(|(top, bottom)| {
                let y = (top + bottom - f64::from(height)) / 2.0 + f64::from(row);
                (top <= y && y <= bottom).then_some(())?;
                pixel(x + column as i32, y)
            });
            match inside {
                Some(value) => {
                    known.push(value);
                    line.put_pixel(column, row, Luma([value]));
                }
                None => outside.push((column, row)),
            }
        }
    }
    known.sort_unstable();
    let paper = *known.get(known.len() * PAPER / 100)?;
    for (column, row) in outside {
        line.put_pixel(column, row, Luma([paper]));
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_runs_down_is_straight_in_its_picture() {
        // Ink of ten rows, which runs down by one row in four columns, on paper of 200; below it another line.
        let page = GrayImage::from_fn(240, 120, |x, y| {
            let top = 20 + x / 4;
            Luma([if (top..top + 10).contains(&y) || y > 100 {
                0
            } else {
                200
            }])
        });
        let outline = [(0, 15), (239, 75), (239, 95), (0, 35)].map(|(x, y)| Point::new(x, y));
        let line = straightened(&page, &outline).unwrap();
        assert_eq!(line.dimensions(), (240, 20));
        for column in [5, 60, 120, 200, 235] {
            let ink = (0..20)
                .filter(|row| line.get_pixel(column, *row).0[0] == 0)
                .count();
            assert!((9..=11).contains(&ink), "{ink} rows of ink in column {column}");
            assert_eq!(line.get_pixel(column, 0).0[0], 200);
        }
    }

    #[test]
    fn what_has_no_area_has_no_picture() {
        let page = GrayImage::from_pixel(50, 50, Luma([200]));
        let line = |corners: [(i32, i32); 3]| straightened(&page, &corners.map(|(x, y)| Point::new(x, y)));
        assert_eq!(line([(0, 5), (20, 5), (40, 5)]), None);
        assert_eq!(line([(60, 5), (80, 5), (80, 25)]), None);
        assert!(line([(0, 5), (40, 5), (40, 25)]).is_some());
    }
}
