//! The meter beside a real server: the same calls, and as many statements.

use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;
use parkhang_actors::stage::ocr_pipeline;
use parkhang_core::domain::testing::{self, at, new_job};
use parkhang_core::domain::{ErrorCategory, JobConfig, StageError};
use parkhang_core::policy::transition::Event as TaskEvent;
use parkhang_state::{EmbeddedPostgres, Expected, LeadershipTimings, PostgresStore};

/// What the driver says it sent for the store, apart from the begin and the end of transactions.
#[derive(Clone, Default)]
struct Statements(Arc<Mutex<Vec<String>>>);

impl Statements {
    fn sent(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Statements {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut summary = Summary(String::new());
        event.record(&mut summary);
        let text = summary.0.to_lowercase();
        // The last is the leader's sign of life, which comes by the clock.
        let apart = ["begin", "commit", "rollback", "select epoch = "];
        if !apart.iter().any(|start| text.starts_with(start)) {
            self.0.lock().unwrap().push(text);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Summary(String);

impl Visit for Summary {
    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "summary" {
            value.clone_into(&mut self.0);
        }
    }
}

/// Something of everything that a simulation asks of a store.
async fn exercise(store: &dyn StateStore) {
    let job = NewJob {
        pipeline: ocr_pipeline(),
        config: JobConfig {
            max_attempts: 1,
            ..JobConfig::default()
        },
        ..new_job(&["ocr"], 2)
    };
    let job = store.create_job(&job, at(0)).await.unwrap();
    let worker = testing::worker("w");
    let room: BTreeMap<StageName, usize> = job
        .pipeline
        .stages()
        .iter()
        .map(|stage| (stage.clone(), 5))
        .collect();
    store.leases(at(0)).await.unwrap();
    for (task, _) in store.ready_tasks(&room, at(0)).await.unwrap().tasks {
        let event = TaskEvent::Leased {
            stage: job.pipeline.first().clone(),
            worker: worker.clone(),
            until: at(60),
        };
        store
            .commit(&[Change::new(Expected::of(&task), event)], at(0))
            .await
            .unwrap();
    }
    store.leases(at(0)).await.unwrap();
    assert_eq!(store.backlog().await.unwrap().len(), 1);
    let held = store.leased_to(&worker).await.unwrap();
    let fences: Vec<Fence> = held.iter().filter_map(Task::fence).collect();
    let until = at(90);
    store.renew_leases(&fences, until).await.unwrap();
    store.finish_jobs(at(0)).await.unwrap();
    let fail = |task: &Task| TaskEvent::Failed {
        error: StageError::new("line_detection", ErrorCategory::Input, "broken"),
        not_before: task.not_before,
    };
    let failures: Vec<Change> = held
        .iter()
        .map(|task| Change::new(Expected::of(task), fail(task)))
        .collect();
    store.commit(&failures, at(0)).await.unwrap();
    store.commit(&failures, at(0)).await.unwrap();
    assert_eq!(
        store.task(held[0].id).await.unwrap().map(|task| task.attempts),
        Some(1)
    );
    store.job_by_id(job.id).await.unwrap();
    store.stage_runs(held[0].id).await.unwrap();
    assert_eq!(store.finish_jobs(at(0)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn postgres_is_asked_as_often_as_the_meter_says() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let options = server.create_database("metered").await.unwrap();
    let postgres = PostgresStore::connect_with(options).await.unwrap();
    let leadership = postgres.lead("test", LeadershipTimings::default()).await.unwrap();
    let leading = postgres.led_by(&leadership);

    // What comes before a simulation is not metered: it is done once without and subtracted.
    let create = Statements::default();
    let guard = tracing::subscriber::set_default(create.clone());
    let job = NewJob {
        pipeline: ocr_pipeline(),
        ..new_job(&["ocr"], 1)
    };
    let job = leading.create_job(&job, at(0)).await.unwrap();
    drop(guard);
    leading.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    leading.finish_jobs(at(0)).await.unwrap();

    let all = Statements::default();
    let guard = tracing::subscriber::set_default(all.clone());
    exercise(&leading).await;
    drop(guard);
    let metered = MeteredStore::default();
    exercise(&metered).await;

    let (create, all) = (create.sent(), all.sent());
    assert_eq!(all[..create.len()], create, "the exercise begins with a job");
    let sent = &all[create.len()..];
    assert_eq!(metered.traffic().statements, sent.len() as u64, "{sent:#?}");
}
