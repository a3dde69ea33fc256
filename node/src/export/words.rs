//! Volumes of the pipeline `page_ocr`: their words, page by page, and the document that other formats are made from.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use parkhang_actors::stage::StageTable;
use parkhang_models::page::geometry::{Point, Rect, bounding_rect};
use parkhang_store::artifact::{
    ErrorRow, PageBoxes, PageTextRow, VolumeLayout, WordRow, failed_pages, read_table, stands_apart,
};
use parkhang_store::storage::ArtifactStore;

use super::document::{LineDocument, PageDocument, SegmentDocument, VolumeDocument};
use super::results::StoredVolume;
use super::scanned::Scanned;

/// Points to the inch.
const POINTS: f32 = 72.0;

/// Words of a volume, and what is known of its pages.
#[derive(Debug)]
pub struct VolumeWords {
    pages: Vec<PageTextRow>,
    /// In the order of pages.
    words: Vec<WordRow>,
}

impl VolumeWords {
    /// Loads the words of a volume; `None` if it has none, as it went through another pipeline or has not been read yet.
    ///
    /// # Errors
    ///
    /// If a table is missing or damaged, or the store cannot be reached.
    pub async fn load(store: &dyn ArtifactStore, layout: &VolumeLayout) -> Result<Option<Self>> {
        if store.head(&layout.words()).await?.is_none() {
            return Ok(None);
        }
        let pages = read_table::<PageTextRow>(store, &layout.page_text()).await?.rows;
        let table = read_table::<WordRow>(store, &layout.words()).await?;
        // A page that could not be read has no words, and is not a page without words.
        let done = |page: &PageTextRow| table.provenance.pages.contains_key(&page.image_name);
        Ok(Some(Self {
            pages: pages.into_iter().filter(done).collect(),
            words: table.rows,
        }))
    }

    /// The pages with their words, in order.
    pub fn pages(&self) -> impl Iterator<Item = PageBoxes<'_>> {
        let same_page = |one: &WordRow, other: &WordRow| one.page_index == other.page_index;
        let words: HashMap<i32, &[WordRow]> = self
            .words
            .chunk_by(same_page)
            .map(|words| (words[0].page_index, words))
            .collect();
        self.pages.iter().map(move |page| PageBoxes {
            page,
            words: words.get(&page.page_index).copied().unwrap_or_default(),
        })
    }

    /// The document of the volume, in pixels of the pictures of its pages.
    ///
    /// # Errors
    ///
    /// If a table of errors is damaged, or the store cannot be reached.
    pub async fn document(&self, store: &dyn ArtifactStore, stored: &StoredVolume) -> Result<VolumeDocument> {
        let failed = failed_pages(store, &stored.layout, &StageTable::built_in().names()).await?;
        let mut failures: BTreeMap<String, ErrorRow> = failed
            .into_iter()
            .map(|(_, row)| (row.image_name.clone(), row))
            .collect();
        let mut documents: BTreeMap<i32, PageDocument> = BTreeMap::new();
        for boxes in self.pages() {
            let error = failures.remove(&boxes.page.image_name).map(|row| row.message);
            documents.insert(boxes.page.page_index, page_document(&boxes, error));
        }
        for (name, failure) in failures {
            documents.insert(failure.page_index, PageDocument::failed(name, failure.message));
        }
        Ok(VolumeDocument {
            w_id: stored.volume.w_id().to_owned(),
            i_id: stored.volume.i_id().to_owned(),
            pages: documents.into_values().collect(),
        })
    }
}

fn page_document(boxes: &PageBoxes<'_>, error: Option<String>) -> PageDocument {
    let page = boxes.page;
    let scale = page.dpi / POINTS;
    let pixels = |points: f32| (points * scale).round().max(0.0) as u32;
    let lines = boxes.words.chunk_by(|one, other| one.line == other.line);
    PageDocument {
        image_name: page.image_name.clone(),
        source_name: page.source_name.clone(),
        width: pixels(page.width),
        height: pixels(page.height),
        lines: lines.map(|line| line_document(page, line, scale)).collect(),
        regions: Vec::new(),
        error,
        scanned: Scanned::default(),
    }
}

