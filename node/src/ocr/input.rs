//! Input of a run: its volumes and the places of their scans.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use parkhang_core::domain::VolumeId;
use parkhang_store::pages::{
    BdrcArchive, FolderSource, FoundVolume, PageSource, PageSourceError, VolumeKind, discover_volumes,
    folders_left_out, survey,
};

use super::arguments::OcrArgs;
use crate::config::{Pages, PagesKind};
use crate::storage;

/// Volumes whose pages are looked up concurrently.
const LOOKUPS: usize = 16;

/// Volume with its folder or file, or its address in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputVolume {
    pub volume: VolumeId,
    pub place: PathBuf,
    /// True for a volume that is a PDF.
    pub is_pdf: bool,
}

#[derive(Debug, Clone)]
pub struct Input {
    pub volumes: Vec<InputVolume>,
    pub source: Arc<dyn PageSource>,
    /// Library that the volumes were named from; `None` if their folders were named.
    pub library: Option<Pages>,
}

impl Input {
    /// Finds the volumes: folders that the command line names, or volumes of the bucket or folder that --input-bucket or --input-folder
    /// names.
    ///
    /// # Errors
    ///
    /// If flags contradict each other, or a volume or folder does not exist.
    pub async fn of(arguments: &OcrArgs, pages: &Pages) -> Result<Self> {
        if pages.s3.bucket.is_some() || pages.folder.is_some() {
            // The flags would otherwise be ignored silently, and the volumes named by others than the user
            // thinks.
            ensure!(
                arguments.w_id.is_none() && arguments.i_id.is_none(),
                "--w-id and --i-id are for PAGES that are folders; with --input-bucket or --input-folder PAGES are volumes"
            );
            return Self::in_library(pages, &arguments.pages).await;
        }
        ensure!(
            pages.kind == PagesKind::Folder,
            "--input-kind requires --input-bucket or --input-folder"
        );
        let (w_id, i_id) = (arguments.w_id.as_deref(), arguments.i_id.as_deref());
        let volumes = discover_volumes(&arguments.pages, w_id, i_id)?;
        for folder in folders_left_out(&volumes) {
            eprintln!(
                "warning: {} is left out: the folder above it holds images and is one volume",
                folder.display()
            );
        }
        Ok(Self::in_folders(volumes))
    }

    pub fn in_folders(volumes: Vec<FoundVolume>) -> Self {
        let source = Arc::new(FolderSource::new(volumes.iter().cloned()));
        Self {
            volumes: volumes
                .into_iter()
                .map(|found| InputVolume {
                    volume: found.volume,
                    place: found.place,
                    is_pdf: found.kind == VolumeKind::Pdf,
                })
                .collect(),
            source,
            library: None,
        }
    }

    async fn in_library(pages: &Pages, names: &[PathBuf]) -> Result<Self> {
        let named: Result<Vec<VolumeId>> = names.iter().map(|name| volume_named(name)).collect();
        let volumes = storage::volumes(pages, Some(named?)).await?;
        let source = storage::page_source(pages).await?;
        let looked_up = stream::iter(volumes).map(async |volume| {
            let is_pdf = source.is_pdf(&volume).await?;
            let place = address(pages, &volume, is_pdf);
            Ok::<_, PageSourceError>(InputVolume {
                volume,
                place,
                is_pdf,
            })
        });
        Ok(Self {
            volumes: looked_up.buffered(LOOKUPS).try_collect().await?,
            source,
            library: Some(pages.clone()),
        })
    }

    /// Returns the number of pages of each volume that are read, at most `limit`; 0 is no limit. A volume whose pages cannot be listed has
    /// none here: its task fails with the reason, and the others go on.
    pub async fn pages(&self, limit: usize) -> Vec<(&InputVolume, usize)> {
        // Zero is how a job's configuration says "no limit".
        let limit = if limit == 0 { usize::MAX } else { limit };
        let volumes = self.volumes.iter().map(|input| input.volume.clone());
        let looked_up: Vec<_> = survey(&*self.source, volumes, LOOKUPS).collect().await;
        self.volumes
            .iter()
            .zip(looked_up)
            .map(|(input, (_, pages))| (input, pages.map_or(0, |pages| pages.len().min(limit))))
            .collect()
    }
}

fn volume_named(name: &Path) -> Result<VolumeId> {
    let text = name.to_string_lossy();
    text.parse::<VolumeId>().with_context(|| {
        format!("with --input-bucket or --input-folder, PAGES are volumes named W-I, not {text:?}")
    })
}

fn address(pages: &Pages, volume: &VolumeId, is_pdf: bool) -> PathBuf {
    let folder = match pages.kind {
        PagesKind::Folder if is_pdf => format!("{volume}.pdf"),
        PagesKind::Folder => volume.to_string(),
        PagesKind::Bdrc => BdrcArchive::folder(volume),
    };
    if let Some(root) = &pages.folder {
        return root.join(folder);
    }
    let top = [
        pages.s3.bucket.as_deref(),
        pages.s3.prefix.as_deref(),
        Some(&folder),
    ];
    let parts: Vec<&str> = top.into_iter().flatten().collect();
    PathBuf::from(format!("s3://{}", parts.join("/")))
}
