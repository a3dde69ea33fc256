//! Source of the scans, and the volumes in it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use parkhang_core::domain::VolumeId;
use parkhang_store::pages::{
    BdrcArchive, BucketFolders, LibraryFolder, PageSource, PageSourceError, WithBenchmark, discover_volumes,
    read_intro_pages, survey,
};
use parkhang_store::storage::{ArtifactStore, LocalStore};

use super::bucket;
use crate::config::{Pages, PagesKind, S3};
use crate::words::pluralize;

/// Volumes looked up concurrently.
const LOOKUPS: usize = 32;
/// Largest number of volumes that a message names.
const NAMED: usize = 10;
const NO_SCANS: &str = "no scans are configured: in cluster.toml set `folder` of [pages] to the folder that holds a folder of \
                        images for each volume, named W-I (or `bucket` of [pages.s3])";

/// Opens the source of the scans.
///
/// # Errors
///
/// If none is configured, or a bucket or file of the configuration cannot be opened.
pub async fn page_source(pages: &Pages) -> Result<Arc<dyn PageSource>> {
    if let (PagesKind::Folder, None, Some(folder)) = (pages.kind, &pages.s3.bucket, &pages.folder) {
        return Ok(Arc::new(LibraryFolder::new(folder.clone())));
    }
    Ok(match pages.kind {
        PagesKind::Folder => Arc::new(BucketFolders::new(scan_store(pages).await?)),
        PagesKind::Bdrc => {
            let mut archive = archive(pages).await?;
            if let Some(path) = &pages.intro_pages_file {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let intro = read_intro_pages(&text).with_context(|| path.display().to_string())?;
                archive = archive.without_intro_pages(intro);
            }
            // Volumes of the benchmark are told apart by their names, so one source serves both.
            let benchmark = match &pages.benchmark_bucket {
                Some(name) => {
                    let section = S3 {
                        bucket: Some(name.clone()),
                        // The prefix is that of the archive's bucket and means nothing in another one.
                        prefix: None,
                        ..pages.s3.clone()
                    };
                    Arc::new(bucket(&section).await.context("pages.benchmark_bucket")?)
                }
                None => scan_store(pages).await?,
            };
            Arc::new(WithBenchmark::new(Arc::new(archive), benchmark))
        }
    })
}

/// Opens the archive of the scans, with all pages.
///
/// # Errors
///
/// If the scans are not in an archive.
pub async fn archive(pages: &Pages) -> Result<BdrcArchive> {
    ensure!(
        pages.kind == PagesKind::Bdrc,
        "the scans are not in an archive with lists of images (pages.kind is not \"bdrc\")"
    );
    Ok(BdrcArchive::new(scan_store(pages).await?))
}

async fn scan_store(pages: &Pages) -> Result<Arc<dyn ArtifactStore>> {
    Ok(match (&pages.s3.bucket, &pages.folder) {
        (Some(_), _) => Arc::new(bucket(&pages.s3).await.context("pages.s3")?),
        (None, Some(folder)) => Arc::new(LocalStore::for_reading(folder)),
        (None, None) => bail!(NO_SCANS),
    })
}

/// Returns the volumes of a job, each once: those named, each of which is looked up, or all in the folder.
///
/// # Errors
///
/// If a named volume does not exist, or none are named and the scans are not in a folder.
pub async fn volumes(pages: &Pages, named: Option<Vec<VolumeId>>) -> Result<Vec<VolumeId>> {
    let Some(mut named) = named else {
        return all_volumes(pages).await;
    };
    // A job has each volume once, and a list may name one twice.
    let mut seen = HashSet::new();
    named.retain(|volume| seen.insert(volume.clone()));
    let missing = missing(pages, &named).await?;
    match refusal(&missing, named.len()) {
        Some(refusal) => bail!(refusal),
        None => Ok(named),
    }
}

/// Returns all volumes in the folder of scans.
///
/// # Errors
///
/// If the scans are in a bucket or an archive, which are not listed: they have millions of objects.
pub async fn all_volumes(pages: &Pages) -> Result<Vec<VolumeId>> {
    match (&pages.folder, &pages.s3.bucket, pages.kind) {
        (Some(folder), None, PagesKind::Folder) => in_folder(folder).await,
        (None, None, _) => bail!(NO_SCANS),
        _ => bail!("name the volumes with --volume or --volumes-from: buckets and archives are not listed"),
    }
}

/// Returns the named volumes that cannot be read, with the reason.
///
/// # Errors
///
/// If the source of scans cannot be opened.
pub async fn missing(pages: &Pages, named: &[VolumeId]) -> Result<Vec<(VolumeId, PageSourceError)>> {
    let mut missing = Vec::new();
    // A folder is listed once; volumes of a bucket or an archive are looked up one by one, as it cannot be listed.
    if let (Some(folder), None, PagesKind::Folder) = (&pages.folder, &pages.s3.bucket, pages.kind) {
        let all: HashSet<VolumeId> = in_folder(folder).await?.into_iter().collect();
        let absent = named.iter().filter(|volume| !all.contains(volume));
        missing.extend(absent.map(|volume| (volume.clone(), PageSourceError::NoSuchVolume(volume.clone()))));
    } else {
        let source = page_source(pages).await?;
        let mut found = survey(&*source, named.iter().cloned(), LOOKUPS);
        while let Some((volume, pages)) = found.next().await {
            missing.extend(pages.err().map(|error| (volume, error)));
        }
    }
    Ok(missing)
}

/// Returns the message about volumes that cannot be read, of `named` volumes in all; `None` if there are none.
pub fn refusal(missing: &[(VolumeId, PageSourceError)], named: usize) -> Option<String> {
    let mut lines: Vec<String> = missing
        .iter()
        .take(NAMED)
        .map(|(_, error)| error.to_string())
        .collect();
    if missing.len() > NAMED {
        lines.push(format!("and {} more", missing.len() - NAMED));
    }
    (!missing.is_empty()).then(|| {
        format!(
            "{} of {} cannot be read:\n  {}",
            missing.len(),
            pluralize(named, "volume"),
            lines.join("\n  ")
        )
    })
}

async fn in_folder(folder: &Path) -> Result<Vec<VolumeId>> {
    let folder = folder.to_owned();
    let found = tokio::task::spawn_blocking(move || discover_volumes(&[folder], None, None))
        .await?
        .context("pages.folder")?;
    Ok(found.into_iter().map(|found| found.volume).collect())
}
