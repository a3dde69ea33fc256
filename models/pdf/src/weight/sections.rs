//! Streams that are decoded when a document is opened: cross-references and the objects that lie in streams.

use std::borrow::Cow;

use hayro_syntax::Filter;
use memchr::{memchr_iter, memmem};

use super::filters::{Decoded, decoded, most};
use crate::guard::Watch;
use crate::limits::within;
use crate::{Limits, PdfError};

/// Word of a page's type, and that before the data of a stream.
const PAGE: &[u8] = b"/Page";
const STREAM: &[u8] = b"stream";
/// Bytes before the data of a stream in which its dictionary is looked for.
const DICTIONARY: usize = 4096;
/// Versions of a page that may stand in a file, on average.
const VERSIONS: u64 = 2;

/// Checks what opening a file would decode, and the number of pages that it names in clear text, each of which takes memory.
///
/// # Errors
///
/// [`PdfError::TooLarge`], and [`PdfError::Damaged`] where the file does not say how such a stream is decoded.
pub(crate) fn check_file(bytes: &[u8], limits: &Limits, watch: &Watch) -> Result<(), PdfError> {
    let pages = memmem::find_iter(bytes, PAGE)
        .filter(|at| {
            let behind = bytes.get(at + PAGE.len());
            behind.is_some_and(|behind| !behind.is_ascii_alphanumeric())
        })
        .count();
    // A page that was changed stands in the file more than once.
    within(
        "the number of its pages",
        pages as u64 / VERSIONS,
        u64::from(limits.max_pages),
    )?;
    let is_encrypted = has_name(bytes, b"Encrypt");
    for at in memmem::find_iter(bytes, STREAM) {
        let head = bytes.get(..at).unwrap_or_default();
        if head.ends_with(b"end") {
            continue;
        }
        let head = head.get(at.saturating_sub(DICTIONARY)..).unwrap_or_default();
        let start = memmem::rfind(head, b" obj");
        let dictionary = head.get(start.unwrap_or(0)..).unwrap_or_default();
        let has_objects = has_name(dictionary, b"ObjStm");
        // One that is too long to be seen whole may say anything.
        if start.is_some() && !has_objects && !has_name(dictionary, b"XRef") {
            continue;
        }
        watch.check();
        let data = bytes.get(at + STREAM.len()..).unwrap_or_default();
        let data = data.strip_prefix(b"\r").unwrap_or(data);
        let data = data.strip_prefix(b"\n").unwrap_or(data);
        let filters = match start {
            Some(_) => filters(dictionary)?,
            None => filters(dictionary).unwrap_or_else(|_| vec![Filter::FlateDecode]),
        };
        let length = if is_encrypted && has_objects {
            // Cross-references are not encrypted; of objects nothing is known but their length.
            most(encrypted_length(dictionary, data), &filters)
        } else {
            // The end of deflated data is in the data, whatever length is stated.
            match decoded(Cow::Borrowed(data), &filters, limits.max_stream_bytes) {
                Decoded::Length(length) => length,
                Decoded::Bytes(_) => continue,
            }
        };
        within(
            "a stream of its objects in bytes",
            length,
            limits.max_stream_bytes,
        )?;
    }
    Ok(())
}

/// Length of encrypted data: as it is stated, or up to the word that ends it, whichever is more; all that is left of the file where the
/// length is an object elsewhere.
fn encrypted_length(dictionary: &[u8], data: &[u8]) -> u64 {
    let mut length = memmem::find(data, b"endstream").unwrap_or(data.len()) as u64;
    for at in memchr_iter(b'/', dictionary) {
        if !name_at(dictionary, at).eq(b"Length".iter().copied()) {
            continue;
        }
        match direct_number(dictionary.get(at..).unwrap_or_default()) {
            Some(stated) => length = length.max(stated),
            None => return data.len() as u64,
        }
    }
    length
}

