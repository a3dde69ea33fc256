//! Pictures for viewers: the scans themselves, reduced to what a screen shows.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use image::GrayImage;
use jpeg_encoder::{ColorType, Encoder};
use parkhang_actors::artifact::ImageName;
use parkhang_actors::pages::PageRef;
use parkhang_actors::storage::ArtifactStore;
use parkhang_models::page::decode::{DecodeLimits, decode_page};
use parkhang_models::page::resize::resize_area;

use super::document::{PageDocument, VolumeDocument};
use super::results::StoredVolume;

/// Longest side of a picture in pixels.
const LONGEST_SIDE: u32 = 1600;
const QUALITY: u8 = 60;
/// Pictures that are made at once.
pub const READS: usize = 4;

/// A page as a JPEG file.
#[derive(Debug)]
pub struct Picture {
    pub jpeg: Vec<u8>,
    pub width: u16,
    pub height: u16,
    /// Width and height of the scan that it was made from.
    pub scan: (u32, u32),
}

/// One JPEG in base64 per page; empty where there is no picture to be had.
pub async fn viewer_scans(
    store: &dyn ArtifactStore,
    volume: &StoredVolume,
    document: &VolumeDocument,
) -> Result<Vec<String>> {
    let pages = stream::iter(&document.pages);
    pages
        .map(|page| async move {
            let picture = page_picture(store, volume, page).await?;
            Ok(picture.map_or_else(String::new, |picture| STANDARD.encode(picture.jpeg)))
        })
        .buffered(READS)
        .try_collect()
        .await
}

/// A JPEG of the scan; `None` where there is no picture to be had.
pub async fn page_picture(
    store: &dyn ArtifactStore,
    volume: &StoredVolume,
    page: &PageDocument,
) -> Result<Option<Picture>> {
    let Some(bytes) = scan_bytes(store, volume, page).await? else {
        return Ok(None);
    };
    Ok(tokio::task::spawn_blocking(move || reduced(&bytes)).await?)
}

/// The scan where it is still to be had; a straightened page is not the scan that the outlines lie on.
async fn scan_bytes(
    store: &dyn ArtifactStore,
    volume: &StoredVolume,
    page: &PageDocument,
) -> Result<Option<Bytes>> {
    if let Some(scans) = &volume.scans {
        let scan = PageRef {
            name: page.source_name.clone(),
            size: 0,
            version: None,
        };
        if let Ok(bytes) = scans.read(&volume.volume, &scan).await {
            return Ok(Some(bytes));
        }
    }
    let Ok(name) = ImageName::new(page.image_name.as_str()) else {
        return Ok(None);
    };
    let key = volume.layout.rotated_image(&name);
    match store.head(&key).await? {
        Some(_) => Ok(Some(store.get(&key).await?)),
        None => Ok(None),
    }
}

/// Width and height of the picture of a scan.
pub fn picture_size((width, height): (u32, u32)) -> (u32, u32) {
    let longest = width.max(height);
    if longest <= LONGEST_SIDE {
        return (width, height);
    }
    let side =
        |length: u32| ((u64::from(length) * u64::from(LONGEST_SIDE) / u64::from(longest)) as u32).max(1);
    (side(width), side(height))
}

fn reduced(bytes: &[u8]) -> Option<Picture> {
    let gray = decode_page(bytes, &DecodeLimits::default()).ok()?.gray;
    let scan = gray.dimensions();
    let (width, height) = picture_size(scan);
    let reduced: GrayImage = match (width, height) == scan {
        true => gray,
        false => resize_area(&gray, width, height),
    };
    let (width, height) = (
        u16::try_from(reduced.width()).ok()?,
        u16::try_from(reduced.height()).ok()?,
    );
    let mut jpeg = Vec::new();
    Encoder::new(&mut jpeg, QUALITY)
        .encode(reduced.as_raw(), width, height, ColorType::Luma)
        .ok()?;
    Some(Picture {
        jpeg,
        width,
        height,
        scan,
    })
}
