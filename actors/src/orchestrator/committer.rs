//! The group committer: every state change goes through here and is in Postgres before anyone acts on it. Changes that arrive while a
//! transaction is under way form the next one: the batch grows with the load, one flush serves many changes, and a lone change
//! waits for nobody. When the database is away, changes are kept and tried again; nothing advances and nothing is lost. Trying
//! again does no harm where the answer to a commit was lost, because each change is fenced and a change may be repeated.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ractor::rpc::CallResult;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, RpcReplyPort};
use ractor_cluster::RactorMessage;
use tokio::time::Instant;
use tracing::warn;

use super::handle::WallClock;
use crate::detached;
use crate::telemetry::{BatchCommitted, BatchRefused};
use parkhang_core::domain::{ActorKind, ActorRecord, ActorState, Level};
use parkhang_state::{Change, Outcome, StateError, StateStore};

/// Limit on changes in one transaction.
pub const MAX_BATCH: usize = 1_000;
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(10);

/// End of the committer: the process is shutting down or has lost its orchestrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the group committer has ended")]
pub struct GroupCommitterGone;

/// Cheap handle on the group committer.
#[derive(Debug, Clone)]
pub struct GroupCommitter(ActorRef<GroupCommitterMsg>);

impl GroupCommitter {
    /// Starts the committer, which writes times of this clock. Its end is the end of `owner` too, which could write nothing without it.
    ///
    /// # Errors
    ///
    /// When the actor cannot be started.
    pub async fn spawn(
        store: Arc<dyn StateStore>,
        now: WallClock,
        owner: ActorCell,
    ) -> Result<Self, ractor::SpawnErr> {
        let (committer, _) = Actor::spawn_linked(None, GroupCommitterActor, (store, now), owner).await?;
        Ok(Self(committer))
    }

    /// Writes the change and returns its outcome. Waits as long as the database is away.
    ///
    /// # Errors
    ///
    /// When the committer has ended; the change may have been written or not.
    pub async fn commit(&self, change: Change) -> Result<Outcome, GroupCommitterGone> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        self.0
            .cast(GroupCommitterMsg::Commit(Box::new(change), sender.into()))
            .map_err(|_| GroupCommitterGone)?;
        receiver.await.map_err(|_| GroupCommitterGone)
    }

    /// Writes several changes, which share a transaction where they can, and returns their outcomes in order.
    ///
    /// # Errors
    ///
    /// Those of [`GroupCommitter::commit`].
    pub async fn commit_all(&self, changes: Vec<Change>) -> Result<Vec<Outcome>, GroupCommitterGone> {
        futures::future::try_join_all(changes.into_iter().map(|change| self.commit(change))).await
    }

    /// Describes the committer; `None` if it does not answer within `limit`.
    pub(super) async fn describe(&self, limit: Duration) -> Option<ActorRecord> {
        match self.0.call(GroupCommitterMsg::Describe, Some(limit)).await {
            Ok(CallResult::Success(record)) => Some(record),
            Ok(CallResult::Timeout | CallResult::SenderError) | Err(_) => None,
        }
    }

    /// Stops the committer. Changes that are not written yet stay unanswered.
    pub fn stop(&self) {
        self.0.stop(None);
    }
}

/// A change that is not written yet.
struct Waiting {
    change: Change,
    reply: RpcReplyPort<Outcome>,
}

#[derive(RactorMessage)]
enum GroupCommitterMsg {
    Commit(Box<Change>, RpcReplyPort<Outcome>),
    Committed(Vec<Waiting>, Result<Vec<Outcome>, StateError>),
    Retry,
    Describe(RpcReplyPort<ActorRecord>),
}

struct GroupCommitterState {
    store: Arc<dyn StateStore>,
    /// Changes for the next transaction.
    waiting: Vec<Waiting>,
    /// A transaction is under way, or is tried again after a delay.
    writing: bool,
    retry_delay: Duration,
    since: DateTime<Utc>,
    now: WallClock,
}