/// Number behind a name; `None` if it is an object elsewhere, or no number.
fn direct_number(entry: &[u8]) -> Option<u64> {
    let blank = entry.iter().position(u8::is_ascii_whitespace)?;
    let value = entry.get(blank..)?.trim_ascii_start();
    let mut words = value.split(|byte| !byte.is_ascii_digit());
    let number = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let is_reference = words.next().is_some_and(|word| !word.is_empty());
    (!is_reference).then_some(number)
}

/// Filters that a dictionary names, in their order; that of nearly all streams where it has none.
///
/// # Errors
///
/// [`PdfError::Damaged`] where it has filters and names none: their names are an object elsewhere.
fn filters(dictionary: &[u8]) -> Result<Vec<Filter>, PdfError> {
    let mut found = Vec::new();
    let mut is_filtered = false;
    for at in memchr_iter(b'/', dictionary) {
        let name: Vec<u8> = name_at(dictionary, at).collect();
        found.push(match name.as_slice() {
            b"Filter" => {
                is_filtered = true;
                continue;
            }
            b"FlateDecode" | b"Fl" => Filter::FlateDecode,
            b"LZWDecode" | b"LZW" => Filter::LzwDecode,
            b"ASCIIHexDecode" | b"AHx" => Filter::AsciiHexDecode,
            b"ASCII85Decode" | b"A85" => Filter::Ascii85Decode,
            b"RunLengthDecode" | b"RL" => Filter::RunLengthDecode,
            _ => continue,
        });
    }
    match (is_filtered, found.is_empty()) {
        (true, true) => Err(PdfError::damaged(
            "a stream of its objects does not name its filters itself",
        )),
        (false, true) => Ok(vec![Filter::FlateDecode]),
        _ => Ok(found),
    }
}

/// Returns whether a name stands in bytes, written with escapes or without.
fn has_name(bytes: &[u8], name: &[u8]) -> bool {
    memchr_iter(b'/', bytes).any(|at| name_at(bytes, at).eq(name.iter().copied()))
}

/// Characters of the name that the slash at this place begins, without escapes (ISO 32000-2, 7.3.5).
fn name_at(bytes: &[u8], at: usize) -> impl Iterator<Item = u8> {
    let mut rest = bytes.get(at + 1..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (first, behind) = rest.split_first()?;
        if first.is_ascii_whitespace() || b"\0()<>[]{}/%".contains(first) {
            return None;
        }
        let digit = |place: usize| char::from(*behind.get(place)?).to_digit(16);
        let escaped = digit(0).zip(digit(1)).filter(|_| *first == b'#');
        let escaped = escaped.and_then(|(high, low)| u8::try_from(16 * high + low).ok());
        rest = if escaped.is_some() {
            behind.get(2..)?
        } else {
            behind
        };
        Some(escaped.unwrap_or(*first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_however_they_are_written() {
        let dictionary = b"9 0 obj<</Type/Obj#53tm/Filter[/#46lateDecode /LZW]/Length 12/N 3>>";
        assert!(has_name(dictionary, b"ObjStm") && has_name(dictionary, b"N"));
        assert!(!has_name(dictionary, b"Obj") && !has_name(dictionary, b"XRef"));
        assert_eq!(
            filters(dictionary).unwrap(),
            [Filter::FlateDecode, Filter::LzwDecode]
        );
        assert!(filters(b"<</Filter 5 0 R/N 3>>").is_err());
    }

    #[test]
    fn encrypted_data_is_as_long_as_can_be() {
        let data = b"0123endstream endobj";
        for (dictionary, length) in [
            (b"<</Length 4>>".as_slice(), 4),
            (b"<</Length 9/N 3>>", 9),
            (b"<</Length 2>>", 4),
            (b"<</Length 5 0 R>>", 20),
            (b"<</Length 2/L#65ngth 7>>", 7),
            (b"<<>>", 4),
        ] {
            assert_eq!(encrypted_length(dictionary, data), length);
        }
    }
}
