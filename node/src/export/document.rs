//! Document of a volume: pages with lines of text, in pixels of the original scans. It is the only input of every exporter.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use parkhang_models::line_detection::RegionKind;
use parkhang_models::page::geometry::{Point, Rect, bounding_rect};
use parkhang_models::page::polygon::Overlap;
use parkhang_models::recognition::ewts::to_unicode_exact;
use serde::Serialize;
use utoipa::ToSchema;

use super::language::Language;
use super::scanned::Scanned;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VolumeDocument {
    pub w_id: String,
    pub i_id: String,
    pub pages: Vec<PageDocument>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageDocument {
    /// Name of the page within the volume, safe as a file name.
    pub image_name: String,
    /// File name of the scan.
    pub source_name: String,
    pub width: u32,
    pub height: u32,
    pub lines: Vec<LineDocument>,
    /// Regions beside the body text, if a layout network was used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionDocument>,
    /// Reason for which the page could not be read, if it could not.
    pub error: Option<String>,
    /// Way in which it was scanned.
    #[serde(skip)]
    pub scanned: Scanned,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegionDocument {
    /// `image`, `margin`, `caption`, `page_number` or `note`.
    pub kind: String,
    /// Outline on the scan.
    pub polygon: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineDocument {
    pub guid: String,
    /// Outline on the scan.
    pub polygon: Vec<Point>,
    pub text: String,
    /// `unicode` or `wylie`.
    pub encoding: String,
    /// Confidence from 0 to 1; `None` where whoever read the line has none.
    pub confidence: Option<f32>,
    pub segments: Vec<SegmentDocument>,
    /// Author and time of its text, if a person has written it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected: Option<Corrected>,
}

/// Who has made a line what it is, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Corrected {
    pub who: String,
    pub at: DateTime<Utc>,
}

/// Syllable with its place on the scan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SegmentDocument {
    pub text: String,
    pub polygon: [Point; 4],
    pub confidence: f32,
}

impl SegmentDocument {
    /// Left, top, width and height of its box.
    pub fn bounds(&self) -> [i32; 4] {
        let Rect { x, y, width, height } = bounding_rect(&self.polygon);
        [x, y, width, height]
    }
}

/// Part of a line, for formats with the places of words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Word<'a> {
    pub text: &'a str,
    pub polygon: &'a [Point],
    pub confidence: Option<f32>,
}

impl LineDocument {
    /// Returns the text in Unicode, whatever encoding it was written in.
    pub fn unicode(&self) -> Cow<'_, str> {
        match self.encoding.as_str() {
            "wylie" => to_unicode_exact(&self.text).into(),
            _ => self.text.as_str().into(),
        }
    }

    /// Splits the text into parts whose concatenation is the text: the segments, or the whole line if they spell another text.
    pub fn words(&self) -> Vec<Word<'_>> {
        let spelt: String = self
            .segments
            .iter()
            .map(|segment| segment.text.as_str())
            .collect();
        let mut words = Vec::new();
        // Places of words are of use only if the words spell the text; otherwise the line is one word.
        if spelt.trim() == self.text {
            // The text of a line is trimmed and its segments are not: `trimmed` is the white space still to be taken off the front.
            let mut trimmed = spelt.len() - spelt.trim_start().len();
            let mut rest = self.text.as_str();
            for segment in &self.segments {
                let hidden = trimmed.min(segment.text.len());
                trimmed -= hidden;
                // The segments spell the text, so both lengths end at the same characters and the split is at
                // a boundary.
                let (text, tail) = rest.split_at(rest.len().min(segment.text.len() - hidden));
                rest = tail;
                if !text.is_empty() {
                    words.push(Word {
                        text,
                        polygon: &segment.polygon,
                        confidence: Some(segment.confidence),
                    });
                }
            }
        }
        if words.is_empty() {
            words.push(Word {
                text: &self.text,
                polygon: &self.polygon,
                confidence: self.confidence,
            });
        }
        words
    }
}

impl PageDocument {
    /// A page that failed before its size was known.
    pub(super) fn failed(name: String, error: String) -> Self {
        Self {
            source_name: name.clone(),
            image_name: name,
            width: 0,
            height: 0,
            lines: Vec::new(),
            regions: Vec::new(),
            error: Some(error),
            scanned: Scanned::default(),
        }
    }

    /// Returns the text of the page, with a line for each line of writing.
    pub fn text(&self) -> String {
        text_of(&self.lines)
    }

    /// Returns the index of the region, other than of a picture, that most of a line lies in.
    pub fn region_of(&self, line: &LineDocument) -> Option<usize> {
        let of_writing = self
            .regions
            .iter()
            .enumerate()
            .filter(|(_, region)| region.kind != RegionKind::Image.as_str());
        let shares =
            of_writing.map(|(index, region)| (index, Overlap::of(&line.polygon, &region.polygon).of_first()));
        let (index, share) = shares.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        (share > 0.5).then_some(index)
    }

    /// Returns the note that replaces the text of a page that could not be read.
    pub fn unread(&self) -> Option<String> {
        let reason = self.error.as_ref()?;
        Some(format!(
            "not read: {}",
            reason.split_whitespace().collect::<Vec<_>>().join(" ")
        ))
    }

    /// Returns the text, or a line in brackets with the reason for which there is none.
    pub fn text_or_mark(&self) -> String {
        match self.unread() {
            Some(unread) => format!("[{}: {unread}]\n", self.source_name),
            None => self.text(),
        }
    }

    /// Returns the language of the text.
    pub fn language(&self) -> Language {
        Language::of(&self.lines)
    }

    /// Returns a polygon with corners outside the page moved to its edge; the whole page if the polygon is empty.
    pub fn on_page(&self, polygon: &[Point]) -> Vec<Point> {
        // The last pixel of a side, as coordinates count from 0; a page of unknown size has only the corner.
        let last = |side: u32| i32::try_from(side.saturating_sub(1)).unwrap_or(i32::MAX);
        let (right, bottom) = (last(self.width), last(self.height));
        if polygon.is_empty() {
            return corners(Point::new(0, 0), Point::new(right, bottom)).to_vec();
        }
        let clamp = |p: &Point| Point::new(p.x.clamp(0, right), p.y.clamp(0, bottom));
        polygon.iter().map(clamp).collect()
    }

    /// Returns the bounding box of a polygon on the page.
    pub fn bounds(&self, polygon: &[Point]) -> Rect {
        bounding_rect(&self.on_page(polygon))
    }

    /// Returns the bounding box of lines; the whole page if there is none.
    pub fn bounds_of<'a>(&self, lines: impl IntoIterator<Item = &'a LineDocument>) -> [Point; 4] {
        let points: Vec<Point> = lines.into_iter().flat_map(|line| line.polygon.clone()).collect();
        let region = self.bounds(&points);
        corners(
            Point::new(region.x, region.y),
            // The right and lower edges are the last pixels within the box.
            Point::new(region.x + region.width - 1, region.y + region.height - 1),
        )
    }
}

/// Text of lines, one a line.
pub(super) fn text_of<'a>(lines: impl IntoIterator<Item = &'a LineDocument>) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line.text);
        text.push('\n');
    }
    text
}

/// Corners of a polygon, each as x and y.
pub fn pairs(polygon: &[Point]) -> Vec<[i32; 2]> {
    polygon.iter().map(|point| [point.x, point.y]).collect()
}

fn corners(top_left: Point, bottom_right: Point) -> [Point; 4] {
    [
        top_left,
        Point::new(bottom_right.x, top_left.y),
        bottom_right,
        Point::new(top_left.x, bottom_right.y),
    ]
}
