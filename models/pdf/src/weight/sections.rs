//! Streams that are decoded when a document is opened: cross-references and the objects that lie in streams.

use std::borrow::Cow;

use hayro_syntax::Filter;
use memchr::memmem;

use super::filters::{Decoded, decoded};
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
/// [`PdfError::TooLarge`].
pub(crate) fn check_file(bytes: &[u8], limits: &Limits) -> Result<(), PdfError> {
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
    for at in memmem::find_iter(bytes, STREAM) {
        let head = bytes.get(..at).unwrap_or_default();
        if head.ends_with(b"end") {
            continue;
        }
        let head = head.get(at.saturating_sub(DICTIONARY)..).unwrap_or_default();
        let start = memmem::rfind(head, b" obj").unwrap_or(0);
        let dictionary = head.get(start..).unwrap_or_default();
        // A name may be written with escapes.
        if ![b"/ObjStm".as_slice(), b"/XRef", b"#"]
            .iter()
            .any(|word| memmem::find(dictionary, word).is_some())
        {
            continue;
        }
        let data = bytes.get(at + STREAM.len()..).unwrap_or_default();
        let data = data.strip_prefix(b"\r").unwrap_or(data);
        let data = data.strip_prefix(b"\n").unwrap_or(data);
        let filters = filters(dictionary);
        // The end of deflated data is in the data, whatever length is stated.
        if let Decoded::Length(length) = decoded(Cow::Borrowed(data), &filters, limits.max_stream_bytes) {
            within(
                "a stream of its objects in bytes",
                length,
                limits.max_stream_bytes,
            )?;
        }
    }
    Ok(())
}

/// Filters that a dictionary names, in their order.
fn filters(dictionary: &[u8]) -> Vec<Filter> {
    let names: [(&[u8], Filter); 4] = [
        (b"/Fl", Filter::FlateDecode),
        (b"/LZW", Filter::LzwDecode),
        (b"/ASCIIHex", Filter::AsciiHexDecode),
        (b"/ASCII85", Filter::Ascii85Decode),
    ];
    let mut found: Vec<(usize, Filter)> = Vec::new();
    for (name, filter) in names {
        found.extend(memmem::find_iter(dictionary, name).map(|at| (at, filter)));
    }
    found.sort_by_key(|(at, _)| *at);
    let found: Vec<Filter> = found.into_iter().map(|(_, filter)| filter).collect();
    // The name of the filter may be an object elsewhere.
    if found.is_empty() {
        vec![Filter::FlateDecode]
    } else {
        found
    }
}
