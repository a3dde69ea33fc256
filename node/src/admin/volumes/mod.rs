//! The volumes of a library: their lists of images, the jobs in which they are, and what came of those.

mod import;
mod list;
mod lists;
mod show;

use chrono::{DateTime, Utc};
use parkhang_core::domain::VolumeId;
use parkhang_state::VolumeRecord;
use parkhang_store::pages::VolumeVersion;
use parkhang_store::storage::ArtifactKey;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Admin, Refusal};
use crate::storage::read_list;

pub use self::import::Import;
pub use self::list::List;
pub use self::show::Show;

/// A volume in one line. One that was never imported, but is in a job, has neither version nor number of images.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct VolumeLine {
    /// `W-I`
    pub volume: String,
    /// First six hexadecimal digits of the ETag of its list of images.
    pub version: Option<String>,
    pub etag: Option<String>,
    pub images: Option<u32>,
    /// When this version was first read.
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

/// The volumes that a list in the storage names.
pub async fn volumes_of_list(admin: &Admin, key: &str) -> Result<Vec<VolumeId>, Refusal> {
    let invalid = |error: anyhow::Error| Refusal::Invalid(format!("{key}: {error:#}"));
    let object = ArtifactKey::new(key).map_err(|error| invalid(error.into()))?;
    let bytes = admin.library.store().await?.get(&object).await;
    let bytes = bytes.map_err(|error| Refusal::Invalid(error.to_string()))?;
    read_list(&bytes).map_err(invalid)
}
