//! Pixels of a page: the picture that it consists of, as it is stored, or a rendering.

use hayro::hayro_interpret::font::GlyphRun;
use hayro::vello_cpu::{Pixmap, RasterizerSettings, RenderContext, TargetInit};
use hayro::{RenderCache, RenderSettings, render_into};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageData, ImageDrawProps,
    InterpreterCache, SoftMask, interpret_page,
};
use hayro_syntax::object::{Array, Dict, Name};
use hayro_syntax::page::Page;
use image::{GrayImage, RgbImage, imageops};
use kurbo::{Affine, BezPath, Rect};
use parkhang_cv::decode::{DecodeLimits, decode_page};

use crate::content::{Content, Picture, settings};
use crate::geometry::{PageSize, PixelMap};
use crate::resolution::{INCH, LONGEST_SIDE, scale, usual_scale};
use crate::{Limits, PdfError};

/// Resolutions within which a stored picture is taken as it is.
const EMBEDDED_DPI: std::ops::RangeInclusive<f64> = 72.0..=2400.0;
/// Share of the page that a picture covers if the page consists of it.
const COVERAGE: f64 = 0.85;
/// Sine of the angle by which a picture may be turned and still count as upright.
const UPRIGHT: f64 = 1e-3;
/// Pixels of a rendering that is only looked at.
const LOOK_PIXELS: f64 = 2_000_000.0;

/// Source of a page's pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelOrigin {
    /// The page is one picture, whose pixels these are.
    Embedded,
    /// A rendering at the resolution that was asked for.
    Rendered,
    /// A rendering at a lower resolution, as the page is large.
    RenderedSmaller,
}

/// Pixels of a page, and their place on it.
#[derive(Debug, Clone)]
pub struct PagePixels {
    /// 8-bit grey, 0 is ink and 255 is paper, turned as the page is displayed.
    pub gray: GrayImage,
    /// Whether every pixel is 0 or 255.
    pub bilevel: bool,
    pub map: PixelMap,
    /// Pixels an inch, horizontally.
    pub dpi: f32,
    pub origin: PixelOrigin,
}

/// Makes the pixels of a page.
pub(crate) fn of(
    page: &Page<'_>,
    content: &Content,
    dpi: f32,
    limits: &Limits,
) -> Result<PagePixels, PdfError> {
    if let Some(picture) = only_picture(content)
        && let Some(pixels) = embedded(page, content, picture, limits)
    {
        return Ok(pixels);
    }
    let (scale, smaller) = scale(
        content.frame.size,
        f64::from(dpi) / INCH,
        limits.max_rendered_pixels as f64,
    );
    let pixmap = rendered(page, content, scale);
    let gray = gray_of_pixmap(&pixmap);
    Ok(PagePixels {
        bilevel: is_bilevel(&gray),
        gray,
        map: PixelMap {
            scale_x: (1.0 / scale) as f32,
            scale_y: (1.0 / scale) as f32,
            left: 0.0,
            top: 0.0,
        },
        dpi: (scale * INCH) as f32,
        origin: if smaller {
            PixelOrigin::RenderedSmaller
        } else {
            PixelOrigin::Rendered
        },
    })
}

/// Renders a page in colour.
pub(crate) fn picture(
    page: &Page<'_>,
    content: &Content,
    max_side: u16,
    limits: &Limits,
) -> Result<RgbImage, PdfError> {
    let size = content.frame.size;
    let longest = f64::from(size.width.max(size.height)).max(1.0);
    let scale = usual_scale(size, limits).min(f64::from(max_side) / longest);
    let pixmap = rendered(page, content, scale);
    let (width, height) = (u32::from(pixmap.width()), u32::from(pixmap.height()));
    Ok(RgbImage::from_fn(width, height, |x, y| {
        let pixel = pixmap.sample(x as u16, y as u16);
        image::Rgb([pixel.r, pixel.g, pixel.b])
    }))
}

/// Width and height in pixels of a page at the usual resolution, or at the highest one that the limits allow.
pub(crate) fn usual_size(size: PageSize, limits: &Limits) -> (u32, u32) {
    let scale = usual_scale(size, limits);
    let side = |points| u32::from(side(points, scale));
    (side(size.width), side(size.height))
}

