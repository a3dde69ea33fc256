use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use parkhang_actors::source::count_dead_letters;
use parkhang_core::domain::{QueuePurpose, StageName};
use parkhang_queue::Counts;
use parkhang_state::{Outbox, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::{QueueName, missing_lines, open_if_there, opened, queue_looks, queues};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::table;
use crate::admin::{Admin, Refusal};

/// Numbers of messages of a queue. They are approximate, and zero does not mean that work is finished.
#[derive(Debug, Serialize, ToSchema)]
pub struct OneCount {
    #[serde(flatten)]
    name: QueueName,
    /// Messages that wait.
    visible: u64,
    /// Messages that were received and are held.
    in_flight: u64,
    /// Messages whose delay is not over.
    delayed: u64,
    /// Seconds for which a message has waited; absent if there is none. Of a stage, since the oldest was published whose task still waits,
    /// by the database and not by the queue; of a standing job, for which the leader has seen messages without a break.
    oldest_s: Option<u64>,
    /// Messages in the dead-letter queue; absent if there is none.
    dead_letters: Option<u64>,
}

/// Numbers of messages of all queues.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueueCounts {
    queues: Vec<OneCount>,
    /// Queues that do not exist.
    missing: Vec<QueueName>,
}

impl Answer for QueueCounts {
    fn text(&self) -> String {
        let rows = self.queues.iter().map(|queue| {
            let (age, letters) = (queue.oldest_s, queue.dead_letters);
            [
                queue.name.serves(),
                queue.name.queue.clone(),
                queue.visible.to_string(),
                queue.in_flight.to_string(),
                queue.delayed.to_string(),
                age.map_or(String::new(), |age| format!("{age} s")),
                letters.map_or(String::new(), |letters| letters.to_string()),
            ]
        });
        let header = [
            "serves",
            "queue",
            "visible",
            "in flight",
            "delayed",
            "oldest",
            "dead",
        ];
        let mut lines = vec![table(header, rows, 2)];
        lines.extend(missing_lines(&self.missing));
        lines.join("\n")
    }
}

/// Count the messages of the queues, about: visible, in flight, delayed, and dead letters; and tell how long the oldest has waited.
#[derive(Debug, Args)]
pub struct Stats {}

#[async_trait]
impl Command for Stats {
    const NAME: [&'static str; 2] = ["queue", "stats"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/queues/stats";
    type Answer = QueueCounts;

    async fn run(self, admin: &Admin) -> Result<QueueCounts, Refusal> {
        let queues = queues(admin)?;
        let stages: Vec<StageName> = queues
            .iter()
            .filter_map(|queue| queue.purpose.stage())
            .cloned()
            .collect();
        let published = admin.store.oldest(&stages).await?;
        let looks = queue_looks(admin).await?;
        let now = admin.store.now().await?;
        let server = opened(admin).await?;
        let (mut counted, mut missing) = (Vec::new(), Vec::new());
        for named in queues {
            let Some(queue) = open_if_there(server.as_ref(), &named).await? else {
                missing.push(QueueName::new(&named.purpose, named.name()));
                continue;
            };
            let Counts {
                visible,
                in_flight,
                delayed,
            } = queue.counts().await?;
            let oldest = match &named.purpose {
                QueuePurpose::Stage(stage) => published.get(stage).copied(),
                // Only if some wait now: the look may be a minute old.
                purpose => {
                    let look = looks.iter().find(|look| look.purpose == *purpose);
                    look.and_then(|look| look.oldest).filter(|_| visible > 0)
                }
            };
            counted.push(OneCount {
                name: QueueName::new(&named.purpose, queue.name()),
                visible,
                in_flight,
                delayed,
                oldest_s: oldest.map(|oldest| seconds_since(oldest, now)),
                dead_letters: count_dead_letters(queue.as_ref()).await?,
            });
        }
        Ok(QueueCounts {
            queues: counted,
            missing,
        })
    }
}

fn seconds_since(time: DateTime<Utc>, now: DateTime<Utc>) -> u64 {
    let age: TimeDelta = now - time;
    u64::try_from(age.num_seconds()).unwrap_or(0)
}
