//! A volume as a reader sees it: pages with lines of text, in the coordinates of the original scans. Every exporter
//! takes this and nothing else.

use parkhang_models::page::geometry::Point;
use serde::Serialize;

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
    /// Why the page could not be read, if it could not.
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineDocument {
    pub guid: String,
    /// Outline on the scan.
    pub polygon: Vec<Point>,
    pub text: String,
    /// `unicode` or `wylie`.
    pub encoding: String,
    /// 0 to 1.
    pub confidence: f32,
    pub segments: Vec<SegmentDocument>,
}

/// A syllable and where it stands on the scan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SegmentDocument {
    pub text: String,
    pub polygon: [Point; 4],
    pub confidence: f32,
}

impl PageDocument {
    /// The text of the page, one line of writing per line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(&line.text);
            text.push('\n');
        }
        text
    }

    /// The smallest box that holds every line; the whole page when there is none.
    pub fn text_region(&self) -> [Point; 4] {
        let points = || self.lines.iter().flat_map(|line| &line.polygon);
        let right = i32::try_from(self.width.saturating_sub(1)).unwrap_or(i32::MAX);
        let bottom = i32::try_from(self.height.saturating_sub(1)).unwrap_or(i32::MAX);
        let (left, top) = (
            points().map(|p| p.x).min().unwrap_or(0),
            points().map(|p| p.y).min().unwrap_or(0),
        );
        let right = points().map(|p| p.x).max().unwrap_or(right);
        let bottom = points().map(|p| p.y).max().unwrap_or(bottom);
        [
            Point::new(left, top),
            Point::new(right, top),
            Point::new(right, bottom),
            Point::new(left, bottom),
        ]
    }
}
