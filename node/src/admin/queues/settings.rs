use std::sync::Arc;

use async_trait::async_trait;
use clap::Args;
use parkhang_queue::{Difference, QueueError, QueueFacts, QueueServer, QueueSpec, TaskQueue, reconcile};
use serde::Serialize;
use utoipa::ToSchema;

use super::{QueueName, missing_lines, open_if_there, opened, queues};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::table;
use crate::admin::{Admin, Refusal};
use crate::config::Sqs;
use crate::queues::NamedQueue;

/// Settings of a queue.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OneQueue {
    #[serde(flatten)]
    name: QueueName,
    /// Time in seconds for which a message is invisible to others where a receive does not say.
    visibility_s: u64,
    /// Time in seconds for which messages are kept.
    retention_s: u64,
    /// Name of the dead-letter queue; absent if there is none.
    dead_letters: Option<String>,
    /// Receives after which a message goes there.
    max_receives: Option<u32>,
    /// Settings in which it differs from those that it would be made with.
    drift: Vec<String>,
    /// Settings of it and of its dead-letter queue that were changed.
    changed: Vec<String>,
}

/// All queues, and their settings.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct QueueSettings {
    queues: Vec<OneQueue>,
    /// Queues that do not exist.
    missing: Vec<QueueName>,
}

impl Answer for QueueSettings {
    fn text(&self) -> String {
        let rows = self.queues.iter().map(|queue| {
            let receives = queue.max_receives.map(|most| most.to_string());
            [
                queue.name.serves(),
                queue.name.queue.clone(),
                format!("{} s", queue.visibility_s),
                format!("{} d", queue.retention_s / 86_400),
                queue.dead_letters.clone().unwrap_or_default(),
                receives.unwrap_or_default(),
            ]
        });
        let header = [
            "serves",
            "queue",
            "visibility",
            "kept",
            "dead letters",
            "receives",
        ];
        let mut lines = vec![table(header, rows, 6)];
        for queue in &self.queues {
            lines.extend(queue.changed.iter().map(|changed| format!("changed: {changed}")));
            lines.extend(queue.drift.iter().map(|drift| format!("warning: {drift}")));
        }
        lines.extend(missing_lines(&self.missing));
        lines.join("\n")
    }
}

/// Action where a queue is missing, or has other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Tells what is missing, and what differs.
    Tell,
    /// Makes what is missing, and tells what differs.
    Create,
    /// Makes what is missing, and changes what differs.
    Reconcile,
}

/// Settings of all queues once `action` was taken.
async fn settings(
    server: &dyn QueueServer,
    queues: &[NamedQueue],
    config: &Sqs,
    action: Action,
) -> Result<QueueSettings, QueueError> {
    let (mut settings, mut missing) = (Vec::new(), Vec::new());
    for named in queues {
        let spec = named.spec(config);
        let (facts, changed) = match action {
            Action::Tell => match open_if_there(server, named).await? {
                Some(queue) => (queue.facts().await?, Vec::new()),
                None => {
                    missing.push(QueueName::new(&named.purpose, named.name()));
                    continue;
                }
            },
            Action::Create => (open(server, named, &spec).await?.facts().await?, Vec::new()),
            // Not read again: AWS takes a minute until it tells of a change.
            Action::Reconcile => (spec.facts(), reconcile(server, &named.address, &spec).await?),
        };
        settings.push(of(named, &spec, facts, &changed));
    }
    Ok(QueueSettings {
        queues: settings,
        missing,
    })
}

async fn open(
    server: &dyn QueueServer,
    named: &NamedQueue,
    spec: &QueueSpec,
) -> Result<Arc<dyn TaskQueue>, QueueError> {
    match server.open(&named.address).await {
        // A URL names a queue that is there, or else nobody could know it.
        Err(QueueError::NotFound { .. }) if !named.is_url() => server.create(spec).await,
        found => found,
    }
}

fn of(named: &NamedQueue, spec: &QueueSpec, facts: QueueFacts, changed: &[Difference]) -> OneQueue {
    let drift = spec.drift(&facts);
    let letters = facts
        .dead_letters
        .map(|letters| (letters.queue, letters.max_receives));
    let (dead_letters, max_receives) = letters.unzip();
    OneQueue {
        name: QueueName::new(&named.purpose, named.name()),
        visibility_s: facts.visibility.as_secs(),
        retention_s: facts.retention.as_secs(),
        dead_letters,
        max_receives,
        drift: drift.iter().map(Difference::to_string).collect(),
        changed: changed.iter().map(Difference::mended).collect(),
    }
}

/// Create the queues of all stages and of standing jobs, and their dead-letter queues. Those that are there are left as they are.
#[derive(Debug, Args)]
pub struct Create {
    /// Give those that are there the settings that they would be made with: visibility, retention, dead-letter queue and number of receives.
    #[arg(long)]
    reconcile: bool,
}

