//! Pictures for viewers: the scans, reduced to the size of a screen.

use anyhow::Result;
use image::GrayImage;
use image::imageops::crop_imm;
use parkhang_actors::jpeg::encode_jpeg;
use parkhang_models::page::resize::resize_area;
use parkhang_store::artifact::ImageName;
use parkhang_store::pages::{DisplayedPage, PageRef, Scan};
use parkhang_store::storage::ArtifactStore;

use super::document::PageDocument;
use super::results::StoredVolume;
use super::scanned::Scanned;
use super::view::{View, ViewError};

const QUALITY: u8 = 60;
/// Pictures made concurrently.
pub const READS: usize = 4;

/// Page, or a region of it, as a JPEG file.
#[derive(Debug)]
pub struct Picture {
    pub jpeg: Vec<u8>,
    pub width: u16,
    pub height: u16,
    /// Width and height of the scan that it was made from.
    pub scan: (u32, u32),
}

#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    #[error(transparent)]
    View(#[from] ViewError),
    #[error("reading the scan: {0:#}")]
    Scan(#[from] anyhow::Error),
}

/// Returns a JPEG of the scan; `None` if there is no picture.
///
/// # Errors
///
/// If the region reaches beyond the scan, or the artifact store cannot be reached.
pub async fn page_picture(
    store: &dyn ArtifactStore,
    volume: &StoredVolume,
    page: &PageDocument,
    view: View,
) -> Result<Option<Picture>, PictureError> {
    let Some(scan) = stored_scan(store, volume, page).await? else {
        return Ok(None);
    };
    // Decoding and reducing a scan is computation, which must not hold a thread of the runtime.
    let drawn = tokio::task::spawn_blocking(move || drawn(&scan, view)).await;
    Ok(drawn.map_err(anyhow::Error::from)??)
}

/// Reads the scan, or if it cannot be reached the straightened page that a stage saved. Outlines are in pixels of the scan and fit
/// the latter only roughly.
pub(super) async fn stored_scan(
    store: &dyn ArtifactStore,
    volume: &StoredVolume,
    page: &PageDocument,
) -> Result<Option<Scan>> {
    if let Some(scans) = &volume.scans {
        let scan = PageRef::named(page.source_name.as_str());
        // Whatever the reason, the straightened page is better than none.
        if let Ok(scan) = scans.read(&volume.volume, &scan).await {
            return Ok(Some(scan));
        }
    }
    let Ok(name) = ImageName::new(page.image_name.as_str()) else {
        return Ok(None);
    };
    let key = volume.layout.rotated_image(&name);
    if store.head(&key).await?.is_none() {
        return Ok(None);
    }
    let (straightened, scanned) = (Scan::Image(store.get(&key).await?), page.scanned);
    if scanned == Scanned::default() {
        return Ok(Some(straightened));
    }
    let scan = tokio::task::spawn_blocking(move || as_scanned(&straightened, scanned));
    Ok(scan.await?)
}

/// The straightened page as it lay when it was scanned; `None` if it cannot be decoded.
fn as_scanned(straightened: &Scan, scanned: Scanned) -> Option<Scan> {
    let page = straightened.displayed(|size| size).ok()?.picture;
    let jpeg = encode_jpeg(&scanned.scan_of(page), QUALITY).ok()?;
    Some(Scan::Image(jpeg.into()))
}

fn drawn(scan: &Scan, view: View) -> Result<Option<Picture>, ViewError> {
    let reduced = |size| match view.region {
        None => view.picture_size(size),
        Some(_) => size,
    };
    // A scan that cannot be decoded is reported by the stages; here its page has no picture.
    let Ok(DisplayedPage { picture: page, size }) = scan.displayed(reduced) else {
        return Ok(None);
    };
    if page.dimensions() != size {
        // Drawn as small as it is wanted.
        return Ok(jpeg(&page, size));
    }
    let part = view.part_of(size)?;
    let part = if (part.width, part.height) == size {
        page
    } else {
        crop_imm(&page, part.x, part.y, part.width, part.height).to_image()
    };
    let (width, height) = view.picture_size(part.dimensions());
    let picture = if (width, height) == part.dimensions() {
        part
    } else {
        resize_area(&part, width, height)
    };
    Ok(jpeg(&picture, size))
}

/// Encodes a picture; `None` if it is larger than a JPEG can be.
fn jpeg(picture: &GrayImage, scan: (u32, u32)) -> Option<Picture> {
    // The size of a JPEG is 16 bits in its header.
    let width = u16::try_from(picture.width()).ok()?;
    let height = u16::try_from(picture.height()).ok()?;
    Some(Picture {
        jpeg: encode_jpeg(picture, QUALITY).ok()?,
        width,
        height,
        scan,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{ImageFormat, Luma, load_from_memory};
    use parkhang_store::pages::PdfPage;

    use super::*;

    /// White on the left, black on the right.
    fn scan() -> Scan {
        let page = GrayImage::from_fn(4000, 1000, |x, _| Luma([if x < 2000 { 255 } else { 0 }]));
        let mut file = Cursor::new(Vec::new());
        page.write_to(&mut file, ImageFormat::Png).unwrap();
        Scan::Image(file.into_inner().into())
    }

    fn shown(region: &str, width: &str) -> GrayImage {
        let view = View {
            region: region.parse().ok(),
            width: width.parse().ok(),
        };
        let picture = drawn(&scan(), view).unwrap().unwrap();
        assert_eq!(picture.scan, (4000, 1000));
        let gray = load_from_memory(&picture.jpeg).unwrap().into_luma8();
        assert_eq!(gray.dimensions(), (picture.width.into(), picture.height.into()));
        gray
    }

    #[test]
    fn a_picture_shows_what_was_asked_for() {
        let whole = shown("", "");
        assert_eq!(whole.dimensions(), (1600, 400));
        assert!(whole.get_pixel(700, 200).0[0] > 200 && whole.get_pixel(900, 200).0[0] < 50);
        assert_eq!(shown("", "3000").dimensions(), (3000, 750));
        let part = shown("1900,10,200,100", "6000");
        assert_eq!(part.dimensions(), (200, 100), "nothing is enlarged");
        assert!(part.get_pixel(50, 50).0[0] > 200 && part.get_pixel(150, 50).0[0] < 50);
        assert_eq!(shown("1900,10,200,100", "50").dimensions(), (50, 25));
    }

    #[test]
    fn a_page_of_a_pdf_is_drawn_as_small_as_it_is_shown() {
        let file = include_bytes!("../../../models/pdf/tests/fixtures/javascript.pdf");
        let limits = parkhang_pdf::Limits::default();
        let document = parkhang_pdf::Document::open(file.as_slice().into(), None, &limits).unwrap();
        let page = Scan::Pdf(PdfPage {
            file: "javascript.pdf".into(),
            document,
            index: 0,
            version: String::new(),
        });
        // A4 at 300 dpi.
        let scan = (2480, 3508);
        let whole = drawn(&page, View::default()).unwrap().unwrap();
        assert_eq!((whole.width, whole.height, whole.scan), (1131, 1600, scan));
        let view = View {
            region: "400,300,1000,500".parse().ok(),
            width: None,
        };
        let part = drawn(&page, view).unwrap().unwrap();
        assert_eq!((part.width, part.height, part.scan), (1000, 500, scan));
        for picture in [whole, part] {
            let gray = load_from_memory(&picture.jpeg).unwrap().into_luma8();
            assert!(gray.pixels().any(|pixel| pixel.0[0] < 80), "it has ink");
        }
    }

    #[test]
    fn what_no_decoder_knows_has_no_picture() {
        assert!(
            drawn(&Scan::Image("no scan".into()), View::default())
                .unwrap()
                .is_none()
        );
    }
}
