//! Formats that the `image` crate decodes whole: PNG, WebP, BMP, PNM.

use std::io::{Cursor, ErrorKind};

use image::codecs::pnm::PnmDecoder;
use image::error::{ImageError, LimitErrorKind};
use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::{DecodeError, DecodeLimits, DecodeWarning, PageFormat, Raw, RawHeader, gray};

/// Bytes that a decoder may use for what stands before the pixels. A profile of colours, which nothing here reads, is decoded with the header and
/// may stand for a thousand times its bytes.
const MAX_HEADER: u64 = 16 << 20;

pub(super) fn decode(bytes: &[u8], format: PageFormat, limits: &DecodeLimits) -> Result<Raw, DecodeError> {
    let mut decoder = open(bytes, format, limits.max_bytes)?;
    let (width, height) = decoder.dimensions();
    limits.check(
        width,
        height,
        // The grey page exists beside the decoded one for a while.
        u64::from(decoder.color_type().bytes_per_pixel()) + 1,
    )?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let image = DynamicImage::from_decoder(decoder).map_err(|e| refusal(e, format))?;
    let mut gray = to_gray(image, format)?;
    let mut warnings = Vec::new();
    // WebP is lossy as a rule: a nearly black page of zeros and ones is then what was scanned.
    if format != PageFormat::WebP && gray::scale_zero_one(&mut gray) {
        warnings.push(DecodeWarning::ZeroOneScaled);
    }
    Ok(Raw {
        gray,
        orientation,
        warnings,
    })
}

pub(super) fn probe(bytes: &[u8], format: PageFormat) -> Result<RawHeader, DecodeError> {
    let mut decoder = open(bytes, format, MAX_HEADER)?;
    let (width, height) = decoder.dimensions();
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok(RawHeader {
        width,
        height,
        orientation,
    })
}

fn open(bytes: &[u8], format: PageFormat, max_bytes: u64) -> Result<impl ImageDecoder + '_, DecodeError> {
    match format {
        PageFormat::Pnm => check_maximal_sample(bytes)?,
        PageFormat::WebP => check_riff_length(bytes)?,
        _ => {}
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), image_format(format));
    let mut limits = Limits::no_limits();
    // The size of the page is checked by the caller, with an error that states it; this bounds what the
    // decoder allocates for anything else.
    limits.max_alloc = Some(max_bytes);
    reader.limits(limits);
    reader.into_decoder().map_err(|e| refusal(e, format))
}

/// Refuses maximal samples of PNM: the `image` crate does not scale PNM samples by their stated maximum. A maximum of 1 is
/// mended as any page of zeros and ones is.
fn check_maximal_sample(bytes: &[u8]) -> Result<(), DecodeError> {
    let decoder = PnmDecoder::new(Cursor::new(bytes)).map_err(|e| refusal(e, PageFormat::Pnm))?;
    match decoder.into_inner().1.maximal_sample() {
        1 | 0xff | 0xffff => Ok(()),
        other => Err(DecodeError::unsupported(
            PageFormat::Pnm,
            format!("a maximal sample of {other}"),
        )),
    }
}

/// Compares a RIFF file with the length that it states. The WebP decoder takes data that ends early for a corrupt stream.
fn check_riff_length(bytes: &[u8]) -> Result<(), DecodeError> {
    let stated = bytes
        .get(4..8)
        .and_then(|length| length.try_into().ok())
        .map_or(0, u32::from_le_bytes);
    // The pad byte of the last chunk may be missing.
    if (bytes.len() as u64) + 1 < u64::from(stated) + 8 {
        Err(DecodeError::Truncated {
            format: PageFormat::WebP,
        })
    } else {
        Ok(())
    }
}

fn image_format(format: PageFormat) -> ImageFormat {
    match format {
        PageFormat::Jpeg => ImageFormat::Jpeg,
        PageFormat::Tiff => ImageFormat::Tiff,
        PageFormat::Png => ImageFormat::Png,
        PageFormat::WebP => ImageFormat::WebP,
        PageFormat::Bmp => ImageFormat::Bmp,
        PageFormat::Pnm => ImageFormat::Pnm,
    }
}

fn to_gray(image: DynamicImage, format: PageFormat) -> Result<GrayImage, DecodeError> {
    use gray::{from_u16, luma, on_white};
    let (width, height) = (image.width(), image.height());
    let samples = match image {
        DynamicImage::ImageLuma8(image) => return Ok(image),
        DynamicImage::ImageLuma16(image) => image.into_raw().into_iter().map(from_u16).collect(),
        DynamicImage::ImageLumaA8(image) => image.pixels().map(|p| on_white(p.0[0], p.0[1])).collect(),
        DynamicImage::ImageLumaA16(image) => image
            .pixels()
            .map(|p| on_white(from_u16(p.0[0]), from_u16(p.0[1])))
            .collect(),
        DynamicImage::ImageRgb8(image) => image.pixels().map(|p| luma(p.0)).collect(),
        DynamicImage::ImageRgb16(image) => image.pixels().map(|p| luma(p.0.map(from_u16))).collect(),
        DynamicImage::ImageRgba8(image) => image.pixels().map(|p| over_white(p.0)).collect(),
        DynamicImage::ImageRgba16(image) => image.pixels().map(|p| over_white(p.0.map(from_u16))).collect(),
        other => {
            return Err(DecodeError::unsupported(
                format,
                format!("{:?} samples", other.color()),
            ));
        }
    };
    GrayImage::from_raw(width, height, samples)
        .ok_or_else(|| DecodeError::malformed(format, "the decoder returned too few pixels"))
}

fn over_white([r, g, b, a]: [u8; 4]) -> u8 {
    gray::on_white(gray::luma([r, g, b]), a)
}

fn refusal(error: ImageError, format: PageFormat) -> DecodeError {
    match error {
        ImageError::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => DecodeError::Truncated { format },
        ImageError::Unsupported(e) => DecodeError::unsupported(format, e),
        ImageError::Limits(e) if e.kind() == LimitErrorKind::InsufficientMemory => {
            DecodeError::malformed(format, "a part of the file needs more memory than its pixels")
        }
        other if ended_early(&other) => DecodeError::Truncated { format },
        other => DecodeError::malformed(format, other),
    }
}

/// Returns whether the chain of causes holds the end of the data.
fn ended_early(error: &ImageError) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && io.kind() == ErrorKind::UnexpectedEof
        {
            return true;
        }
        cause = error.source();
    }
    false
}
