//! Rows of the table of texts for combined lines.

use parkhang_combine::{Combined, Piece};
use parkhang_models::page::geometry::Point;
use uuid::Uuid;

use super::readings::{PageReadings, has_syllables};
use crate::stage::line_extraction::LINE_NAMESPACE;
use crate::stage::quality::text_score;
use crate::stage::read_volume::ReadLine;
use parkhang_core::domain::{TextEncoding, VolumeId};
use parkhang_store::artifact::{OcrResultRow, Segment};

/// Maker of the rows of a page.
pub(super) struct Combiner<'a> {
    pub page: &'a PageReadings,
    pub volume: &'a VolumeId,
}

impl Combiner<'_> {
    /// Rows of the lines that have a text.
    pub(super) fn rows(&self, lines: &[Combined]) -> Vec<OcrResultRow> {
        let with_text = lines.iter().filter(|line| !line.pieces.is_empty());
        with_text
            .zip(0..)
            .map(|(line, index)| self.row(line, index))
            .collect()
    }

    fn row(&self, line: &Combined, index: i32) -> OcrResultRow {
        let from = &self.page.lines[line.place.reading][line.place.line];
        let is_own = line.place.reading == 0;
        let text = line.text();
        OcrResultRow {
            perplexity: text_score(&text, TextEncoding::Unicode).perplexity(),
            image_name: self.page.name.to_string(),
            line_index: index,
            line_guid: match is_own {
                true => from.row.line_guid.clone(),
                false => self.guid(line, from),
            },
            text,
            encoding: TextEncoding::Unicode,
            page_index: self.page.page_index,
            confidence: Some(mean(&line.pieces)),
            segments: segments(&line.pieces, &from.row),
            outline: match is_own {
                true => from.row.outline.clone(),
                false => from.bounds.map(|bounds| self.outline(bounds)),
            },
            alignment: None,
            sources: Some(line.pieces.iter().map(sources).collect()),
            ink_y: from.row.ink_y.filter(|_| is_own),
            ink_h: from.row.ink_h.filter(|_| is_own),
        }
    }

    /// Guid of a line that the first job does not have.
    fn guid(&self, line: &Combined, from: &ReadLine) -> String {
        let input = &self.page.inputs[line.place.reading];
        let identity = format!(
            "{}/{}/{input}/{}",
            self.volume, self.page.name, from.row.line_guid
        );
        Uuid::new_v5(&LINE_NAMESPACE, identity.as_bytes()).to_string()
    }

    /// Place of a line of another job on the straightened page of the first one.
    fn outline(&self, [left, top, right, bottom]: [f32; 4]) -> Vec<[i32; 2]> {
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
        let turned = corners.map(|(x, y)| {
            let corner = Point::new(x.round() as i32, y.round() as i32);
            let corner = self.page.geometry.to_turned(corner);
            [corner.x, corner.y]
        });
        turned.to_vec()
    }
}

/// Inputs that have the letters of a piece, as bits. No job has more inputs than there are bits.
fn sources(piece: &Piece) -> i32 {
    piece.readings.iter().fold(0, |bits, reading| bits | 1 << reading)
}

/// Geometric mean of the confidences, as of a line that one recogniser reads.
fn mean(pieces: &[Piece]) -> f32 {
    let logarithms = pieces
        .iter()
        .map(|piece| f64::from(piece.confidence.max(f32::MIN_POSITIVE)).ln());
    (logarithms.sum::<f64>() / pieces.len().max(1) as f64).exp() as f32
}

/// Syllables with the places of those in whose stead they stand; one that the line did not have stands without width behind the one
/// before it. A line without places of syllables gets none.
fn segments(pieces: &[Piece], line: &OcrResultRow) -> Vec<Segment> {
    if !has_syllables(line) {
        return Vec::new();
    }
    let mut end = 0;
    let segment = |piece: &Piece| {
        let (x, width) = match piece.at.and_then(|at| line.segments.get(at)) {
            Some(own) => (own.x, own.width),
            None => (end, 0),
        };
        end = x.saturating_add(width);
        Segment {
            text: piece.text.clone(),
            x,
            width,
            confidence: piece.confidence,
        }
    };
    pieces.iter().map(segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, confidence: f32, at: Option<usize>) -> Piece {
        Piece {
            text: text.to_owned(),
            confidence,
            readings: vec![0],
            at,
        }
    }

    #[test]
    fn syllables_stand_where_those_stood_that_they_replace() {
        let segment = |text: &str, x, width| Segment {
            text: text.to_owned(),
            x,
            width,
            confidence: 0.5,
        };
        let line = OcrResultRow {
            image_name: "p1".to_owned(),
            line_index: 0,
            line_guid: String::new(),
            text: "ཀ་ཁ་ག".to_owned(),
            encoding: TextEncoding::Unicode,
            page_index: 0,
            confidence: Some(0.5),
            segments: vec![segment("ཀ་", 5, 10), segment("ཁ་", 15, 12), segment("ག", 27, 8)],
            outline: None,
            alignment: None,
            perplexity: None,
            sources: None,
            ink_y: None,
            ink_h: None,
        };
        let pieces = [
            piece("ཀ་", 0.9, Some(0)),
            piece("ང་", 0.4, None),
            piece("ག", 0.9, Some(2)),
        ];
        let places = |line: &OcrResultRow| -> Vec<(i32, i32)> {
            let segments = segments(&pieces, line);
            segments
                .iter()
                .map(|segment| (segment.x, segment.width))
                .collect()
        };
        assert_eq!(places(&line), [(5, 10), (15, 0), (27, 8)]);
        let bare = OcrResultRow {
            segments: Vec::new(),
            ..line
        };
        assert_eq!(places(&bare), []);
        let sure = mean(&[piece("ཀ", 0.9, None), piece("ཁ", 0.4, None)]);
        assert!((sure - 0.6).abs() < 1e-6, "{sure}");
    }
}
