//! A volume for IIIF viewers: a manifest, the annotations with its text, and pictures of its pages.

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

/// Where what an IIIF manifest names is to be found.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "IIIF")]
pub struct IiifArgs {
    /// Where the folder `iiif` of the export will be served; every id in a manifest begins with it.
    #[arg(long, value_name = "URL", default_value = "http://localhost:8000")]
    pub base_url: BaseUrl,
    /// Image API service of a scan, to be named instead of writing JPEG files; {w}, {i} and {image} stand for the ids of
    /// the volume and for the file name of the scan, as in `https://iiif.bdrc.io/bdr:{i}::{image}`.
    #[arg(long, value_name = "URL")]
    pub image_service: Option<ImageService>,
    /// Version of the Image API that this service speaks.
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

/// Writes `manifest.json`, `annotations/*.json` and, without an image service, `images/*.jpg` to `folder`. Returns the
/// path of the manifest.
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
            let pages = stream::iter(&document.pages).map(painted);
            pages.buffered(scan::READS).try_collect().await?
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

/// The manifest of a volume whose pictures and annotations are answered below a base as they would be written to its folder.
pub fn manifest_below(base: &BaseUrl, document: &VolumeDocument) -> Value {
    let address = VolumeAddress::new(base, document);
    let known = document
        .pages
        .iter()
        .filter(|page| page.width > 0 && page.height > 0);
    let canvases: Vec<Canvas<'_>> = known
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

/// The text of a page, of a volume as in [`manifest_below`].
pub fn annotations_below(base: &BaseUrl, document: &VolumeDocument, page: &PageDocument) -> Value {
    annotations::annotation_page(page, &VolumeAddress::new(base, document))
}

/// A canvas whose image a service has; `None` for a page whose size is not known, as it could not be read.
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

/// A canvas whose image is written below `folder`; without one where the scan is not to be had.
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
