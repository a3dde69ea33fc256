//! Loading of a volume's document from its Parquet files.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result};
use parkhang_actors::stage::{StageTable, page_geometry};
use parkhang_core::domain::TextEncoding;
use parkhang_models::line_detection::PageGeometry;
use parkhang_models::line_extraction::{Levelling, line_outline};
use parkhang_models::page::geometry::{Point, Rect, bounding_rect};
use parkhang_store::artifact::{
    Contour, ErrorRow, LineDetectionRow, LineImageRow, OcrResultRow, PageRegion, Segment, failed_pages,
    read_table, texts_key,
};
use parkhang_store::storage::ArtifactStore;

use super::document::{LineDocument, PageDocument, RegionDocument, SegmentDocument, VolumeDocument};
use super::results::StoredVolume;
use super::scanned::Scanned;
use super::words::VolumeWords;

/// Loads a volume's document; `None` if it has no results yet.
///
/// # Errors
///
/// If a table is missing or damaged, or the store cannot be reached.
pub async fn load_volume(store: &dyn ArtifactStore, stored: &StoredVolume) -> Result<Option<VolumeDocument>> {
    let layout = &stored.layout;
    if let Some(words) = VolumeWords::load(store, layout).await? {
        return words.document(store, stored).await.map(Some);
    }
    // Only the table of texts is asked for: without it nothing can be exported, and with it the others must
    // be there.
    let Some(texts) = texts_key(store, layout).await? else {
        return Ok(None);
    };
    let pages = read_table::<LineDetectionRow>(store, &layout.line_detection())
        .await?
        .rows;
    let lines = read_table::<LineImageRow>(store, &layout.line_images())
        .await?
        .rows;
    let texts = read_table::<OcrResultRow>(store, &texts).await?.rows;
    let failed = failed_pages(store, layout, &StageTable::built_in().names()).await?;
    let failures: BTreeMap<String, ErrorRow> = failed
        .into_iter()
        // A page that failed at several stages keeps the reason of the last one.
        .map(|(_, row)| (row.image_name.clone(), row))
        .collect();

    let geometry: HashMap<&str, &LineImageRow> =
        lines.iter().map(|line| (line.line_guid.as_str(), line)).collect();
    let mut by_page: HashMap<&str, Vec<&OcrResultRow>> = HashMap::new();
    for text in &texts {
        by_page.entry(&text.image_name).or_default().push(text);
    }
    let mut documents: BTreeMap<i32, PageDocument> = BTreeMap::new();
    for page in &pages {
        let mut rows = by_page.remove(page.image_name.as_str()).unwrap_or_default();
        // The table need not be in the order of the lines.
        rows.sort_by_key(|row| row.line_index);
        let to_scan = page_geometry(page).with_context(|| format!("page {}", page.image_name))?;
        // A text without an outline or a line image has no place on the page. That is so while a rerun has replaced the lines but not the
        // texts.
        let place = |row: &OcrResultRow| match &row.outline {
            Some(outline) => Some(Place::of_outline(outline)),
            None => geometry
                .get(row.line_guid.as_str())
                .map(|line| Place::of_line(line, row.ink_y.zip(row.ink_h))),
        };
        let placed = rows.iter().filter_map(|row| Some((*row, place(row)?)));
        documents.insert(
            page.page_index,
            PageDocument {
                image_name: page.image_name.clone(),
                source_name: page.source_name.clone(),
                // A negative size can only come from a damaged table, and counts as unknown.
                width: u32::try_from(page.image_width).unwrap_or(0),
                height: u32::try_from(page.image_height).unwrap_or(0),
                lines: placed
                    .map(|(text, place)| line_document(text, &place, &to_scan))
                    .collect(),
                regions: page
                    .regions
                    .iter()
                    .flatten()
                    .map(|region| region_document(region, &to_scan))
                    .collect(),
                error: failures.get(&page.image_name).map(|row| row.message.clone()),
                scanned: Scanned {
                    turn: to_scan.turn(),
                    is_negative: page.is_negative.unwrap_or_default(),
                },
            },
        );
    }
    // A page that failed before its lines were detected is in the tables of errors only.
    for (name, failure) in failures {
        documents
            .entry(failure.page_index)
            .or_insert_with(|| PageDocument::failed(name, failure.message));
    }
    Ok(Some(VolumeDocument {
        w_id: stored.volume.w_id().to_owned(),
        i_id: stored.volume.i_id().to_owned(),
        pages: documents.into_values().collect(),
    }))
}

fn region_document(region: &PageRegion, to_scan: &PageGeometry) -> RegionDocument {
    let points = region.contour.iter().map(|[x, y]| Point::new(*x, *y));
    RegionDocument {
        kind: region.kind.clone(),
        polygon: points.map(|point| to_scan.to_page(point)).collect(),
    }
}

