//! Connection to the process that runs commands.

use std::sync::Arc;

use parkhang_actors::cluster::{DeskError, InTouch, NodeName, OperatorDesk, RemoteDesk};
use parkhang_actors::wire::CommandOutcome;
use parkhang_core::domain::Epoch;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::admin::CommandDesk;

/// Connection to the process that runs commands.
#[derive(Debug, Clone)]
pub enum Line {
    /// Connection to the orchestrators of a cluster.
    Remote(RemoteDesk),
    /// Direct call, in the process of an orchestrator.
    Inside {
        desk: Arc<CommandDesk>,
        node: String,
        leads: watch::Receiver<Option<Epoch>>,
    },
}

impl Line {
    pub fn inside(desk: Arc<CommandDesk>, node: &NodeName, leads: watch::Receiver<Option<Epoch>>) -> Self {
        Self::Inside {
            desk,
            node: node.to_string(),
            leads,
        }
    }

    pub async fn ask(
        &self,
        words: [&str; 2],
        arguments: &Map<String, Value>,
    ) -> Result<CommandOutcome, DeskError> {
        let words = words.map(str::to_owned);
        match self {
            Self::Remote(desk) => desk.ask(&words, arguments).await,
            Self::Inside { desk, node, .. } => Ok(desk.carry_out(node, &words, arguments.clone()).await),
        }
    }

    pub fn in_touch(&self) -> InTouch {
        match self {
            Self::Remote(desk) => desk.in_touch(),
            Self::Inside { node, leads, .. } => InTouch {
                leader: leads.borrow().map(|_| node.clone()),
                desks: vec![node.clone()],
            },
        }
    }

    /// Waits until the connected orchestrators differ from `known`, and returns them.
    pub async fn changed_from(&self, known: &InTouch) -> InTouch {
        match self {
            Self::Remote(desk) => desk.changed_from(known).await,
            Self::Inside { leads, .. } => {
                let mut leads = leads.clone();
                let other = leads.wait_for(|epoch| epoch.is_some() != known.leader.is_some());
                if other.await.is_err() {
                    // The orchestrator is about to end.
                    std::future::pending::<()>().await;
                }
                self.in_touch()
            }
        }
    }
}
