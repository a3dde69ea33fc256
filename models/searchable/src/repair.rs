//! Trailers: reading that of a sound file, and making one for a file with wrong offsets, whose update must list all its objects again, as
//! readers would find nothing behind a broken `Prev`.

use std::collections::{BTreeMap, BTreeSet};

use hayro_syntax::Pdf;
use hayro_syntax::object::{ObjectIdentifier, Stream};

use crate::object_file::{Place, XrefKind};
use crate::syntax::{Entry, Lexer, entries, is_space, number, reference, value};

/// Last bytes in which `startxref` must stand.
const END_WITHIN: usize = 65_536;
/// Longest chain of updates that is followed.
const SECTIONS: usize = 1024;
/// Most objects of an object stream.
const OBJECTS: usize = 65_535;

/// Contents of a trailer that its successor repeats.
#[derive(Debug)]
pub(crate) struct Trailer {
    pub(crate) kind: XrefKind,
    /// First object number that is free.
    pub(crate) free: u32,
    /// Source of the entries.
    pub(crate) source: String,
    pub(crate) is_encrypted: bool,
    pub(crate) places: Vec<(u32, Place)>,
}

/// Section of cross-references.
struct Section<'a> {
    kind: XrefKind,
    entries: Vec<Entry<'a>>,
    /// Objects in use with their offsets and generations; empty for a stream.
    objects: Vec<(u64, u64, u64)>,
}

/// Reads the trailer; `None` if a section is broken or an offset is wrong.
pub(crate) fn trailer(source: &[u8]) -> Option<Trailer> {
    let end = source.len().saturating_sub(END_WITHIN);
    let startxref = end + find_last(&source[end..], b"startxref")?;
    let mut lexer = Lexer::at(source, startxref + b"startxref".len());
    let start = number(lexer.next()?)?;
    let last = section(source, start)?;
    let mut size = size_of(&last.entries)?;
    let mut objects: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut seen = BTreeSet::from([start]);
    let mut is_encrypted = value(&last.entries, "Encrypt").is_some();
    let mut next = value(&last.entries, "Prev").map(number);
    for (id, offset, generation) in &last.objects {
        objects.insert(*id, (*offset, *generation));
    }
    while let Some(previous) = next {
        let previous = previous?;
        if !seen.insert(previous) || seen.len() > SECTIONS {
            return None;
        }
        let section = section(source, previous)?;
        size = size.max(size_of(&section.entries)?);
        is_encrypted |= value(&section.entries, "Encrypt").is_some();
        for (id, offset, generation) in section.objects {
            objects.entry(id).or_insert((offset, generation));
        }
        next = value(&section.entries, "Prev").map(number);
    }
    let is_sound = |(id, (offset, generation)): (&u64, &(u64, u64))| {
        *offset == 0 || header(source, *offset) == Some((*id, *generation))
    };
    if !objects.iter().all(is_sound) {
        return None;
    }
    let highest = objects.keys().next_back().map_or(0, |id| id + 1);
    // The catalog must be named, or readers look for it.
    value(&last.entries, "Root")?;
    Some(Trailer {
        kind: last.kind,
        free: u32::try_from(size.max(highest)).ok()?,
        source: format!("{}/Prev {start}", repeated(&last.entries)?),
        is_encrypted,
        places: Vec::new(),
    })
}

