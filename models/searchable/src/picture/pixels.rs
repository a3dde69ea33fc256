//! Pictures that a PDF cannot hold as they are: decoded, and deflated.

use std::io::Cursor;

use image::{DynamicImage, ImageReader, Limits, Rgb, RgbImage};

use super::{Colours, Data, Embedded};
use crate::error::PictureError;
use crate::object_file::deflated;

/// Largest side, as of a JPEG.
const LARGEST_SIDE: u32 = 65_535;
const LARGEST_MEMORY: u64 = 512 << 20;

pub(super) fn decoded(file: &[u8]) -> Result<Embedded<'static>, PictureError> {
    let refusal = |error: &dyn std::fmt::Display| PictureError::Decode(error.to_string());
    let mut reader = ImageReader::new(Cursor::new(file))
        .with_guessed_format()
        .map_err(|error| refusal(&error))?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(LARGEST_SIDE);
    limits.max_image_height = Some(LARGEST_SIDE);
    limits.max_alloc = Some(LARGEST_MEMORY);
    reader.limits(limits);
    let picture = reader.decode().map_err(|error| refusal(&error))?;
    let (width, height) = (picture.width(), picture.height());
    if width == 0 || height == 0 {
        return Err(PictureError::Decode("it is empty".to_owned()));
    }
    let data = if picture.color().has_alpha() {
        deflated_rgb(&on_white(&picture))
    } else if picture.color().has_color() {
        coloured(&picture.into_rgb8())
    } else {
        deflated_gray(width, &picture.into_luma8())
    };
    Ok(Embedded {
        width,
        height,
        dpi: None,
        data,
    })
}

/// Lays a picture on paper: what is transparent would be black otherwise.
fn on_white(picture: &DynamicImage) -> Vec<u8> {
    let blend = |colour: u8, alpha: u8| {
        let mixed = u32::from(colour) * u32::from(alpha) + 255 * (255 - u32::from(alpha));
        u8::try_from(mixed.div_ceil(255)).unwrap_or(u8::MAX)
    };
    let picture = picture.to_rgba8();
    let pixels = picture.pixels().map(|pixel| pixel.0);
    pixels
        .flat_map(|[red, green, blue, alpha]| [red, green, blue].map(|colour| blend(colour, alpha)))
        .collect()
}

/// Deflates pixels in colour, or in grey if that is all they are.
fn coloured(picture: &RgbImage) -> Data<'static> {
    let is_gray = |pixel: &Rgb<u8>| pixel.0.iter().all(|colour| *colour == pixel.0[0]);
    if picture.pixels().all(is_gray) {
        let pixels: Vec<u8> = picture.pixels().map(|pixel| pixel.0[0]).collect();
        return deflated_gray(picture.width(), &pixels);
    }
    deflated_rgb(picture)
}

fn deflated_rgb(pixels: &[u8]) -> Data<'static> {
    Data::Deflated {
        stream: deflated(pixels),
        bits: 8,
        colours: Colours::Rgb,
    }
}

/// Deflates pixels in grey, in one bit each if all are black or white.
pub(super) fn deflated_gray(width: u32, pixels: &[u8]) -> Data<'static> {
    let colours = Colours::Gray;
    if pixels.iter().any(|pixel| !matches!(pixel, 0 | 255)) {
        return Data::Deflated {
            stream: deflated(pixels),
            bits: 8,
            colours,
        };
    }
    let rows = pixels.chunks(width.max(1) as usize);
    let bytes: Vec<u8> = rows.flat_map(|row| row.chunks(8).map(packed)).collect();
    Data::Deflated {
        stream: deflated(&bytes),
        bits: 1,
        colours,
    }
}

/// Packs up to eight pixels, the first in the highest bit.
fn packed(pixels: &[u8]) -> u8 {
    let bits = pixels.iter().enumerate();
    bits.fold(0, |byte, (index, pixel)| byte | (pixel & 0x80) >> index)
}
