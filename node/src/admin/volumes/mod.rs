//! Commands about volumes, independently of jobs: their lists of images, the jobs that contain them, and the results.
//!
//! The database keeps each volume's list of images in all versions that were imported, so that the question which volumes have changed
//! since a job read them is one query and opens no artifact, however many volumes a library has. Only lists are read here, never
//! scans; what becomes of a volume within a job belongs to `tasks`.

mod import;
mod list;
mod lists;
mod show;

use chrono::{DateTime, Utc};
use parkhang_core::domain::{ErrorCategory, VolumeId};
use parkhang_state::VolumeRecord;
use parkhang_store::pages::VolumeVersion;
use parkhang_store::storage::{ArtifactKey, StorageError};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Admin, Refusal};
use crate::storage::read_list;

pub use self::import::Import;
pub use self::list::List;
pub use self::show::Show;

/// Volume in one line. One that is in a job but was never imported has neither version nor number of images.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct VolumeLine {
    /// Identifier of the volume, W-I.
    pub volume: String,
    /// First six hexadecimal digits of the ETag of its list of images.
    pub version: Option<String>,
    pub etag: Option<String>,
    pub images: Option<u32>,
    /// Time at which this version was first imported.
    pub imported_at: Option<DateTime<Utc>>,
}

impl From<VolumeRecord> for VolumeLine {
    fn from(record: VolumeRecord) -> Self {
        let list = record.list;
        Self {
            volume: record.volume.to_string(),
            version: list
                .as_ref()
                .map(|list| VolumeVersion::from_etag(&list.etag).short().to_owned()),
            images: list.as_ref().map(|list| list.images),
            imported_at: list.as_ref().map(|list| list.imported_at),
            etag: list.map(|list| list.etag),
        }
    }
}

/// Reads a list of volumes in the artifact store.
///
/// # Errors
///
/// [`Refusal::Invalid`] if the key is not valid, or the list is not there, cannot be read or names no valid volumes;
/// [`Refusal::Unavailable`] if the store cannot be reached.
pub async fn volumes_of_list(admin: &Admin, key: &str) -> Result<Vec<VolumeId>, Refusal> {
    let invalid = |error: anyhow::Error| Refusal::Invalid(format!("{key}: {error:#}"));
    let object = ArtifactKey::new(key).map_err(|error| invalid(error.into()))?;
    let bytes = admin
        .library
        .store()
        .await?
        .get(&object)
        .await
        .map_err(|error| unread(&error))?;
    read_list(&bytes).map_err(invalid)
}

/// Refusal for a list that could not be read from the store.
fn unread(error: &StorageError) -> Refusal {
    let message = error.to_string();
    match error.category() {
        // The store is at fault and not the key, which may be given again.
        ErrorCategory::Network | ErrorCategory::Transient => Refusal::Unavailable(message),
        _ => Refusal::Invalid(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_not_the_fault_of_the_key() {
        let key = ArtifactKey::new("lists/all.txt").unwrap();
        let absent = unread(&StorageError::NotFound { key: key.clone() });
        assert!(matches!(absent, Refusal::Invalid(_)), "{absent}");
        let outage = unread(&StorageError::Remote {
            action: "read",
            key,
            attempts: 3,
            category: ErrorCategory::Network,
            code: "SlowDown".to_owned(),
            message: "try later".to_owned(),
        });
        assert!(matches!(outage, Refusal::Unavailable(_)), "{outage}");
    }
}
