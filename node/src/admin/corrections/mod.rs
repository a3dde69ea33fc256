//! Commands about the corrections of people: what was corrected, by whom and when, the corrected lines as a data set, and transcriptions of
//! other programs as corrections.
//!
//! Single edits are made over HTTP, in the page viewer. What people have corrected is kept in the database and never changed: the commands
//! that read fold it as the viewer does, and `import` makes edits as a person would who types a transcription in.

mod export;
mod history;
mod import;
mod list;
mod plan;

use parkhang_core::domain::{Job, Task, VolumeId};
use parkhang_core::policy::correction::{MOST_EDITS, MOST_LINES};

use super::{Admin, Refusal};
use crate::export::CorrectedVolume;

pub use self::export::Export;
pub use self::history::History;
pub use self::import::Import;
pub use self::list::List;

/// Returns a volume with the corrections of people, and its task; `None` if it is none of the job's, or the job has not read it yet.
async fn corrected_volume(
    admin: &Admin,
    job: &Job,
    volume: &VolumeId,
) -> Result<Option<(Task, CorrectedVolume)>, Refusal> {
    let Some(task) = admin.store.task_of(job.id, volume).await? else {
        return Ok(None);
    };
    match admin.library.corrected(&admin.store, job, &task).await {
        Ok(corrected) => Ok(Some((task, corrected))),
        Err(Refusal::NotFound(_)) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

/// Returns why a page that is full of edits takes no more, and what to do.
pub fn too_many_edits(image: &str) -> String {
    format!(
        "page {image} has had as many edits as a page may have ({MOST_EDITS}, or fewer long ones), would have more than {MOST_LINES} lines, or is \
         of a volume that has had too many; export it as PAGE XML or ALTO and go on with it elsewhere"
    )
}
