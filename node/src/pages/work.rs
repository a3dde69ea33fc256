//! Filings of a run: those of the command line, or of a manifest in its chunks.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use parkhang_core::domain::VolumeId;
use parkhang_store::pages::{VolumeKind, discover_volumes, unpacked};

use super::arguments::DetectArgs;
use super::chunks::Chunks;
use super::filing::{Defaults, Filing, NamedFiling, Place, is_address, stem};
use super::journal::Journal;
use super::judge::failure;
use super::manifest;
use super::sources::Buckets;
use crate::config::Loaded;

/// Folder below that of the state for the records of manifests.
const JOURNALS: &str = "detect";

/// Filing, or the reason why something that was named is none.
pub type Item = Result<Filing, String>;

/// Filings of a run.
#[derive(Debug)]
pub struct Work {
    pub items: Vec<Item>,
    /// Plan of a manifest; `None` for filings that the command line names.
    pub plan: Option<Plan>,
}

/// Chunks of a manifest that the run does.
#[derive(Debug)]
pub struct Plan {
    pub chunks: Chunks,
    /// Numbers from 0.
    pub chosen: Range<usize>,
    /// Records of what is done; `None` without a folder for them.
    pub journal: Option<Journal>,
}

impl Work {
    /// Finds the filings that the arguments name.
    ///
    /// # Errors
    ///
    /// If a manifest cannot be read, or has no such chunk. A name that is none of a filing is an item.
    pub async fn of(arguments: &DetectArgs, loaded: &Loaded, buckets: &Buckets) -> Result<Self> {
        let section = &loaded.config.pages.s3;
        let exchange = arguments.exchange.as_deref();
        let defaults = Defaults {
            exchange,
            bucket: section.bucket.as_deref(),
        };
        let Some(key) = &arguments.manifest_key else {
            let items = arguments.files.iter().flat_map(|file| named(file, defaults));
            return Ok(Self {
                items: items.collect(),
                plan: None,
            });
        };
        let bucket = arguments.manifest_bucket.as_ref().or(section.bucket.as_ref());
        let bucket = bucket.context("the manifest is in no bucket: name it with --manifest-bucket")?;
        let bytes = buckets.manifest(bucket, key).await?;
        let name = format!("manifest s3://{bucket}/{key}");
        let items = items(&bytes, defaults, &name).context(name)?;
        let chunks = Chunks::new(items.len(), arguments.chunk_size)?;
        let chosen = chunks.chosen(arguments.chunk, arguments.array_index)?;
        let others = [defaults.exchange, defaults.bucket].map(Option::unwrap_or_default);
        let journal = loaded
            .state_dir()
            .ok()
            .map(|folder| Journal::new(&folder.join(JOURNALS), &bytes, others));
        Ok(Self {
            items,
            plan: Some(Plan {
                chunks,
                chosen,
                journal,
            }),
        })
    }

    /// True if something of a filing is to be recorded, or anybody is to read it.
    pub fn has_documents(&self) -> bool {
        let mut filings = self.items.iter().flatten();
        filings.any(|filing| filing.document.is_some())
    }
}

/// Entries of a manifest in their order.
fn items(bytes: &[u8], defaults: Defaults<'_>, name: &str) -> Result<Vec<Item>> {
    let entries = manifest::read(&unpacked(bytes)?)?;
    let item = |entry: Result<manifest::Entry, manifest::BadEntry>| {
        let filing = entry.and_then(|entry| {
            let filing = entry.filing.clone().resolve(defaults);
            filing.map_err(|reason| entry.bad(reason))
        });
        filing.map_err(|bad| format!("{name}, {bad}"))
    };
    Ok(entries.into_iter().map(item).collect())
}

/// Filings that an argument names: an object, a file, or the PDFs of a folder.
fn named(file: &Path, defaults: Defaults<'_>) -> Vec<Item> {
    if let Some(address) = file.to_str().filter(|text| is_address(text)) {
        let filing = NamedFiling::of_address(address).resolve(defaults);
        return vec![filing.map_err(|error| format!("{address}: {error}"))];
    }
    let place = |path: &Path| Place::File(path.to_owned());
    // Each argument by itself: two files of one name in two folders are no conflict here.
    let found = match discover_volumes(&[file.to_owned()], None, None) {
        Ok(found) => found,
        Err(error) => return vec![Err(failure(&place(file), &error))],
    };
    let pdfs = found.into_iter().filter(|found| found.kind == VolumeKind::Pdf);
    let filing = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let id = stem(&name).to_owned();
        let document = defaults.exchange.map(|exchange| VolumeId::whole(exchange, id));
        Ok(Filing {
            document: document
                .transpose()
                .map_err(|error| failure(&place(path), &error))?,
            place: place(path),
        })
    };
    pdfs.map(|found| filing(&found.place)).collect()
}
