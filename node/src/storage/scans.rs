use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use parkhang_actors::domain::VolumeId;
use parkhang_actors::pages::{
    BdrcArchive, BucketFolders, LibraryFolder, PageSource, SourceError, discover_volumes, read_intro_pages,
    survey,
};
use parkhang_actors::storage::{ArtifactStore, LocalStore};

use super::bucket;
use crate::config::{Pages, PagesKind};
use crate::words::counted;

/// Volumes that are looked up at once.
const LOOKUPS: usize = 32;
/// Volumes that a message names.
const NAMED: usize = 10;
const NO_SCANS: &str = "no scans are configured: in cluster.toml set `folder` of [pages] to the folder that holds a folder of \
                        images for each volume, named W-I (or `bucket` of [pages.s3])";

/// Where the scans come from.
pub async fn page_source(pages: &Pages) -> Result<Arc<dyn PageSource>> {
    let store: Arc<dyn ArtifactStore> = match (&pages.s3.bucket, &pages.folder) {
        (Some(_), _) => Arc::new(bucket(&pages.s3).await.context("pages.s3")?),
        (None, Some(folder)) if pages.kind == PagesKind::Folder => {
            return Ok(Arc::new(LibraryFolder::new(folder.clone())));
        }
        (None, Some(folder)) => Arc::new(LocalStore::for_reading(folder)),
        (None, None) => bail!(NO_SCANS),
    };
    Ok(match pages.kind {
        PagesKind::Folder => Arc::new(BucketFolders::new(store)),
        PagesKind::Bdrc => {
            let archive = BdrcArchive::new(store);
            match &pages.intro_pages_file {
                None => Arc::new(archive),
                Some(path) => {
                    let text = std::fs::read_to_string(path);
                    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
                    let intro = read_intro_pages(&text).with_context(|| path.display().to_string())?;
                    Arc::new(archive.without_intro_pages(intro))
                }
            }
        }
    })
}

/// The volumes of a job: those named, each of which is looked up, or all that a folder holds. A bucket, and an archive, are
/// not listed: they hold millions of objects.
pub async fn volumes(pages: &Pages, named: Option<Vec<VolumeId>>) -> Result<Vec<VolumeId>> {
    let listed = match (&pages.folder, &pages.s3.bucket, pages.kind) {
        (Some(folder), None, PagesKind::Folder) => Some(in_folder(folder).await?),
        (None, None, _) => bail!(NO_SCANS),
        _ => None,
    };
    let (named, missing) = match (named, listed) {
        (None, Some(all)) => return Ok(all),
        (None, None) => {
            bail!(
                "name the volumes, with --volume or --volumes-from: what is in a bucket or in an archive is not listed"
            )
        }
        (Some(named), Some(all)) => {
            let all: HashSet<VolumeId> = all.into_iter().collect();
            let missing = named.iter().filter(|volume| !all.contains(volume));
            let missing = missing.map(|volume| SourceError::NoSuchVolume(volume.clone()));
            let missing = missing.collect();
            (named, missing)
        }
        (Some(named), None) => {
            let missing = not_in_source(pages, &named).await?;
            (named, missing)
        }
    };
    if missing.is_empty() {
        return Ok(named);
    }
    let mut lines: Vec<String> = missing.iter().take(NAMED).map(ToString::to_string).collect();
    if missing.len() > NAMED {
        lines.push(format!("and {} more", missing.len() - NAMED));
    }
    bail!(
        "{} of {} cannot be had:\n  {}",
        missing.len(),
        counted(named.len(), "volume"),
        lines.join("\n  ")
    );
}

async fn in_folder(folder: &Path) -> Result<Vec<VolumeId>> {
    let folder = folder.to_owned();
    let found = tokio::task::spawn_blocking(move || discover_volumes(&[folder], None, None)).await?;
    let found = found.context("pages.folder")?;
    Ok(found.into_iter().map(|found| found.volume).collect())
}

async fn not_in_source(pages: &Pages, named: &[VolumeId]) -> Result<Vec<SourceError>> {
    let source = page_source(pages).await?;
    let mut missing = Vec::new();
    let mut found = survey(&*source, named.iter().cloned(), LOOKUPS);
    while let Some((_, pages)) = found.next().await {
        missing.extend(pages.err());
    }
    Ok(missing)
}
