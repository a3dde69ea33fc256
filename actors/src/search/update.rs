//! Bringing the index of a job up to date with what was read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parkhang_core::domain::{ErrorCategory, StageName, VolumeId};
use parkhang_search::{AddedVolume, IndexFolder, Refused, SearchError, VolumeText, index_volume};
use parkhang_store::artifact::{ArtifactError, VolumeLayout};
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
    /// Lines of pages that are not as they were read, by the names of their images: those that people have corrected.
    pub corrected: HashMap<String, Vec<String>>,
}

/// Result of an update.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexUpdate {
    pub added: usize,
    pub removed: usize,
    /// Volumes that could not be read now; the log names them, and the next update tries them again.
    pub failed: usize,
    /// Volumes that cannot be indexed until they are read anew, with the reasons.
    pub refused: BTreeMap<String, String>,
}

impl IndexUpdate {
    /// Reason for which the index lacks volumes, if it lacks any.
    pub fn trouble(&self) -> Option<String> {
        let now = (self.failed > 0).then(|| {
            format!(
                "{} volumes could not be indexed now; the log names them",
                self.failed
            )
        });
        let ever = self.refused.first_key_value().map(|(volume, reason)| {
            let others = match self.refused.len() - 1 {
                0 => String::new(),
                others => format!(" (and {others} more)"),
            };
            format!("{volume} cannot be indexed until it is read again: {reason}{others}")
        });
        let all: Vec<String> = ever.into_iter().chain(now).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// Reason for which there is no index of a volume.
enum Unindexed {
    /// Another try may succeed.
    Now(String),
    /// Its artifacts are at fault.
    UntilReadAnew(String),
}

impl From<ArtifactError> for Unindexed {
    fn from(error: ArtifactError) -> Self {
        match error.category() {
            ErrorCategory::Input => Self::UntilReadAnew(error.to_string()),
            _ => Self::Now(error.to_string()),
        }
    }
}

impl From<SearchError> for Unindexed {
    fn from(error: SearchError) -> Self {
        match error.may_pass() {
            true => Self::Now(error.to_string()),
            false => Self::UntilReadAnew(error.to_string()),
        }
    }
}

/// Puts volumes into an index that are not in it, or in another version, and takes those out that are not among `known`. A volume whose
/// artifacts are at fault is noted with the reason, and not tried again in the same version. `step` is called whenever there is more to find.
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
    let refused = writer.refused().clone();
    let mut removed: Vec<String> = present
        .keys()
        .filter(|volume| !known.contains(*volume))
        .cloned()
        .collect();
    let mut done = IndexUpdate {
        removed: removed.len(),
        ..IndexUpdate::default()
    };
    let mut due = Vec::new();
    for wanted in wanted {
        let volume = wanted.volume.to_string();
        match refused.get(&volume) {
            Some(refused) if refused.version == wanted.version => {
                done.refused.insert(volume, refused.reason.clone());
            }
            _ if present.get(&volume) != Some(&wanted.version) => due.push(wanted),
            _ => {}
        }
    }
    let mut wanted = due.into_iter().peekable();
    while wanted.peek().is_some() || !removed.is_empty() {
        let (mut added, mut refused) = (Vec::new(), BTreeMap::new());
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
                Err(Unindexed::Now(error)) => {
                    warn!(volume = %volume.volume, error, "the volume cannot be indexed now");
                    done.failed += 1;
                }
                Err(Unindexed::UntilReadAnew(reason)) => {
                    let WantedVolume { volume, version, .. } = volume;
                    warn!(%volume, error = reason, "the volume cannot be indexed until it is read again");
                    done.refused.insert(volume.to_string(), reason.clone());
                    refused.insert(volume.to_string(), Refused { version, reason });
                }
            }
        }
        done.added += added.len();
        let gone = std::mem::take(&mut removed);
        if added.is_empty() && gone.is_empty() && refused.is_empty() {
            continue;
        }
        writer = blocking(move || {
            writer.refuse(refused)?;
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
) -> Result<AddedVolume, Unindexed> {
    let (volume, version) = (wanted.volume.to_string(), wanted.version.clone());
    let made = if wanted.is_indexed && wanted.corrected.is_empty() {
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
        Err(error) => return Err(ArtifactError::from(error).into()),
    }
    let text = volume_text(store, &wanted.layout, &wanted.volume, stages).await?;
    // A volume without text is in the index without a page, so that nobody looks for its text again.
    let mut text = text.unwrap_or_else(|| VolumeText {
        volume: volume.clone(),
        ..VolumeText::default()
    });
    for page in &mut text.pages {
        if let Some(lines) = wanted.corrected.get(&page.name) {
            page.lines.clone_from(lines);
        }
    }
    Ok(blocking(move || AddedVolume::open(&volume, &version, &index_volume(&text)?)).await?)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SearchError> + Send + 'static,
) -> Result<T, SearchError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(SearchError::Stopped))
}
