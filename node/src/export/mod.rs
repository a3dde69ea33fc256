//! `node export`: results of `node ocr` or of a cluster in formats for readers and other programs.
//!
//! All formats are made from one [`document`], which is loaded from the artifacts of a volume and has the coordinates of the original
//! scans; a format knows nothing of tables, rotation or dewarping, and loading knows nothing of formats. Exports are made when they are
//! asked for instead of by a stage: formats may change without a rerun, and the artifacts stay the only truth. A page that could not be
//! read is marked with the reason in every format, since a missing page would look like an empty one. The room must not write
//! artifacts or the state.

mod alto;
mod archive;
mod arguments;
mod bboxes;
mod blocks;
mod chunks;
mod corrections;
pub mod document;
mod hocr;
mod html;
mod iiif;
mod language;
mod line_pictures;
mod lines;
mod load;
mod pagexml;
mod pdf;
mod results;
mod scan;
pub mod scanned;
mod view;
mod words;
mod xml;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use chrono::Utc;
use parkhang_core::domain::VolumeId;
use parkhang_store::storage::ArtifactStore;

use crate::config::Loaded;
use crate::words::pluralize;
pub use alto::alto;
pub use arguments::{ExportArgs, Format, FormatArgs};
use blocks::{DocumentForm, NotMade, VolumeBlocks};
pub use corrections::{CorrectedPage, CorrectedVolume, PageState, Unplaced, line_id};
use document::{PageDocument, VolumeDocument};
pub use hocr::hocr;
pub use iiif::{BaseUrl, annotations_below, manifest_below};
pub use line_pictures::LinePictures;
pub use lines::json_lines;
pub use load::load_volume;
pub use pagexml::page_xml;
use pdf::OriginalError;
pub use results::{Results, StoredVolume};
pub use scan::{PictureError, page_picture};
pub use view::{LARGEST_SIDE, Region, View, ViewError};
pub use words::VolumeWords;

