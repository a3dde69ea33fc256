//! Messages of a queue, taken into the job.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parkhang_core::domain::{Job, JobKey};
use parkhang_core::failpoint::Failpoint;
use parkhang_queue::limits::MAX_BATCH;
use parkhang_queue::{Delivery, QueueError, REASON, Receipt, ReceiptStatus, Receive, TaskQueue};
use parkhang_state::{Inbox, StateError, StateStore, Taken, VolumeRequest};
use tracing::{debug, info, warn};

use super::request::requests;
use super::{NoRequest, ScanBucket};

/// Time for which a message is held while it is taken. Whoever dies meanwhile keeps it from the others for that long.
const TAKING: Duration = Duration::from_secs(60);
/// Time for which a message is left alone that cannot be understood, where there is no dead-letter queue to put it in.
const LEFT_ALONE: Duration = Duration::from_secs(60 * 60);
/// Most receives of one look at the dead letters.
const MOST_RECEIVES: usize = 100;

/// Reason why messages are left to a later round.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error("a message is left in its queue: {}", NoRequest::NoBucket)]
    NoBucket,
}

/// Intake of one queue into one job. Two of them on one queue, as there may be for a moment when the leader changes, do no harm: a
/// message is taken once.
pub struct Intake {
    pub(super) store: Arc<dyn StateStore>,
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) job: JobKey,
    queue: Arc<dyn TaskQueue>,
    wait: Duration,
    scans: Option<ScanBucket>,
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intake")
            .field("job", &self.job)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// Volumes that were taken in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Effects {
    added: usize,
    retried: usize,
}

