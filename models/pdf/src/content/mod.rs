//! What is drawn on a page, as one pass over its content sees it: glyphs with text and place, pictures, and traces of ink. Nothing is
//! rendered or decoded here.

mod collector;
mod fonts;
mod work;

use hayro_interpret::{Context, InterpreterCache, InterpreterSettings, interpret_page};
use hayro_syntax::page::Page;
use kurbo::{Affine, Point, Rect, Vec2};

use crate::frame::Frame;
use crate::guard::Watch;
use crate::{Limits, PdfError};

/// Glyph that a page shows, or would show if it were visible.
#[derive(Debug, Clone)]
pub(crate) struct Glyph {
    /// Text that the document gives for it; empty if it gives none.
    pub text: String,
    /// Whether the document gives a text at all.
    pub mapped: bool,
    /// Font, by the order in which fonts first appear on the page.
    pub font: usize,
    /// Number of the glyph within its font, by which equal ones are known.
    pub code: u32,
    /// Start of the glyph on its base line, in points of the displayed page.
    pub origin: Point,
    /// From the origin to the start of the next glyph.
    pub advance: Vec2,
    /// From the base line to the top of the font's letters, and to their bottom.
    pub ascent: Vec2,
    pub descent: Vec2,
    /// Advance as a part of the font's size, as the font states it.
    pub em_width: f32,
    pub visible: bool,
}

/// Picture on a page.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub width: u32,
    pub height: u32,
    /// Mapping of its pixels, from their top left corner, to points of the displayed page.
    pub to_points: Affine,
    /// One colour through a mask, and not a picture with colours of its own.
    pub stencil: bool,
    /// Place on the page, cut to the page.
    pub place: Rect,
}

/// What a page shows.
#[derive(Debug)]
pub(crate) struct Content {
    pub frame: Frame,
    pub glyphs: Vec<Glyph>,
    pub fonts: usize,
    pub pictures: Vec<Picture>,
    /// Paths that leave marks that are not white.
    pub paths: usize,
    /// Paths among them that are as small as letters and have curves, as letters drawn as outlines.
    pub letter_paths: usize,
    /// Transparency, masks or clips make it more than the sum of its pictures.
    pub composed: bool,
}

impl Content {
    pub(crate) fn page_rect(&self) -> Rect {
        let size = self.frame.size;
        Rect::new(0.0, 0.0, f64::from(size.width), f64::from(size.height))
    }

    /// Share of the page that its largest picture covers.
    pub(crate) fn picture_share(&self) -> f64 {
        let areas = self.pictures.iter().map(|picture| picture.place.area());
        areas.fold(0.0, f64::max) / self.page_rect().area().max(f64::MIN_POSITIVE)
    }
}

/// Settings of the library: no fonts of the system, nothing from anywhere but the document.
pub(crate) fn settings() -> InterpreterSettings {
    InterpreterSettings::default()
}

/// Goes through a page once.
///
/// # Errors
///
/// [`PdfError::TooLarge`] if the page, a picture or the number of its parts is over the limits.
pub(crate) fn survey(page: &Page<'_>, limits: &Limits, watch: &Watch) -> Result<Content, PdfError> {
    let frame = Frame::of(page)?;
    let mut collector = collector::Collector::new(frame, limits, watch);
    let cache = InterpreterCache::new();
    let area = Rect::new(
        0.0,
        0.0,
        f64::from(frame.size.width),
        f64::from(frame.size.height),
    );
    let mut context = Context::new(frame.to_points, area, &cache, page.xref(), settings());
    interpret_page(page, &mut context, &mut collector);
    Ok(collector.finish())
}
