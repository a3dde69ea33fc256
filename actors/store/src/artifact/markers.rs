//! The markers of a volume: small files for people and other programs that say how it ended. This program decides nothing by
//! them.

use std::collections::BTreeMap;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Digest, Markers};
use crate::storage::{ArtifactKey, ArtifactStore, StorageError};
use parkhang_core::domain::{JobKey, StageError, StageName, VolumeId, VolumeResults};

/// `_done.json` of a volume: all its stages are done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeDone {
    pub job: JobKey,
    pub volume_id: VolumeId,
    pub results: Option<VolumeResults>,
    /// Milliseconds that each stage took.
    pub took_ms: BTreeMap<StageName, f32>,
    /// Failed tries on the way.
    pub attempts: i32,
    pub done_at: DateTime<Utc>,
    /// Version of the program that wrote this.
    pub build: String,
    /// Digest of the names of the job's volumes, where these never change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes_sha256: Option<Digest>,
}

/// `_error.json` of a volume: it has failed and will not be tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeFailed {
    pub job: JobKey,
    pub volume_id: VolumeId,
    pub error: Option<StageError>,
    pub attempts: i32,
    pub interruptions: i32,
    pub failed_at: DateTime<Utc>,
}

/// End of a volume.
#[derive(Debug, Clone, PartialEq)]
pub enum VolumeEnd {
    Done(VolumeDone),
    Failed(VolumeFailed),
}

impl VolumeEnd {
    /// The key of the marker that stands for this end.
    pub fn key<'a>(&self, markers: &'a Markers) -> &'a ArtifactKey {
        match self {
            Self::Done(_) => &markers.done,
            Self::Failed(_) => &markers.error,
        }
    }

    /// The content of the marker.
    ///
    /// # Errors
    ///
    /// When a value has no JSON form; those of these types have one.
    pub fn json(&self) -> Result<Bytes, serde_json::Error> {
        let bytes = match self {
            Self::Done(done) => serde_json::to_vec(done),
            Self::Failed(failed) => serde_json::to_vec(failed),
        };
        bytes.map(Bytes::from)
    }

    /// Removes the marker of the other end, which the volume may have come to before it was done again.
    ///
    /// # Errors
    ///
    /// When it may still be there.
    pub async fn clear_other(
        &self,
        markers: &Markers,
        store: &dyn ArtifactStore,
    ) -> Result<(), StorageError> {
        let other = match self {
            Self::Done(_) => &markers.error,
            Self::Failed(_) => &markers.done,
        };
        store.delete(other).await
    }
}
