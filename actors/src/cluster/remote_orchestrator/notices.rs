//! Descriptions of a node that its orchestrator is sent.

use std::sync::atomic::Ordering;

use chrono::Utc;
use ractor::RpcReplyPort;

use super::UplinkState;
use crate::cluster::description::describe;
use crate::cluster::endpoint::{Endpoint, introduction};
use crate::detached;
use crate::supervisor::PoolHandle;
use crate::telemetry::resident_bytes;
use crate::wire::{NodeAbout, NodeNotice, NodePhase, Notice, PoolAbout};

impl UplinkState {
    /// Sends the leader a description of this node, and a word to `reply` when that is over. A leader of an earlier build may not
    /// understand it, and need not.
    pub(super) fn notify(&self, reply: Option<RpcReplyPort<()>>) {
        let config = &self.arguments.config;
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let describe_pool = |(_, pool): &(Endpoint, PoolHandle)| PoolAbout {
            worker: pool.info.worker.clone(),
            stage: pool.info.stage.clone(),
            slots: count(pool.info.slots),
            in_use: count(pool.in_use()),
            models: pool.info.models.clone(),
        };
        let engines = config.engines.iter().map(|engine| engine.record(Utc::now()));
        let mut notice = Notice {
            peer: introduction(&config.node),
            phase: self.phase,
            about: NodeAbout {
                pools: self.endpoints.values().map(describe_pool).collect(),
                resident: resident_bytes(),
                engines: engines.collect(),
                ..config.about.clone()
            },
        };
        let (leader, limit) = (self.arguments.leader.borrow().clone(), config.call_timeout);
        let (book, notices) = (self.arguments.book.clone(), self.notices.clone());
        let engines = config.engines.clone();
        let number = notices.fetch_add(1, Ordering::Relaxed) + 1;
        detached::spawn(async move {
            if notice.phase != NodePhase::Leaving {
                // Actors that take too long to answer are left out this time.
                let actors = tokio::time::timeout(limit, book.actors()).await;
                notice.about.actors = actors.unwrap_or_default();
                notice.about = notice.about.fit();
            }
            // A later description has overtaken this one while the actors answered.
            if reply.is_none() && notices.load(Ordering::Relaxed) != number {
                return;
            }
            if let (Some(leader), Ok(notice)) = (leader, NodeNotice::try_from(&notice)) {
                describe(&notice, &engines, &leader.endpoint, limit).await;
            }
            // The caller may have timed out.
            if let Some(reply) = reply {
                let _ = reply.send(());
            }
        });
    }
}
