//! Words of a page with their boxes as JSON, the form in which web viewers of PDF pages read them.

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::page_text::PageTextRow;
use super::words::{WordRow, WordSource};

/// Version of the form.
const VERSION: u32 = 1;

/// A page and its words, in the order in which they are read. The same rows give the same bytes.
#[derive(Debug, Clone, Copy)]
pub struct PageBoxes<'r> {
    pub page: &'r PageTextRow,
    pub words: &'r [WordRow],
}

impl PageBoxes<'_> {
    /// Number of the page in its volume, from 1.
    pub fn number(&self) -> u32 {
        u32::try_from(self.page.page_index).map_or(1, |index| index.saturating_add(1))
    }

    /// Origin of the page's words: a page on which none was found was read if it had no text of its own to be trusted.
    pub fn source(&self) -> WordSource {
        match self.words.first() {
            Some(word) => word.source,
            None if self.page.verdict.needs_reading() => WordSource::Ocr,
            None => WordSource::TextLayer,
        }
    }

    /// Engine that read most of the words; `None` for a page whose words are those of its file.
    pub fn engine(&self) -> Option<&str> {
        let engines = self.words.iter().map(|word| word.engine.as_str());
        let mut engines: Vec<&str> = engines.filter(|engine| !engine.is_empty()).collect();
        engines.sort_unstable();
        // Of equally many the last by name wins, so that the answer does not depend on the order of words.
        engines
            .chunk_by(|one, other| one == other)
            .max_by_key(|same| same.len())
            .map(|same| same[0])
    }

    /// The form as a file.
    ///
    /// # Errors
    ///
    /// None: the form has neither maps with other keys than texts nor values that fail.
    pub fn to_json(&self) -> serde_json::Result<Bytes> {
        let mut json = serde_json::to_vec(self)?;
        json.push(b'\n');
        Ok(Bytes::from(json))
    }
}

impl Serialize for PageBoxes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &VERSION)?;
        map.serialize_entry("page", &self.number())?;
        map.serialize_entry("width", &rounded(self.page.width))?;
        map.serialize_entry("height", &rounded(self.page.height))?;
        map.serialize_entry("rotation", &self.page.rotation)?;
        map.serialize_entry("source", self.source().as_str())?;
        map.serialize_entry("engine", &self.engine())?;
        map.serialize_entry("words", &Words(self.words))?;
        map.end()
    }
}

struct Words<'r>(&'r [WordRow]);

impl Serialize for Words<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.0.len()))?;
        for word in self.0 {
            sequence.serialize_element(&Word(word))?;
        }
        sequence.end()
    }
}

struct Word<'r>(&'r WordRow);

impl Serialize for Word<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(word) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("text", &word.text)?;
        let bounds = [word.bbox_x0, word.bbox_y0, word.bbox_x1, word.bbox_y1];
        map.serialize_entry("bbox", &bounds.map(rounded))?;
        map.serialize_entry(
            "confidence",
            &word.confidence.map(|confidence| decimals(confidence, 1000.0)),
        )?;
        map.serialize_entry("line", &word.line)?;
        map.end()
    }
}

/// Points to the hundredth: a tenth of the width of a hairline, in a quarter of the digits.
fn rounded(points: f32) -> f64 {
    decimals(points, 100.0)
}

fn decimals(value: f32, parts: f64) -> f64 {
    let rounded = (f64::from(value) * parts).round() / parts;
    // Zero has no sign in JSON's eyes, but its text has.
    if rounded == 0.0 { 0.0 } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::super::page_text::TextVerdict;
    use super::*;

    fn page(verdict: TextVerdict) -> PageTextRow {
        PageTextRow {
            image_name: "page_3".to_owned(),
            page_index: 2,
            source_name: "page_3".to_owned(),
            width: 595.3,
            height: 841.9,
            rotation: 0,
            dpi: 72.0,
            verdict,
            score: 0.0,
            reason: String::new(),
            words: Vec::new(),
            picture_share: None,
        }
    }

    fn word(text: &str, engine: &str) -> WordRow {
        WordRow {
            image_name: "page_3".to_owned(),
            page_index: 2,
            page: 3,
            word_index: 0,
            text: text.to_owned(),
            bbox_x0: 72.0,
            bbox_y0: 90.5,
            bbox_x1: 101.2,
            bbox_y1: -0.001,
            confidence: Some(0.98),
            line: 0,
            source: WordSource::Ocr,
            engine: engine.to_owned(),
            contradicted: Some(false),
        }
    }

    /// Rows: 127, 128.
    #[test]
    fn a_page_is_written_as_viewers_read_it() {
        let page = page(TextVerdict::Broken);
        let words = [
            word("Notes", "ppocr"),
            word("\"བཀྲ", "parkhang"),
            word("2", "ppocr"),
        ];
        let boxes = PageBoxes {
            page: &page,
            words: &words[..1],
        };
        let json = String::from_utf8(boxes.to_json().unwrap().to_vec()).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"version":1,"page":3,"width":595.3,"height":841.9,"rotation":0,"source":"ocr","engine":"ppocr","#,
                r#""words":[{"text":"Notes","bbox":[72.0,90.5,101.2,0.0],"confidence":0.98,"line":0}]}"#,
                "\n"
            )
        );
        let both = PageBoxes {
            page: &page,
            words: &words,
        };
        assert_eq!(both.engine(), Some("ppocr"));
    }

    #[test]
    fn a_page_without_words_says_whether_it_was_read() {
        for (verdict, source) in [
            (TextVerdict::Good, WordSource::TextLayer),
            (TextVerdict::Blank, WordSource::TextLayer),
            (TextVerdict::None, WordSource::Ocr),
            (TextVerdict::Broken, WordSource::Ocr),
        ] {
            let page = page(verdict);
            let boxes = PageBoxes {
                page: &page,
                words: &[],
            };
            assert_eq!((boxes.source(), boxes.engine()), (source, None));
        }
    }
}
