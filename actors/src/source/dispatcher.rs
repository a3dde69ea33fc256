//! Dispatcher: keeps the pools of a node busy with work from a source. The room of the pools is derived from the leases in hand
//! each time; nothing is counted up and down.

mod control_plane;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use ractor_cluster::RactorMessage;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::member::{PoolHeartbeat, PoolMember};
use super::wake::WakePause;
use super::{Claim, SourceError, WorkSource};
use crate::detached;
use crate::orchestrator::{Executor, Unreachable};
use crate::supervisor::PoolHandle;
use parkhang_core::domain::{AssignReply, Fence, LeaseReport, PoolInfo, StageName, WorkerId, WorkerRecord};
use parkhang_core::policy::claim::Offer;

/// Share of the pause between two polls that chance adds or takes, so that nodes started together do not poll together.
const POLL_JITTER: f64 = 0.25;

/// State of a node's source, as its dispatcher sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceHealth {
    /// The source has not been asked for work yet, or has not answered.
    Unknown,
    /// The source answered the last time.
    Answers,
    /// The source failed the last time. The log has the reason.
    Fails,
}

/// Cheap handle on a node's dispatcher.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    actor: ActorRef<DispatcherMsg>,
    source: Arc<dyn WorkSource>,
    health: watch::Receiver<SourceHealth>,
}

impl Dispatcher {
    /// Starts a dispatcher, which asks the source at least every `poll` while a pool has room.
    ///
    /// # Errors
    ///
    /// When the actor cannot be started.
    pub fn start(
        source: Arc<dyn WorkSource>,
        poll: Duration,
    ) -> BoxFuture<'static, Result<Self, ractor::SpawnErr>> {
        Box::pin(async move {
            let (sender, health) = watch::channel(SourceHealth::Unknown);
            let (actor, _) = Actor::spawn(None, DispatcherActor, (source.clone(), poll, sender)).await?;
            detached::spawn(claim_on_changes(source.clone(), actor.clone()));
            Ok(Self {
                actor,
                source,
                health,
            })
        })
    }

    /// Takes note that there may be work for a stage, or for any. Other nodes hear the same at this moment, so the source is asked
    /// a little later, and once for all that comes in until then.
    pub fn wake(&self, stage: Option<StageName>) {
        self.send(DispatcherMsg::Wake(stage));
    }

    /// State of the source.
    pub fn health(&self) -> SourceHealth {
        *self.health.borrow()
    }

    /// Describes the pools that get their work here, in the order of their names; `now` is the time that they are described for.
    pub async fn workers(&self, now: DateTime<Utc>) -> Vec<WorkerRecord> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        self.send(DispatcherMsg::Describe(now, sender.into()));
        // A dispatcher that stopped has no pools.
        receiver.await.unwrap_or_default()
    }

    /// Claims nothing more, and waits until no claim is under way.
    pub async fn drain(&self) {
        let (sender, receiver) = ractor::concurrency::oneshot();
        if self.actor.cast(DispatcherMsg::Drain(sender.into())).is_ok() {
            // A dispatcher that stopped meanwhile claims nothing more either.
            let _ = receiver.await;
        }
    }

    /// Waits for the dispatcher to end. Without [`Dispatcher::stop`] that is a failure.
    pub async fn ended(&self) {
        // An error says that it has ended already.
        let _ = self.actor.get_cell().wait(None).await;
    }

    /// Stops the dispatcher and leaves the source. To be called when the pools have stopped.
    pub async fn stop(self) {
        // An error says that it has stopped already.
        let _ = self.actor.stop_and_wait(None, None).await;
        if let Err(error) = self.source.leave().await {
            warn!(%error, "cannot release what this node holds; it is free only at its deadline");
        }
    }

    /// Sends a message. That fails only when the dispatcher has stopped; the leases then expire.
    fn send(&self, message: DispatcherMsg) {
        let _ = self.actor.cast(message);
    }
}

