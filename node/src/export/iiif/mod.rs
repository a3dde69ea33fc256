//! Export of a volume for IIIF viewers: a manifest, annotations with the text, and pictures of the pages.
//!
//! The same JSON is written to files and answered over HTTP, where pictures and annotations lie below a base URL in the same arrangement;
//! only [`address`] knows that arrangement. A canvas must have the size of its scan, so a page whose size is unknown because it
//! could not be decoded is left out of a manifest rather than given a wrong size that would misplace every annotation.

mod address;
mod annotations;
mod manifest;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use futures::{StreamExt, TryStreamExt, stream};
use parkhang_store::storage::ArtifactStore;
use serde_json::Value;

use super::document::{PageDocument, VolumeDocument};
use super::results::StoredVolume;
use super::scan::{self, Picture};
use super::view::View;
use super::write;
pub use address::BaseUrl;
use address::{ImageService, VolumeAddress};
use manifest::{Canvas, Painting, Service};

/// Options for the URLs in an IIIF manifest.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "IIIF")]
pub struct IiifArgs {
    /// URL at which the folder `iiif` of the export will be served; every id in a manifest begins with it.
    #[arg(long, value_name = "URL", default_value = "http://localhost:8000")]
    pub base_url: BaseUrl,
    /// Image API service of a scan, to be used instead of writing JPEG files; {w}, {i} and {image} are replaced by the ids of
    /// the volume and by the file name of the scan, as in `https://iiif.bdrc.io/bdr:{i}::{image}`.
    #[arg(long, value_name = "URL")]
    pub image_service: Option<ImageService>,
    /// Version of the Image API of this service.
    #[arg(long, value_name = "VERSION", default_value = "3", requires = "image_service")]
    pub image_api: ImageApi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImageApi {
    #[value(name = "2")]
    Second,
    #[value(name = "3")]
    Third,
}

/// Writes `manifest.json`, `annotations/*.json` and, without an image service, `images/*.jpg` to `folder`; returns the path of
/// the manifest.
///
/// # Errors
///
/// If a file cannot be written. A scan that cannot be reached is no error: its page has no picture.
pub async fn write_iiif(
    store: &dyn ArtifactStore,
    stored: &StoredVolume,
    document: &VolumeDocument,
    arguments: &IiifArgs,
    folder: &Path,
) -> Result<PathBuf> {
    let address = VolumeAddress::new(&arguments.base_url, document);
    let canvases: Vec<Option<Canvas<'_>>> = match &arguments.image_service {
        Some(service) => {
            let painted = |page| served(service, arguments.image_api, document, page);
            document.pages.iter().map(painted).collect()
        }
        None => {
            let painted = |page| pictured(store, stored, page, &address, folder);
            stream::iter(&document.pages)
                .map(painted)
                // In order, as the canvases are the pages of the volume.
                .buffered(scan::READS)
                .try_collect()
                .await?
        }
    };
    let canvases: Vec<Canvas<'_>> = canvases.into_iter().flatten().collect();
    for canvas in canvases.iter().filter(|canvas| !canvas.page.lines.is_empty()) {
        let text = annotations::annotation_page(canvas.page, &address);
        let name = format!("{}.json", canvas.page.image_name);
        write_json(&folder.join("annotations").join(name), &text)?;
    }
    let path = folder.join("manifest.json");
    write_json(&path, &manifest::manifest(document, &canvases, &address))?;
    Ok(path)
}

/// Returns the manifest of a volume whose pictures and annotations are served below `base`.
pub fn manifest_below(base: &BaseUrl, document: &VolumeDocument) -> Value {
    let address = VolumeAddress::new(base, document);
    let canvases: Vec<Canvas<'_>> = document
        .pages
        .iter()
        .filter(|page| page.width > 0 && page.height > 0)
        .map(|page| {
            let (width, height) = View::default().picture_size((page.width, page.height));
            Canvas {
                page,
                width: page.width,
                height: page.height,
                painting: Some(Painting {
                    url: address.image(&page.image_name),
                    width,
                    height,
                    service: None,
                }),
            }
        })
        .collect();
    manifest::manifest(document, &canvases, &address)
}

/// Returns the annotations of a page of a volume as in [`manifest_below`].
pub fn annotations_below(base: &BaseUrl, document: &VolumeDocument, page: &PageDocument) -> Value {
    annotations::annotation_page(page, &VolumeAddress::new(base, document))
}

/// Returns a canvas whose image comes from a service; `None` for a page of unknown size, which could not be read.
fn served<'a>(
    service: &ImageService,
    version: ImageApi,
    document: &VolumeDocument,
    page: &'a PageDocument,
) -> Option<Canvas<'a>> {
    let (width, height) = (page.width, page.height);
    (width > 0 && height > 0).then(|| {
        let id = service.of(document, page);
        Canvas {
            page,
            width,
            height,
            painting: Some(Painting {
                url: format!("{id}/full/max/0/default.jpg"),
                width,
                height,
                service: Some(Service { id, version }),
            }),
        }
    })
}

/// Writes the image of a canvas below `folder` and returns the canvas; it has no image if the scan cannot be reached.
async fn pictured<'a>(
    store: &dyn ArtifactStore,
    stored: &StoredVolume,
    page: &'a PageDocument,
    address: &VolumeAddress,
    folder: &Path,
) -> Result<Option<Canvas<'a>>> {
    let picture = scan::page_picture(store, stored, page, View::default()).await?;
    if let Some(picture) = &picture {
        let name = format!("{}.jpg", page.image_name);
        write(&folder.join("images").join(name), &picture.jpeg)?;
    }
    let scan = picture.as_ref().map_or((0, 0), |picture| picture.scan);
    // The size in the tables comes first: outlines are in its pixels.
    let known = page.width > 0 && page.height > 0;
    let (width, height) = if known { (page.width, page.height) } else { scan };
    let painting = |picture: Picture| Painting {
        url: address.image(&page.image_name),
        width: picture.width.into(),
        height: picture.height.into(),
        service: None,
    };
    Ok((width > 0 && height > 0).then(|| Canvas {
        page,
        width,
        height,
        painting: picture.map(painting),
    }))
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value).context("writing JSON")?;
    text.push(b'\n');
    write(path, &text)
}

#[cfg(test)]
mod tests;
