//! TrueType font whose only glyph shows nothing. Invisible text needs no shapes, but archival PDF and some viewers insist on an embedded
//! font. The glyph has an outline all the same, a line as large as its box: PDFium leaves out text whose glyphs have no extent, which is
//! every word of one letter.

/// Units of an em.
pub(crate) const UNITS: f64 = 1000.0;
/// Height above the baseline. With the descent it is more than an em, as fonts of most scripts have it: from the height of a box a viewer
/// then sees the size of font that is usual in it, by which it tells words and columns apart.
pub(crate) const ASCENT: f64 = 1000.0;
pub(crate) const DESCENT: f64 = -250.0;
/// Height of a box, in units of the em.
pub(crate) const HEIGHT: f64 = ASCENT - DESCENT;
/// Advance of every glyph.
pub(crate) const ADVANCE: f64 = 500.0;

/// Number of a font made for use within a file alone: Unicode maps, names and shapes are those of the PDF.
const VERSION: [u8; 4] = [0, 1, 0, 0];
const MAGIC: u32 = 0x5f0f_3cf5;

/// Makes the file of the font, with the tables that ISO 32000-2, 9.9 asks for in a TrueType font of a CID font.
pub(crate) fn glyphless_font() -> Vec<u8> {
    let units = unsigned(UNITS);
    let (ascent, descent, advance) = (signed(ASCENT), signed(DESCENT), unsigned(ADVANCE));
    let mut head = Table::default();
    head.bytes(&VERSION)
        .bytes(&VERSION)
        .long(0)
        .long(MAGIC)
        .short(0)
        .short(units);
    // Created and modified; the box of all glyphs.
    head.bytes(&[0; 16])
        .short(0)
        .bytes(&descent)
        .short(advance)
        .bytes(&ascent);
    // Style, smallest size, direction, short offsets, version of glyphs.
    head.shorts(&[0, 8, 2, 0, 0]);
    let mut hhea = Table::default();
    hhea.bytes(&VERSION).bytes(&ascent).bytes(&descent).short(0);
    // Widest advance, least bearings, rightmost point.
    hhea.short(advance).shorts(&[0, 0]).short(advance);
    // Slope of the caret, its offset, four reserved, format, number of advances.
    hhea.shorts(&[1, 0, 0, 0, 0, 0, 0, 0, 1]);
    let mut maxp = Table::default();
    // One glyph of two points in one contour, no composite ones, and nothing that an interpreter of hints would have to keep.
    maxp.bytes(&VERSION).shorts(&[1, 2, 1, 0, 0, 1]).shorts(&[0; 8]);
    let mut hmtx = Table::default();
    hmtx.short(advance).short(0);
    let glyf = glyph();
    let mut loca = Table::default();
    // Offsets are halved.
    loca.shorts(&[0, short(glyf.0.len() / 2)]);
    let tables = [
        (*b"glyf", glyf),
        (*b"head", head),
        (*b"hhea", hhea),
        (*b"hmtx", hmtx),
        (*b"loca", loca),
        (*b"maxp", maxp),
    ];
    assembled(&tables)
}

/// Line from the lower left to the upper right corner of the glyph's box. It has no area to be filled.
fn glyph() -> Table {
    let mut glyph = Table::default();
    // Contours; the box.
    glyph
        .shorts(&[1, 0])
        .bytes(&signed(DESCENT))
        .short(unsigned(ADVANCE))
        .bytes(&signed(ASCENT));
    // Last point of the contour, instructions; two points on the outline, whose steps are of two bytes.
    glyph.shorts(&[1, 0]).bytes(&[1, 1]);
    glyph.short(0).short(unsigned(ADVANCE));
    glyph.bytes(&signed(DESCENT)).bytes(&signed(HEIGHT));
    glyph
}

/// Writes the directory and the tables, each at a multiple of four bytes.
fn assembled(tables: &[([u8; 4], Table)]) -> Vec<u8> {
    let count = tables.len();
    let log = count.ilog2();
    let range = 16 << log;
    let mut file = Table::default();
    file.bytes(&VERSION)
        .short(short(count))
        .short(range)
        .short(short(log as usize))
        .short(short(16 * count) - range);
    let mut offset = 12 + 16 * count;
    for (tag, table) in tables {
        file.bytes(tag)
            .long(checksum(&table.0))
            .long(long(offset))
            .long(long(table.0.len()));
        offset += table.0.len().next_multiple_of(4);
    }
    let head = file.0.len()
        + tables
            .iter()
            .take_while(|(tag, _)| tag != b"head")
            .map(|(_, table)| table.0.len().next_multiple_of(4))
            .sum::<usize>();
    for (_, table) in tables {
        file.bytes(&table.0);
        file.0.resize(file.0.len().next_multiple_of(4), 0);
    }
    // The adjustment makes the sum of the whole file a constant.
    let adjustment = 0xb1b0_afba_u32.wrapping_sub(checksum(&file.0));
    file.0[head + 8..head + 12].copy_from_slice(&adjustment.to_be_bytes());
    file.0
}

fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_be_bytes(word)
    });
    words.fold(0, u32::wrapping_add)
}

#[derive(Debug, Default)]
struct Table(Vec<u8>);

impl Table {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn short(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn shorts(&mut self, values: &[u16]) -> &mut Self {
        for value in values {
            self.short(*value);
        }
        self
    }

    fn long(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "measures of this font are small and positive"
)]
fn unsigned(value: f64) -> u16 {
    value as u16
}

#[expect(clippy::cast_possible_truncation, reason = "measures of this font are small")]
fn signed(value: f64) -> [u8; 2] {
    (value as i16).to_be_bytes()
}

fn short(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

fn long(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_where_the_directory_says() {
        let font = glyphless_font();
        let long = |at: usize| u32::from_be_bytes(font[at..at + 4].try_into().unwrap());
        let tables: Vec<(&[u8], usize, usize)> = (0..6)
            .map(|index| {
                let entry = 12 + 16 * index;
                let (offset, length) = (long(entry + 8) as usize, long(entry + 12) as usize);
                if &font[entry..entry + 4] != b"head" {
                    assert_eq!(checksum(&font[offset..offset + length]), long(entry + 4));
                }
                (&font[entry..entry + 4], offset, length)
            })
            .collect();
        let lengths: Vec<usize> = tables.iter().map(|(.., length)| *length).collect();
        assert_eq!(lengths, [24, 54, 36, 4, 4, 32]);
        assert_eq!(long(tables[1].1 + 12), MAGIC);
        assert_eq!(checksum(&font), 0xb1b0_afba);
    }
}
