//! PDF that gets a text layer: its pages, and what an incremental update must repeat of its trailer.

use std::collections::BTreeSet;
use std::sync::Arc;

use hayro_syntax::object::{Dict, Object, ObjectIdentifier};
use hayro_syntax::page::{Page, Rotation};
use hayro_syntax::{LoadPdfError, Pdf};

use crate::blank::{OwnFont, code_length};
use crate::boxes::PageSize;
use crate::error::SearchableError;
use crate::object_file::{Place, XrefKind};
use crate::repair::{self, Trailer};
use crate::syntax::{Entry, entries, reference, value};

/// First bytes in which the header may stand; offsets count from it.
const HEADER_WITHIN: usize = 1024;
/// Largest distance of a page from the root of the page tree.
const DEEPEST: usize = 10_000;

/// PDF as it was given.
pub(crate) struct Original {
    pdf: Pdf,
    /// Bytes before the header.
    pub(crate) prologue: usize,
    pub(crate) trailer: Trailer,
}

/// Page that is an object of its own, in its source.
#[derive(Debug)]
pub(crate) struct SourcePage<'a> {
    pub(crate) id: u32,
    pub(crate) generation: u16,
    pub(crate) entries: Vec<Entry<'a>>,
    /// Content streams in order, as references.
    pub(crate) contents: Vec<u8>,
    /// Entries of its resources but for fonts, own or inherited.
    pub(crate) resources: Vec<Entry<'a>>,
    pub(crate) fonts: Vec<Entry<'a>>,
    /// Fonts among them whose map to Unicode can be exchanged.
    pub(crate) own_fonts: Vec<OwnFont<'a>>,
}

/// Part of shared bytes.
#[derive(Debug)]
struct Tail<T> {
    bytes: Arc<T>,
    from: usize,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Tail<T> {
    fn as_ref(&self) -> &[u8] {
        (*self.bytes).as_ref().get(self.from..).unwrap_or_default()
    }
}

impl Original {
    /// Opens a PDF.
    ///
    /// # Errors
    ///
    /// [`SearchableError::Encrypted`], or [`SearchableError::Unreadable`] if no catalog can be found.
    pub(crate) fn open<T>(bytes: Arc<T>) -> Result<Self, SearchableError>
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        let whole = (*bytes).as_ref();
        let start = &whole[..whole.len().min(HEADER_WITHIN)];
        let header = start.windows(5).position(|window| window == b"%PDF-");
        let from = header.ok_or(SearchableError::Unreadable)?;
        let pdf = Pdf::new(Arc::new(Tail { bytes, from })).map_err(|error| match error {
            LoadPdfError::Decryption(_) => SearchableError::Encrypted,
            LoadPdfError::Invalid => SearchableError::Unreadable,
        })?;
        let trailer = match repair::trailer(pdf.data().as_ref()) {
            Some(trailer) => trailer,
            None => repair::repaired(&pdf),
        };
        if trailer.is_encrypted {
            return Err(SearchableError::Encrypted);
        }
        Ok(Self {
            pdf,
            prologue: from,
            trailer,
        })
    }

    /// Source, from its header on.
    pub(crate) fn source(&self) -> &[u8] {
        self.pdf.data().as_ref()
    }

    pub(crate) fn pages(&self) -> usize {
        self.pdf.pages().len()
    }

