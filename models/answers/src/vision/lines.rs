//! Lines of a page, with their words, from the symbols and breaks of a response.

use serde_json::Value;

use super::archive::list;

/// Box in pixels of the picture: left, top, right, bottom, the last two beyond the last pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub left: f32,
    pub top: f32,
    pub right: f32,
    pub bottom: f32,
}

impl Bounds {
    fn around(self, other: Self) -> Self {
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }
}

/// Page as the service read it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VisionPage {
    /// Text as the service puts it together.
    pub text: String,
    /// Lines in the order of the service; none where the answer has text alone.
    pub lines: Vec<VisionLine>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct VisionLine {
    pub text: String,
    /// Mean confidence of the words, weighted by their lengths; `None` where none has one.
    pub confidence: Option<f32>,
    pub bounds: Option<Bounds>,
    pub words: Vec<VisionWord>,
}

/// Word with the space behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct VisionWord {
    pub text: String,
    pub confidence: Option<f32>,
    pub bounds: Option<Bounds>,
}

/// Break behind or in front of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Break {
    None,
    Space,
    Line,
}

impl VisionPage {
    /// The page of a response: of several pages in one picture, all lines.
    pub fn of(response: &Value) -> Self {
        let annotation = &response["fullTextAnnotation"];
        let mut lines = Vec::new();
        for page in list(annotation, "pages") {
            let size = [&page["width"], &page["height"]].map(|side| side.as_f64().unwrap_or(0.0) as f32);
            for block in list(page, "blocks") {
                for paragraph in list(block, "paragraphs") {
                    read_paragraph(paragraph, size, &mut lines);
                }
            }
        }
        lines.iter_mut().for_each(VisionLine::finish);
        lines.retain(|line| !line.text.is_empty());
        Self {
            text: annotation["text"].as_str().unwrap_or_default().to_owned(),
            lines,
        }
    }
}

impl VisionLine {
    fn finish(&mut self) {
        if let Some(last) = self.words.last_mut() {
            last.text.truncate(last.text.trim_end().len());
        }
        self.words.retain(|word| !word.text.is_empty());
        let text: String = self.words.iter().map(|word| word.text.as_str()).collect();
        text.trim().clone_into(&mut self.text);
        self.bounds = self
            .words
            .iter()
            .filter_map(|word| word.bounds)
            .reduce(Bounds::around);
        let (mut sum, mut weight) = (0.0, 0.0);
        for word in &self.words {
            if let Some(confidence) = word.confidence {
                let length = word.text.trim().chars().count().max(1) as f32;
                sum += length * confidence;
                weight += length;
            }
        }
        self.confidence = (weight > 0.0).then(|| sum / weight);
    }
}

/// Adds the lines of a paragraph, which begins a line of its own.
fn read_paragraph(paragraph: &Value, size: [f32; 2], lines: &mut Vec<VisionLine>) {
    lines.push(VisionLine::default());
    let begin_word = |word: &Value| VisionWord {
        text: String::new(),
        confidence: confidence(&word["confidence"]),
        bounds: bounds(&word["boundingBox"], size),
    };
    for word in list(paragraph, "words") {
        let mut current = begin_word(word);
        for symbol in list(word, "symbols") {
            let text = symbol["text"].as_str().unwrap_or_default();
            let (kind, is_prefix) = break_of(symbol);
            if !is_prefix {
                current.text.push_str(text);
            }
            match kind {
                Break::None => {}
                Break::Space => current.text.push(' '),
                Break::Line => {
                    add_word(lines, std::mem::replace(&mut current, begin_word(word)));
                    lines.push(VisionLine::default());
                }
            }
            if is_prefix {
                current.text.push_str(text);
            }
        }
        add_word(lines, current);
    }
}

fn add_word(lines: &mut [VisionLine], mut word: VisionWord) {
    let Some(line) = lines.last_mut() else { return };
    // A break may be told behind a word and in front of the next one.
    if line.words.last().is_none_or(|before| before.text.ends_with(' ')) {
        word.text = word.text.trim_start().to_owned();
    }
    if !word.text.is_empty() {
        line.words.push(word);
    }
}

/// Kind of the break at a symbol, and whether it stands in front of it. By the documentation of `TextAnnotation.DetectedBreak`.
fn break_of(symbol: &Value) -> (Break, bool) {
    let detected = &symbol["property"]["detectedBreak"];
    let kind = match (detected["type"].as_str(), detected["type"].as_u64()) {
        (Some("SPACE" | "SURE_SPACE"), _) | (_, Some(1 | 2)) => Break::Space,
        (Some("EOL_SURE_SPACE" | "HYPHEN" | "LINE_BREAK"), _) | (_, Some(3..=5)) => Break::Line,
        _ => Break::None,
    };
    (kind, detected["isPrefix"].as_bool() == Some(true))
}