fn line_document(page: &PageTextRow, words: &[WordRow], scale: f32) -> LineDocument {
    let mut segments = Vec::with_capacity(words.len());
    for (place, word) in words.iter().enumerate() {
        let next = words.get(place + 1);
        let space = next.is_some_and(|next| stands_apart(&word.text, &next.text));
        segments.push(SegmentDocument {
            text: format!("{}{}", word.text, if space { " " } else { "" }),
            polygon: corners(word, scale),
            // Words of the file have no confidence: it is what it is.
            confidence: word.confidence.unwrap_or(1.0),
        });
    }
    let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
    let confidence =
        segments.iter().map(|segment| segment.confidence).sum::<f32>() / segments.len().max(1) as f32;
    let points: Vec<Point> = segments.iter().flat_map(|segment| segment.polygon).collect();
    let Rect { x, y, width, height } = bounding_rect(&points);
    let (right, bottom) = (x + width - 1, y + height - 1);
    LineDocument {
        guid: format!(
            "{}-{}",
            page.image_name,
            words.first().map_or(0, |word| word.line)
        ),
        polygon: [(x, y), (right, y), (right, bottom), (x, bottom)]
            .map(|(x, y)| Point::new(x, y))
            .to_vec(),
        text: text.trim().to_owned(),
        encoding: "unicode".to_owned(),
        confidence: Some(confidence),
        segments,
        corrected: None,
    }
}

fn corners(word: &WordRow, scale: f32) -> [Point; 4] {
    let pixel = |points: f32| (points * scale).round() as i32;
    // The last pixel of the box, as polygons go through pixels.
    let last = |points: f32, first: i32| (pixel(points) - 1).max(first);
    let (left, top) = (pixel(word.bbox_x0), pixel(word.bbox_y0));
    let (right, bottom) = (last(word.bbox_x1, left), last(word.bbox_y1, top));
    [(left, top), (right, top), (right, bottom), (left, bottom)].map(|(x, y)| Point::new(x, y))
}

#[cfg(test)]
pub mod tests {
    use parkhang_store::artifact::{TextVerdict, WordSource};

    use super::*;

    fn word(page: i32, line: i32, text: &str, left: f32) -> WordRow {
        WordRow {
            image_name: format!("page_{page}"),
            page_index: page - 1,
            page,
            word_index: 0,
            text: text.to_owned(),
            bbox_x0: left,
            bbox_y0: 36.0,
            bbox_x1: left + 18.0,
            bbox_y1: 48.0,
            confidence: Some(0.5),
            line,
            source: WordSource::Ocr,
            engine: "ppocr".to_owned(),
            contradicted: Some(false),
        }
    }

    fn page(number: i32) -> PageTextRow {
        PageTextRow {
            image_name: format!("page_{number}"),
            page_index: number - 1,
            source_name: format!("page_{number}"),
            width: 595.2,
            height: 841.9,
            rotation: 0,
            dpi: 144.0,
            verdict: TextVerdict::None,
            score: 0.0,
            reason: String::new(),
            words: Vec::new(),
            picture_share: None,
        }
    }

    #[test]
    fn words_make_lines_in_pixels_of_the_picture() {
        let words = VolumeWords {
            pages: vec![page(1), page(2)],
            words: vec![
                word(2, 0, "Notes", 10.0),
                word(2, 0, "to", 40.0),
                word(2, 1, "註", 10.0),
                word(2, 1, "解", 28.0),
                word(2, 2, "བཀྲ་", 10.0),
                word(2, 2, "ཤིས།", 28.0),
                word(2, 2, "བདེ་", 60.0),
            ],
        };
        let pages: Vec<PageDocument> = words.pages().map(|boxes| page_document(&boxes, None)).collect();
        assert_eq!(
            (pages[0].width, pages[0].height, pages[0].lines.len()),
            (1190, 1684, 0)
        );
        let texts: Vec<&str> = pages[1].lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["Notes to", "註解", "བཀྲ་ཤིས། བདེ་"]);
        let first = &pages[1].lines[0];
        assert_eq!(first.polygon[0], Point::new(20, 72));
        assert_eq!(first.polygon[2], Point::new(115, 95));
        let spelt: Vec<&str> = first.words().iter().map(|word| word.text).collect();
        assert_eq!(spelt, ["Notes ", "to"]);
    }
}
