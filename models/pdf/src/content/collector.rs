use hayro_interpret::font::{Glyph as Drawn, GlyphRun};
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::{
    BlendMode, ClipPath, Device, DrawMode, DrawProps, Image, ImageDrawProps, Paint, SoftMask,
};
use kurbo::{Affine, BezPath, PathEl, Point, Rect, Shape};

use super::fonts::{Fonts, Heights};
use super::{Content, Glyph, Picture, work};
use crate::frame::Frame;
use crate::guard::Watch;
use crate::limits::within;
use crate::resolution::usual_scale;
use crate::weight::check_inline_picture;
use crate::{Limits, PdfError};

/// Size to which glyphs are scaled by the library.
const EM: f64 = 1000.0;
/// Advance of a glyph of which the font states none, as a part of its size.
const USUAL_ADVANCE: f32 = 0.5;
/// Lightness above which a mark is taken for the colour of the paper.
const WHITE: u8 = 250;
/// Number of steps between looks at the clock.
const STEPS: usize = 64;

/// Device that notes what is drawn on it.
pub(super) struct Collector<'w> {
    content: Content,
    fonts: Fonts,
    /// Cost of what was drawn so far, and the looks at the clock.
    work: f64,
    steps: usize,
    /// Pixels of a square point where the page is rendered.
    resolution: f64,
    /// Pixels of the pictures so far.
    pixels: u64,
    /// Depth within tiles, masks and glyphs that are drawn, of which only the cost is noted.
    nested: usize,
    limits: &'w Limits,
    watch: &'w Watch,
}

impl<'w> Collector<'w> {
    pub(super) fn new(frame: Frame, limits: &'w Limits, watch: &'w Watch) -> Self {
        Self {
            content: Content {
                frame,
                glyphs: Vec::new(),
                fonts: 0,
                pictures: Vec::new(),
                paths: 0,
                letter_paths: 0,
                composed: false,
            },
            fonts: Fonts::default(),
            work: 0.0,
            steps: 0,
            resolution: usual_scale(frame.size, limits).powi(2),
            pixels: 0,
            nested: 0,
            limits,
            watch,
        }
    }

    pub(super) fn finish(self) -> Content {
        Content {
            fonts: self.fonts.len(),
            ..self.content
        }
    }

    /// Counts something that is drawn, by its cost. The library has no way to be told to stop, so what is too much unwinds.
    fn count(&mut self, cost: f64) {
        self.work += cost;
        if self.work > self.limits.max_objects as f64 {
            Watch::stop(PdfError::TooLarge {
                what: "the number of things on the page, by what they cost,",
                value: self.work as u64,
                limit: self.limits.max_objects as u64,
            });
        }
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS) {
            self.watch.check();
        }
    }

    /// Counts pixels that are decoded for the page.
    fn count_pixels(&mut self, pixels: u64) {
        self.pixels = self.pixels.saturating_add(pixels);
        let what = "the number of pixels of the pictures on the page";
        if let Err(error) = within(what, self.pixels, self.limits.max_picture_pixels) {
            Watch::stop(error);
        }
    }

    /// Counts what a paint costs beside the mark itself: tiles are drawn for each mark.
    fn count_paint<'a>(&mut self, paint: &Paint<'a>) {
        let Some(tiling) = work::tiling(paint) else { return };
        let tiles = work::tiles(tiling);
        self.count(tiles);
        let before = self.work;
        self.nested += 1;
        // A tile whose content cannot be decoded draws nothing.
        let _ = tiling.interpret(self, Affine::IDENTITY, false);
        self.nested -= 1;
        self.count((tiles - 1.0) * (self.work - before));
    }

    /// Counts what the glyphs of a Type 3 font draw, which are contents as that of a page is, and may show such glyphs themselves.
    fn count_procedures<'a>(&mut self, run: &GlyphRun<'_, 'a>, props: &DrawProps<'a>) {
        for glyph in run.glyphs() {
            let drawn: &Drawn<'a> = glyph;
            let Drawn::Type3(procedure) = drawn else { continue };
            // A procedure that draws nothing costs time all the same.
            self.watch.check();
            self.count(1.0);
            self.nested += 1;
            procedure.interpret(self, props.transform, glyph.transform(), &props.paint);
            self.nested -= 1;
        }
    }

    fn count_mask(&mut self, mask: &SoftMask<'_>) {
        self.count(work::GROUP);
        self.nested += 1;
        mask.interpret(self);
        self.nested -= 1;
    }

    fn glyph(
        &mut self,
        drawn: &Drawn<'_>,
        place: Affine,
        (font, heights): (usize, Heights),
        vertical: bool,
        visible: bool,
    ) {
        let stated = match drawn {
            Drawn::Outline(glyph) => glyph.advance_width(),
            Drawn::Type3(glyph) => glyph.advance_width(),
        };
        let em_width = stated.map_or(USUAL_ADVANCE, |width| width / EM as f32);
        let text = drawn.as_unicode();
        let at = |x: f64, y: f64| place * Point::new(x, y);
        let origin = at(0.0, 0.0);
        let advance = if vertical {
            at(0.0, -EM)
        } else {
            at(f64::from(em_width) * EM, 0.0)
        };
        self.content.glyphs.push(Glyph {
            mapped: text.is_some(),
            text: match text {
                Some(BfString::Char(c)) => c.to_string(),
                Some(BfString::String(text)) => text,
                None => String::new(),
            },
            font,
            code: drawn.char_code(),
            origin,
            advance: advance - origin,
            ascent: at(0.0, heights.ascent * EM) - origin,
            descent: at(0.0, heights.descent * EM) - origin,
            em_width,
            visible,
        });
    }

    fn mark(&mut self, bounds: Rect, curves: bool, props: &DrawProps<'_>) {
        if let Paint::Color(color) = &props.paint {
            let [r, g, b, a] = color.to_rgba().to_rgba8();
            if a == 0 || r.min(g).min(b) > WHITE {
                return;
            }
        }
        let seen = bounds.intersect(self.content.page_rect());
        if seen.width() < 0.0 || seen.height() < 0.0 {
            return;
        }
        self.content.paths += 1;
        let height = seen.height();
        if curves && (2.0..72.0).contains(&height) && seen.width() < 4.0 * height {
            self.content.letter_paths += 1;
        }
    }
}