    /// Page by its index.
    ///
    /// # Errors
    ///
    /// [`SearchableError::NoSuchPage`].
    fn page(&self, index: usize) -> Result<&Page<'_>, SearchableError> {
        let pages = self.pdf.pages();
        pages.get(index).ok_or(SearchableError::NoSuchPage {
            page: index + 1,
            pages: pages.len(),
        })
    }

    /// Size of a page as displayed, and the matrix from points of the displayed page, upwards from its lower left corner, to user space.
    ///
    /// # Errors
    ///
    /// [`SearchableError::NoSuchPage`].
    pub(crate) fn geometry(&self, index: usize) -> Result<(PageSize, [f64; 6]), SearchableError> {
        let page = self.page(index)?;
        let area = page.intersected_crop_box();
        let (width, height) = page.base_dimensions();
        let (width, height) = (f64::from(width), f64::from(height));
        let unit = page
            .raw()
            .get::<f32>(b"UserUnit")
            .map(f64::from)
            .filter(|unit| unit.is_finite() && *unit > 0.0)
            .unwrap_or(1.0);
        let scale = 1.0 / unit;
        let (left, bottom) = (area.x0, area.y0);
        // The rotation is clockwise.
        let (matrix, (width, height)) = match page.rotation() {
            Rotation::None => ([scale, 0.0, 0.0, scale, left, bottom], (width, height)),
            Rotation::Horizontal => ([0.0, scale, -scale, 0.0, left + width, bottom], (height, width)),
            Rotation::Flipped => (
                [-scale, 0.0, 0.0, -scale, left + width, bottom + height],
                (width, height),
            ),
            Rotation::FlippedHorizontal => {
                ([0.0, -scale, scale, 0.0, left, bottom + height], (height, width))
            }
        };
        let size = PageSize {
            width: width * unit,
            height: height * unit,
        };
        Ok((size, matrix))
    }

    /// Source of a page.
    ///
    /// # Errors
    ///
    /// [`SearchableError::NoSuchPage`], or [`SearchableError::DamagedPage`] if it cannot be replaced.
    pub(crate) fn source_page(&self, index: usize) -> Result<SourcePage<'_>, SearchableError> {
        let page = self.page(index)?.raw();
        self.parsed(page)
            .ok_or(SearchableError::DamagedPage { page: index + 1 })
    }

    fn parsed<'a>(&'a self, page: &Dict<'a>) -> Option<SourcePage<'a>> {
        let id = page.obj_id()?;
        // A page that is written into the list of its parent has the number of what holds it.
        let is_object = self.pdf.xref().get::<Dict<'_>>(id)? == *page;
        is_object.then_some(())?;
        let resources = self.resources(page).unwrap_or_default();
        let fonts = resources.get::<Dict<'_>>(b"Font").unwrap_or_default();
        let font_entries = of_dict(&fonts)?;
        Some(SourcePage {
            id: id.obj_number,
            generation: u16::try_from(id.gen_number).ok()?,
            entries: entries(page.data())?,
            contents: contents(page)?,
            resources: of_dict(&resources)?,
            own_fonts: font_entries
                .iter()
                .filter_map(|entry| own_font(&fonts, entry))
                .collect(),
            fonts: font_entries,
        })
    }

    /// Resources of a page, or of the nearest ancestor that has some.
    fn resources<'a>(&'a self, page: &Dict<'a>) -> Option<Dict<'a>> {
        let mut node = page.clone();
        let mut seen = BTreeSet::new();
        for _ in 0..DEEPEST {
            if let Some(resources) = node.get::<Dict<'_>>(b"Resources") {
                return Some(resources);
            }
            let parent: ObjectIdentifier = node.get_ref(b"Parent")?.into();
            if !seen.insert(parent) {
                return None;
            }
            node = self.pdf.xref().get::<Dict<'_>>(parent)?;
        }
        None
    }
}

fn of_dict<'a>(dict: &Dict<'a>) -> Option<Vec<Entry<'a>>> {
    if dict.is_empty() {
        return Some(Vec::new());
    }
    entries(dict.data())
}

/// Font of the resources of a page; `None` if it is malformed, or its map to Unicode cannot be exchanged.
fn own_font<'a>(fonts: &Dict<'a>, entry: &Entry<'a>) -> Option<OwnFont<'a>> {
    let font = fonts.get::<Dict<'_>>(&entry.key)?;
    Some(OwnFont {
        key: entry.key.clone(),
        raw_key: entry.raw_key,
        id: reference(entry.value),
        entries: entries(font.data())?,
        codes: code_length(&font)?,
    })
}

/// Elements of the array of content streams, as they are written.
fn contents(page: &Dict<'_>) -> Option<Vec<u8>> {
    let entries = entries(page.data())?;
    let Some(raw) = value(&entries, "Contents") else {
        return Some(Vec::new());
    };
    Some(match page.get::<Object<'_>>(b"Contents") {
        Some(Object::Array(array)) => array.data().to_vec(),
        Some(Object::Stream(_)) => raw.to_vec(),
        // Readers show a page whose content is missing as empty.
        _ => Vec::new(),
    })
}

impl Trailer {
    /// Places of the objects, if the cross-reference section must list them all again.
    pub(crate) fn places(&self) -> &[(u32, Place)] {
        &self.places
    }

    pub(crate) fn kind(&self) -> XrefKind {
        self.kind
    }
}
