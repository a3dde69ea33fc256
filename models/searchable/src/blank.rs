//! Fonts without letters. A page shows glyphs by their codes in a font; the Unicode of these codes is only asked for by programs that
//! search or copy. A copy of a font whose map to Unicode has spaces alone therefore shows the same, and nothing is found in its text.

use std::collections::HashMap;

use hayro_syntax::object::{Array, Dict, Name};
use pdf_writer::{Chunk, Filter, Ref};

use crate::error::SearchableError;
use crate::object_file::{ObjectFile, deflated};
use crate::syntax::Entry;

/// Most lines of a block of a map.
const LINES: usize = 100;

/// Length of the codes of a font.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CodeLength {
    One,
    /// At most two bytes.
    Two,
}

/// Font of a page that shows the same with another map to Unicode.
#[derive(Debug)]
pub(crate) struct OwnFont<'a> {
    /// Name in the resources of the page, without the slash, and as it is written.
    pub(crate) key: Vec<u8>,
    pub(crate) raw_key: &'a [u8],
    /// Number and generation, if it is an object of its own.
    pub(crate) id: Option<(u32, u16)>,
    pub(crate) entries: Vec<Entry<'a>>,
    pub(crate) codes: CodeLength,
}

/// Copies of fonts that were written so far.
#[derive(Debug, Default)]
pub(crate) struct BlankFonts {
    copies: HashMap<(u32, u16), Ref>,
    maps: HashMap<CodeLength, Ref>,
}

/// Length of the codes of a font; `None` if viewers may choose its glyphs by their Unicode, as of a composite font that is not embedded.
pub(crate) fn code_length(font: &Dict<'_>) -> Option<CodeLength> {
    let subtype = font.get::<Name<'_>>(b"Subtype")?;
    if subtype.as_ref() != b"Type0" {
        return Some(CodeLength::One);
    }
    let descendant = font
        .get::<Array<'_>>(b"DescendantFonts")?
        .iter::<Dict<'_>>()
        .next()?;
    let descriptor = descendant.get::<Dict<'_>>(b"FontDescriptor")?;
    let is_embedded = ["FontFile", "FontFile2", "FontFile3"]
        .iter()
        .any(|file| descriptor.contains_key(file.as_bytes()));
    is_embedded.then_some(CodeLength::Two)
}

impl BlankFonts {
    /// Writes a copy of a font, unless it has one.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn copy<W: std::io::Write>(
        &mut self,
        font: &OwnFont<'_>,
        file: &mut ObjectFile<W>,
    ) -> Result<Ref, SearchableError> {
        if let Some(copy) = font.id.and_then(|id| self.copies.get(&id)) {
            return Ok(*copy);
        }
        let map = self.map(font.codes, file)?;
        let mut source = b"<<".to_vec();
        for entry in font.entries.iter().filter(|entry| entry.key != b"ToUnicode") {
            source.extend_from_slice(entry.raw_key);
            source.push(b' ');
            source.extend_from_slice(entry.value);
            source.push(b'\n');
        }
        source.extend_from_slice(format!("/ToUnicode {} 0 R>>", map.get()).as_bytes());
        let copy = file.reserve()?;
        file.write_source(u32::try_from(copy.get()).unwrap_or(0), 0, &source)?;
        if let Some(id) = font.id {
            self.copies.insert(id, copy);
        }
        Ok(copy)
    }

    fn map<W: std::io::Write>(
        &mut self,
        codes: CodeLength,
        file: &mut ObjectFile<W>,
    ) -> Result<Ref, SearchableError> {
        if let Some(map) = self.maps.get(&codes) {
            return Ok(*map);
        }
        let map = file.reserve()?;
        let mut chunk = Chunk::new();
        chunk
            .stream(map, &deflated(map_of_spaces(codes).as_bytes()))
            .filter(Filter::FlateDecode);
        file.write(&chunk)?;
        self.maps.insert(codes, map);
        Ok(map)
    }
}

/// ToUnicode map (ISO 32000-2, 9.10.3) of all codes to a space.
fn map_of_spaces(codes: CodeLength) -> String {
    // A range counts up in Unicode too, unless it lists its texts; and it stays within its first byte.
    let spaces = "<0020>".repeat(256);
    let (digits, ranges) = match codes {
        CodeLength::One => (2, 1),
        CodeLength::Two => (4, 256),
    };
    let range = |high: usize| {
        format!(
            "<{:0digits$X}> <{:0digits$X}> [{spaces}]\n",
            high << 8,
            high << 8 | 0xff
        )
    };
    let ranges: Vec<String> = (0..ranges).map(range).collect();
    let blocks = ranges
        .chunks(LINES)
        .map(|block| format!("{} beginbfrange\n{}endbfrange\n", block.len(), block.concat()));
    format!(
        "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n/CIDSystemInfo <</Registry (Adobe) /Ordering (UCS) /Supplement 0>> def\n\
         /CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n1 begincodespacerange\n<{:0digits$X}> <{}> endcodespacerange\n{}\
         endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n",
        0,
        "F".repeat(digits),
        blocks.collect::<String>(),
    )
}