impl<'a> Device<'a> for Collector<'_> {
    fn draw_path(&mut self, path: &BezPath, props: DrawProps<'a>, mode: &DrawMode) {
        let bounds = props.transform.transform_rect_bbox(path.bounding_box());
        let page = self.content.page_rect();
        let filled = work::filled(path, props.transform, mode, page);
        self.count(work::of_mark(bounds, page) + work::of_dashes(path, mode));
        self.count(work::of_area(filled, self.resolution));
        self.count_paint(&props.paint);
        if let Some(mask) = &props.soft_mask {
            self.count_mask(mask);
        }
        if matches!(mode, DrawMode::Invisible) || self.nested > 0 {
            return;
        }
        let curves = path
            .elements()
            .iter()
            .any(|element| matches!(element, PathEl::CurveTo(..) | PathEl::QuadTo(..)));
        self.mark(bounds, curves, &props);
    }

    fn push_clip_path(&mut self, clip: &ClipPath) {
        self.count(work::of_mark(clip.path.bounding_box(), self.content.page_rect()));
    }

    fn push_transparency_group(&mut self, opacity: f32, mask: Option<SoftMask<'a>>, blend: BlendMode) {
        self.count(work::GROUP);
        if let Some(mask) = &mask {
            self.count_mask(mask);
        }
        if self.nested > 0 {
            return;
        }
        if opacity < 1.0 || mask.is_some() || blend != BlendMode::Normal {
            self.content.composed = true;
        }
    }

    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, mode: &DrawMode) {
        let vertical = matches!(
            run.writing_mode(),
            hayro_interpret::hayro_cmap::WritingMode::Vertical
        );
        let visible = !matches!(mode, DrawMode::Invisible);
        self.count_paint(&props.paint);
        if visible {
            self.count_procedures(run, &props);
        }
        if self.nested > 0 {
            self.count(run.glyphs().len() as f64);
            return;
        }
        let Some(font) = self.fonts.of(run.glyphs()) else {
            return;
        };
        for glyph in run.glyphs() {
            self.count(1.0);
            self.glyph(
                glyph,
                props.transform * glyph.transform(),
                font,
                vertical,
                visible,
            );
        }
    }

    fn draw_image(&mut self, image: Image<'a, '_>, props: ImageDrawProps<'a>) {
        let stream = match &image {
            Image::Raster(raster) => raster.stream(),
            Image::Stencil(stencil) => stencil.stream(),
        };
        if let Err(error) = check_inline_picture(stream, self.limits) {
            Watch::stop(error);
        }
        self.count_pixels(work::pixels(&image));
        let (width, height) = (image.width(), image.height());
        let corners = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
        let place = props
            .transform
            .transform_rect_bbox(corners)
            .intersect(self.content.page_rect());
        self.count(1.0 + work::of_area(place.area(), self.resolution));
        if self.nested > 0 || place.width() <= 0.0 || place.height() <= 0.0 {
            return;
        }
        if props.soft_mask.is_some() || props.blend_mode != BlendMode::Normal {
            self.content.composed = true;
        }
        self.content.pictures.push(Picture {
            width,
            height,
            to_points: props.transform,
            stencil: matches!(image, Image::Stencil(_)),
            place,
        });
    }

    fn pop_clip(&mut self) {}

    fn pop_transparency_group(&mut self) {}
}
