//! PDF of pictures of pages, each with its text layer.

use std::io::Write;

use pdf_writer::types::AnnotationType;
use pdf_writer::{Chunk, Filter, Finish, Name, Rect, Ref, TextStr};

use crate::boxes::{PageSize, Spacing, Word};
use crate::codes::Codes;
use crate::content::layer;
use crate::error::SearchableError;
use crate::font::FontIds;
use crate::layout::lines;
use crate::object_file::{ObjectFile, XrefKind, deflated};
use crate::picture::{PagePicture, USUAL_DPI};

/// Largest and least side of a page, in points (ISO 32000-2, annex C).
const LARGEST_SIDE: f64 = 14_400.0;
const LEAST_SIDE: f64 = 3.0;
/// Points of an inch.
const INCH: f64 = 72.0;
/// Size of pages of which none is known: A4.
const USUAL_PAGE: PageSize = PageSize {
    width: 595.0,
    height: 842.0,
};
/// Pages in a node of the page tree.
const NODE: usize = 64;

/// Properties of the whole file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BookInfo<'a> {
    pub title: &'a str,
    /// Program that makes the file.
    pub producer: &'a str,
    /// BCP 47 tag of the text, if there is one for all pages.
    pub language: Option<&'a str>,
}

/// Writer of a PDF of pictures. A page is written when it is added, and nothing of it is kept but its number and the codes of its text.
#[derive(Debug)]
pub struct PictureBook<W> {
    file: ObjectFile<W>,
    codes: Codes,
    fonts: FontIds,
    catalog: Ref,
    info: Ref,
    /// Nodes of the page tree, each with its pages.
    nodes: Vec<(Ref, Vec<Ref>)>,
}

