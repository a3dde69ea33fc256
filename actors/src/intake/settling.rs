//! Answers to open requests: whether a volume that was read when it was asked for has another version by now.

use std::collections::HashMap;

use futures::StreamExt;
use parkhang_core::domain::{ErrorCategory, Job, JobStatus, TaskId};
use parkhang_core::policy::request::{Answer, on_version};
use parkhang_state::{OpenRequests, Settled};
use parkhang_store::pages::{PageRef, PageSource, PageSourceError, common_version, survey};
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
    pub async fn settle(&self, scans: &dyn PageSource) -> Result<u64, IntakeError> {
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
async fn answers(job: &Job, open: Vec<OpenRequests>, scans: &dyn PageSource) -> Vec<Settled> {
    let needs_version = |open: &&OpenRequests| {
        // Any other version would have it done again, so what that is matters.
        on_version(&open.task, job, open.read.as_deref(), Some("")) == Answer::Again
    };
    let looked_up: Vec<&OpenRequests> = open.iter().filter(needs_version).collect();
    let volumes = looked_up.iter().map(|open| open.task.volume.clone());
    let found: Vec<_> = survey(scans, volumes, LOOKUPS).collect().await;
    let ids = looked_up.iter().map(|open| open.task.id);
    let mut found: HashMap<TaskId, _> = ids.zip(found.into_iter().map(|(_, pages)| pages)).collect();
    open.into_iter()
        .filter_map(|requests| {
            let current = match found.remove(&requests.task.id) {
                None => None,
                Some(pages) => version(pages)?,
            };
            let answer = on_version(&requests.task, job, requests.read.as_deref(), current.as_deref());
            let again = match answer {
                Answer::Wait => return None,
                Answer::Settled => false,
                Answer::Again => true,
            };
            Some(Settled { requests, again })
        })
        .collect()
}

/// Version of a volume that was looked up; `None` if that cannot be said now.
fn version(pages: Result<Vec<PageRef>, PageSourceError>) -> Option<Option<String>> {
    match pages {
        Ok(pages) => Some(common_version(&pages).map(str::to_owned)),
        // What was read stays read, and there is nothing else to be read.
        Err(PageSourceError::NoSuchVolume(_)) => Some(None),
        Err(error) => {
            if error.category() != ErrorCategory::Network {
                warn!(%error, "the version of a volume that was asked for again is not known");
            }
            None
        }
    }
}