/// Renders a page in grey at a low resolution, with the pixels a point.
pub(crate) fn look(page: &Page<'_>, content: &Content, dpi: f64) -> (GrayImage, f32) {
    let (scale, _) = scale(content.frame.size, dpi / INCH, LOOK_PIXELS);
    (gray_of_pixmap(&rendered(page, content, scale)), scale as f32)
}

fn gray_of_pixmap(pixmap: &Pixmap) -> GrayImage {
    let (width, height) = (u32::from(pixmap.width()), u32::from(pixmap.height()));
    let gray = pixmap
        .data()
        .iter()
        .map(|pixel| luma([pixel.r, pixel.g, pixel.b]))
        .collect();
    GrayImage::from_raw(width, height, gray).unwrap_or_default()
}

/// Pixels of a side, at so many pixels a point.
fn side(points: f32, scale: f64) -> u16 {
    (f64::from(points) * scale).round().clamp(1.0, LONGEST_SIDE) as u16
}

fn rendered(page: &Page<'_>, content: &Content, scale: f64) -> Pixmap {
    let size = content.frame.size;
    let (width, height) = (side(size.width, scale), side(size.height, scale));
    let mut context = RenderContext::new(width, height);
    render_into(
        page,
        &RenderCache::new(),
        &settings(),
        &RenderSettings::default(),
        &mut context,
        Affine::scale(scale) * content.frame.to_points,
    );
    context.flush();
    let mut pixmap = Pixmap::new(width, height);
    let white = hayro::vello_cpu::color::palette::css::WHITE;
    context.render_with(
        &mut pixmap,
        &mut hayro::vello_cpu::Resources::default(),
        RasterizerSettings {
            target_init: TargetInit::Clear(white),
            ..RasterizerSettings::default()
        },
    );
    pixmap
}

/// The picture that a page consists of, if it does.
pub(crate) fn only_picture(content: &Content) -> Option<&Picture> {
    let [picture] = content.pictures.as_slice() else {
        return None;
    };
    let shown = content
        .glyphs
        .iter()
        .any(|glyph| glyph.visible && !glyph.text.trim().is_empty());
    if shown || content.paths > 0 || content.composed || picture.stencil {
        return None;
    }
    let page = content.page_rect();
    let [a, b, c, d, _, _] = picture.to_points.as_coeffs();
    let upright = b.abs().max(c.abs()) < UPRIGHT * a.abs().max(d.abs());
    let turned = a.abs().max(d.abs()) < UPRIGHT * b.abs().max(c.abs());
    let resolution = INCH / picture.to_points.determinant().abs().sqrt();
    ((upright || turned)
        && picture.place.area() >= COVERAGE * page.area()
        && EMBEDDED_DPI.contains(&resolution))
    .then_some(picture)
}

fn embedded(page: &Page<'_>, content: &Content, picture: &Picture, limits: &Limits) -> Option<PagePixels> {
    let stored = stored_gray(page, content, limits)?;
    let (width, height) = (f64::from(stored.width()), f64::from(stored.height()));
    // The stored picture may have other dimensions than its dictionary says.
    let to_points = picture.to_points
        * Affine::scale_non_uniform(
            f64::from(picture.width) / width,
            f64::from(picture.height) / height,
        );
    let gray = turned(stored, to_points);
    let place = to_points.transform_rect_bbox(Rect::new(0.0, 0.0, width, height));
    let map = PixelMap {
        scale_x: (place.width() / f64::from(gray.width())) as f32,
        scale_y: (place.height() / f64::from(gray.height())) as f32,
        left: place.x0 as f32,
        top: place.y0 as f32,
    };
    Some(PagePixels {
        bilevel: is_bilevel(&gray),
        gray,
        dpi: INCH as f32 / map.scale_x,
        map,
        origin: PixelOrigin::Embedded,
    })
}

