//! Output of a PDF, object after object, with the cross-reference section at its end.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::{Chunk, Ref};

use crate::error::SearchableError;

/// Largest offset of a cross-reference table, which has ten digits.
const LARGEST_OFFSET: u64 = 9_999_999_999;

/// Kind of a cross-reference section (ISO 32000-2, 7.5.4 and 7.5.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum XrefKind {
    Table,
    Stream,
}

/// Place of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Offset in the file.
    At { offset: u64, generation: u16 },
    /// Index in an object stream.
    Within { stream: u32, index: u32 },
}

/// Objects written so far.
#[derive(Debug)]
pub(crate) struct ObjectFile<W> {
    out: W,
    /// Bytes from the header of the PDF to here.
    position: u64,
    places: BTreeMap<u32, Place>,
    /// First object number that is free.
    free: u32,
}

impl<W: Write> ObjectFile<W> {
    /// Begins at a position of the file, with the first object number that may be given.
    pub(crate) fn new(out: W, position: u64, free: u32) -> Self {
        Self {
            out,
            position,
            places: BTreeMap::new(),
            free,
        }
    }

    /// Gives an object number.
    ///
    /// # Errors
    ///
    /// [`SearchableError::TooLarge`] if there is none left.
    pub(crate) fn reserve(&mut self) -> Result<Ref, SearchableError> {
        // The size of a file, one more than its last number, is a 32-bit integer for most readers.
        let id = i32::try_from(self.free).ok().filter(|id| *id < i32::MAX - 1);
        self.free += 1;
        id.map(Ref::new).ok_or(SearchableError::TooLarge)
    }

    /// Writes a chunk of one object.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn write(&mut self, chunk: &Chunk) -> Result<(), SearchableError> {
        for id in chunk.refs() {
            self.enter(u32::try_from(id.get()).unwrap_or(0), 0);
        }
        self.raw(chunk.as_bytes())
    }

    /// Writes an object from its source.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn write_source(
        &mut self,
        id: u32,
        generation: u16,
        source: &[u8],
    ) -> Result<(), SearchableError> {
        self.enter(id, generation);
        self.raw(format!("{id} {generation} obj\n").as_bytes())?;
        self.raw(source)?;
        self.raw(b"\nendobj\n\n")
    }

    /// Enters the place of an object that is in the file already.
    pub(crate) fn enter_place(&mut self, id: u32, place: Place) {
        self.places.entry(id).or_insert(place);
    }

    fn enter(&mut self, id: u32, generation: u16) {
        let offset = self.position;
        self.places.insert(id, Place::At { offset, generation });
    }

    /// Writes bytes that belong to no object.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), SearchableError> {
        self.out.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Gives the output back, with no objects added.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn into_inner(mut self) -> Result<W, SearchableError> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes the cross-reference section and the end of the file. `trailer` is the source of further entries of the trailer.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or the file is too large.
    pub(crate) fn finish(mut self, kind: XrefKind, trailer: &str) -> Result<W, SearchableError> {
        if self.position > LARGEST_OFFSET {
            return Err(SearchableError::TooLarge);
        }
        let start = self.position;
        if kind == XrefKind::Table {
            self.table(trailer)?;
        } else {
            self.stream(trailer)?;
        }
        self.raw(format!("startxref\n{start}\n%%EOF\n").as_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn table(&mut self, trailer: &str) -> Result<(), SearchableError> {
        let mut table = String::from("xref\n");
        for (first, places) in consecutive(&self.places) {
            table.push_str(&format!("{first} {}\n", places.len()));
            for place in places {
                if let Place::At { offset, generation } = place {
                    let state = if *offset == 0 { 'f' } else { 'n' };
                    table.push_str(&format!("{offset:010} {generation:05} {state}\r\n"));
                }
            }
        }
        let size = self.free;
        table.push_str(&format!("trailer\n<</Size {size}{trailer}>>\n"));
        self.raw(table.as_bytes())
    }

    fn stream(&mut self, trailer: &str) -> Result<(), SearchableError> {
        let id = self.reserve()?;
        let id = u32::try_from(id.get()).unwrap_or(0);
        self.enter(id, 0);
        let mut index = String::new();
        let mut rows = Vec::with_capacity(8 * self.places.len());
        for (first, places) in consecutive(&self.places) {
            index.push_str(&format!("{first} {} ", places.len()));
            for place in places {
                let (kind, middle, last) = match *place {
                    Place::At { offset: 0, .. } => (0, 0, u16::MAX),
                    Place::At { offset, generation } => (1, offset, generation),
                    // An index beyond 65,535 is in no file of a program that exists, and repair leaves such objects out.
                    Place::Within { stream, index } => {
                        (2, u64::from(stream), u16::try_from(index).unwrap_or(u16::MAX))
                    }
                };
                rows.push(kind);
                rows.extend_from_slice(&middle.to_be_bytes()[3..]);
                rows.extend_from_slice(&last.to_be_bytes());
            }
        }
        let rows = deflated(&rows);
        let (size, length, index) = (self.free, rows.len(), index.trim_end());
        self.raw(format!("{id} 0 obj\n<</Type/XRef/W[1 5 2]/Index[{index}]/Filter/FlateDecode/Length {length}/Size {size}{trailer}>>\nstream\n").as_bytes())?;
        self.raw(&rows)?;
        self.raw(b"\nendstream\nendobj\n")
    }
}

/// Groups of consecutive object numbers, each with its first.
fn consecutive(places: &BTreeMap<u32, Place>) -> Vec<(u32, Vec<&Place>)> {
    let mut groups: Vec<(u32, Vec<&Place>)> = Vec::new();
    for (id, place) in places {
        match groups.last_mut() {
            Some((first, group)) if u64::from(*first) + group.len() as u64 == u64::from(*id) => {
                group.push(place);
            }
            _ => groups.push((*id, vec![place])),
        }
    }
    groups
}

/// Compresses with zlib, as `FlateDecode` expects it.
#[expect(clippy::expect_used, reason = "memory takes all that is written to it")]
pub(crate) fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("memory takes all that is written to it")
}
