//! Volumes that are known, with the lists of their images and the jobs they are in.

use chrono::{DateTime, Utc};

use parkhang_core::domain::{ImageRecord, Job, JobId, Task, VolumeId, VolumeResults};

/// List of a volume's images that is to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeImport {
    pub volume: VolumeId,
    /// ETag of the list. Its first part, up to a hyphen, is the version of the volume.
    pub etag: String,
    /// Images in the order of the list.
    pub images: Vec<ImageRecord>,
}

/// Effect of an import on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The volume had no list.
    New,
    /// The list of another version was replaced.
    Changed,
    /// The list of this version was there already.
    Unchanged,
}

/// Volume that a job has, or that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRecord {
    pub volume: VolumeId,
    /// List of an imported volume.
    pub list: Option<ListRecord>,
}

/// List of a volume's images as it was last imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRecord {
    pub etag: String,
    /// Number of images.
    pub images: u32,
    /// Time at which this version was first imported.
    pub imported_at: DateTime<Utc>,
}

/// Selection of volumes. A field that is `None` admits all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VolumeQuery {
    /// Beginning of the collection's name.
    pub collection: Option<String>,
    /// Part of the volume's name, in large or small letters.
    pub text: Option<String>,
    /// Time since which the list's version must have been imported.
    pub imported_since: Option<DateTime<Utc>>,
    /// Perplexity that the last text of the volume must exceed, whichever job has read it.
    pub perplexity_above: Option<f32>,
    /// Mean confidence below which it must have been read, whichever job has read it last.
    pub confidence_below: Option<f32>,
    /// Volume before the first one of the listing, which does not have it.
    pub after: Option<VolumeId>,
    /// Largest number of volumes in the listing.
    pub limit: Option<u32>,
}

/// Part of the list of volumes, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeListing {
    pub volumes: Vec<VolumeRecord>,
    /// Value of [`VolumeQuery::after`] for the next part, if there is one.
    pub next: Option<VolumeId>,
}

/// Work on a volume within one of its jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeWork {
    pub job: Job,
    pub task: Task,
    pub results: Option<VolumeResults>,
}

/// Jobs and model whose work counts when volumes that were read already are to be found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readers {
    /// Jobs, all of one pipeline.
    pub jobs: Vec<JobId>,
    /// Name of a model that must have taken part.
    pub model: Option<String>,
}
