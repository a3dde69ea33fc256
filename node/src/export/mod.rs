//! `node export`: what `node ocr` wrote, in the formats that people and programs read.

pub mod document;
mod html;
mod lines;
mod load;
mod pagexml;
mod scan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use chrono::Utc;
use parkhang_actors::storage::ArtifactStore;

use crate::cli::{ExportArgs, Format};
use document::VolumeDocument;
pub use load::{Results, StoredVolume, failed_pages, load_volume, require_text};

pub async fn run(arguments: ExportArgs) -> Result<ExitCode> {
    let written = export_all(
        &arguments.out,
        &arguments.format,
        arguments.to.as_deref(),
        &arguments.volume,
    )
    .await?;
    require_text(&written, &arguments.out)?;
    for path in written {
        println!("{}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the volumes of an output folder in the given formats, below `to` or else `OUT/export`. Returns the folder or
/// file made for each volume and format.
pub async fn export_all(
    out: &Path,
    formats: &[Format],
    to: Option<&Path>,
    only: &[String],
) -> Result<Vec<PathBuf>> {
    let results = Results::open(out).await?;
    let store = results.store();
    let target = to.map_or_else(|| out.join("export"), Path::to_owned);
    let volumes = results.volumes(only).await?;
    let mut written = Vec::new();
    for volume in &volumes {
        let Some(document) = load_volume(store, volume).await? else {
            continue;
        };
        for format in formats {
            written.push(write_volume(store, volume, &document, *format, &target).await?);
        }
    }
    Ok(written)
}

async fn write_volume(
    store: &dyn ArtifactStore,
    volume: &StoredVolume,
    document: &VolumeDocument,
    format: Format,
    target: &Path,
) -> Result<PathBuf> {
    let name = volume.volume.to_string();
    match format {
        Format::Text => {
            let folder = target.join("text").join(&name);
            let mut whole = String::new();
            for page in &document.pages {
                write(
                    &folder.join(format!("{}.txt", page.image_name)),
                    page.text().as_bytes(),
                )?;
                whole.push_str(&page.text());
                whole.push('\n');
            }
            let path = target.join("text").join(format!("{name}.txt"));
            write(&path, whole.as_bytes())?;
            Ok(path)
        }
        Format::Pagexml => {
            let folder = target.join("pagexml").join(&name);
            let created = Utc::now();
            for page in document.pages.iter().filter(|page| page.error.is_none()) {
                let xml = pagexml::page_xml(page, created).context("writing PAGE XML")?;
                write(&folder.join(format!("{}.xml", page.image_name)), &xml)?;
            }
            Ok(folder)
        }
        Format::Jsonl => {
            let path = target.join("jsonl").join(format!("{name}.jsonl"));
            write(&path, lines::json_lines(document)?.as_bytes())?;
            Ok(path)
        }
        Format::Html => {
            let path = target.join("html").join(format!("{name}.html"));
            let scans = scan::viewer_scans(store, volume, document).await?;
            write(&path, html::viewer(document, &scans)?.as_bytes())?;
            Ok(path)
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