struct GroupCommitterActor;

impl Actor for GroupCommitterActor {
    type Msg = GroupCommitterMsg;
    type State = GroupCommitterState;
    type Arguments = (Arc<dyn StateStore>, WallClock);

    async fn pre_start(
        &self,
        _: ActorRef<GroupCommitterMsg>,
        (store, now): Self::Arguments,
    ) -> Result<GroupCommitterState, ActorProcessingErr> {
        Ok(GroupCommitterState {
            store,
            waiting: Vec::new(),
            writing: false,
            retry_delay: FIRST_RETRY,
            since: now(),
            now,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<GroupCommitterMsg>,
        message: GroupCommitterMsg,
        state: &mut GroupCommitterState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            GroupCommitterMsg::Commit(change, reply) => {
                state.waiting.push(Waiting {
                    change: *change,
                    reply,
                });
                state.write_next(&myself);
            }
            GroupCommitterMsg::Committed(written, Ok(outcomes)) => {
                for (waiting, outcome) in written.into_iter().zip(outcomes) {
                    // The caller may have been stopped meanwhile; the change is written all the same.
                    let _ = waiting.reply.send(outcome);
                }
                state.retry_delay = FIRST_RETRY;
                state.writing = false;
                state.write_next(&myself);
            }
            GroupCommitterMsg::Committed(unwritten, Err(error @ StateError::Deposed(_))) => {
                warn!(changes = unwritten.len(), %error, "another orchestrator leads; leaving these changes to it");
                // Those who wait find the committer gone, and the orchestrator ends with it.
                myself.stop(None);
            }
            GroupCommitterMsg::Committed(unwritten, Err(error)) => {
                BatchRefused {
                    changes: unwritten.len(),
                    error: &error,
                    retry_in: state.retry_delay,
                }
                .emit();
                // The older changes go first again. `writing` stays set until the delay is over, so that none overtakes them and
                // a store that is away is not asked anew for each change that comes in.
                let newer = std::mem::replace(&mut state.waiting, unwritten);
                state.waiting.extend(newer);
                detached::send_later(&myself, state.retry_delay, GroupCommitterMsg::Retry);
                state.retry_delay = (state.retry_delay * 2).min(LAST_RETRY);
            }
            GroupCommitterMsg::Retry => {
                state.writing = false;
                state.write_next(&myself);
            }
            GroupCommitterMsg::Describe(reply) => {
                // The caller may have timed out.
                let _ = reply.send(state.describe());
            }
        }
        Ok(())
    }
}

impl GroupCommitterState {
    fn describe(&self) -> ActorRecord {
        ActorRecord {
            since: Some(self.since),
            inbox: Some(Level {
                used: self.waiting.len() as u64,
                capacity: None,
            }),
            ..ActorRecord::new("mirror", ActorKind::Mirror, ActorState::busy(self.writing))
        }
    }

    /// Begins the next transaction, unless one is under way. It runs beside the actor, whose inbox takes changes meanwhile.
    fn write_next(&mut self, myself: &ActorRef<GroupCommitterMsg>) {
        if self.writing || self.waiting.is_empty() {
            return;
        }
        self.writing = true;
        let rest = self.waiting.split_off(self.waiting.len().min(MAX_BATCH));
        let batch = std::mem::replace(&mut self.waiting, rest);
        let (store, now, myself) = (self.store.clone(), self.now, myself.clone());
        detached::spawn(async move {
            // Cloned, as the batch stays for its replies, and for another try should this one fail.
            let changes: Vec<Change> = batch.iter().map(|waiting| waiting.change.clone()).collect();
            let began = Instant::now();
            let result = store.commit(&changes, now()).await;
            if result.is_ok() {
                let (changes, took) = (changes.len(), began.elapsed());
                BatchCommitted { changes, took }.emit();
            }
            // Fails only when the committer has been stopped; then nobody waits for the answer.
            let _ = myself.cast(GroupCommitterMsg::Committed(batch, result));
        });
    }
}