pub async fn run(arguments: ExportArgs) -> Result<ExitCode> {
    let results = match (&arguments.job, &arguments.out) {
        (Some(job), _) => {
            let loaded = Loaded::read(&arguments.config)?.validated()?;
            let results = Results::of_job(&loaded, job, arguments.shards).await?;
            results.original_if(arguments.original)
        }
        (None, Some(out)) => Results::of_folder(out).await?,
        (None, None) => bail!("name an output folder of `node ocr`, or a job with --job"),
    };
    let target = arguments
        .to
        .clone()
        .or_else(|| arguments.out.as_ref().map(|out| out.join("export")))
        .context("--to is missing")?;
    let shown = |path: PathBuf| println!("{}", path.display());
    let (formats, options) = (&arguments.format, &arguments.options);
    let exported = export_all(&results, formats, options, &target, &arguments.volume, shown).await?;
    results.require_text(exported.volumes)?;
    if exported.unread_pages > 0 {
        let pages = pluralize(exported.unread_pages, "page");
        eprintln!("{pages} could not be read and are marked in the files");
    }
    if exported.without_text > 0 {
        let left_out = pluralize(exported.without_text, "volume");
        eprintln!("{left_out} left out: no text yet");
    }
    if exported.untaken > 0 {
        let lines = pluralize(exported.untaken, "corrected line");
        eprintln!("{lines} not found in blocks and tables, which have what was read there");
    }
    for reason in &exported.refused {
        eprintln!("{reason}");
    }
    Ok(if exported.refused.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Counts of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    pub volumes: usize,
    /// Volumes left out because they have no text yet.
    pub without_text: usize,
    /// Pages of exported volumes that could not be read; they are marked with the reason.
    pub unread_pages: usize,
    /// Corrected lines that were not found in the blocks of documents, which have there what was read.
    pub untaken: usize,
    /// Reasons for which files were not written, each with the name of the volume; all others were.
    pub refused: Vec<String>,
}

/// Writes volumes in the given formats below `target`, and passes the folder or file made for each to `written`.
///
/// # Errors
///
/// If a volume of `only` does not exist, a table is damaged, or a file cannot be written.
pub async fn export_all(
    results: &Results,
    formats: &[Format],
    options: &FormatArgs,
    target: &Path,
    only: &[VolumeId],
    mut written: impl FnMut(PathBuf),
) -> Result<Exported> {
    let mut exported = Exported::default();
    for volume in &results.volumes(only)? {
        let Some(corrected) = results
            .document(volume)
            .await
            .with_context(|| volume.volume.to_string())?
        else {
            // A job may still be running, so a volume without text is counted and not refused.
            exported.without_text += 1;
            continue;
        };
        exported.volumes += 1;
        let document = &*corrected.document;
        exported.unread_pages += document.pages.iter().filter(|page| page.error.is_some()).count();
        // The tables are read once for all formats.
        let blocks = if formats.iter().any(|format| format.has_blocks()) {
            VolumeBlocks::load(results.store(), &volume.layout, &corrected).await?
        } else {
            None
        };
        exported.untaken += blocks.as_ref().map_or(0, VolumeBlocks::untaken);
        for format in formats {
            let contents = Contents {
                document,
                blocks: blocks.as_ref(),
            };
            let file = write_volume(results.store(), volume, contents, *format, options, target).await;
            match file {
                Ok(file) => written(file),
                // A PDF that was moved or cannot be added to, or blocks that are not there yet, are a matter of this volume alone.
                Err(error) if error.is::<OriginalError>() || error.is::<NotMade>() => {
                    exported.refused.push(format!("{}: {error:#}", volume.volume));
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(exported)
}

/// Contents of a volume that formats are made from.
#[derive(Debug, Clone, Copy)]
struct Contents<'v> {
    document: &'v VolumeDocument,
    /// Of a volume of the pipeline `documents`, for the formats that have them.
    blocks: Option<&'v VolumeBlocks>,
}

async fn write_volume(
    store: &dyn ArtifactStore,
    volume: &StoredVolume,
    contents: Contents<'_>,
    format: Format,
    options: &FormatArgs,
    target: &Path,
) -> Result<PathBuf> {
    let name = volume.volume.to_string();
    let Contents { document, blocks } = contents;
    let write_document = |form| blocks.ok_or(NotMade("blocks"))?.write(&name, form, target);
    match format {
        Format::Text => {
            let folder = target.join("text").join(&name);
            let mut whole = String::new();
            for page in &document.pages {
                write(
                    &folder.join(format!("{}.txt", page.image_name)),
                    page.text_or_mark().as_bytes(),
                )?;
                whole.push_str(&page.text_or_mark());
                whole.push('\n');
            }
            let path = target.join("text").join(format!("{name}.txt"));
            write(&path, whole.as_bytes())?;
            Ok(path)
        }
        Format::Pagexml => {
            // One time for all pages of an export, which belong together.
            let created = Utc::now();
            let folder = target.join("pagexml").join(&name);
            write_pages(document, folder, "xml", |page, _| page_xml(page, created))
        }
        Format::Alto => write_pages(document, target.join("alto").join(&name), "xml", alto),
        Format::Hocr => write_pages(document, target.join("hocr").join(&name), "hocr", hocr),
        Format::Iiif => {
            let folder = target.join("iiif").join(&name);
            iiif::write_iiif(store, volume, document, &options.iiif, &folder).await
        }
        Format::Jsonl => {
            let path = target.join("jsonl").join(format!("{name}.jsonl"));
            write(&path, json_lines(document)?.as_bytes())?;
            Ok(path)
        }
        Format::Chunks => {
            let path = target.join("chunks").join(format!("{name}.jsonl"));
            write(&path, chunks::json_lines(store, volume).await?.as_bytes())?;
            Ok(path)
        }
        Format::Bdrc => archive::write_archive(store, volume, &target.join("bdrc"))
            .await
            .context(name),
        Format::Bboxes => {
            let words = VolumeWords::load(store, &volume.layout).await?;
            let words = words.with_context(|| {
                format!(
                    "{name} has no words with boxes: the pipeline page_ocr makes them (--pipeline page_ocr)"
                )
            })?;
            bboxes::write_boxes(&words, blocks, target.join(&name))
        }
        Format::Doctags => write_document(DocumentForm::Doctags),
        Format::Markdown => write_document(DocumentForm::Markdown),
        Format::Tei => write_document(DocumentForm::Tei),
        Format::Document => write_document(DocumentForm::Html),
        Format::Html => {
            let path = target.join("html").join(format!("{name}.html"));
            html::write_viewer(store, volume, document, &options.viewer, &path).await?;
            Ok(path)
        }
        Format::Pdf => {
            let path = target.join("pdf").join(format!("{name}.pdf"));
            pdf::write_pdf(store, volume, document, &path).await?;
            Ok(path)
        }
    }
}

/// Writes a file for each page, which `format` makes from the page and its number in the volume, from 1.
fn write_pages(
    document: &VolumeDocument,
    folder: PathBuf,
    extension: &str,
    format: impl Fn(&PageDocument, usize) -> std::io::Result<Vec<u8>>,
) -> Result<PathBuf> {
    for (page, number) in document.pages.iter().zip(1..) {
        let path = folder.join(format!("{}.{extension}", page.image_name));
        let bytes = format(page, number).with_context(|| format!("making {}", path.display()))?;
        write(&path, &bytes)?;
    }
    Ok(folder)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
pub mod tests;
