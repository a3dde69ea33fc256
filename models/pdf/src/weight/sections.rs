//! Streams that are decoded when a document is opened: cross-references and the objects that lie in streams.

use std::borrow::Cow;
use std::collections::HashSet;

use hayro_syntax::Filter;
use hayro_syntax::object::{Array, Dict, MaybeRef, Name, Object, Stream};
use hayro_syntax::reader::{Reader, ReaderContext, ReaderExt};
use memchr::{memchr_iter, memmem};

use super::filters::{Decoded, decoded, is_of_pictures, most};
use crate::guard::Watch;
use crate::limits::within;
use crate::{Limits, PdfError};

/// Word of a page's type.
const PAGE: &[u8] = b"/Page";
/// Versions of a page that may stand in a file, on average.
const VERSIONS: u64 = 2;
/// Longest streams of objects that a file may hold together, as a multiple of the longest one: what was decoded stays in memory.
const STREAMS: u64 = 4;

/// Checks what opening a file would decode, and the number of pages that it names in clear text, each of which takes memory.
///
/// The library decodes a stream as cross-references wherever the file says that they begin, and as one of objects because cross-references or
/// another stream's type say so: its own type is not asked for. So all streams are gone through, as the library reads their dictionaries.
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
    let mut weight = Weight {
        is_encrypted: has_name(bytes, b"Encrypt"),
        sum: 0,
        limits,
    };
    let mut containers = HashSet::new();
    for found in streams(bytes, watch) {
        if let Some(widths) = found.widths()
            && let Some(stream) = found.stream(bytes)
        {
            weight.add(&found, &stream)?;
            containers.extend(containers_of(&stream, widths));
        }
        if found.has_objects() {
            // Objects are looked for by this number, in whichever stream has it in the end.
            let missing = || PdfError::damaged("a stream of its objects has no number before it");
            containers.insert(found.number.ok_or_else(missing)?);
        }
        // May have any number.
        if found.number.is_none() {
            weight.add_objects(&found, bytes)?;
        }
    }
    if containers.is_empty() {
        return Ok(());
    }
    streams(bytes, watch)
        .filter(|found| found.number.is_some_and(|number| containers.contains(&number)))
        .try_for_each(|found| weight.add_objects(&found, bytes))
}

/// Weight of the streams so far.
struct Weight<'l> {
    /// Objects are encrypted; cross-references never are.
    is_encrypted: bool,
    /// Bytes of all of them together, decoded.
    sum: u64,
    limits: &'l Limits,
}

impl Weight<'_> {
    fn add_objects<'a>(&mut self, found: &Found<'a>, bytes: &'a [u8]) -> Result<(), PdfError> {
        let Some(stream) = found.stream(bytes) else {
            return Ok(());
        };
        if !self.is_encrypted {
            return self.add(found, &stream);
        }
        // Nothing is known but their length.
        let length = encrypted_length(found.dict.data(), found.data);
        self.within(most(length, &found.filters(&stream)?))
    }

    fn add(&mut self, found: &Found<'_>, stream: &Stream<'_>) -> Result<(), PdfError> {
        let filters = found.filters(stream)?;
        // The library does not take pixels for anything.
        if filters.iter().any(is_of_pictures) {
            return Ok(());
        }
        // The end of deflated data is in the data, whatever length is stated.
        let Decoded::Length(length) =
            decoded(Cow::Borrowed(found.data), &filters, self.limits.max_stream_bytes)
        else {
            return Ok(());
        };
        self.within(length)?;
        self.sum += length;
        within(
            "the streams of its objects in bytes",
            self.sum,
            STREAMS * self.limits.max_stream_bytes,
        )
    }

    fn within(&self, length: u64) -> Result<(), PdfError> {
        within(
            "a stream of its objects in bytes",
            length,
            self.limits.max_stream_bytes,
        )
    }
}

/// Stream in a file.
struct Found<'a> {
    dict: Dict<'a>,
    /// Number of the object, if it stands right before.
    number: Option<u32>,
    /// Place of the dictionary.
    at: usize,
    /// All of the file behind the word that begins the data.
    data: &'a [u8],
}

