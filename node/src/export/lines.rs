//! JSON lines: one object for each line of writing, and one for each page that could not be read.

use serde::Serialize;

use super::document::{SegmentDocument, VolumeDocument, pairs};

#[derive(Debug, Serialize)]
struct LineRecord<'a> {
    w_id: &'a str,
    i_id: &'a str,
    image: &'a str,
    source: &'a str,
    line_index: usize,
    line_guid: &'a str,
    text: &'a str,
    encoding: &'a str,
    confidence: Option<f32>,
    polygon: Vec<[i32; 2]>,
    segments: Vec<SegmentRecord<'a>>,
}

/// Record of a page that could not be read.
#[derive(Debug, Serialize)]
struct UnreadRecord<'a> {
    w_id: &'a str,
    i_id: &'a str,
    image: &'a str,
    source: &'a str,
    error: &'a str,
}

#[derive(Debug, Serialize)]
struct SegmentRecord<'a> {
    text: &'a str,
    confidence: f32,
    polygon: Vec<[i32; 2]>,
}

/// Returns the records of a volume, one a line. A page that could not be read has one without text and with the reason.
pub fn json_lines(volume: &VolumeDocument) -> serde_json::Result<String> {
    let mut text = String::new();
    for page in &volume.pages {
        if let Some(error) = &page.error {
            let record = UnreadRecord {
                w_id: &volume.w_id,
                i_id: &volume.i_id,
                image: &page.image_name,
                source: &page.source_name,
                error,
            };
            text.push_str(&serde_json::to_string(&record)?);
            text.push('\n');
        }
        for (line_index, line) in page.lines.iter().enumerate() {
            let record = LineRecord {
                w_id: &volume.w_id,
                i_id: &volume.i_id,
                image: &page.image_name,
                source: &page.source_name,
                line_index,
                line_guid: &line.guid,
                text: &line.text,
                encoding: &line.encoding,
                confidence: line.confidence,
                polygon: pairs(&line.polygon),
                segments: line.segments.iter().map(segment).collect(),
            };
            text.push_str(&serde_json::to_string(&record)?);
            text.push('\n');
        }
    }
    Ok(text)
}

fn segment(segment: &SegmentDocument) -> SegmentRecord<'_> {
    SegmentRecord {
        text: &segment.text,
        confidence: segment.confidence,
        polygon: pairs(&segment.polygon),
    }
}
