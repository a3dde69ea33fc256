use sqlx::raw_sql;

use super::*;
use crate::postgres::outbox;
use crate::postgres::scaling::BY_INDEX;
use crate::postgres::tests::{applied, change, failure, lease, new_job, now, plan_on, store};
use crate::{Outbox, StateStore};
use parkhang_core::domain::testing::{at, stage};
use parkhang_core::domain::{Alarm, AlarmKind, ErrorCategory, JobKey};
use parkhang_core::policy::transition::Event;

#[tokio::test]
async fn the_last_look_at_each_queue_is_kept_with_its_alarms() {
    let store = store().await;
    assert_eq!(store.queue_records().await.unwrap(), []);
    let ocr = QueueRecord {
        purpose: QueuePurpose::Stage(stage("ocr")),
        queue: "ocr-ocr.fifo".to_owned(),
        looked_at: at(60),
        visible: 3,
        in_flight: 2,
        delayed: 1,
        dead_letters: Some(4),
        oldest: Some(at(7)),
        alarms: vec![Alarm {
            kind: AlarmKind::DeadLetters,
            since: at(50),
            held_at: at(60),
        }],
    };
    let first = QueueRecord {
        purpose: QueuePurpose::Stage(stage("line_detection")),
        dead_letters: None,
        oldest: None,
        alarms: Vec::new(),
        ..ocr.clone()
    };
    // A job may have the name of a stage.
    let of_job = QueueRecord {
        purpose: QueuePurpose::StandingJob(JobKey::new("ocr").unwrap()),
        queue: "bec_ocr_tasks".to_owned(),
        ..ocr.clone()
    };
    // Twice, as every change may be repeated.
    for _ in 0..2 {
        let records = [of_job.clone(), ocr.clone(), first.clone()];
        store.record_queues(&records).await.unwrap();
    }
    assert_eq!(
        store.queue_records().await.unwrap(),
        [first.clone(), ocr, of_job.clone()]
    );
    let later = QueueRecord {
        purpose: QueuePurpose::Stage(stage("ocr")),
        looked_at: at(120),
        ..first.clone()
    };
    store.record_queues(std::slice::from_ref(&later)).await.unwrap();
    assert_eq!(store.queue_records().await.unwrap(), [first, later, of_job]);
}

#[tokio::test]
async fn runs_of_the_last_minutes_are_counted_by_how_they_ended() {
    let store = store().await;
    let job = store.create_job(&new_job(3), now()).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    for (task, end) in tasks.iter().zip([
        Event::Succeeded,
        failure(ErrorCategory::Input, "broken"),
        Event::Interrupted,
    ]) {
        let leased = applied(&store, lease(task, &job)).await;
        applied(&store, change(&leased, end)).await;
    }
    let counted = RecentRuns { done: 1, failed: 1 };
    let runs = store.recent_runs(at(599)).await.unwrap();
    assert_eq!(runs, BTreeMap::from([(job.pipeline.first().clone(), counted)]));
    assert_eq!(store.recent_runs(at(600)).await.unwrap(), BTreeMap::new());
}

/// Tasks that are done and a message of each, beside a few that wait.
#[tokio::test]
async fn a_look_at_a_queue_goes_by_indexes() {
    let store = store().await;
    let job = store.create_job(&new_job(4), now()).await.unwrap();
    raw_sql(
        "insert into volumes (bdrc_w_id, bdrc_i_id) select 'W2', 'I' || n from generate_series(1, 50000) n;
         insert into tasks (job_id, volume_id, max_attempts, allowance, current_stage, status, done_at)
         select 1, id, 3, 3, 'done', 'done', now() from volumes where bdrc_w_id = 'W2';
         insert into outbox (task_id, stage, attempt, generation, published_at)
         select id, 'reduce', 1, 0, now() from tasks where current_stage = 'done';
         analyze",
    )
    .execute(&store.pool)
    .await
    .unwrap();
    let first = job.pipeline.first().clone();
    let sent = store
        .outgoing(std::slice::from_ref(&first), 9, at(1))
        .await
        .unwrap();
    let sent: Vec<_> = sent.into_iter().map(|message| (message.fence, 0)).collect();
    store.published(&sent, at(1)).await.unwrap();
    let mut transaction = store.pool.begin_with(BY_INDEX).await.unwrap();
    for (statement, parameters) in [
        (outbox::OLDEST, "'{line_detection,reduce}'"),
        (outbox::IN_FRONT, "'line_detection', 'now', 9, 1000"),
        (RECENT_RUNS, "'now'"),
    ] {
        let plan = plan_on(&mut transaction, statement, parameters).await;
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }
    transaction.rollback().await.unwrap();
    let oldest = store.oldest(&[first.clone(), stage("reduce")]).await.unwrap();
    assert_eq!(oldest, BTreeMap::from([(first, at(1))]));
    let forgotten = store.forget_done(&stage("reduce"), Utc::now()).await.unwrap();
    assert_eq!(forgotten, 50_000);
}
