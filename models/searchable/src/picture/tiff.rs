//! TIFF files: their resolution, and strips of group 4, which a PDF holds as they are.

use std::io::Cursor;

use tiff::decoder::Decoder;
use tiff::decoder::ifd::Value;
use tiff::tags::Tag;

use super::{Data, Embedded};

const GROUP_4: u32 = 4;
const CENTIMETRE: u32 = 3;

/// Takes a file of one strip in group 4.
pub(super) fn embedded(file: &[u8]) -> Option<Embedded<'_>> {
    let mut tags = open(file)?;
    let mut number = |tag, usual| {
        let value = tags.find_tag(tag).ok()?;
        value.map_or(Some(usual), |value| value.into_u32().ok())
    };
    let is_plain = number(Tag::Compression, 1)? == GROUP_4
        && number(Tag::BitsPerSample, 1)? == 1
        && number(Tag::SamplesPerPixel, 1)? == 1
        && number(Tag::FillOrder, 1)? == 1
        // Options of group 4: a mode without compression, which hardly any reader of PDF knows.
        && number(Tag::Unknown(293), 0)? == 0;
    // Zero is white, or black.
    let photometric = number(Tag::PhotometricInterpretation, 0)?;
    if !is_plain || photometric > 1 {
        return None;
    }
    let (width, height) = tags.dimensions().ok()?;
    let offset = single(tags.find_tag(Tag::StripOffsets).ok()??)?;
    let length = single(tags.find_tag(Tag::StripByteCounts).ok()??)?;
    let strip = file.get(offset..offset.checked_add(length)?)?;
    (width > 0 && height > 0 && !strip.is_empty()).then_some(Embedded {
        width,
        height,
        dpi: None,
        data: Data::Group4 {
            strip,
            // The runs that group 4 calls black are ones, which are white where zero is black.
            black_is_1: photometric == 1,
        },
    })
}

/// Pixels an inch, if it is a TIFF that states them.
pub(super) fn resolution(file: &[u8]) -> Option<[f64; 2]> {
    let mut tags = open(file)?;
    let unit = match tags.find_tag(Tag::ResolutionUnit).ok()? {
        Some(unit) => unit.into_u32().ok()?,
        None => 2,
    };
    let an_inch = match unit {
        2 => 1.0,
        CENTIMETRE => 2.54,
        _ => return None,
    };
    let mut resolution = |tag| match tags.find_tag(tag).ok()?? {
        Value::Rational(above, below) if below > 0 => Some(f64::from(above) / f64::from(below) * an_inch),
        _ => None,
    };
    Some([resolution(Tag::XResolution)?, resolution(Tag::YResolution)?])
}

fn open(file: &[u8]) -> Option<Decoder<Cursor<&[u8]>>> {
    let is_tiff = [&b"II*\0"[..], b"MM\0*", b"II+\0", b"MM\0+"]
        .iter()
        .any(|magic| file.starts_with(magic));
    is_tiff.then(|| Decoder::new(Cursor::new(file)).ok()).flatten()
}

fn single(value: Value) -> Option<usize> {
    let numbers = value.into_u64_vec().ok()?;
    match numbers.as_slice() {
        [number] => usize::try_from(*number).ok(),
        _ => None,
    }
}
