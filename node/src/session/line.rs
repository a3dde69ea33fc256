use std::time::Duration;

use parkhang_actors::cluster::NodeName;
use parkhang_core::domain::Epoch;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::sleep;

use super::InTouch;
use super::remote::{AskError, Remote};
use crate::admin::{Admin, Entry, Operator, Reply};

/// Between two looks at the orchestrators. One that is frozen says nothing, so that it is not enough to listen.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The way to who carries out commands.
#[derive(Debug, Clone)]
pub enum Line {
    /// To the orchestrators of a cluster.
    Remote(Remote),
    /// To the orchestrator that is this process.
    Inside {
        admin: Box<Admin>,
        node: String,
        leads: watch::Receiver<Option<Epoch>>,
    },
}

impl Line {
    pub fn inside(admin: Admin, node: &NodeName, leads: watch::Receiver<Option<Epoch>>) -> Self {
        Self::Inside {
            admin: Box::new(admin),
            node: node.to_string(),
            leads,
        }
    }

    /// Has a command carried out.
    ///
    /// # Errors
    ///
    /// When it is refused, or nobody answers.
    pub async fn ask(&self, entry: &'static Entry, given: &Map<String, Value>) -> Result<Reply, AskError> {
        match self {
            Self::Remote(remote) => remote.ask(entry, given).await,
            Self::Inside { admin, node, .. } => {
                let operator = Operator {
                    who: node,
                    via: "repl",
                };
                let outcome = entry.carry_out(given.clone(), operator, admin).await;
                // The whole text of the refusal: whoever types at the orchestrator itself may know what its
                // log says.
                outcome.map_err(|refusal| AskError::Refused(refusal.to_string()))
            }
        }
    }

    /// Looks at once who is in touch.
    pub async fn look(&self) -> InTouch {
        if let Self::Remote(remote) = self {
            remote.look().await;
        }
        self.in_touch()
    }

    /// Looks again and again who is in touch, for ever.
    pub async fn keep_looking(&self) {
        let Self::Remote(remote) = self else {
            return std::future::pending().await;
        };
        loop {
            sleep(LOOK_AGAIN).await;
            remote.look().await;
        }
    }

    pub fn in_touch(&self) -> InTouch {
        match self {
            Self::Remote(remote) => remote.in_touch(),
            Self::Inside { node, leads, .. } => InTouch {
                leader: leads.borrow().map(|_| node.clone()),
                asked: Some(node.clone()),
            },
        }
    }

    /// Waits until those in touch are others than `known`, and returns them.
    pub async fn changed_from(&self, known: &InTouch) -> InTouch {
        match self {
            Self::Remote(remote) => remote.changed_from(known).await,
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
