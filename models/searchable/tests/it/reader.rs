//! Text of a page with its boxes, read by a library that had no part in writing it.

use std::collections::HashMap;

use lopdf::content::Content;
use lopdf::{Dictionary, Document, Object, ObjectId};

/// Invisible text shown by one operator.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) text: String,
    /// Left, bottom, right and top in user space.
    pub(crate) area: [f64; 4],
}

type Matrix = [f64; 6];

const IDENTITY: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];

/// Reads the invisible text of each page.
pub(crate) fn read(file: &[u8]) -> Vec<Vec<Shown>> {
    let document = Document::load_mem(file).expect("the file is a PDF");
    let pages = document.get_pages();
    pages.values().map(|page| shown(&document, *page)).collect()
}

/// Text of a page as one string.
pub(crate) fn text(page: &[Shown]) -> String {
    page.iter().map(|shown| shown.text.as_str()).collect()
}

fn shown(document: &Document, page: ObjectId) -> Vec<Shown> {
    let dictionary = document.get_dictionary(page).unwrap();
    let fonts = fonts(document, dictionary);
    let content = document.get_page_content(page);
    let mut shown = Vec::new();
    let mut state = State::default();
    let mut saved = Vec::new();
    for operation in Content::decode(&content).unwrap().operations {
        let numbers: Vec<f64> = operation
            .operands
            .iter()
            .filter_map(|operand| operand.as_float().ok().map(f64::from))
            .collect();
        match operation.operator.as_str() {
            "q" => saved.push(state.clone()),
            "Q" => state = saved.pop().unwrap_or_default(),
            "cm" => state.ctm = product(numbers.try_into().unwrap(), state.ctm),
            "BT" => state.text = IDENTITY,
            "Tm" => state.text = numbers.try_into().unwrap(),
            "Tr" => state.is_invisible = numbers == [3.0],
            "Tz" => state.scaling = numbers[0] / 100.0,
            "Tf" => {
                state.font = operation.operands[0].as_name().unwrap().to_vec();
                state.size = numbers[0];
            }
            "Tj" if state.is_invisible => {
                // Invisible text of the original is in another font.
                if let Some(font) = fonts.get(&state.font) {
                    let codes = operation.operands[0].as_str().unwrap();
                    shown.push(state.show(codes, font));
                }
            }
            _ => {}
        }
    }
    shown
}

#[derive(Debug, Clone)]
struct State {
    ctm: Matrix,
    text: Matrix,
    font: Vec<u8>,
    size: f64,
    scaling: f64,
    is_invisible: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            ctm: IDENTITY,
            text: IDENTITY,
            font: Vec::new(),
            size: 0.0,
            scaling: 1.0,
            is_invisible: false,
        }
    }
}

impl State {
    fn show(&mut self, codes: &[u8], font: &Font) -> Shown {
        assert!(codes.len().is_multiple_of(2) && !codes.is_empty());
        let codes = codes.chunks(2).map(|code| u16::from_be_bytes([code[0], code[1]]));
        let text: String = codes.clone().map(|code| font.texts[&code].as_str()).collect();
        let width = codes.len() as f64 * font.width / 1000.0 * self.size * self.scaling;
        let matrix = product(self.text, self.ctm);
        let place = |x, y| {
            let [a, b, c, d, e, f] = matrix;
            [a * x + c * y + e, b * x + d * y + f]
        };
        let [low, high] = [font.descent, font.ascent].map(|height| height / 1000.0 * self.size);
        let ([x0, y0], [x1, y1]) = (place(0.0, low), place(width, high));
        self.text = product([1.0, 0.0, 0.0, 1.0, width, 0.0], self.text);
        Shown {
            text,
            area: [x0.min(x1), y0.min(y1), x0.max(x1), y0.max(y1)],
        }
    }
}

fn product([a, b, c, d, e, f]: Matrix, [g, h, i, j, k, l]: Matrix) -> Matrix {
    [
        a * g + b * i,
        a * h + b * j,
        c * g + d * i,
        c * h + d * j,
        e * g + f * i + k,
        e * h + f * j + l,
    ]
}

#[derive(Debug)]
struct Font {
    texts: HashMap<u16, String>,
    width: f64,
    ascent: f64,
    descent: f64,
}

/// Composite fonts of a page.
fn fonts(document: &Document, page: &Dictionary) -> HashMap<Vec<u8>, Font> {
    let dictionary = |object: &Object| {
        let (_, object) = document.dereference(object).unwrap();
        object.as_dict().unwrap().clone()
    };
    let Ok(resources) = page.get(b"Resources").map(dictionary) else {
        return HashMap::new();
    };
    let Ok(fonts) = resources.get(b"Font").map(dictionary) else {
        return HashMap::new();
    };
    let mut read = HashMap::new();
    for (name, font) in &fonts {
        let font = dictionary(font);
        if font.get(b"Subtype").unwrap().as_name().unwrap() != b"Type0"
            || font.get(b"BaseFont").unwrap().as_name().unwrap() != b"GlyphLessFont"
        {
            continue;
        }
        let cid_font = dictionary(&font.get(b"DescendantFonts").unwrap().as_array().unwrap()[0]);
        let descriptor = dictionary(cid_font.get(b"FontDescriptor").unwrap());
        let number = |of: &Dictionary, key: &[u8]| f64::from(of.get(key).unwrap().as_float().unwrap());
        let (_, cmap) = document.dereference(font.get(b"ToUnicode").unwrap()).unwrap();
        let (_, program) = document
            .dereference(descriptor.get(b"FontFile2").unwrap())
            .unwrap();
        let program = program.as_stream().unwrap().decompressed_content().unwrap();
        assert!(program.starts_with(&[0, 1, 0, 0]), "the font is embedded");
        let font = Font {
            texts: texts(&cmap.as_stream().unwrap().decompressed_content().unwrap()),
            width: number(&cid_font, b"DW"),
            ascent: number(&descriptor, b"Ascent"),
            descent: number(&descriptor, b"Descent"),
        };
        read.insert(name.clone(), font);
    }
    read
}

/// Texts of the codes by the lines `<code> <text>` of a ToUnicode map.
fn texts(cmap: &[u8]) -> HashMap<u16, String> {
    let cmap = std::str::from_utf8(cmap).unwrap();
    let mut texts = HashMap::new();
    for line in cmap
        .lines()
        .filter(|line| line.starts_with('<') && line.len() > 7)
    {
        let (code, text) = line.trim_matches(['<', '>']).split_once("> <").unwrap();
        let units: Vec<u16> = (0..text.len() / 4)
            .map(|unit| u16::from_str_radix(&text[4 * unit..4 * unit + 4], 16).unwrap())
            .collect();
        assert!(units.len() <= 256);
        let code = u16::from_str_radix(code, 16).unwrap();
        texts.insert(code, String::from_utf16(&units).unwrap());
    }
    texts
}
