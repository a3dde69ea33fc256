//! Content stream of a text layer.

use std::collections::BTreeSet;

use pdf_writer::types::TextRenderingMode;
use pdf_writer::{Content, Name, Settings, Str};

use crate::boxes::PageSize;
use crate::codes::{Code, Codes};
use crate::glyphless::{ADVANCE, ASCENT, HEIGHT, UNITS};
use crate::layout::{Direction, Line, Piece};

/// Deviation of the pen from the place of a piece that nobody sees, in points.
const CLOSE: f64 = 0.02;

/// Content stream and the fonts that it uses.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) content: Vec<u8>,
    pub(crate) fonts: BTreeSet<usize>,
}

/// Draws the lines of a page as invisible text. `to_user` maps points of the displayed page, upwards from its lower left corner, to user
/// space; `font_name` names a font in the resources of the page.
pub(crate) fn layer(
    lines: &[Line<'_>],
    page: PageSize,
    to_user: [f64; 6],
    codes: &mut Codes,
    font_name: impl Fn(usize) -> String,
) -> Layer {
    let mut content = Content::with_settings(Settings { pretty: false });
    let mut fonts = BTreeSet::new();
    content.save_state().transform(to_user.map(rounded));
    content.set_text_rendering_mode(TextRenderingMode::Invisible);
    for line in lines {
        content.begin_text();
        let mut pen = Pen::default();
        for piece in &line.pieces {
            let encoded = codes.encode(&piece.text);
            pen.place(&mut content, piece, line.direction, page);
            let cells = encoded.len() as f64 * ADVANCE / UNITS * pen.size;
            pen.stretch(&mut content, 100.0 * (piece.along[1] - piece.along[0]) / cells);
            for run in encoded.chunk_by(|one, other| one.font == other.font) {
                let font = run.first().map_or(0, |code| code.font);
                fonts.insert(font);
                pen.choose(&mut content, font, &font_name);
                content.show(Str(&bytes(run)));
            }
            pen.position += cells * pen.scaling / 100.0;
        }
        content.end_text();
    }
    content.restore_state();
    Layer {
        content: content.finish().to_vec(),
        fonts,
    }
}

/// Text state within a line.
#[derive(Debug, Default)]
struct Pen {
    across: Option<[f64; 2]>,
    /// Place in the direction of reading.
    position: f64,
    /// Font size in points.
    size: f64,
    /// Font and size that are set.
    font: Option<(usize, f64)>,
    /// Horizontal scaling in per cent.
    scaling: f64,
}

impl Pen {
    /// Moves to the start of a piece unless the pen is there already.
    fn place(&mut self, content: &mut Content, piece: &Piece<'_>, direction: Direction, page: PageSize) {
        let [start, _] = piece.along;
        if self.across == Some(piece.across) && (self.position - start).abs() < CLOSE {
            return;
        }
        let [top, bottom] = piece.across;
        self.size = f64::from(rounded((bottom - top) * UNITS / HEIGHT));
        let baseline = top + ASCENT / HEIGHT * (bottom - top);
        let PageSize { width, height } = page;
        let matrix = match direction {
            Direction::Right => [1.0, 0.0, 0.0, 1.0, start, height - baseline],
            Direction::Down => [0.0, -1.0, 1.0, 0.0, width - baseline, height - start],
            Direction::Left => [-1.0, 0.0, 0.0, -1.0, width - start, baseline],
            Direction::Up => [0.0, 1.0, -1.0, 0.0, baseline, start],
        };
        content.set_text_matrix(matrix.map(rounded));
        self.across = Some(piece.across);
        self.position = start;
    }

    fn stretch(&mut self, content: &mut Content, scaling: f64) {
        let scaling = rounded(scaling);
        if self.scaling != f64::from(scaling) {
            content.set_horizontal_scaling(scaling);
            self.scaling = f64::from(scaling);
        }
    }

    fn choose(&mut self, content: &mut Content, font: usize, name: impl Fn(usize) -> String) {
        if self.font != Some((font, self.size)) {
            content.set_font(Name(name(font).as_bytes()), rounded(self.size));
            self.font = Some((font, self.size));
        }
    }
}

fn bytes(codes: &[Code]) -> Vec<u8> {
    codes.iter().flat_map(|code| code.code.to_be_bytes()).collect()
}

/// Rounds to four decimals, which a PDF can hold in a few bytes.
#[expect(
    clippy::cast_possible_truncation,
    reason = "coordinates of a page are far below the limits of f32"
)]
fn rounded(value: f64) -> f32 {
    ((value * 1e4).round() / 1e4) as f32
}