impl<W: Write> PictureBook<W> {
    /// Begins a file.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn new(out: W, book: &BookInfo<'_>) -> Result<Self, SearchableError> {
        let mut file = ObjectFile::new(out, 0, 1);
        // Bytes beyond ASCII in the second line tell programs that the file is not text.
        file.raw(b"%PDF-1.7\n%\x80\x80\x80\x80\n\n")?;
        let [catalog, tree, info] = [file.reserve()?, file.reserve()?, file.reserve()?];
        let mut chunk = Chunk::new();
        let mut root = chunk
            .indirect(catalog)
            .start::<pdf_writer::writers::Catalog<'_>>();
        root.pages(tree);
        if let Some(language) = book.language {
            root.lang(TextStr(language));
        }
        if !book.title.is_empty() {
            root.viewer_preferences().display_doc_title(true);
        }
        root.finish();
        file.write(&chunk)?;
        let mut chunk = Chunk::new();
        let mut properties = chunk
            .indirect(info)
            .start::<pdf_writer::writers::DocumentInfo<'_>>();
        if !book.title.is_empty() {
            properties.title(TextStr(book.title));
        }
        properties.producer(TextStr(book.producer));
        properties.finish();
        file.write(&chunk)?;
        Ok(Self {
            file,
            codes: Codes::default(),
            fonts: FontIds::default(),
            catalog,
            info,
            nodes: vec![(tree, Vec::new())],
        })
    }

    /// Adds a page with its words in reading order, whose boxes are in pixels of the picture as displayed, and with a note, if any, for
    /// whoever looks at it.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn add_page(
        &mut self,
        picture: &PagePicture<'_>,
        words: &[Word<'_>],
        spacing: Spacing,
        note: Option<&str>,
    ) -> Result<(), SearchableError> {
        self.add(picture.size(), picture.dpi(), Some(picture), words, spacing, note)
    }

    /// Adds a page whose picture, of this size in pixels, is not at hand.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn add_page_without_picture(
        &mut self,
        size: (u32, u32),
        words: &[Word<'_>],
        spacing: Spacing,
        note: Option<&str>,
    ) -> Result<(), SearchableError> {
        self.add(size, [USUAL_DPI; 2], None, words, spacing, note)
    }

    fn add(
        &mut self,
        pixels: (u32, u32),
        dpi: [f64; 2],
        picture: Option<&PagePicture<'_>>,
        words: &[Word<'_>],
        spacing: Spacing,
        note: Option<&str>,
    ) -> Result<(), SearchableError> {
        let (size, scale) = page_size(pixels, dpi);
        let words: Vec<Word<'_>> = words.iter().map(|word| scaled(word, scale)).collect();
        let upright = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        let lines = lines(&words, spacing, size);
        let layer = layer(&lines, size, upright, &mut self.codes, font_name);
        let mut content = layer.content;
        let mut picture_id = None;
        if let Some(picture) = picture {
            let id = self.file.reserve()?;
            self.file.write(&picture.object(id))?;
            picture_id = Some(id);
            let mut drawing = pdf_writer::Content::new();
            drawing.save_state();
            drawing.transform(picture.placement(size.width, size.height).map(single));
            drawing.x_object(Name(b"Picture"));
            drawing.restore_state();
            content.push(b'\n');
            content.extend_from_slice(&drawing.finish());
        }
        let [content_id, page_id] = [self.file.reserve()?, self.file.reserve()?];
        let mut chunk = Chunk::new();
        chunk
            .stream(content_id, &deflated(&content))
            .filter(Filter::FlateDecode);
        self.file.write(&chunk)?;
        let note_id = match note {
            Some(note) => Some(self.note(note, size)?),
            None => None,
        };
        let parent = self.node()?;
        let mut fonts = Vec::new();
        for font in layer.fonts {
            fonts.push((font_name(font), self.fonts.id(font, &mut self.file)?));
        }
        let mut chunk = Chunk::new();
        let mut page = chunk.page(page_id);
        page.parent(parent).contents(content_id);
        page.media_box(Rect::new(0.0, 0.0, single(size.width), single(size.height)));
        if let Some(note_id) = note_id {
            page.annotations([note_id]);
        }
        let mut resources = page.resources();
        if let Some(picture_id) = picture_id {
            resources.x_objects().pair(Name(b"Picture"), picture_id);
        }
        let mut named = resources.fonts();
        for (name, id) in &fonts {
            named.pair(Name(name.as_bytes()), id);
        }
        named.finish();
        resources.finish();
        page.finish();
        self.file.write(&chunk)?;
        if let Some((_, pages)) = self.nodes.last_mut() {
            pages.push(page_id);
        }
        Ok(())
    }

    /// Writes a note for the upper left corner of a page.
    fn note(&mut self, note: &str, size: PageSize) -> Result<Ref, SearchableError> {
        let id = self.file.reserve()?;
        let top = single(size.height);
        let mut chunk = Chunk::new();
        chunk
            .annotation(id)
            .subtype(AnnotationType::Text)
            .rect(Rect::new(0.0, (top - 20.0).max(0.0), 20.0, top))
            .contents(TextStr(note));
        self.file.write(&chunk)?;
        Ok(id)
    }

    /// Node of the page tree for the next page. The first is the root, whose number the catalog has.
    fn node(&mut self) -> Result<Ref, SearchableError> {
        let is_full =
            self.nodes.len() == 1 || self.nodes.last().is_some_and(|(_, pages)| pages.len() >= NODE);
        if is_full {
            let id = self.file.reserve()?;
            self.nodes.push((id, Vec::new()));
        }
        Ok(self.nodes.last().map_or(self.catalog, |(id, _)| *id))
    }

    /// Writes the fonts, the page tree and the end of the file.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<W, SearchableError> {
        self.fonts.write(&self.codes, &mut self.file)?;
        let count = |pages: usize| i32::try_from(pages).unwrap_or(i32::MAX);
        let Some(((root, _), nodes)) = self.nodes.split_first() else {
            return self.file.into_inner();
        };
        for (id, pages) in nodes {
            let mut chunk = Chunk::new();
            chunk
                .pages(*id)
                .parent(*root)
                .count(count(pages.len()))
                .kids(pages.iter().copied());
            self.file.write(&chunk)?;
        }
        let mut chunk = Chunk::new();
        chunk
            .pages(*root)
            .count(count(nodes.iter().map(|(_, pages)| pages.len()).sum()))
            .kids(nodes.iter().map(|(id, _)| *id));
        self.file.write(&chunk)?;
        let trailer = format!("/Root {} 0 R/Info {} 0 R", self.catalog.get(), self.info.get());
        let head = crate::object_file::Place::At {
            offset: 0,
            generation: u16::MAX,
        };
        self.file.enter_place(0, head);
        self.file.finish(XrefKind::Table, &trailer)
    }
}

/// Size of a page of so many pixels, and the points of a pixel across and down.
fn page_size((columns, rows): (u32, u32), [across, down]: [f64; 2]) -> (PageSize, [f64; 2]) {
    if columns == 0 || rows == 0 {
        return (USUAL_PAGE, [INCH / across, INCH / down]);
    }
    let [columns, rows] = [columns, rows].map(f64::from);
    let (width, height) = (columns / across * INCH, rows / down * INCH);
    // Both sides alike, or the picture would be distorted.
    let shrink = (LARGEST_SIDE / width.max(height)).min(1.0);
    let [width, height] = [width, height].map(|side| (side * shrink).max(LEAST_SIDE));
    (PageSize { width, height }, [width / columns, height / rows])
}

fn font_name(font: usize) -> String {
    format!("Invisible{font}")
}

fn scaled<'a>(word: &Word<'a>, [across, down]: [f64; 2]) -> Word<'a> {
    let [left, top, right, bottom] = word.bbox.map(f64::from);
    Word {
        bbox: [left * across, top * down, right * across, bottom * down].map(single),
        ..*word
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "points of a page need no more digits"
)]
fn single(value: f64) -> f32 {
    value as f32
}
