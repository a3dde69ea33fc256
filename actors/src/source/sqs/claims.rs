mod taking;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use tracing::warn;

use super::StageQueues;
use super::ends::{End, Ends};
use super::held::HeldMessages;
use super::receives::Receives;
use crate::source::joined::Joined;
use crate::source::{Claim, Clock, SourceError, StateClaims, WorkSource};
use parkhang_core::domain::{
    Expense, Fence, LeaseReport, LeaseStatus, ReportReply, SpendReply, StageName, StageVerdict,
};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::claim::Offer;
use parkhang_queue::Receipt;
use parkhang_state::{Outbox, StateStore};

/// Times of a source of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    /// Time for which a message is invisible to others when it is received or extended. It is extended when a third of it is over.
    pub visibility: Duration,
    /// Time from the receive after which a message is extended no more.
    pub visibility_max_total: Duration,
    /// Time that a receive waits for a message.
    pub wait: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            visibility: Duration::from_secs(600),
            visibility_max_total: Duration::from_secs(4 * 60 * 60),
            wait: Duration::from_secs(20),
        }
    }
}

impl QueueOptions {
    /// Visibility that the message of a lease is to get now, so long after it was received and after its visibility was last set;
    /// `None` if there is no need yet, or no more time.
    pub fn extension(&self, age: Duration, set: Duration) -> Option<Duration> {
        let left = self.visibility_max_total.saturating_sub(age);
        let is_due = set >= self.visibility / 3;
        (is_due && !left.is_zero()).then(|| self.visibility.min(left))
    }
}

/// Source of work from the queues of stages, with the state in a store: a worker needs its queue and the database, and no leader.
#[derive(Debug)]
pub struct QueueClaims {
    store: Arc<dyn StateStore>,
    outbox: Arc<dyn Outbox>,
    /// Renews and records leases, which are those of the state store.
    leases: StateClaims,
    lease: TimeDelta,
    max_interruptions: i32,
    queues: StageQueues,
    options: QueueOptions,
    held: HeldMessages,
    receives: Receives,
    ends: BTreeMap<StageName, Joined<Ends>>,
}

impl QueueClaims {
    /// A source whose leases last for `lease` by `clock` unless they are renewed. Stages without a queue get no work until it is found.
    pub fn new<S: StateStore + Outbox + 'static>(
        store: Arc<S>,
        clock: Arc<dyn Clock>,
        lease: TimeDelta,
        max_interruptions: i32,
        queues: StageQueues,
        options: QueueOptions,
    ) -> Self {
        let ends = queues.stages().into_iter().map(|stage| {
            let ends = Ends {
                queues: queues.clone(),
                stage: stage.clone(),
            };
            (stage, Joined::new(ends))
        });
        Self {
            ends: ends.collect(),
            leases: StateClaims::new(store.clone(), clock, lease, max_interruptions),
            outbox: store.clone(),
            store,
            lease,
            max_interruptions,
            queues,
            options,
            held: HeldMessages::default(),
            receives: Receives::default(),
        }
    }

    /// True if it may hold messages that no claim has returned.
    #[cfg(test)]
    pub(in crate::source) fn has_receives_under_way(&self) -> bool {
        self.receives.are_under_way()
    }
}

#[async_trait]
impl WorkSource for QueueClaims {
    async fn claim(&self, offers: &[Offer]) -> Result<Vec<Claim>, SourceError> {
        let mut rooms: BTreeMap<StageName, usize> = BTreeMap::new();
        for offer in offers.iter().filter(|offer| offer.free > 0) {
            *rooms.entry(offer.pool.stage.clone()).or_default() += offer.free;
        }
        let deliveries = self.receives.receive(&rooms, &self.queues, &self.options).await?;
        let (now, may_end) = self.leases.now().await?;
        if deliveries.is_empty() {
            // Leases that ran out end with any claim of the store, also one that offers nothing: there need be no orchestrator to end
            // them.
            self.leases.claim(&[]).await?;
        }
        let (mut offers, mut claims) = (offers.to_vec(), Vec::new());
        for (stage, deliveries) in deliveries {
            claims.extend(self.take(&stage, deliveries, &mut offers, (now, may_end)).await);
        }
        Ok(claims)
    }

    async fn changed(&self) {
        self.receives.ended().await;
    }

    async fn renew(&self, fences: &[Fence]) -> Result<Vec<LeaseStatus>, SourceError> {
        let statuses = self.leases.renew(fences).await?;
        self.held.extend(fences, &self.queues, &self.options).await;
        Ok(statuses)
    }

    async fn note_progress(&self, finished: &[(Fence, i32)]) {
        self.leases.note_progress(finished).await;
    }

    async fn complete(&self, report: LeaseReport) -> Result<ReportReply, SourceError> {
        let fence = report.fence.clone();
        let goes_on = matches!(report.verdict, Some(StageVerdict::Interrupted));
        let reply = self.leases.complete(report).await?;
        Failpoint::ResultCommitted.pass();
        // After the commit, and with no say in it: a message that stays finds its task gone on and is deleted then.
        let message = self.held.remove(&fence);
        if let (Some(receipt), Some(ends)) = (message, self.ends.get(&fence.stage))
            && let Some(Err(error)) = ends.ask(End { receipt, goes_on }).await
        {
            warn!(task = %fence.task, stage = %fence.stage, %error, "a message outlives its lease; it comes back and is deleted");
        }
        Ok(reply)
    }

    async fn spend(&self, expense: &Expense) -> SpendReply {
        self.leases.spend(expense).await
    }

    async fn leave(&self) -> Result<(), SourceError> {
        for (stage, received) in self.receives.rest().await? {
            let receipts: Vec<Receipt> = received.into_iter().map(|delivery| delivery.receipt).collect();
            // What was received from a queue that is gone is gone with it.
            let Some(queue) = self.queues.get(&stage) else {
                continue;
            };
            for released in queue.release_all(&receipts).await {
                released?;
            }
        }
        Ok(())
    }
}
