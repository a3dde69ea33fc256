//! The volumes that are known, with the lists of their images, and what has been read of them.

use chrono::{DateTime, Utc};

use crate::domain::{ImageRecord, Job, JobId, Task, VolumeId, VolumeResults};

/// The list of a volume's images, to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeImport {
    pub volume: VolumeId,
    /// Of the list. Its first part, up to a hyphen, is the version of the volume.
    pub etag: String,
    /// In the order of the list.
    pub images: Vec<ImageRecord>,
}

/// What an import did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The volume had no list.
    New,
    /// It had that of another version.
    Changed,
    Unchanged,
}

/// A volume that a job has, or that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRecord {
    pub volume: VolumeId,
    /// Of an imported one.
    pub list: Option<ListRecord>,
}

/// The list of a volume as it was last read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRecord {
    pub etag: String,
    pub images: u32,
    /// When this version was first read.
    pub imported_at: DateTime<Utc>,
}

/// Which volumes to list. What is `None` admits all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeQuery {
    /// What the collection begins with.
    pub collection: Option<String>,
    /// What the name holds somewhere, in large or small letters.
    pub text: Option<String>,
    /// Only volumes whose list is of a version that was first read then or later.
    pub imported_since: Option<DateTime<Utc>>,
    /// Only volumes behind this one.
    pub after: Option<VolumeId>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// A page of volumes, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumePage {
    pub volumes: Vec<VolumeRecord>,
    /// To be given as [`VolumeQuery::after`] for the next page, if there is one.
    pub next: Option<VolumeId>,
}

/// A volume within one of its jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeWork {
    pub job: Job,
    pub task: Task,
    pub results: Option<VolumeResults>,
}

/// Whose work counts where a volume is asked to have been read already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readers {
    /// All of one pipeline.
    pub jobs: Vec<JobId>,
    /// A model that must have taken part, by its name.
    pub model: Option<String>,
}
