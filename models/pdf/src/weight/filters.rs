//! Lengths of decoded streams, filter by filter, within a bound of memory.

use std::borrow::Cow;

use flate2::{Decompress, FlushDecompress, Status};
use hayro_syntax::Filter;

use super::lzw::lzw_length;

/// Bytes that one byte of a deflated stream stands for at most: a match of 258 in two bits.
const DEFLATED: u64 = 1032;
/// Bytes that one byte of a stream of LZW codes stands for at most: two codes in three bytes, each of as many bytes as there are codes.
const LZW: u64 = 2731;
/// Bytes that one byte of runs stands for at most: 128 in two.
const RUNS: u64 = 64;
const BUFFER: usize = 1 << 16;

/// Bytes behind the last filter that is not one of pictures, or their number where it was only counted.
pub(super) enum Decoded<'a> {
    Bytes(Cow<'a, [u8]>),
    Length(u64),
}

/// Decodes all filters but the last one, of whose result only the length is found; more than `limit` bytes are neither made nor counted.
/// Filters of pictures end the chain.
pub(super) fn decoded<'a>(raw: Cow<'a, [u8]>, filters: &[Filter], limit: u64) -> Decoded<'a> {
    let mut data = raw;
    for (place, filter) in filters.iter().enumerate() {
        let is_last = place + 1 == filters.len();
        let made = match filter {
            Filter::FlateDecode if is_last => return Decoded::Length(inflated(&data, limit, None)),
            Filter::LzwDecode if is_last => return Decoded::Length(lzw_length(&data, limit)),
            Filter::LzwDecode => {
                // The filters behind it are not looked into: nothing writes such a chain.
                let length = lzw_length(&data, limit);
                return Decoded::Length(most(length, filters.get(place + 1..).unwrap_or_default()));
            }
            Filter::FlateDecode => {
                let mut made = Vec::new();
                let length = inflated(&data, limit, Some(&mut made));
                if length > limit {
                    return Decoded::Length(length);
                }
                made
            }
            Filter::AsciiHexDecode => from_hex(&data),
            Filter::Ascii85Decode => from_ascii_85(&data),
            Filter::RunLengthDecode => match from_runs(&data, limit) {
                Ok(made) => made,
                Err(length) => return Decoded::Length(length),
            },
            Filter::Crypt => continue,
            _ => break,
        };
        data = Cow::Owned(made);
    }
    Decoded::Bytes(data)
}

/// Returns whether a filter makes pixels.
pub(super) fn is_of_pictures(filter: &Filter) -> bool {
    matches!(
        filter,
        Filter::DctDecode | Filter::JpxDecode | Filter::Jbig2Decode | Filter::CcittFaxDecode
    )
}

/// True for bytes that stand for no more than `limit` whatever they are, by their number alone.
pub(super) fn is_light(raw: &[u8], filters: &[Filter], limit: u64) -> bool {
    filters == [Filter::FlateDecode] && most(raw.len() as u64, filters) <= limit
}

/// Most bytes that so many stand for, whatever they are.
pub(super) fn most(raw: u64, filters: &[Filter]) -> u64 {
    let factor = |filter: &Filter| match filter {
        Filter::FlateDecode => DEFLATED,
        Filter::LzwDecode => LZW,
        Filter::RunLengthDecode => RUNS,
        // Four zeros in one.
        Filter::Ascii85Decode => 4,
        _ => 1,
    };
    filters.iter().map(factor).fold(raw, u64::saturating_mul)
}

/// Length of what a deflated stream stands for, at most a buffer more than `limit`; and the bytes.
pub(super) fn inflated(data: &[u8], limit: u64, keep: Option<&mut Vec<u8>>) -> u64 {
    let mut kept = Vec::new();
    let mut length = inflated_as(data, true, limit, &mut kept, keep.is_some());
    if length == 0 {
        length = inflated_as(data, false, limit, &mut kept, keep.is_some());
    }
    if let Some(keep) = keep {
        *keep = kept;
    }
    length
}

fn inflated_as(data: &[u8], has_header: bool, limit: u64, kept: &mut Vec<u8>, keeps: bool) -> u64 {
    let mut inflater = Decompress::new(has_header);
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = usize::try_from(inflater.total_in()).unwrap_or(usize::MAX);
        let rest = data.get(read..).unwrap_or_default();
        let before = inflater.total_out();
        let status = inflater.decompress(rest, &mut buffer, FlushDecompress::None);
        let made = inflater.total_out() - before;
        if keeps && let Some(made) = usize::try_from(made).ok().and_then(|made| buffer.get(..made)) {
            kept.extend_from_slice(made);
        }
        let is_over = inflater.total_out() > limit;
        let is_stuck = made == 0 && inflater.total_in() == read as u64;
        match status {
            Ok(Status::Ok | Status::BufError) if !is_over && !is_stuck => {}
            _ => return inflater.total_out(),
        }
    }
}

