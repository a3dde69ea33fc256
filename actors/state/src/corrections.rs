//! Arguments and answers of the store about corrections.

use chrono::{DateTime, Utc};
use parkhang_core::domain::{Edit, JobKey, VolumeId};
use parkhang_core::policy::correction::Conflict;

/// Edit of a page that somebody wants to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEdit {
    pub volume: VolumeId,
    /// Name of the page's image.
    pub image: String,
    /// Job whose reading is edited.
    pub job: JobKey,
    pub who: String,
    pub edit: Edit,
}

/// Outcome of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditOutcome {
    /// It is kept, now or since it was sent before.
    Recorded,
    /// It changes a line that is not any more as its author saw it.
    Conflict(Conflict),
    /// Its id is that of an edit of another page.
    Taken,
    /// The page, or its volume, has no room for it.
    Full,
}

/// Which edits are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditQuery {
    pub volume: Option<VolumeId>,
    /// Name of their author.
    pub who: Option<String>,
    /// Only those from before this time.
    pub before: Option<DateTime<Utc>>,
    pub limit: u32,
}
