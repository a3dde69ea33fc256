use async_trait::async_trait;
use clap::Args;
use parkhang_queue::Redrive as Moved;
use serde::Serialize;
use utoipa::ToSchema;

use super::{QueueName, open};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// What became of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub struct Redriven {
    #[serde(flatten)]
    name: QueueName,
    /// Messages that were moved; absent where the server moves them itself and has only begun.
    moved: Option<u64>,
}

impl Answer for Redriven {
    fn text(&self) -> String {
        let queue = &self.name.queue;
        match self.moved {
            Some(moved) => format!("{queue}: {} moved back", pluralize(moved, "message")),
            None => format!("{queue}: the server moves its dead letters back"),
        }
    }
}

/// Move the dead letters of a queue back into it. Tasks that were set aside are run again by `job rerun`, not by this.
#[derive(Debug, Args)]
pub struct Redrive {
    /// Queue whose dead letters are moved: the stage or the standing job that it serves, or its own name.
    #[arg(value_name = "QUEUE")]
    queue: String,
}

#[async_trait]
impl Command for Redrive {
    const NAME: [&'static str; 2] = ["queue", "redrive"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/queues/{queue}/redrive";
    type Answer = Redriven;

    async fn run(self, admin: &Admin) -> Result<Redriven, Refusal> {
        let (purpose, queue) = open(admin, &self.queue).await?;
        let moved = queue.dead_letters().await?.redrive(queue.as_ref()).await?;
        Ok(Redriven {
            name: QueueName::new(&purpose, queue.name()),
            moved: match moved {
                Moved::Moved { messages } => Some(messages),
                Moved::Started { .. } => None,
            },
        })
    }
}
