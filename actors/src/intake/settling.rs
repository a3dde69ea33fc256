//! Answers to open requests: whether a volume that was read when it was asked for has another version by now.

use std::sync::Arc;

use futures::{StreamExt, stream};
use parkhang_core::domain::{ErrorCategory, Job, JobStatus, Task};
use parkhang_core::policy::request::{self, Look};
use parkhang_state::{OpenRequests, Settled};
use parkhang_store::pages::{PageRef, PageSource, PageSourceError, common_version, source_of};
use tracing::{info, warn};

use super::{Intake, IntakeError};

/// Tasks of one query.
const BATCH: usize = 100;
/// Volumes looked up at once.
const LOOKUPS: usize = 16;

impl Intake {
    /// Answers the open requests that can be answered, and sends volumes back of which the source of the scans has another version
    /// than was read; returns the number of these. The others are left to a later round. A volume that cannot be looked up holds up
    /// no other.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`](parkhang_state::StateError::NoSuchJob), and those of the store.
    pub async fn settle(&self, scans: &Arc<dyn PageSource>) -> Result<u64, IntakeError> {
        let job = self.known_job().await?;
        if job.status == JobStatus::Cancelled {
            return Ok(0);
        }
        let (mut after, mut sent_back) = (None, 0);
        loop {
            let open = self.inbox.open_requests(job.id, after, BATCH).await?;
            let Some(last) = open.last() else {
                return Ok(sent_back);
            };
            after = Some(last.task.id);
            let settled = answers(&job, open, scans).await;
            let now = self.store.now().await?;
            let again = self.inbox.settle(job.id, &settled, now).await?;
            if again > 0 {
                info!(job = %job.key, volumes = again, "volumes are read in another version");
            }
            sent_back += again;
        }
    }
}

/// Requests that can be answered, with their answers.
async fn answers(job: &Job, open: Vec<OpenRequests>, scans: &Arc<dyn PageSource>) -> Vec<Settled> {
    let (mut settled, mut looked_up) = (Vec::new(), Vec::new());
    for requests in open {
        match request::look(&requests.task, job, requests.read.as_deref()) {
            Look::Later => {}
            Look::AtSource => looked_up.push(requests),
            Look::Needless => settled.push(Settled {
                requests,
                again: false,
            }),
        }
    }
    let look_ups = stream::iter(looked_up).map(async |requests: OpenRequests| {
        let pages = pages(&requests.task, scans).await;
        (requests, pages)
    });
    let found: Vec<_> = look_ups.buffered(LOOKUPS).collect().await;
    for (requests, pages) in found {
        if let Some(current) = version(pages) {
            let again = request::is_outdated(requests.read.as_deref(), current.as_deref());
            settled.push(Settled { requests, again });
        }
    }
    settled
}

/// The pages of a task's volume.
async fn pages(task: &Task, scans: &Arc<dyn PageSource>) -> Result<Vec<PageRef>, PageSourceError> {
    let source = source_of(scans, &task.volume, task.document.as_ref())?;
    source.pages(&task.volume).await
}

/// Version of a volume that was looked up; `None` if that cannot be said now.
fn version(pages: Result<Vec<PageRef>, PageSourceError>) -> Option<Option<String>> {
    match pages {
        Ok(pages) => Some(common_version(&pages).map(str::to_owned)),
        // What was read stays read, and there is nothing else to be read.
        Err(PageSourceError::NoSuchVolume(_) | PageSourceError::NoSuchDocument { .. }) => Some(None),
        Err(error) => {
            if error.category() != ErrorCategory::Network {
                warn!(%error, "the version of a volume that was asked for again is not known");
            }
            None
        }
    }
}