fn size_of(entries: &[Entry<'_>]) -> Option<u64> {
    number(value(entries, "Size")?)
}

/// Source of the entries that every trailer repeats; `None` if it is no text, which these entries never need to be otherwise.
fn repeated(entries: &[Entry<'_>]) -> Option<String> {
    let mut source = String::new();
    for key in ["Root", "Info", "ID"] {
        if let Some(value) = value(entries, key) {
            source.push('/');
            source.push_str(key);
            source.push(' ');
            source.push_str(&as_text(value)?);
        }
    }
    Some(source)
}

/// Source as text, with literal strings, which may hold any bytes, in hexadecimal.
fn as_text(source: &[u8]) -> Option<String> {
    if let Ok(text) = std::str::from_utf8(source) {
        return Some(text.to_owned());
    }
    // An identifier of literal strings; its bytes only matter to those who compare files, which a part of it serves as well.
    let mut lexer = Lexer::new(source);
    let mut text = String::new();
    while let Some(token) = lexer.next() {
        if let Some(string) = token.strip_prefix(b"(") {
            let digits: Vec<String> = string[..string.len() - 1]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            text.push_str(&format!("<{}>", digits.concat()));
        } else {
            text.push_str(std::str::from_utf8(token).ok()?);
            text.push(' ');
        }
    }
    Some(text)
}

fn section(source: &[u8], start: u64) -> Option<Section<'_>> {
    let start = usize::try_from(start)
        .ok()
        .filter(|start| *start < source.len())?;
    let mut lexer = Lexer::at(source, start);
    let first = lexer.next()?;
    if first != b"xref" {
        number(first)?;
        number(lexer.next()?)?;
        (lexer.next()? == b"obj").then_some(())?;
        let entries = entries(lexer.object()?)?;
        (value(&entries, "Type")? == b"/XRef").then_some(())?;
        return Some(Section {
            kind: XrefKind::Stream,
            entries,
            objects: Vec::new(),
        });
    }
    let mut objects = Vec::new();
    loop {
        let token = lexer.next()?;
        if token == b"trailer" {
            let entries = entries(lexer.object()?)?;
            return Some(Section {
                kind: XrefKind::Table,
                entries,
                objects,
            });
        }
        let first = number(token)?;
        let count = number(lexer.next()?)?;
        // Entries that are not there end the loop, whatever the count.
        for id in first..first.checked_add(count)? {
            let offset = number(lexer.next()?)?;
            let generation = number(lexer.next()?)?;
            match lexer.next()? {
                b"n" => objects.push((id, offset, generation)),
                b"f" => {}
                _ => return None,
            }
        }
    }
}

/// Number and generation of the object that begins at an offset.
fn header(source: &[u8], offset: u64) -> Option<(u64, u64)> {
    let mut lexer = Lexer::at(source, usize::try_from(offset).ok()?);
    let id = number(lexer.next()?)?;
    let generation = number(lexer.next()?)?;
    lexer.next()?.starts_with(b"obj").then_some((id, generation))
}

/// Makes a trailer of what is found in a file whose own cannot be used.
pub(crate) fn repaired(pdf: &Pdf) -> Trailer {
    let source: &[u8] = pdf.data().as_ref();
    let mut places: BTreeMap<u32, Place> = BTreeMap::new();
    for (id, generation, offset) in object_headers(source) {
        // Of several objects with a number the last is the one of the last update.
        places.insert(id, Place::At { offset, generation });
    }
    let streams: Vec<(u32, u64)> = places
        .iter()
        .filter_map(|(id, place)| match place {
            Place::At { offset, .. } if is_object_stream(source, *offset) => Some((*id, *offset)),
            _ => None,
        })
        .collect();
    for (stream, _) in &streams {
        for (index, id) in (0..).zip(members(pdf, *stream)) {
            let place = Place::Within {
                stream: *stream,
                index,
            };
            places.entry(id).or_insert(place);
        }
    }
    let free = places.keys().next_back().map_or(1, |id| id.saturating_add(1));
    // The head of the list of free numbers.
    let head = Place::At {
        offset: 0,
        generation: u16::MAX,
    };
    places.insert(0, head);
    let root = pdf.xref().root_id();
    let rest = find_last(source, b"trailer")
        .and_then(|at| entries(Lexer::at(source, at + b"trailer".len()).object()?))
        .map(|entries| {
            let kept = entries.into_iter().filter(|entry| match entry.key.as_slice() {
                b"Info" => reference(entry.value).is_some_and(|(id, _)| places.contains_key(&id)),
                b"ID" => true,
                _ => false,
            });
            repeated(&kept.collect::<Vec<_>>()).unwrap_or_default()
        })
        .unwrap_or_default();
    Trailer {
        kind: if streams.is_empty() {
            XrefKind::Table
        } else {
            XrefKind::Stream
        },
        free,
        source: format!("/Root {} {} R{rest}", root.obj_number, root.gen_number),
        // What is encrypted is not known without a trailer, but the key is only looked for where the word stands.
        is_encrypted: find_last(source, b"/Encrypt").is_some(),
        places: places.into_iter().collect(),
    }
}

/// Numbers, generations and offsets of all that looks like the beginning of an object.
fn object_headers(source: &[u8]) -> Vec<(u32, u16, u64)> {
    let mut headers = Vec::new();
    let mut from = 0;
    while let Some(at) = source[from..].windows(3).position(|window| window == b"obj") {
        let at = from + at;
        from = at + 3;
        headers.extend(header_before(source, at));
    }
    headers
}

/// Header that ends with the keyword at an offset.
fn header_before(source: &[u8], keyword: usize) -> Option<(u32, u16, u64)> {
    let number_before = |end: usize| {
        let end = end
            - source[..end]
                .iter()
                .rev()
                .take_while(|byte| is_space(**byte))
                .count();
        let digits = source[..end]
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        Some((number(&source[end - digits..end])?, end - digits))
    };
    let (generation, at) = number_before(keyword)?;
    is_space(*source.get(at.checked_sub(1)?)?).then_some(())?;
    let (id, at) = number_before(at)?;
    let id = u32::try_from(id)
        .ok()
        .filter(|id| (1..u32::MAX / 2).contains(id))?;
    Some((id, u16::try_from(generation).ok()?, at as u64))
}

fn is_object_stream(source: &[u8], offset: u64) -> bool {
    let type_of = || {
        let mut lexer = Lexer::at(source, usize::try_from(offset).ok()?);
        for _ in 0..3 {
            lexer.next()?;
        }
        let entries = entries(lexer.object()?)?;
        value(&entries, "Type").map(<[u8]>::to_vec)
    };
    type_of().as_deref() == Some(b"/ObjStm")
}

/// Object numbers in an object stream, in its order.
fn members(pdf: &Pdf, stream: u32) -> Vec<u32> {
    let Some(stream) = pdf.xref().get::<Stream<'_>>(ObjectIdentifier::new(stream, 0)) else {
        return Vec::new();
    };
    let count = stream.dict().get::<u32>(b"N").unwrap_or(0);
    let Ok(content) = stream.decoded_data() else {
        return Vec::new();
    };
    let mut lexer = Lexer::new(&content);
    let mut members = Vec::new();
    for _ in 0..usize::try_from(count).unwrap_or(0).min(OBJECTS) {
        let pair = lexer.next().and_then(number).zip(lexer.next().and_then(number));
        let Some(id) = pair.and_then(|(id, _)| u32::try_from(id).ok()) else {
            break;
        };
        members.push(id);
    }
    members
}

fn find_last(source: &[u8], word: &[u8]) -> Option<usize> {
    source.windows(word.len()).rposition(|window| window == word)
}