fn from_hex(data: &[u8]) -> Vec<u8> {
    let digits = data
        .iter()
        .take_while(|byte| **byte != b'>')
        .filter_map(|byte| char::from(*byte).to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok());
    let digits: Vec<u8> = digits.collect();
    digits
        .chunks(2)
        .map(|pair| 16 * pair.first().unwrap_or(&0) + pair.get(1).unwrap_or(&0))
        .collect()
}

fn from_ascii_85(data: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(data.len());
    let mut group = Vec::with_capacity(5);
    for byte in data.iter().take_while(|byte| **byte != b'~') {
        match byte {
            b'z' if group.is_empty() => made.extend([0; 4]),
            b'!'..=b'u' => group.push(u64::from(byte - b'!')),
            _ => {}
        }
        if group.len() == 5 {
            extend_from_group(&mut made, &group, 4);
            group.clear();
        }
    }
    if group.len() > 1 {
        let bytes = group.len() - 1;
        group.resize(5, 84);
        extend_from_group(&mut made, &group, bytes);
    }
    made
}

fn extend_from_group(made: &mut Vec<u8>, group: &[u64], bytes: usize) {
    let value = group.iter().fold(0, |value, digit| 85 * value + digit);
    made.extend(value.to_be_bytes().iter().skip(4).take(bytes));
}

/// Decodes runs, or gives a length over the limit.
fn from_runs(data: &[u8], limit: u64) -> Result<Vec<u8>, u64> {
    let mut made = Vec::new();
    let mut rest = data;
    while let [length, tail @ ..] = rest {
        rest = match (*length, tail) {
            (length @ 0..=127, tail) => {
                let literal = (usize::from(length) + 1).min(tail.len());
                let (literal, tail) = tail.split_at(literal);
                made.extend_from_slice(literal);
                tail
            }
            (128, _) | (_, []) => break,
            (length, [byte, tail @ ..]) => {
                made.resize(made.len() + 257 - usize::from(length), *byte);
                tail
            }
        };
        if made.len() as u64 > limit {
            return Err(made.len() as u64);
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;

    use super::*;

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn length(raw: &[u8], filters: &[Filter], limit: u64) -> u64 {
        match decoded(Cow::Borrowed(raw), filters, limit) {
            Decoded::Bytes(bytes) => bytes.len() as u64,
            Decoded::Length(length) => length,
        }
    }

    #[test]
    fn a_bomb_is_counted_up_to_the_limit_and_not_beyond() {
        let once = deflated(&vec![0; 20_000_000]);
        let twice = deflated(&once);
        let most = 10_000_000;
        for (raw, filters) in [
            (&once, vec![Filter::FlateDecode]),
            (&twice, vec![Filter::FlateDecode, Filter::FlateDecode]),
        ] {
            let counted = length(raw, &filters, most);
            assert!((most..most + 2 * BUFFER as u64).contains(&counted), "{counted}");
        }
        assert_eq!(
            length(&[129, 7, 129, 7, 128], &[Filter::RunLengthDecode], 200),
            256
        );
    }

    #[test]
    fn a_chain_is_followed_through_text_encodings() {
        let hex: String = deflated(&[7; 5000])
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let filters = [
            Filter::AsciiHexDecode,
            Filter::FlateDecode,
            Filter::RunLengthDecode,
        ];
        assert_eq!(
            length(format!("{hex}>").as_bytes(), &filters[..1], 1000),
            hex.len() as u64 / 2
        );
        assert!(length(hex.as_bytes(), &filters, 1000) > 1000);
        assert_eq!(from_ascii_85(b"87cURD]i,\"Ebo80~>"), b"Hello World!");
        assert_eq!(from_ascii_85(b"z87~>"), [0, 0, 0, 0, b'H']);
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_filters(bytes in prop::collection::vec(any::<u8>(), 0..300), order in 0..5_usize) {
            let mut filters = [
                Filter::FlateDecode, Filter::LzwDecode, Filter::AsciiHexDecode, Filter::Ascii85Decode, Filter::RunLengthDecode,
            ];
            filters.rotate_left(order);
            let _ = length(&bytes, &filters, 10_000);
        }
    }
}