/// Place of a line on the straightened page.
struct Place {
    outline: Vec<Point>,
    /// Left edge from which its segments count.
    left: i32,
    top: i32,
    /// Last row of pixels.
    bottom: i32,
    /// Levelling of a line that slants or is bent, which its rows are counted on.
    levelling: Option<Levelling>,
}

impl Place {
    /// Place of a line that was cut out of the page and read: `ink` is the first row of its image with ink, and the number of rows from there on.
    fn of_line(line: &LineImageRow, ink: Option<(i32, i32)>) -> Self {
        let core: Vec<Point> = line.contour.iter().map(|[x, y]| Point::new(*x, *y)).collect();
        let (first, last) = (line.crop_y, line.crop_y.saturating_add(line.crop_h - 1));
        let (top, bottom) = match ink {
            Some((y, height @ 1..)) => {
                let top = first.saturating_add(y).clamp(first, last.max(first));
                (top, top.saturating_add(height - 1).min(last))
            }
            _ => (first, last),
        };
        // The outline is higher than the detected core of the line by an estimate: enough for signs above and below, which the line need
        // not have, and perhaps more than the image that it was read from.
        let place = Self {
            outline: Vec::new(),
            left: line.crop_x,
            top,
            bottom,
            // A job of the first generation, or of an earlier build, has cut its lines as they lie.
            levelling: (line.is_levelled == Some(true))
                .then(|| Levelling::of(&core))
                .flatten(),
        };
        let clamp = |Point { x, y }| Point::new(x, y.max(place.row(x, top)).min(place.row(x, bottom)));
        Self {
            outline: line_outline(&core).into_iter().map(clamp).collect(),
            ..place
        }
    }

    /// Place of a line that has an outline of its own.
    fn of_outline(outline: &Contour) -> Self {
        let outline: Vec<Point> = outline.iter().map(|[x, y]| Point::new(*x, *y)).collect();
        let Rect { x, y, height, .. } = bounding_rect(&outline);
        Self {
            outline,
            left: x,
            top: y,
            bottom: y + height - 1,
            levelling: None,
        }
    }

    /// Row on the page, at column `x`, of a row of the line.
    fn row(&self, x: i32, row: i32) -> i32 {
        row.saturating_add(self.levelling.as_ref().map_or(0, |levelling| levelling.shift(x)))
    }
}

fn line_document(text: &OcrResultRow, place: &Place, to_scan: &PageGeometry) -> LineDocument {
    let segment = |segment: &Segment| {
        let (left, right) = (place.left + segment.x, place.left + segment.x + segment.width);
        // A segment has the height of its line, as the network gives columns only.
        let (top, bottom) = (place.top, place.bottom);
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
        SegmentDocument {
            text: segment.text.clone(),
            polygon: corners.map(|(x, row)| to_scan.to_page(Point::new(x, place.row(x, row)))),
            confidence: segment.confidence,
        }
    };
    LineDocument {
        guid: text.line_guid.clone(),
        polygon: place
            .outline
            .iter()
            .map(|point| to_scan.to_page(*point))
            .collect(),
        text: text.text.clone(),
        encoding: match text.encoding {
            TextEncoding::Unicode => "unicode".to_owned(),
            TextEncoding::Wylie => "wylie".to_owned(),
        },
        confidence: text.confidence,
        segments: text.segments.iter().map(segment).collect(),
        corrected: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of the page that falls by 40 rows over 400 columns, as it was cut.
    fn slanting(is_levelled: Option<bool>) -> LineImageRow {
        let contour = vec![[0, 50], [399, 90], [399, 110], [0, 70]];
        LineImageRow {
            image_name: "page".to_owned(),
            line_index: 0,
            line_image_path: String::new(),
            line_guid: "line".to_owned(),
            bbox_x: 0,
            bbox_y: 50,
            bbox_w: 400,
            bbox_h: 61,
            center_x: 200,
            center_y: 80,
            contour,
            page_index: 0,
            crop_x: 0,
            crop_y: 60,
            crop_w: 400,
            crop_h: 40,
            image_width: 400,
            image_height: 40,
            is_binary: false,
            is_levelled,
        }
    }

    #[test]
    fn rows_count_on_the_line_as_it_was_cut() {
        let first_row = |is_levelled, x| {
            let place = Place::of_line(&slanting(is_levelled), None);
            place.row(x, place.top)
        };
        for as_it_lies in [None, Some(false)] {
            assert_eq!([first_row(as_it_lies, 20), first_row(as_it_lies, 380)], [60, 60]);
        }
        let levelled = [first_row(Some(true), 20), first_row(Some(true), 380)];
        assert!((34..=38).contains(&(levelled[1] - levelled[0])), "{levelled:?}");
    }
}
