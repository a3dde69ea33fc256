//! Weight of JBIG2 pictures, by what their segments declare (ISO 14492, 7.2 to 7.4).

use crate::limits::within;
use crate::{Limits, PdfError};

/// Symbols that a byte of a dictionary, and instances that one of a region, stands for at most: as other readers have it.
const PER_BYTE: u64 = 32;
/// Length of the description with which regions begin.
const REGION: usize = 17;

/// Segment of a picture as it is embedded.
struct Segment<'a> {
    kind: u8,
    data: &'a [u8],
}

/// Checks the streams of a picture: the one with what it shares with others, if there is one, and its own.
///
/// # Errors
///
/// [`PdfError::TooLarge`].
pub(super) fn check(streams: &[&[u8]], limits: &Limits) -> Result<(), PdfError> {
    let pixels = |width: u64, height: u64| {
        within(
            "the number of pixels of a picture",
            width.saturating_mul(height),
            limits.max_picture_pixels,
        )
    };
    let mut symbols = 0;
    let mut count = |number: u64, data: &[u8]| {
        let what = "the number of symbols of a picture";
        within(what, number, PER_BYTE * data.len() as u64)?;
        symbols += number;
        within(what, symbols, limits.max_objects as u64)
    };
    let mut largest_pattern = 1;
    for Segment { kind, data } in streams.iter().flat_map(|stream| segments(stream)) {
        match kind {
            0 => {
                let (exported, new) = dictionary(data).unwrap_or_default();
                count(u64::from(new), data)?;
                // Those of other dictionaries are exported again, each of them copied.
                within(
                    "the number of symbols of a picture",
                    u64::from(exported),
                    limits.max_objects as u64,
                )?;
            }
            4 | 6 | 7 => count(u64::from(instances(data).unwrap_or(0)), data)?,
            16 => {
                if let (Some([_, width, height]), Some(last)) = (data.first_chunk(), number(data, 3)) {
                    let (width, height) = (u64::from(*width), u64::from(*height));
                    pixels(width * (u64::from(last) + 1), height)?;
                    largest_pattern = largest_pattern.max(width * height);
                }
            }
            20 | 22 | 23 => {
                let side = |at| number(data, REGION + at).map_or(0, u64::from);
                pixels(side(1).saturating_mul(largest_pattern), side(5))?;
            }
            _ => {}
        }
        if matches!(kind, 4 | 6 | 7 | 20 | 22 | 23 | 36 | 38 | 39 | 40 | 42 | 43 | 48)
            && let (Some(width), Some(height)) = (number(data, 0), number(data, 4))
        {
            // The height of a page may be unknown, and is that of its stripes then.
            let height = if height == u32::MAX { 0 } else { height };
            pixels(u64::from(width), u64::from(height))?;
        }
    }
    Ok(())
}

fn number(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// Numbers of exported and of new symbols that a dictionary declares (7.4.2.1).
fn dictionary(data: &[u8]) -> Option<(u32, u32)> {
    let flags = u16::from_be_bytes(*data.first_chunk()?);
    let (is_huffman, refines) = (flags & 1 != 0, flags & 2 != 0);
    let mut at = 2;
    if !is_huffman {
        at += if (flags >> 10) & 3 == 0 { 8 } else { 2 };
    }
    if refines && (flags >> 12) & 1 == 0 {
        at += 4;
    }
    Some((number(data, at)?, number(data, at + 4)?))
}

/// Number of instances of symbols that a region of text declares (7.4.3.1).
fn instances(data: &[u8]) -> Option<u32> {
    let flags = u16::from_be_bytes(data.get(REGION..REGION + 2)?.try_into().ok()?);
    let (is_huffman, refines) = (flags & 1 != 0, flags & 2 != 0);
    let mut at = REGION + 2;
    if is_huffman {
        at += 2;
    }
    if refines && flags >> 15 == 0 {
        at += 4;
    }
    number(data, at)
}

/// The segments of a stream, up to the first that cannot be read.
fn segments(stream: &[u8]) -> impl Iterator<Item = Segment<'_>> {
    let mut rest = stream;
    std::iter::from_fn(move || {
        let (segment, behind) = segment(rest)?;
        rest = behind;
        Some(segment)
    })
}

/// The first segment of a stream, and what is behind it.
fn segment(stream: &[u8]) -> Option<(Segment<'_>, &[u8])> {
    let flags = *stream.get(4)?;
    let count = usize::from(*stream.get(5)? >> 5);
    let (count, mut at) = if count == 7 {
        let count = number(stream, 5)? & 0x1fff_ffff;
        let count = usize::try_from(count).ok()?;
        (count, 9 + (count + 1).div_ceil(8))
    } else {
        (count, 6)
    };
    let width = match number(stream, 0)? {
        ..=256 => 1,
        257..=65_536 => 2,
        _ => 4,
    };
    at = at.checked_add(count.checked_mul(width)?)?;
    at += if flags & 0x40 == 0 { 1 } else { 4 };
    let length = number(stream, at)?;
    let data = stream.get(at + 4..)?;
    // A region of unknown length, whose number is larger than any other, is the last that can be looked at.
    let length = usize::try_from(length).map_or(data.len(), |length| length.min(data.len()));
    let (data, behind) = data.split_at(length);
    let kind = flags & 0x3f;
    Some((Segment { kind, data }, behind))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_upset_the_segments(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = check(&[&bytes], &Limits::default());
        }
    }
}
