//! JPEG: baseline and progressive; grey, YCbCr, RGB, and the four-component kinds.

mod luma;
mod markers;

use image::GrayImage;
use image::metadata::Orientation;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::{DecodeError, DecodeLimits, DecodeWarning, PageFormat, Raw, RawHeader, gray};
use markers::Structure;

/// Samples of a JPEG stream, interleaved, `components` a pixel.
pub(super) struct Components {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) components: usize,
    pub(super) space: ColorSpace,
    pub(super) samples: Vec<u8>,
    pub(super) warning: Option<DecodeWarning>,
}

/// Colours to make of a three-component stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Luma where the stream stores it, else its components as they are.
    Luma,
    /// The components as they are stored.
    Stored,
}

pub(super) fn decode(bytes: &[u8], limits: &DecodeLimits) -> Result<Raw, DecodeError> {
    let orientation = orientation(&open(bytes)?);
    let decoded = decode_components(bytes, Wanted::Luma, limits)?;
    let samples = to_gray(decoded.space, decoded.components, decoded.samples)?;
    let gray = GrayImage::from_raw(decoded.width, decoded.height, samples)
        .ok_or_else(|| malformed("the decoder returned too few pixels"))?;
    Ok(Raw {
        gray,
        orientation,
        warnings: decoded.warning.into_iter().collect(),
    })
}

pub(super) fn probe(bytes: &[u8]) -> Result<RawHeader, DecodeError> {
    let decoder = open(bytes)?;
    let (width, height) = size(&decoder)?;
    Ok(RawHeader {
        width,
        height,
        orientation: orientation(&decoder),
    })
}

/// Decodes a stream, strictly at first. A stream that is complete by its end marker but breaks the rules in between is
/// decoded as far as it goes, with a warning, as libjpeg does; one that simply ends is an error.
pub(super) fn decode_components(
    bytes: &[u8],
    wanted: Wanted,
    limits: &DecodeLimits,
) -> Result<Components, DecodeError> {
    let decoder = open(bytes)?;
    let (width, height) = size(&decoder)?;
    let info = decoder.info().ok_or_else(|| malformed("no frame header"))?;
    let space = decoder
        .input_colorspace()
        .ok_or_else(|| malformed("no frame header"))?;
    let output = match (space, wanted) {
        (ColorSpace::YCbCr | ColorSpace::Luma, Wanted::Luma) => ColorSpace::Luma,
        // No convention says what colours two components stand for.
        (ColorSpace::MultiBand(_), _) => {
            return Err(DecodeError::unsupported(PageFormat::Jpeg, "two components"));
        }
        (space, _) => space,
    };
    let stored = u64::from(info.components);
    let written = output.num_components() as u64;
    // Every 8 x 8 block costs at least one bit in the stream.
    let pixels = u64::from(width) * u64::from(height);
    // A progressive stream is kept as coefficients of 16 bits, for all components, until its last scan.
    limits.check(width, height, written + 2 * stored)?;
    if pixels / 512 > bytes.len() as u64 {
        return Err(DecodeError::Truncated {
            format: PageFormat::Jpeg,
        });
    }

    let structure = Structure::of(bytes);
    let sound = match output {
        // libjpeg does not object to scans that are missing: what was cut off between two of them would be whole to it.
        ColorSpace::Luma if structure.ended => luma::luma(bytes, width as usize, height as usize),
        _ => None,
    };
    let (samples, warning) = match sound.map_or_else(|| run(bytes, output, true), Ok) {
        Ok(samples) if structure.ended => (samples, None),
        Ok(samples) => (samples, Some(DecodeWarning::MissingEndMarker)),
        // Whatever the decoder objects to, a stream without its end marker was cut off.
        Err(_) if !structure.ended => {
            return Err(DecodeError::Truncated {
                format: PageFormat::Jpeg,
            });
        }
        Err(strict) => {
            let samples = run(bytes, output, false).map_err(|e| refusal(&e, bytes))?;
            (
                samples,
                Some(DecodeWarning::Damaged {
                    reason: strict.to_string(),
                }),
            )
        }
    };
    let components = output.num_components();
    // Every caller takes rows out of the samples by the size in the header.
    if samples.len() as u64 != pixels * components as u64 {
        return Err(malformed("the decoder returned another size than the header"));
    }
    Ok(Components {
        width,
        height,
        components,
        space: output,
        samples,
        warning,
    })
}