/// Turns and mirrors stored pixels as the page shows them.
fn turned(stored: GrayImage, to_points: Affine) -> GrayImage {
    let [a, b, c, d, _, _] = to_points.as_coeffs();
    if a.abs() > b.abs() {
        let stored = if a < 0.0 {
            imageops::flip_horizontal(&stored)
        } else {
            stored
        };
        if d < 0.0 {
            imageops::flip_vertical(&stored)
        } else {
            stored
        }
    } else {
        // Stored x runs along the page's y. A transposition, then mirrors.
        let transposed = imageops::flip_horizontal(&imageops::rotate90(&stored));
        let transposed = if b < 0.0 {
            imageops::flip_vertical(&transposed)
        } else {
            transposed
        };
        if c < 0.0 {
            imageops::flip_horizontal(&transposed)
        } else {
            transposed
        }
    }
}

/// Decodes the only picture of a page.
pub(crate) fn stored_gray(page: &Page<'_>, content: &Content, limits: &Limits) -> Option<GrayImage> {
    let mut decoder = Decoder {
        max_pixels: limits.max_picture_pixels,
        gray: None,
    };
    let cache = InterpreterCache::new();
    let mut context = Context::new(
        content.frame.to_points,
        content.page_rect(),
        &cache,
        page.xref(),
        settings(),
    );
    interpret_page(page, &mut context, &mut decoder);
    decoder.gray
}

/// Device that decodes pictures, the last of which stays.
struct Decoder {
    max_pixels: u64,
    gray: Option<GrayImage>,
}

impl<'a> Device<'a> for Decoder {
    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn draw_glyph_run(&mut self, _: &GlyphRun<'_, 'a>, _: DrawProps<'a>, _: &DrawMode) {}
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}

    fn draw_image(&mut self, image: Image<'a, '_>, _: ImageDrawProps<'a>) {
        let Image::Raster(raster) = image else { return };
        let stream = raster.stream();
        let dict = stream.dict();
        let plain = [&b"Decode"[..], b"SMask", b"Mask", b"D"]
            .iter()
            .all(|key| !dict.contains_key(key));
        if plain && is_jpeg(dict) {
            let limits = DecodeLimits {
                max_pixels: self.max_pixels,
                ..DecodeLimits::default()
            };
            if let Ok(decoded) = decode_page(&stream.raw_data(), &limits) {
                self.gray = Some(decoded.gray);
                return;
            }
        }
        raster.with_rgba(
            |data, alpha| {
                // What is transparent shows the page below it, which is left to the renderer.
                if alpha.is_none() {
                    self.gray = gray_of(data);
                }
            },
            None,
        );
    }
}

/// Whether a picture's data are a JPEG file and nothing else.
fn is_jpeg(dict: &Dict<'_>) -> bool {
    let is_dct = |name: &Name<'_>| name.as_ref() == b"DCTDecode";
    if let Some(name) = dict.get::<Name<'_>>(&b"Filter"[..]) {
        return is_dct(&name);
    }
    let filters = dict.get::<Array<'_>>(&b"Filter"[..]);
    let names: Vec<Name<'_>> = filters
        .iter()
        .flat_map(|filters| filters.iter::<Name<'_>>())
        .collect();
    matches!(names.as_slice(), [only] if is_dct(only))
}

fn gray_of(data: ImageData) -> Option<GrayImage> {
    match data {
        ImageData::Luma(luma) => GrayImage::from_raw(luma.width, luma.height, luma.data),
        ImageData::Rgb(rgb) => {
            let gray = rgb
                .data
                .as_chunks::<3>()
                .0
                .iter()
                .map(|pixel| luma(*pixel))
                .collect();
            GrayImage::from_raw(rgb.width, rgb.height, gray)
        }
    }
}

/// Grey of a colour, in OpenCV's rounding, which `parkhang_cv::decode` has as well.
fn luma([r, g, b]: [u8; 3]) -> u8 {
    ((u32::from(r) * 4899 + u32::from(g) * 9617 + u32::from(b) * 1868 + 8192) >> 14) as u8
}

fn is_bilevel(gray: &GrayImage) -> bool {
    gray.as_raw().iter().all(|level| matches!(level, 0 | 255))
}