/// Streams of a file, by every dictionary that the word of a stream follows: which of them the library comes upon is up to the file.
fn streams<'a>(bytes: &'a [u8], watch: &Watch) -> impl Iterator<Item = Found<'a>> {
    memchr_iter(b'<', bytes)
        .filter(|at| bytes.get(at + 1) == Some(&b'<'))
        .filter_map(move |at| {
            watch.check();
            let mut reader = Reader::new_with(bytes, at);
            let dict = reader.read_with_context::<Dict<'_>>(&ReaderContext::dummy())?;
            reader.skip_white_spaces_and_comments();
            reader.forward_tag(b"stream")?;
            let data = reader.tail()?;
            let data = data.strip_prefix(b"\r").unwrap_or(data);
            Some(Found {
                dict,
                number: number_before(bytes.get(..at)?),
                at,
                data: data.strip_prefix(b"\n").unwrap_or(data),
            })
        })
}

/// Number of the object that these bytes begin at their end, with nothing else behind: `12 0 obj`.
fn number_before(head: &[u8]) -> Option<u32> {
    let head = head.trim_ascii_end().strip_suffix(b"obj")?;
    let mut words = head
        .trim_ascii_end()
        .rsplit(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let version = words.next()?;
    let number = words.next()?;
    let is_number = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    let number = Some(number).filter(|number| is_number(version) && is_number(number))?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

impl<'a> Found<'a> {
    /// Widths of the columns, if it can be read as cross-references.
    fn widths(&self) -> Option<[u8; 3]> {
        let has_size = self.dict.contains_key(b"Size");
        self.dict.get::<[u8; 3]>(b"W".as_slice()).filter(|_| has_size)
    }

    /// Returns whether it says that it holds objects.
    fn has_objects(&self) -> bool {
        let kind = self.dict.get::<Name<'_>>(b"Type".as_slice());
        kind.is_some_and(|kind| kind.as_ref() == b"ObjStm")
    }

    /// Stream as the library reads it; none that has no end.
    fn stream(&self, bytes: &'a [u8]) -> Option<Stream<'a>> {
        Reader::new_with(bytes, self.at).read_with_context(&ReaderContext::dummy())
    }

    /// Filters in their order.
    ///
    /// # Errors
    ///
    /// [`PdfError::Damaged`] where a name is an object elsewhere, which is not known before the file is open.
    fn filters(&self, stream: &Stream<'a>) -> Result<Vec<Filter>, PdfError> {
        for key in [b"F".as_slice(), b"Filter"] {
            let is_elsewhere = match self.dict.get_raw::<Object<'_>>(key) {
                Some(MaybeRef::Ref(_)) => true,
                Some(MaybeRef::NotRef(Object::Array(names))) => is_partly_elsewhere(&names),
                _ => false,
            };
            if is_elsewhere {
                return Err(PdfError::damaged(
                    "a stream of its objects does not name its filters itself",
                ));
            }
        }
        Ok(stream.filters().to_vec())
    }
}

fn is_partly_elsewhere(names: &Array<'_>) -> bool {
    names.raw_iter().any(|name| matches!(name, MaybeRef::Ref(_)))
}

/// Numbers of the streams in which these cross-references say that objects lie (ISO 32000-2, 7.5.8.3).
fn containers_of(stream: &Stream<'_>, widths: [u8; 3]) -> HashSet<u32> {
    let [kind, number, place] = widths.map(usize::from);
    // The library reads one byte of the kind, however many there are, and takes all for objects of the file if there is none.
    let row = 1 + number + place;
    let data = stream.decoded_data().unwrap_or_default();
    let in_streams = data
        .chunks_exact(row)
        .filter(|row| kind > 0 && row.first() == Some(&2));
    in_streams
        .filter_map(|row| row.get(1..=number))
        .filter_map(|digits| {
            let digits = digits.iter().copied().map(u64::from);
            u32::try_from(digits.fold(0, |value, digit| value << 8 | digit)).ok()
        })
        .collect()
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
        let dictionary = b"9 0 obj<</Type/Obj#53tm/Encr#79pt 3>>";
        assert!(has_name(dictionary, b"ObjStm") && has_name(dictionary, b"Encrypt"));
        assert!(!has_name(dictionary, b"Obj") && !has_name(dictionary, b"XRef"));
    }

    #[test]
    fn a_number_is_that_right_before() {
        for (head, number) in [
            (b"endobj\n12 0 obj\r\n".as_slice(), Some(12)),
            (b"007\n0\tobj", Some(7)),
            (b"9.5 0 obj", None),
            (b"12 0 obj % comment\n", None),
            (b"12 0 obj (", None),
            (b"obj", None),
            (b"99999999999 0 obj", None),
        ] {
            assert_eq!(number_before(head), number);
        }
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