/// Grey of decoded samples. Four-component streams follow Adobe's convention, as OpenCV and Pillow assume of all of them: inks
/// are stored inverted, 255 being bare paper.
fn to_gray(space: ColorSpace, components: usize, samples: Vec<u8>) -> Result<Vec<u8>, DecodeError> {
    Ok(match (space, components) {
        (ColorSpace::Luma, 1) => samples,
        (ColorSpace::RGB, 3) => samples.as_chunks().0.iter().map(|&rgb| gray::luma(rgb)).collect(),
        (ColorSpace::CMYK, 4) => samples
            .as_chunks()
            .0
            .iter()
            .map(|&ink: &[u8; 4]| gray::from_ink(ink.map(|v| 255 - v)))
            .collect(),
        // The first three components are the YCbCr form of the inks not inverted, so their luma is that of the ink.
        (ColorSpace::YCCK, 4) => samples
            .as_chunks()
            .0
            .iter()
            .map(|&[y, _, _, k]| gray::scale(255 - y, k))
            .collect(),
        _ => {
            return Err(DecodeError::unsupported(
                PageFormat::Jpeg,
                format!("{space:?} colours"),
            ));
        }
    })
}

fn options() -> DecoderOptions {
    DecoderOptions::default()
        .set_strict_mode(false)
        // As much as a frame header can state. The decoder's default, 16384, would refuse long scrolls;
        // memory is bounded by `DecodeLimits`.
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
}

fn open(bytes: &[u8]) -> Result<JpegDecoder<ZCursor<&[u8]>>, DecodeError> {
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options());
    decoder.decode_headers().map_err(|e| refusal(&e, bytes))?;
    Ok(decoder)
}

fn run(bytes: &[u8], output: ColorSpace, strict: bool) -> Result<Vec<u8>, DecodeErrors> {
    let options = options().jpeg_set_out_colorspace(output).set_strict_mode(strict);
    JpegDecoder::new_with_options(ZCursor::new(bytes), options).decode()
}

fn size(decoder: &JpegDecoder<ZCursor<&[u8]>>) -> Result<(u32, u32), DecodeError> {
    let (width, height) = decoder.dimensions().ok_or_else(|| malformed("no frame header"))?;
    match (u32::try_from(width), u32::try_from(height)) {
        (Ok(width), Ok(height)) => Ok((width, height)),
        _ => Err(malformed("impossible size")),
    }
}

fn orientation(decoder: &JpegDecoder<ZCursor<&[u8]>>) -> Orientation {
    decoder
        .exif()
        .and_then(|exif| Orientation::from_exif_chunk(exif))
        .unwrap_or(Orientation::NoTransforms)
}

/// The error for a stream that the decoder refuses outright.
fn refusal(error: &DecodeErrors, bytes: &[u8]) -> DecodeError {
    let structure = Structure::of(bytes);
    match (error, structure.precision) {
        // Decoders fail on 12-bit streams in various ways, so the header decides what the error says.
        (_, Some(bits)) if bits != 8 => {
            DecodeError::unsupported(PageFormat::Jpeg, format!("{bits}-bit samples"))
        }
        (DecodeErrors::Unsupported(scheme), _) => {
            DecodeError::unsupported(PageFormat::Jpeg, format!("{scheme:?}"))
        }
        (DecodeErrors::ZeroError, _) => {
            let (width, height) = structure.size.unwrap_or((0, 0));
            DecodeError::ZeroDimension { width, height }
        }
        _ if !structure.ended => DecodeError::Truncated {
            format: PageFormat::Jpeg,
        },
        _ => malformed(error),
    }
}

fn malformed(reason: impl ToString) -> DecodeError {
    DecodeError::malformed(PageFormat::Jpeg, reason)
}