/// Has the dispatcher claim whenever its source has something, until it stops.
async fn claim_on_changes(source: Arc<dyn WorkSource>, actor: ActorRef<DispatcherMsg>) {
    let dispatcher = actor.get_cell();
    loop {
        tokio::select! {
            () = source.changed() => {}
            // An error says that it has stopped already.
            _ = dispatcher.wait(None) => return,
        }
        if actor.cast(DispatcherMsg::Claim).is_err() {
            return;
        }
    }
}

/// Messages of the dispatcher.
#[derive(RactorMessage)]
enum DispatcherMsg {
    /// There may be work for a stage, or for any.
    Wake(Option<StageName>),
    /// The pause after a wake is over.
    Woken,
    /// There is work, or room, of which no other node knows.
    Claim,
    Poll,
    Register(PoolHandle),
    Suspend(WorkerId),
    Deregister(WorkerId),
    Heartbeat(WorkerId, PoolHeartbeat),
    /// The source has answered a claim.
    Claimed(Result<Vec<Claim>, SourceError>),
    /// A pool has answered an assignment.
    Answered(Fence, Result<AssignReply, Unreachable>),
    /// These leases are over.
    Ended(Vec<Fence>),
    Describe(DateTime<Utc>, RpcReplyPort<Vec<WorkerRecord>>),
    /// Nothing more is to be claimed; answered when no claim is under way.
    Drain(RpcReplyPort<()>),
}

/// A lease of one of the pools.
struct InHand {
    worker: WorkerId,
    /// Nothing may run beside it.
    alone: bool,
}

struct DispatcherState {
    source: Arc<dyn WorkSource>,
    poll: Duration,
    health: watch::Sender<SourceHealth>,
    pause: WakePause,
    /// The pause after a wake is under way.
    waking: bool,
    pools: HashMap<WorkerId, PoolMember>,
    /// Leases from their claim until their end is recorded.
    leases: HashMap<Fence, InHand>,
    claiming: bool,
    /// Something happened since the claim under way began.
    again: bool,
    /// The claim under way follows a wake.
    heard: bool,
    /// Callers that wait for a drain; `None` while there is none.
    draining: Option<Vec<RpcReplyPort<()>>>,
    /// Leases that are being released.
    releases: JoinSet<()>,
}

struct DispatcherActor;

impl Actor for DispatcherActor {
    type Msg = DispatcherMsg;
    type State = DispatcherState;
    type Arguments = (Arc<dyn WorkSource>, Duration, watch::Sender<SourceHealth>);