fn confidence(value: &Value) -> Option<f32> {
    let confidence = value.as_f64()? as f32;
    confidence.is_finite().then(|| confidence.clamp(0.0, 1.0))
}

/// Box around the corners of a polygon. Coordinates that are 0 are left out of answers; normalised ones are parts of the page's `size`.
fn bounds(polygon: &Value, size: [f32; 2]) -> Option<Bounds> {
    let (corners, scale) = match list(polygon, "vertices") {
        [] => (list(polygon, "normalizedVertices"), size),
        corners => (corners, [1.0, 1.0]),
    };
    let corners = corners.iter().map(|corner| {
        let [x, y] = [(&corner["x"], scale[0]), (&corner["y"], scale[1])]
            .map(|(value, scale)| value.as_f64().unwrap_or(0.0) as f32 * scale);
        Bounds {
            left: x,
            top: y,
            right: x,
            bottom: y,
        }
    });
    corners
        .reduce(Bounds::around)
        .filter(|bounds| bounds.right > bounds.left && bounds.bottom > bounds.top)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::golden::{cases, fixture, shared};

    /// Lines of a text as the service puts it together, without the spaces at their ends.
    fn lines_of(text: &str) -> Vec<&str> {
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect()
    }

    fn check(case: &Value) {
        let name = case["case"].as_str().unwrap();
        let page = VisionPage::of(&case["response"]);
        // In these the vectors of the archive hold symbols and breaks that belong to the text.
        let number = name.strip_prefix("tibetan_").or(name.strip_prefix("rotated_"));
        if number.is_none_or(|number| number.parse::<u16>().is_err()) {
            return;
        }
        let lines: Vec<&str> = page.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(lines, lines_of(&page.text), "{name}");
        for line in &page.lines {
            assert!(line.confidence.is_some_and(|value| value > 0.0), "{name}");
            let around = line.bounds.unwrap();
            let joined: String = line.words.iter().map(|word| word.text.as_str()).collect();
            assert_eq!(joined.trim(), line.text);
            for word in line.words.iter().filter_map(|word| word.bounds) {
                assert!(word.left >= around.left && word.bottom <= around.bottom, "{name}");
            }
        }
    }

    /// Rows: 84.
    #[test]
    fn lines_are_told_by_the_breaks_of_symbols() {
        fixture("parse_cases.jsonl").iter().for_each(check);
        if let Some(path) = shared("vision/parse_cases.jsonl") {
            cases(&path).iter().for_each(check);
        }
    }

    fn symbol(text: &str, detected: Value) -> Value {
        json!({"text": text, "property": {"detectedBreak": detected}})
    }

    /// Rows: 84.
    #[test]
    fn a_break_may_be_in_front_a_number_or_within_a_word() {
        let word = |symbols: Value| {
            json!({
                "confidence": 0.5, "symbols": symbols,
                "boundingBox": {"vertices": [{}, {"x": 40}, {"x": 40, "y": 9}, {"y": 9}]},
            })
        };
        let words = json!([
            word(json!([
                symbol("a", json!({"type": "LINE_BREAK"})),
                symbol("b", json!({"type": 1}))
            ])),
            word(json!([symbol(
                "c",
                json!({"type": "LINE_BREAK", "isPrefix": true})
            )])),
        ]);
        let page = |words: Value| json!({"pages": [{"blocks": [{"paragraphs": [{"words": words}]}]}]});
        let read = VisionPage::of(&json!({"fullTextAnnotation": page(words)}));
        let texts: Vec<&str> = read.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["a", "b", "c"]);
        let bounds = Bounds {
            left: 0.0,
            top: 0.0,
            right: 40.0,
            bottom: 9.0,
        };
        assert_eq!(
            (read.lines[0].bounds, read.lines[0].confidence),
            (Some(bounds), Some(0.5))
        );
        let none = json!([{"symbols": [{"text": "x"}]}]);
        let read = VisionPage::of(&json!({"fullTextAnnotation": page(none)}));
        assert_eq!((read.lines[0].bounds, read.lines[0].confidence), (None, None));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "\\PC{0,3}".prop_map(Value::from),
        ];
        let names = prop::sample::select(vec![
            "pages",
            "blocks",
            "paragraphs",
            "words",
            "symbols",
            "text",
            "confidence",
            "boundingBox",
            "vertices",
        ]);
        leaf.prop_recursive(6, 40, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(names.clone().prop_map(str::to_owned), inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_answer_panics(annotation in any_json()) {
            VisionPage::of(&json!({"fullTextAnnotation": annotation}));
        }
    }
}
