//! A strip or tile as the file stores it to rows of packed samples.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::ZlibDecoder;
use weezl::{BitOrder, LzwStatus};

use super::layout::{Compression, Layout};
use super::{DecodeError, DecodeLimits, DecodeWarning, TRUNCATED, ccitt, malformed};
use crate::decode::jpeg::{self, Wanted};

/// Decompresses chunk `index` of `plane` and undoes its predictor: `row_bytes` for each of the chunk's rows.
pub(super) fn chunk<'a>(
    file: &'a [u8],
    layout: &Layout,
    index: usize,
    plane: usize,
    limits: &DecodeLimits,
    warnings: &mut Vec<DecodeWarning>,
) -> Result<Cow<'a, [u8]>, DecodeError> {
    let (offset, length) = layout.chunk_range(index, plane);
    let start = usize::try_from(offset).map_err(|_| TRUNCATED)?;
    let length = usize::try_from(length).map_err(|_| TRUNCATED)?;
    let end = start.checked_add(length).ok_or(TRUNCATED)?;
    let data = file.get(start..end).ok_or(TRUNCATED)?;
    // JPEG data has a bit order of its own, which the tag does not touch.
    let data = if layout.reversed_bits && layout.compression != Compression::Jpeg {
        Cow::Owned(data.iter().map(|b| b.reverse_bits()).collect())
    } else {
        Cow::Borrowed(data)
    };

    let rows = layout.chunk_rows(index);
    let expected = rows * layout.row_bytes();
    let mut packed = match layout.compression {
        Compression::None => data,
        Compression::PackBits => Cow::Owned(pack_bits(&data, expected)),
        Compression::Lzw => Cow::Owned(lzw(&data, expected)?),
        Compression::Deflate => Cow::Owned(deflate(&data, expected)?),
        Compression::Jpeg => Cow::Owned(jpeg_chunk(&data, layout, rows, limits, warnings)?),
        Compression::CcittRle | Compression::Group3 { .. } | Compression::Group4 => {
            Cow::Owned(ccitt::decode(&data, layout, rows, warnings)?)
        }
    };
    // From here on every row can be cut out of the data without a check.
    if packed.len() < expected {
        return Err(TRUNCATED);
    }
    if layout.differences {
        let packed = packed.to_mut();
        packed
            .chunks_exact_mut(layout.row_bytes())
            .for_each(|row| sum_differences(row, layout));
    }
    Ok(packed)
}

/// Apple's PackBits, at most `expected` bytes of it.
fn pack_bits(mut data: &[u8], expected: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(expected);
    while out.len() < expected {
        match data {
            [128, rest @ ..] => data = rest,
            [count @ 0..128, rest @ ..] => {
                let (literal, rest) = rest.split_at(rest.len().min(usize::from(*count) + 1));
                out.extend_from_slice(literal);
                data = rest;
            }
            [count, value, rest @ ..] => {
                out.resize(out.len() + 257 - usize::from(*count), *value);
                data = rest;
            }
            _ => break,
        }
    }
    out
}

fn lzw(data: &[u8], expected: usize) -> Result<Vec<u8>, DecodeError> {
    // TIFF's LZW widens its codes one code earlier than GIF's.
    let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
    let mut out = vec![0; expected];
    let (mut read, mut written) = (0, 0);
    while written < expected {
        let step = decoder.decode_bytes(&data[read..], &mut out[written..]);
        read += step.consumed_in;
        written += step.consumed_out;
        match step.status.map_err(malformed)? {
            LzwStatus::Ok => {}
            LzwStatus::Done | LzwStatus::NoProgress => break,
        }
    }
    out.truncate(written);
    Ok(out)
}

fn deflate(data: &[u8], expected: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::with_capacity(expected);
    // Deflate can pack a thousand to one: what unpacks to more than the chunk has is not read on.
    match ZlibDecoder::new(data).take(expected as u64).read_to_end(&mut out) {
        Ok(_) => Ok(out),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Err(TRUNCATED),
        Err(e) => Err(malformed(e)),
    }
}

/// Decodes a JPEG chunk, which is a stream of its own, or one that shares the tables of the directory: those come first, less
/// their end marker, and the chunk follows, less its start marker.
fn jpeg_chunk(
    data: &[u8],
    layout: &Layout,
    rows: usize,
    limits: &DecodeLimits,
    warnings: &mut Vec<DecodeWarning>,
) -> Result<Vec<u8>, DecodeError> {
    let stream = match (layout.jpeg_tables.as_slice(), data) {
        ([tables @ .., 0xff, 0xd9], [0xff, 0xd8, scan @ ..]) => Cow::Owned([tables, scan].concat()),
        _ => Cow::Borrowed(data),
    };
    let wanted = if layout.jpeg_luma {
        Wanted::Luma
    } else {
        Wanted::Stored
    };
    let decoded = jpeg::decode_components(&stream, wanted, limits).map_err(|e| match e {
        DecodeError::Truncated { .. } => TRUNCATED,
        other => malformed(other),
    })?;
    if decoded.width != layout.chunk_width
        || (decoded.height as usize) < rows
        || decoded.components != layout.interleaved()
    {
        return Err(malformed(
            "a JPEG strip or tile has another shape than its directory says",
        ));
    }
    if let Some(warning) = decoded.warning
        // All strips of a file tend to have the same fault, of which one warning is enough.
        && !warnings.contains(&warning)
    {
        warnings.push(warning);
    }
    Ok(decoded.samples)
}

fn sum_differences(row: &mut [u8], layout: &Layout) {
    // The predictor works sample by sample, modulo the range of a sample; the left neighbour of the same
    // colour is a whole pixel away.
    let step = layout.interleaved();
    if layout.bits == 8 {
        for i in step..row.len() {
            row[i] = row[i].wrapping_add(row[i - step]);
        }
        return;
    }
    let (samples, _) = row.as_chunks_mut::<2>();
    for i in step..samples.len() {
        let (left, difference) = (samples[i - step], samples[i]);
        samples[i] = if layout.big_endian {
            u16::from_be_bytes(left)
                .wrapping_add(u16::from_be_bytes(difference))
                .to_be_bytes()
        } else {
            u16::from_le_bytes(left)
                .wrapping_add(u16::from_le_bytes(difference))
                .to_le_bytes()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pack_bits_follows_the_worked_example_of_apples_technical_note() {
        let packed = [
            0xfe, 0xaa, 0x02, 0x80, 0x00, 0x2a, 0xfd, 0xaa, 0x03, 0x80, 0x00, 0x2a, 0x22, 0xf7, 0xaa,
        ];
        let plain = [
            0xaa, 0xaa, 0xaa, 0x80, 0x00, 0x2a, 0xaa, 0xaa, 0xaa, 0xaa, 0x80, 0x00, 0x2a, 0x22, 0xaa, 0xaa,
            0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
        ];
        assert_eq!(pack_bits(&packed, plain.len()), plain);
        assert_eq!(pack_bits(&packed[..5], plain.len()), plain[..5]);
        assert_eq!(pack_bits(&[128, 0, 7], 1), [7]);
    }
}
