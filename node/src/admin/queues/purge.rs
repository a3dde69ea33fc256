use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::QueuePurpose;
use parkhang_state::{Outbox, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::{QueueName, open};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// What became of the messages of a queue.
#[derive(Debug, Serialize, ToSchema)]
pub struct Purged {
    #[serde(flatten)]
    name: QueueName,
    /// Tasks that wait for the stage and are published again; absent for the queue of a standing job, whose messages others send.
    published_again: Option<u64>,
}

impl Answer for Purged {
    fn text(&self) -> String {
        let QueueName { serves, queue, .. } = &self.name;
        match self.published_again {
            Some(tasks) => {
                let tasks = pluralize(tasks, "task");
                format!("{queue}: purged; {tasks} of {serves} published again")
            }
            None => {
                format!(
                    "{queue}: purged; volumes of {serves} that its messages asked for have to be asked for again"
                )
            }
        }
    }
}

/// Delete all messages of a queue. Tasks that wait for the stage are published again, so no work is lost; what messages asked for of a standing job, somebody has to ask for again.
#[derive(Debug, Args)]
pub struct Purge {
    /// Queue that is emptied: the stage or the standing job that it serves, or its own name.
    #[arg(value_name = "QUEUE")]
    queue: String,
}

#[async_trait]
impl Command for Purge {
    const NAME: [&'static str; 2] = ["queue", "purge"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/queues/{queue}/purge";
    type Answer = Purged;

    async fn run(self, admin: &Admin) -> Result<Purged, Refusal> {
        let (purpose, queue) = open(admin, &self.queue).await?;
        // By the clock of the database, before the purge: what is published from now on may survive it, and need not be repeated.
        let before = admin.store.now().await?;
        queue.purge().await?;
        let published_again = match &purpose {
            QueuePurpose::Stage(stage) => Some(admin.store.republish(stage, before).await?),
            QueuePurpose::StandingJob(_) => None,
        };
        Ok(Purged {
            name: QueueName::new(&purpose, queue.name()),
            published_again,
        })
    }
}
