//! Description of a node's actors, for operators.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ractor::rpc::CallResult;
use ractor::{ActorRef, RpcReplyPort};

use super::{Pool, SUPERVISOR, SupervisorState};
use crate::detached;
use crate::stage::StageLogic;
use crate::supervisor::pool::{PoolMsg, PoolStatus};
use parkhang_core::domain::{ActorKind, ActorRecord, ActorState, Level, LoadedModel};

/// Time limit for a pool to describe itself.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Limit on workers that are described, of all pools together: the description of a node must fit one message.
const MAX_WORKERS: usize = 64;

/// A pool as its supervisor knows it.
struct Known {
    name: String,
    actor: ActorRef<PoolMsg>,
    logic: Arc<dyn StageLogic>,
    incarnation: Option<u64>,
    since: DateTime<Utc>,
    slots: usize,
    restarts: u64,
    /// True if another pool has taken its place.
    is_replaced: bool,
}

impl SupervisorState {
    /// Sends the actors of this node, parents before their children.
    pub(super) fn describe(&self, reply: RpcReplyPort<Vec<ActorRecord>>) {
        let state = if self.draining {
            ActorState::Draining
        } else {
            ActorState::Working
        };
        let mut records = vec![ActorRecord {
            since: Some(self.since),
            ..ActorRecord::new(SUPERVISOR, ActorKind::Supervisor, state)
        }];
        records.extend(self.awaited.iter().map(|(stage, since)| ActorRecord {
            parent: Some(SUPERVISOR.to_owned()),
            since: Some(*since),
            restarts: self.restarts_of(stage),
            ..ActorRecord::new(stage.as_str(), ActorKind::Pool, ActorState::Restarting)
        }));
        let stages = self.out_of_order.borrow();
        let out_of_service = stages.iter().filter(|(_, state)| state.out_of_service);
        records.extend(out_of_service.map(|(stage, _)| ActorRecord {
            parent: Some(SUPERVISOR.to_owned()),
            restarts: self.restarts_of(stage),
            ..ActorRecord::new(stage.as_str(), ActorKind::Pool, ActorState::OutOfService)
        }));
        drop(stages);
        let mut pools: Vec<Known> = self
            .pools
            .values()
            .map(|pool| self.known(pool, false))
            .chain(self.replaced.values().map(|pool| self.known(pool, true)))
            .collect();
        pools.sort_by_key(|pool| pool.incarnation);
        detached::spawn(async move {
            let statuses = futures::future::join_all(pools.iter().map(|pool| status(&pool.actor))).await;
            let room = MAX_WORKERS / pools.len().max(1);
            for (pool, status) in pools.iter().zip(statuses) {
                records.extend(pool.records(status, room));
            }
            // The caller may have timed out.
            let _ = reply.send(records);
        });
    }

    fn known(&self, pool: &Pool, is_replaced: bool) -> Known {
        let stage = pool.logic.info().name();
        let incarnation = pool.handle.info.worker.incarnation();
        Known {
            name: match (is_replaced, incarnation) {
                (true, Some(incarnation)) => format!("{stage}.{incarnation}"),
                _ => stage.to_string(),
            },
            actor: pool.handle.actor.clone(),
            logic: pool.logic.clone(),
            incarnation,
            since: pool.since,
            slots: pool.handle.info.slots,
            restarts: self.restarts_of(&stage),
            is_replaced,
        }
    }
}

async fn status(pool: &ActorRef<PoolMsg>) -> Option<PoolStatus> {
    match pool.call(PoolMsg::Describe, Some(TIMEOUT)).await {
        Ok(CallResult::Success(status)) => Some(status),
        Ok(CallResult::Timeout | CallResult::SenderError) | Err(_) => None,
    }
}

impl Known {
    /// Describes the pool, its device, and as many of its workers as there is room for.
    fn records(&self, status: Option<PoolStatus>, room: usize) -> Vec<ActorRecord> {
        let (state, slots, mut workers) = match status {
            Some(status) => (status.state, status.slots, status.workers),
            None => (
                ActorState::Silent,
                Level {
                    used: 0,
                    capacity: Some(self.slots as u64),
                },
                Vec::new(),
            ),
        };
        if self.is_replaced {
            // They have ended; the pool only holds their leases.
            workers.clear();
        }
        let left_out = workers.len().saturating_sub(room);
        workers.truncate(room);
        let models = self.logic.info().models().into_iter().map(|model| LoadedModel {
            name: model.name,
            digest: model.digest.to_string(),
        });
        let pool = ActorRecord {
            parent: Some(SUPERVISOR.to_owned()),
            since: Some(self.since),
            restarts: self.restarts,
            incarnation: self.incarnation,
            slots: Some(slots),
            models: models.collect(),
            left_out: left_out as u64,
            ..ActorRecord::new(&self.name, ActorKind::Pool, state)
        };
        // The device belongs to the pool that replaced this one.
        let device = self.logic.info().device().filter(|_| !self.is_replaced);
        let device = device.map(|device| ActorRecord {
            parent: Some(self.name.clone()),
            since: Some(device.since),
            restarts: device.renewals,
            inbox: Some(Level {
                used: device.waiting as u64,
                capacity: Some(device.capacity as u64),
            }),
            ..ActorRecord::new(
                format!("{}/{}", self.name, device.name),
                ActorKind::Device,
                ActorState::busy(device.busy),
            )
        });
        [pool].into_iter().chain(device).chain(workers).collect()
    }
}
