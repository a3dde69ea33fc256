//! Text layer over the pages of a PDF, as an incremental update (ISO 32000-2, 7.5.6).

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use pdf_writer::{Chunk, Filter};

use crate::blank::BlankFonts;
use crate::boxes::{OwnText, PageSize, Spacing, Word};
use crate::codes::Codes;
use crate::content::layer;
use crate::error::SearchableError;
use crate::font::FontIds;
use crate::layout::lines;
use crate::object_file::{ObjectFile, deflated};
use crate::original::{Original, SourcePage};
use crate::syntax::Entry;

/// Name of the invisible font in resources that do not have it for another.
const FONT: &str = "Invisible";

/// Writer of a PDF with a text layer. The output begins with the bytes of the original; its pages get their layers one after another, in
/// any order, and a page to which nothing is added stays as it is.
pub struct TextLayer<W> {
    original: Original,
    file: ObjectFile<W>,
    codes: Codes,
    fonts: FontIds,
    blank: BlankFonts,
    /// Indices of the pages with a layer.
    pages: BTreeSet<usize>,
}

impl<W> std::fmt::Debug for TextLayer<W> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = out.debug_struct("TextLayer");
        shown.field("pages", &self.pages).finish_non_exhaustive()
    }
}

impl<W: Write> TextLayer<W> {
    /// Opens a PDF and copies it to `out`.
    ///
    /// # Errors
    ///
    /// [`SearchableError::Encrypted`] or [`SearchableError::Unreadable`], before anything is written; or if it cannot be written.
    pub fn over<T>(original: Arc<T>, mut out: W) -> Result<Self, SearchableError>
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        let whole = original.clone();
        let original = Original::open(original)?;
        out.write_all(&(*whole).as_ref()[..original.prologue])?;
        let mut file = ObjectFile::new(out, 0, original.trailer.free);
        file.raw(original.source())?;
        Ok(Self {
            original,
            file,
            codes: Codes::default(),
            fonts: FontIds::default(),
            blank: BlankFonts::default(),
            pages: BTreeSet::new(),
        })
    }

    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.original.pages()
    }

    /// Size of the page with this index, from 0, as displayed: within the crop box, turned by `/Rotate`, in points of 1/72 inch also where
    /// the file has another user unit.
    ///
    /// # Errors
    ///
    /// [`SearchableError::NoSuchPage`].
    pub fn page_size(&self, index: usize) -> Result<PageSize, SearchableError> {
        Ok(self.original.geometry(index)?.0)
    }

    /// Adds the words of the page with this index, from 0, in reading order, and keeps or blanks its own text.
    ///
    /// # Errors
    ///
    /// [`SearchableError::NoSuchPage`], [`SearchableError::RepeatedPage`] or [`SearchableError::DamagedPage`], after which other pages can
    /// still be added; or if the layer cannot be written.
    pub fn add_page(
        &mut self,
        index: usize,
        words: &[Word<'_>],
        spacing: Spacing,
        own: OwnText,
    ) -> Result<(), SearchableError> {
        let (size, to_user) = self.original.geometry(index)?;
        let lines = lines(words, spacing, size);
        if lines.is_empty() && own == OwnText::Kept {
            return Ok(());
        }
        let mut page = self.original.source_page(index)?;
        if own == OwnText::Kept {
            page.own_fonts.clear();
        }
        if lines.is_empty() && page.own_fonts.is_empty() {
            return Ok(());
        }
        if !self.pages.insert(index) {
            return Err(SearchableError::RepeatedPage { page: index + 1 });
        }
        if self.pages.len() == 1 && self.original.source().last() != Some(&b'\n') {
            self.file.raw(b"\n")?;
        }
        let prefix = free_name(&page.fonts);
        let layer = layer(&lines, size, to_user, &mut self.codes, |font| {
            format!("{prefix}{font}")
        });
        let stream = self.file.reserve()?;
        let mut chunk = Chunk::new();
        chunk
            .stream(stream, &deflated(&layer.content))
            .filter(Filter::FlateDecode);
        self.file.write(&chunk)?;
        let mut fonts = Vec::new();
        for font in layer.fonts {
            let id = self.fonts.id(font, &mut self.file)?;
            fonts.extend_from_slice(format!("/{prefix}{font} {} 0 R", id.get()).as_bytes());
        }
        for font in &page.own_fonts {
            let copy = self.blank.copy(font, &mut self.file)?;
            fonts.extend_from_slice(font.raw_key);
            fonts.extend_from_slice(format!(" {} 0 R", copy.get()).as_bytes());
        }
        let source = page_source(&page, stream.get(), &fonts);
        self.file.write_source(page.id, page.generation, &source)
    }

    /// Writes the fonts and the end of the file. Without a page with words the file is the original.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<W, SearchableError> {
        if self.pages.is_empty() {
            return self.file.into_inner();
        }
        self.fonts.write(&self.codes, &mut self.file)?;
        let trailer = &self.original.trailer;
        for (id, place) in trailer.places() {
            self.file.enter_place(*id, *place);
        }
        self.file.finish(trailer.kind(), &trailer.source)
    }
}

/// Beginning of names that no font of the page has.
fn free_name(fonts: &[Entry<'_>]) -> String {
    let mut name = FONT.to_owned();
    while fonts.iter().any(|font| font.key.starts_with(name.as_bytes())) {
        name.push('_');
    }
    name
}

/// Source of the page with the layer before its content, and with fonts beside its own or in their place.
fn page_source(page: &SourcePage<'_>, layer: i32, fonts: &[u8]) -> Vec<u8> {
    let mut source = b"<<".to_vec();
    let rest = |entries: &[Entry<'_>], without: &[&[u8]], source: &mut Vec<u8>| {
        for entry in entries
            .iter()
            .filter(|entry| !without.contains(&entry.key.as_slice()))
        {
            source.extend_from_slice(entry.raw_key);
            source.push(b' ');
            source.extend_from_slice(entry.value);
            source.push(b'\n');
        }
    };
    rest(&page.entries, &[b"Contents", b"Resources"], &mut source);
    source.extend_from_slice(format!("/Contents[{layer} 0 R ").as_bytes());
    source.extend_from_slice(&page.contents);
    // A comment at the end of what was copied would hide a bracket in its line.
    source.extend_from_slice(b"\n]/Resources<<");
    rest(&page.resources, &[b"Font"], &mut source);
    source.extend_from_slice(b"/Font<<");
    let replaced: Vec<&[u8]> = page.own_fonts.iter().map(|font| font.key.as_slice()).collect();
    rest(&page.fonts, &replaced, &mut source);
    source.extend_from_slice(fonts);
    source.extend_from_slice(b">>>>>>");
    source
}