#[async_trait]
impl Command for Create {
    const NAME: [&'static str; 2] = ["queue", "create"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/queues/create";
    const MAY_BE_FIRST: bool = true;
    type Answer = QueueSettings;

    async fn run(self, admin: &Admin) -> Result<QueueSettings, Refusal> {
        let (queues, config) = (queues(admin)?, &admin.loaded.config.source.sqs);
        let server = opened(admin).await?;
        let action = if self.reconcile {
            Action::Reconcile
        } else {
            Action::Create
        };
        Ok(settings(server.as_ref(), &queues, config, action).await?)
    }
}

/// List the queues of stages and of standing jobs, and their settings.
#[derive(Debug, Args)]
pub struct List {}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["queue", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/queues";
    type Answer = QueueSettings;

    async fn run(self, admin: &Admin) -> Result<QueueSettings, Refusal> {
        let (queues, config) = (queues(admin)?, &admin.loaded.config.source.sqs);
        let server = opened(admin).await?;
        Ok(settings(server.as_ref(), &queues, config, Action::Tell).await?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parkhang_core::domain::QueuePurpose;
    use parkhang_queue::MemoryServer;

    use super::*;
    use crate::config::{BucketArgs, Loaded};

    fn config() -> Sqs {
        let loaded = Loaded::apart(&BucketArgs::default()).unwrap();
        loaded.config.source.sqs
    }

    fn queues() -> [NamedQueue; 2] {
        let queue = |kind, serves, address: &str| NamedQueue {
            purpose: QueuePurpose::new(kind, serves).unwrap(),
            address: address.to_owned(),
        };
        [
            queue("stage", "ocr", "ocr-ocr.fifo"),
            queue("standing_job", "press", "bec_press_tasks"),
        ]
    }

    /// Rows: U14.
    #[tokio::test]
    async fn a_queue_is_made_for_whom_it_serves_and_what_differs_is_told() {
        let (memory, queues, config) = (MemoryServer::new(), queues(), config());
        let none = settings(&memory, &queues, &config, Action::Tell).await.unwrap();
        let text = none.text();
        assert!(
            text.contains(
                "missing: ocr-ocr.fifo of stage ocr; `node queue create` makes those that are missing"
            ),
            "{text}"
        );
        let made = settings(&memory, &queues, &config, Action::Create).await.unwrap();
        let letters: Vec<_> = made
            .queues
            .iter()
            .map(|queue| {
                (
                    queue.dead_letters.as_deref(),
                    queue.max_receives,
                    queue.visibility_s,
                )
            })
            .collect();
        assert_eq!(
            letters,
            [
                (Some("ocr-ocr-dlq.fifo"), Some(5), 600),
                (Some("bec_press_dlq"), Some(3), 450)
            ],
            "that of a job as the archive makes it"
        );
        assert!(made.queues.iter().all(|queue| queue.drift.is_empty()), "{made:?}");
        let listed = settings(&memory, &queues, &config, Action::Tell).await.unwrap();
        assert_eq!(listed, made);

        let other = MemoryServer::new();
        let bare = QueueSpec {
            dead_letters: None,
            visibility: Duration::from_secs(30),
            ..queues[1].spec(&config)
        };
        other.create(&bare).await.unwrap();
        let left = settings(&other, &queues, &config, Action::Create).await.unwrap();
        let text = left.text();
        assert!(text.contains("standing job press"), "{text}");
        assert!(
            text.ends_with(
                "warning: bec_press_tasks: the visibility is 30 s and not 450 s\n\
                 warning: bec_press_tasks: the dead-letter queue is none and not bec_press_dlq"
            ),
            "{text}"
        );
    }

    /// Rows: U14.
    #[tokio::test]
    async fn what_differs_is_set_right_where_that_is_asked_for() {
        let (memory, queues, config) = (MemoryServer::new(), queues(), config());
        let bare = QueueSpec {
            dead_letters: None,
            visibility: Duration::from_secs(30),
            ..queues[1].spec(&config)
        };
        let press = memory.create(&bare).await.unwrap();
        let mended = settings(&memory, &queues, &config, Action::Reconcile)
            .await
            .unwrap();
        let text = mended.text();
        assert!(
            text.ends_with(
                "changed: bec_press_tasks: the visibility was 30 s and is 450 s now\n\
                 changed: bec_press_tasks: the dead-letter queue was none and is bec_press_dlq now"
            ),
            "{text}"
        );
        assert_eq!(press.facts().await.unwrap(), queues[1].spec(&config).facts());
        let mut listed = settings(&memory, &queues, &config, Action::Tell).await.unwrap();
        assert!(
            listed.queues.iter().all(|queue| queue.drift.is_empty()),
            "{listed:?}"
        );
        let again = settings(&memory, &queues, &config, Action::Reconcile)
            .await
            .unwrap();
        assert_eq!(again, listed, "the second time nothing is changed");
        listed.queues[1].changed = mended.queues[1].changed.clone();
        assert_eq!(mended, listed, "what is shown is what is there");
    }

    #[tokio::test]
    async fn a_queue_with_a_url_is_never_made() {
        let (memory, config) = (MemoryServer::new(), config());
        let [mut stage, _] = queues();
        stage.address = "memory://nowhere/reading.fifo".to_owned();
        let refused = settings(&memory, &[stage], &config, Action::Create).await;
        assert!(matches!(refused, Err(QueueError::NotFound { .. })), "{refused:?}");
    }
}