    async fn pre_start(
        &self,
        myself: ActorRef<DispatcherMsg>,
        (source, poll, health): Self::Arguments,
    ) -> Result<DispatcherState, ActorProcessingErr> {
        myself.cast(DispatcherMsg::Poll)?;
        Ok(DispatcherState {
            source,
            poll,
            health,
            pause: WakePause::up_to(poll),
            waking: false,
            pools: HashMap::new(),
            leases: HashMap::new(),
            claiming: false,
            again: false,
            heard: false,
            draining: None,
            releases: JoinSet::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<DispatcherMsg>,
        message: DispatcherMsg,
        state: &mut DispatcherState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            DispatcherMsg::Wake(stage) => state.heard_of(stage.as_ref(), &myself),
            DispatcherMsg::Woken => {
                (state.waking, state.heard) = (false, true);
                state.claim(&myself);
            }
            DispatcherMsg::Claim => state.claim(&myself),
            DispatcherMsg::Poll => {
                state.pause.relax();
                state.claim(&myself);
                let jitter = rand::random_range(1.0 - POLL_JITTER..=1.0 + POLL_JITTER);
                detached::send_later(&myself, state.poll.mul_f64(jitter), DispatcherMsg::Poll);
            }
            DispatcherMsg::Register(pool) => {
                info!(worker = %pool.info.worker, stage = %pool.info.stage, slots = pool.info.slots, "pool takes work");
                let worker = pool.info.worker.clone();
                state.pools.insert(worker, PoolMember::new(pool));
                state.claim(&myself);
            }
            DispatcherMsg::Suspend(worker) => {
                if let Some(member) = state.pools.get_mut(&worker) {
                    member.accepting = false;
                }
            }
            DispatcherMsg::Deregister(worker) => state.abandon(&worker, &myself),
            DispatcherMsg::Claimed(claims) => state.claimed(claims, &myself),
            DispatcherMsg::Answered(fence, reply) => state.answered(fence, &reply),
            DispatcherMsg::Ended(fences) => {
                for fence in fences {
                    state.leases.remove(&fence);
                }
                state.claim(&myself);
            }
            DispatcherMsg::Heartbeat(worker, heartbeat) => {
                if let Some(member) = state.pools.get_mut(&worker) {
                    member.heartbeat = Some(heartbeat);
                }
            }
            DispatcherMsg::Describe(now, reply) => {
                // The caller may have timed out.
                let _ = reply.send(state.describe(now));
            }
            DispatcherMsg::Drain(reply) => {
                state.draining.get_or_insert_default().push(reply);
                state.answer_drains();
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<DispatcherMsg>,
        state: &mut DispatcherState,
    ) -> Result<(), ActorProcessingErr> {
        // A lease that is being released would otherwise last until its deadline.
        while state.releases.join_next().await.is_some() {}
        Ok(())
    }
}

impl DispatcherState {
    fn in_hand(&self, worker: &WorkerId) -> usize {
        self.leases
            .values()
            .filter(|lease| lease.worker == *worker)
            .count()
    }

    fn describe(&self, now: DateTime<Utc>) -> Vec<WorkerRecord> {
        let mut workers: Vec<WorkerRecord> = self
            .pools
            .iter()
            .map(|(worker, member)| member.describe(self.in_hand(worker), now))
            .collect();
        workers.sort_by(|a, b| a.worker.cmp(&b.worker));
        workers
    }

    /// Offers of all pools, the full ones too: a source also decides by the leases in hand.
    fn offers(&self) -> Vec<Offer> {
        let runs_alone = self.leases.values().any(|lease| lease.alone);
        let mut offers: Vec<Offer> = self
            .pools
            .values()
            .filter(|member| member.accepting)
            .map(|PoolMember { pool, .. }| {
                let in_hand = self.in_hand(&pool.info.worker);
                let free = pool.info.slots.saturating_sub(in_hand);
                Offer {
                    pool: PoolInfo::clone(&pool.info),
                    free: if runs_alone { 0 } else { free },
                    in_hand,
                }
            })
            .collect();
        offers.sort_by(|a, b| a.pool.worker.cmp(&b.pool.worker));
        offers
    }

    /// Takes note of work for the stage, or for any, and begins the pause before the claim, if a pool has room for it.
    fn heard_of(&mut self, stage: Option<&StageName>, myself: &ActorRef<DispatcherMsg>) {
        let suits = |offer: &Offer| offer.free > 0 && stage.is_none_or(|stage| *stage == offer.pool.stage);
        if self.waking || self.draining.is_some() || !self.offers().iter().any(suits) {
            return;
        }
        self.waking = true;
        let pause = self.pause.next(rand::random_range(0.0..=1.0));
        detached::send_later(myself, pause, DispatcherMsg::Woken);
    }

    /// Asks the source for work, beside the actor. One claim at a time: two would offer the same room.
    fn claim(&mut self, myself: &ActorRef<DispatcherMsg>) {
        if self.claiming {
            self.again = true;
            return;
        }
        let offers = self.offers();
        if self.draining.is_some() || offers.iter().all(|offer| offer.free == 0) {
            self.heard = false;
            return;
        }
        self.claiming = true;
        self.again = false;
        let (source, myself) = (self.source.clone(), myself.clone());
        detached::spawn(async move {
            let asked = Utc::now();
            let mut claims = source.claim(&offers).await;
            for claim in claims.iter_mut().flatten() {
                // Pools compare with this machine's clock and not the source's. Counted from before the call, so that a lease
                // never seems to last longer than it does.
                claim.assignment.lease_until = asked + claim.lasts;
            }
            // A dispatcher that stopped meanwhile leaves what was claimed to its deadline.
            let _ = myself.cast(DispatcherMsg::Claimed(claims));
        });
    }

    fn claimed(&mut self, claims: Result<Vec<Claim>, SourceError>, myself: &ActorRef<DispatcherMsg>) {
        self.claiming = false;
        let heard = std::mem::take(&mut self.heard);
        match claims {
            // Claimed before the drain began, and nobody is to run it any more.
            Ok(claims) if self.draining.is_some() => {
                for claim in claims {
                    self.release(claim.assignment.fence);
                }
            }
            Ok(claims) => {
                self.health.send_replace(SourceHealth::Answers);
                let found = !claims.is_empty();
                // Only a claim that follows a wake was in competition with other nodes.
                if found {
                    self.pause.found();
                } else if heard {
                    self.pause.in_vain();
                }
                for claim in claims {
                    self.assign(claim, myself);
                }
                // A source may hand out less than there is, so as to hand it out soon.
                if found || self.again {
                    self.claim(myself);
                }
            }
            // Asked again with the next poll: a source that is away must not be asked in a busy loop.
            Err(error) => {
                warn!(%error, "cannot claim work now");
                self.health.send_replace(SourceHealth::Fails);
            }
        }
        self.answer_drains();
    }

    /// Offers a claimed lease to its pool. It counts as in hand from now on, so that the next claim does not offer its slot.
    fn assign(&mut self, claim: Claim, myself: &ActorRef<DispatcherMsg>) {
        let fence = claim.assignment.fence.clone();
        let Some(member) = self.pools.get(&claim.worker) else {
            self.release(fence);
            return;
        };
        let in_hand = InHand {
            worker: claim.worker,
            alone: claim.alone,
        };
        self.leases.insert(fence.clone(), in_hand);
        let (pool, myself) = (member.pool.clone(), myself.clone());
        detached::spawn(async move {
            let reply = pool.assign(claim.assignment).await;
            // A dispatcher that stopped meanwhile leaves the lease to its deadline, or to the pool's report.
            let _ = myself.cast(DispatcherMsg::Answered(fence, reply));
        });
    }

    fn answered(&mut self, fence: Fence, reply: &Result<AssignReply, Unreachable>) {
        if *reply == Ok(AssignReply::Accepted) {
            return;
        }
        let Some(InHand { worker, .. }) = self.leases.remove(&fence) else {
            return;
        };
        if *reply == Ok(AssignReply::Draining)
            && let Some(member) = self.pools.get_mut(&worker)
        {
            member.accepting = false;
        }
        // The next poll asks again. Asking at once would be a busy loop with a pool that disagrees about its room.
        self.release(fence);
    }

    /// Releases a lease that no pool took.
    fn release(&mut self, fence: Fence) {
        // The set keeps the results of tasks that have ended until they are taken.
        while self.releases.try_join_next().is_some() {}
        let source = self.source.clone();
        self.releases.spawn(async move {
            let (task, stage) = (fence.task, fence.stage.clone());
            if let Err(error) = source.release(fence).await {
                warn!(%task, %stage, %error, "cannot release a lease; it expires at its deadline");
            }
        });
    }

    /// Takes out a pool that is gone for good, and reports its leases as lost.
    fn abandon(&mut self, worker: &WorkerId, myself: &ActorRef<DispatcherMsg>) {
        self.pools.remove(worker);
        let lost: Vec<Fence> = self
            .leases
            .extract_if(|_, lease| lease.worker == *worker)
            .map(|(fence, _)| fence)
            .collect();
        if lost.is_empty() {
            return;
        }
        warn!(%worker, leases = lost.len(), "pool left; ending its leases");
        let (source, myself) = (self.source.clone(), myself.clone());
        detached::spawn(async move {
            for fence in lost {
                let (task, stage) = (fence.task, fence.stage.clone());
                let report = LeaseReport { fence, verdict: None };
                if let Err(error) = source.complete(report).await {
                    warn!(%task, %stage, %error, "cannot end a lost lease; it expires at its deadline");
                }
            }
            // A dispatcher that stopped meanwhile claims nothing more.
            let _ = myself.cast(DispatcherMsg::Claim);
        });
    }

    fn answer_drains(&mut self) {
        if self.claiming {
            return;
        }
        for waiting in self.draining.iter_mut().flat_map(|waiting| waiting.drain(..)) {
            // The caller may have timed out.
            let _ = waiting.send(());
        }
    }
}
