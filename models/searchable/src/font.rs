//! The invisible font as objects of a PDF: a composite font of two-byte codes, all with one empty glyph, and its map to Unicode.

use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Chunk, Name, Rect, Ref, Str};

use crate::codes::Codes;
use crate::error::SearchableError;
use crate::glyphless::{ADVANCE, ASCENT, DESCENT, glyphless_font};
use crate::object_file::{ObjectFile, deflated};

const FONT_NAME: Name<'static> = Name(b"GlyphLessFont");
const IDENTITY: SystemInfo<'static> = SystemInfo {
    registry: Str(b"Adobe"),
    ordering: Str(b"Identity"),
    supplement: 0,
};

/// Reserved object numbers of the fonts of a file, which are written last, when all codes are known.
#[derive(Debug, Default)]
pub(crate) struct FontIds(Vec<Ref>);

impl FontIds {
    /// Object number of the `font`th font.
    ///
    /// # Errors
    ///
    /// [`SearchableError::TooLarge`] if there are no more numbers.
    pub(crate) fn id<W: std::io::Write>(
        &mut self,
        font: usize,
        file: &mut ObjectFile<W>,
    ) -> Result<Ref, SearchableError> {
        while self.0.len() <= font {
            self.0.push(file.reserve()?);
        }
        Ok(self.0[font])
    }

    /// Writes the fonts whose numbers were reserved.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub(crate) fn write<W: std::io::Write>(
        &self,
        codes: &Codes,
        file: &mut ObjectFile<W>,
    ) -> Result<(), SearchableError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let [program, map, descriptor, cid_font] =
            [file.reserve()?, file.reserve()?, file.reserve()?, file.reserve()?];
        let font = glyphless_font();
        let mut chunk = Chunk::new();
        chunk
            .stream(program, &deflated(&font))
            .filter(pdf_writer::Filter::FlateDecode)
            .pair(Name(b"Length1"), i32::try_from(font.len()).unwrap_or(i32::MAX));
        file.write(&chunk)?;
        // Every code has glyph 0.
        let mut chunk = Chunk::new();
        chunk
            .stream(map, &deflated(&[0; 2 * 65_536]))
            .filter(pdf_writer::Filter::FlateDecode);
        file.write(&chunk)?;
        let mut chunk = Chunk::new();
        chunk
            .font_descriptor(descriptor)
            .name(FONT_NAME)
            .flags(FontFlags::FIXED_PITCH | FontFlags::SYMBOLIC)
            .bbox(Rect::new(0.0, single(DESCENT), single(ADVANCE), single(ASCENT)))
            .italic_angle(0.0)
            .ascent(single(ASCENT))
            .descent(single(DESCENT))
            .cap_height(single(ASCENT))
            .stem_v(80.0)
            .font_file2(program);
        file.write(&chunk)?;
        let mut chunk = Chunk::new();
        chunk
            .cid_font(cid_font)
            .subtype(CidFontType::Type2)
            .base_font(FONT_NAME)
            .system_info(IDENTITY)
            .font_descriptor(descriptor)
            .default_width(single(ADVANCE))
            .cid_to_gid_map_stream(map);
        file.write(&chunk)?;
        for (id, codes) in self.0.iter().zip(codes.fonts()) {
            let to_unicode = file.reserve()?;
            let mut cmap = UnicodeCmap::<u16>::new(Name(b"Adobe-Identity-UCS"), IDENTITY);
            for (code, text) in codes {
                cmap.pair_with_multiple(code, text.chars());
            }
            let mut chunk = Chunk::new();
            chunk
                .stream(to_unicode, &deflated(&cmap.finish()))
                .filter(pdf_writer::Filter::FlateDecode);
            file.write(&chunk)?;
            let mut chunk = Chunk::new();
            chunk
                .type0_font(*id)
                .base_font(FONT_NAME)
                .encoding_predefined(Name(b"Identity-H"))
                .descendant_font(cid_font)
                .to_unicode(to_unicode);
            file.write(&chunk)?;
        }
        Ok(())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "measures of this font are small integers"
)]
fn single(value: f64) -> f32 {
    value as f32
}
