//! Bringing the index of a job up to date with what was read.

use std::collections::BTreeSet;

use parkhang_core::domain::{StageName, VolumeId};
use parkhang_search::{AddedVolume, IndexFolder, SearchError, VolumeText, index_volume};
use parkhang_store::artifact::VolumeLayout;
use parkhang_store::storage::{ArtifactStore, StorageError};
use tracing::warn;

use super::volume_text;

/// Volumes that are put into the index in one step. Each step makes a part, so that many small ones would be merged again and again.
const AT_ONCE: usize = 64;
/// Bytes of their indexes at which a step begins earlier.
const BYTES_AT_ONCE: usize = 256 << 20;

/// Volume that is to be in the index.
#[derive(Debug, Clone)]
pub struct WantedVolume {
    pub volume: VolumeId,
    /// Changes whenever the volume was read anew.
    pub version: String,
    pub layout: VolumeLayout,
    /// True if the pipeline that has read this version has made its index, too. Otherwise an index that is there is of another one.
    pub is_indexed: bool,
}

/// Result of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexUpdate {
    pub added: usize,
    pub removed: usize,
    /// Volumes that could not be read; the log names them, and the next update tries them again.
    pub failed: usize,
}

/// Puts volumes into an index that are not in it, or in another version, and takes those out that are not among `known`. `step` is
/// called whenever there is more to find.
///
/// # Errors
///
/// [`SearchError::Locked`] if somebody else is doing the same, and whatever keeps the folder from being written.
pub async fn update_index(
    store: &dyn ArtifactStore,
    stages: &[StageName],
    folder: &IndexFolder,
    wanted: Vec<WantedVolume>,
    known: &BTreeSet<String>,
    mut step: impl FnMut() + Send,
) -> Result<IndexUpdate, SearchError> {
    let index = folder.clone();
    let mut writer = blocking(move || index.writer()).await?;
    let present = writer.volumes();
    let mut removed: Vec<String> = present
        .keys()
        .filter(|volume| !known.contains(*volume))
        .cloned()
        .collect();
    let mut wanted = wanted
        .into_iter()
        .filter(|wanted| present.get(&wanted.volume.to_string()) != Some(&wanted.version))
        .peekable();
    let mut done = IndexUpdate {
        removed: removed.len(),
        ..IndexUpdate::default()
    };
    while wanted.peek().is_some() || !removed.is_empty() {
        let mut added = Vec::new();
        let mut bytes = 0;
        while added.len() < AT_ONCE && bytes < BYTES_AT_ONCE {
            let Some(volume) = wanted.next() else {
                break;
            };
            match index_of(store, stages, &volume).await {
                Ok(index) => {
                    bytes += index.bytes();
                    added.push(index);
                }
                Err(error) => {
                    warn!(volume = %volume.volume, error, "the volume cannot be indexed");
                    done.failed += 1;
                }
            }
        }
        done.added += added.len();
        let gone = std::mem::take(&mut removed);
        if added.is_empty() && gone.is_empty() {
            continue;
        }
        writer = blocking(move || {
            writer.update(added, &gone)?;
            while writer.compact()? {}
            Ok(writer)
        })
        .await?;
        step();
    }
    Ok(done)
}

/// The index of a volume: the artifact, where the pipeline has made one, and otherwise made now.
async fn index_of(
    store: &dyn ArtifactStore,
    stages: &[StageName],
    wanted: &WantedVolume,
) -> Result<AddedVolume, String> {
    let (volume, version) = (wanted.volume.to_string(), wanted.version.clone());
    let made = if wanted.is_indexed {
        store.get(&wanted.layout.search_index()).await.map(Some)
    } else {
        Ok(None)
    };
    match made {
        Ok(None) => {}
        Ok(Some(packed)) => match AddedVolume::open(&volume, &version, &packed) {
            Ok(index) => return Ok(index),
            // One of another version of this program, mostly.
            Err(error) => warn!(%volume, %error, "the index of the volume is of no use and is made anew"),
        },
        Err(StorageError::NotFound { .. }) => {}
        Err(error) => return Err(error.to_string()),
    }
    let text = volume_text(store, &wanted.layout, &wanted.volume, stages)
        .await
        .map_err(|error| error.to_string())?;
    // A volume without text is in the index without a page, so that nobody looks for its text again.
    let text = text.unwrap_or_else(|| VolumeText {
        volume: volume.clone(),
        ..VolumeText::default()
    });
    let made = blocking(move || AddedVolume::open(&volume, &version, &index_volume(&text)?)).await;
    made.map_err(|error| error.to_string())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SearchError> + Send + 'static,
) -> Result<T, SearchError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(SearchError::Stopped))
}
