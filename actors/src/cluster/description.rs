//! Description of a node as the leader gets it. It knows then how many nodes ask a service, and each of them has its part of what may be asked.

use std::time::Duration;

use tracing::debug;

use super::endpoint::{AskError, Endpoint, ask};
use crate::engines::Engine;
use crate::wire::{Askers, NodeNotice, NoticeReply};

/// Sends the description of a node that asks these services.
pub(super) async fn describe(notice: &NodeNotice, engines: &[Engine], leader: &Endpoint, limit: Duration) {
    match ask(leader, notice, limit).await {
        // The number has this node, as it is described now.
        Ok(NoticeReply) => share(engines, leader, limit).await,
        Err(error) => debug!(%error, "the leader did not answer the description of this node"),
    }
}

/// Leaves this node its part of what may be asked of services, by the number of nodes that ask them.
async fn share(engines: &[Engine], leader: &Endpoint, limit: Duration) {
    if engines.is_empty() {
        return;
    }
    let services = engines.iter().map(|engine| engine.model().name.clone());
    let askers = Askers {
        services: services.collect(),
    };
    match ask(leader, &askers, limit).await {
        Ok(reply) => {
            for (engine, nodes) in engines.iter().zip(reply.nodes) {
                engine.share(nodes.max(1));
            }
        }
        Err(AskError::NoAnswer) => debug!("the leader did not tell how many nodes ask services"),
        Err(AskError::Misunderstood(error)) => {
            // An orchestrator of an earlier release, under which each node had the whole.
            debug!(%error, "the leader does not know how many nodes ask services");
            engines.iter().for_each(|engine| engine.share(1));
        }
    }
}