impl Intake {
    /// Intake that waits for so long for a message.
    pub fn new<S: StateStore + Inbox + 'static>(
        store: &Arc<S>,
        job: JobKey,
        queue: Arc<dyn TaskQueue>,
        wait: Duration,
    ) -> Self {
        Self {
            store: store.clone(),
            inbox: store.clone(),
            job,
            queue,
            wait,
            scans: None,
        }
    }

    /// The intake, which takes requests for pages of the PDFs in a bucket too.
    pub fn with_documents_in(self, scans: ScanBucket) -> Self {
        Self {
            scans: Some(scans),
            ..self
        }
    }

    /// The job.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`] if there is none, and those of the store.
    pub(super) async fn known_job(&self) -> Result<Job, StateError> {
        let job = self.store.job(&self.job).await?;
        job.ok_or_else(|| StateError::NoSuchJob(self.job.to_string()))
    }

    /// The job, if it takes volumes. Otherwise messages stay where they are.
    async fn standing_job(&self) -> Result<Job, StateError> {
        let job = self.known_job().await?;
        if !job.standing {
            return Err(StateError::NotStanding(job.key));
        }
        Ok(job)
    }

    /// Takes one batch of messages; returns their number. May be repeated, and cut off anywhere.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`] and [`StateError::NotStanding`], after which nothing was received; and where the queue or the store does
    /// not answer, after which messages come back.
    pub async fn round(&self) -> Result<usize, IntakeError> {
        let job = self.standing_job().await?;
        let request = Receive::one(TAKING).up_to(MAX_BATCH).waiting(self.wait);
        let deliveries = self.queue.receive(request).await?;
        let (understood, malformed) = self.sorted(&deliveries);
        let mut failed = None;
        for (delivery, reason) in malformed {
            // Those that are understood are taken all the same.
            if let Err(error) = self.put_aside(delivery, reason).await {
                failed.get_or_insert(error);
            }
        }
        self.take(&job, self.queue.as_ref(), &understood).await?;
        match failed {
            None => Ok(deliveries.len()),
            Some(error) => Err(error),
        }
    }

    /// Takes what lies in the dead-letter queue because it was received too often, say by processes that were stopped in between:
    /// that is no fault of its volume. What was put there with a reason, or asks for no volume, is left for people to read. Returns
    /// the number of messages taken.
    ///
    /// # Errors
    ///
    /// Those of [`Self::round`].
    pub async fn take_dead_letters(&self) -> Result<usize, IntakeError> {
        let letters = match self.queue.dead_letters().await {
            Ok(letters) => letters,
            Err(QueueError::NoDeadLetters { .. }) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let job = self.standing_job().await?;
        let (mut taken, mut left) = (0, Vec::new());
        for _ in 0..MOST_RECEIVES {
            let received = letters.receive(Receive::one(TAKING).up_to(MAX_BATCH)).await?;
            if received.is_empty() {
                break;
            }
            let is_explained = |letter: &Delivery| letter.attributes.contains_key(REASON);
            let (explained, moved): (Vec<_>, Vec<_>) = received.into_iter().partition(is_explained);
            let (understood, malformed) = self.sorted(&moved);
            left.extend(explained.into_iter().map(|letter| letter.receipt));
            left.extend(malformed.into_iter().map(|(letter, _)| letter.receipt.clone()));
            self.take(&job, letters.as_ref(), &understood).await?;
            taken += understood.len();
        }
        // Held until here, or they would be received over and over; people are to find them from now on.
        for released in letters.release_all(&left).await {
            released?;
        }
        Ok(taken)
    }

    /// Takes messages of a queue, and deletes them once that is committed.
    async fn take(
        &self,
        job: &Job,
        queue: &dyn TaskQueue,
        understood: &[Understood],
    ) -> Result<(), IntakeError> {
        if understood.is_empty() {
            return Ok(());
        }
        let (receipts, requests): (Vec<Receipt>, Vec<Vec<VolumeRequest>>) =
            understood.iter().cloned().unzip();
        let requests = requests.concat();
        let taken = match self.commit(job, &requests).await {
            Ok(taken) => taken,
            Err(error) => {
                // At once for whoever can take them. If that fails too, they come back by themselves.
                let _ = queue.release_all(&receipts).await;
                return Err(error.into());
            }
        };
        Failpoint::RequestsTaken.pass();
        let count = |effect| taken.iter().filter(|taken| **taken == effect).count();
        let effects = Effects {
            added: count(Taken::Added),
            retried: count(Taken::Retried),
        };
        if effects != Effects::default() {
            info!(job = %job.key, queue = queue.name(), ?effects, "volumes taken in");
        }
        for deleted in queue.delete_all(&receipts).await {
            match deleted {
                Ok(ReceiptStatus::Honoured) => {}
                // It comes again, and is known then.
                Ok(ReceiptStatus::Stale) => {
                    debug!(queue = queue.name(), "a message that was taken comes again")
                }
                Err(error) => warn!(queue = queue.name(), %error, "a message that was taken is not deleted"),
            }
        }
        Ok(())
    }

    async fn commit(&self, job: &Job, requests: &[VolumeRequest]) -> Result<Vec<Taken>, StateError> {
        let now = self.store.now().await?;
        self.inbox.take_in(job.id, requests, now).await
    }

    /// Puts a message aside that cannot be understood; one that another configuration would let be taken is left where it is.
    async fn put_aside(&self, delivery: &Delivery, reason: NoRequest) -> Result<(), IntakeError> {
        if reason == NoRequest::NoBucket {
            self.queue.release(&delivery.receipt).await?;
            return Err(IntakeError::NoBucket);
        }
        let queue = self.queue.name();
        warn!(queue, message = %delivery.id, %reason, "a message asks for no volume");
        match self.queue.dead_letter(delivery, &reason.to_string()).await {
            Ok(_) => Ok(()),
            Err(QueueError::NoDeadLetters { .. }) => {
                Ok(self.queue.extend(&delivery.receipt, LEFT_ALONE).await.map(drop)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Messages that ask for volumes, and those that do not.
    fn sorted<'a>(&self, deliveries: &'a [Delivery]) -> (Vec<Understood>, Vec<Refused<'a>>) {
        let (mut understood, mut refused) = (Vec::new(), Vec::new());
        for delivery in deliveries {
            match requests(delivery, self.scans.as_ref()) {
                Ok(requests) => understood.push((delivery.receipt.clone(), requests)),
                Err(reason) => refused.push((delivery, reason)),
            }
        }
        (understood, refused)
    }
}

/// Requests of a message.
type Understood = (Receipt, Vec<VolumeRequest>);

/// A message that asks for no volume, and why.
type Refused<'a> = (&'a Delivery, NoRequest);
