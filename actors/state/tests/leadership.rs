//! One leader at a time, on a real Postgres server. The server's binaries must be installed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::Future;
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use parkhang_core::domain::testing::{new_job, stage, worker};
use parkhang_core::domain::{CommandOutcome, Epoch, Fence, Job, NodeCommand, ServiceJob, Task, WorkerId};
use parkhang_core::policy::transition::Event;
use parkhang_state::{
    Change, EmbeddedPostgres, Expected, Inbox, LeadershipTimings, Outbox, Outcome, PostgresStore,
    ServiceStore, StateError, StateStore,
};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};

static SERVER: LazyLock<EmbeddedPostgres> = LazyLock::new(|| EmbeddedPostgres::temporary().unwrap());

const TIMINGS: LeadershipTimings = LeadershipTimings {
    silence: Duration::from_secs(4),
    interval: Duration::from_millis(200),
};

async fn database() -> PgConnectOptions {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("leadership_{}", COUNT.fetch_add(1, Ordering::Relaxed));
    SERVER.create_database(&name).await.unwrap()
}

async fn connect(options: &PgConnectOptions) -> PostgresStore {
    PostgresStore::connect_with(options.clone()).await.unwrap()
}

async fn job_of(store: &PostgresStore) -> (Job, Task) {
    let job = store.create_job(&new_job(&["ocr"], 1), Utc::now()).await.unwrap();
    let task = store.tasks(job.id).await.unwrap().remove(0);
    (job, task)
}

fn lease(task: &Task) -> Change {
    let event = Event::Leased {
        stage: stage("ocr"),
        worker: worker("w"),
        until: Utc::now(),
    };
    Change::new(Expected::of(task), event)
}

/// Ends the session that holds the leadership, as the server does when its holder is dead or silent.
async fn end_leader(connection: &mut PgConnection) {
    let ended: Vec<bool> = sqlx::query_scalar(
        "select pg_terminate_backend(l.pid) from pg_locks l
         where l.locktype = 'advisory' and l.granted and l.database = (
             select oid from pg_database where datname = current_database()
         )",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    assert_eq!(ended, [true]);
}

#[tokio::test]
async fn the_next_in_line_leads_when_the_leader_resigns_or_is_cut_off() {
    let options = database().await;
    let (first, second) = (connect(&options).await, connect(&options).await);
    let leader = first.lead("first", TIMINGS).await.unwrap();
    assert_eq!(leader.epoch(), Epoch(1));

    let mut waiting = pin!(second.lead("second", TIMINGS));
    let polled = std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await;
    assert!(polled.is_pending());

    drop(leader);
    let leader = waiting.await.unwrap();
    assert_eq!(leader.epoch(), Epoch(2));

    let third = connect(&options).await;
    let mut administrator = options.connect().await.unwrap();
    let cut_off = Instant::now();
    end_leader(&mut administrator).await;
    let next = third.lead("third", TIMINGS).await.unwrap();
    assert_eq!(next.epoch(), Epoch(3));
    assert!(
        cut_off.elapsed() < TIMINGS.silence,
        "the lock was not free at once"
    );
    leader.lost().await;
}

#[tokio::test]
async fn a_leader_is_named_as_long_as_it_leads() {
    let options = database().await;
    let store = connect(&options).await;
    assert_eq!(store.leader().await.unwrap(), None);
    let _leadership = store.lead("first", TIMINGS).await.unwrap();
    assert_eq!(store.leader().await.unwrap().as_deref(), Some("first"));

    let mut administrator = options.connect().await.unwrap();
    let lock: i64 = sqlx::query_scalar(
        "select classid::bigint << 32 | objid::bigint from pg_locks
         where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())",
    )
    .fetch_one(&mut administrator)
    .await
    .unwrap();
    end_leader(&mut administrator).await;
    // To have had the lock is to know that it was free.
    for statement in ["select pg_advisory_lock($1)", "select pg_advisory_unlock($1)"] {
        sqlx::query(statement)
            .bind(lock)
            .execute(&mut administrator)
            .await
            .unwrap();
    }
    assert_eq!(store.leader().await.unwrap(), None);
}

#[tokio::test]
async fn a_deposed_leader_changes_nothing() {
    let options = database().await;
    let (first, second) = (connect(&options).await, connect(&options).await);
    let old = first.lead("first", TIMINGS).await.unwrap();
    let old_store = first.led_by(&old);
    let (_, task) = job_of(&first).await;

    let mut administrator = options.connect().await.unwrap();
    end_leader(&mut administrator).await;
    let new = second.lead("second", TIMINGS).await.unwrap();

    let refused = old_store.commit(&[lease(&task)], Utc::now()).await;
    assert!(
        matches!(refused, Err(StateError::Deposed(Epoch(1)))),
        "{refused:?}"
    );
    let fence = Fence {
        task: task.id,
        stage: stage("ocr"),
        attempt: task.attempt(),
        generation: task.generation,
    };
    let order = first
        .issue_command("node", &NodeCommand::Drain, "tashi", TIMINGS.silence)
        .await
        .unwrap();
    let (now, fences) = (Utc::now(), [fence.clone()]);
    let settled = old_store
        .complete_command(order, &CommandOutcome::done("drained"))
        .await;
    for refused in [
        old_store.renew_leases(&fences, now).await.map(drop),
        old_store.finish_jobs(now).await.map(drop),
        old_store.volumes_marked(&[(task.id, task.generation)]).await,
        old_store.outgoing(&[stage("ocr")], 1, now).await.map(drop),
        old_store.published(&[(fence.clone(), 0)], now).await,
        old_store.republish(&fence.stage, now).await.map(drop),
        old_store.forget_done(&fence.stage, now).await.map(drop),
        old_store.take_in(task.job_id, &[], now).await.map(drop),
        old_store.settle(task.job_id, &[], now).await.map(drop),
        old_store.note_polls(&fences, now).await,
        old_store.note_message(&fence, now).await,
        old_store.drop_messages(&[1]).await,
        settled.map(drop),
    ] {
        assert!(
            matches!(refused, Err(StateError::Deposed(Epoch(1)))),
            "{refused:?}"
        );
    }
    assert_eq!(first.task(task.id).await.unwrap().unwrap(), task);
    assert_eq!(first.command(order).await.unwrap().unwrap().outcome, None);

    let outcomes = second
        .led_by(&new)
        .commit(&[lease(&task)], Utc::now())
        .await
        .unwrap();
    assert!(matches!(outcomes[..], [Outcome::Applied(_)]));
}

/// The answer to a submit comes when another leads.
/// Rows: 242.
#[tokio::test]
async fn a_deposed_leader_writes_the_job_that_a_service_has_taken() {
    let options = database().await;
    let (first, second) = (connect(&options).await, connect(&options).await);
    let old = first.lead("first", TIMINGS).await.unwrap();
    let old_store = first.led_by(&old);
    let (_, task) = job_of(&first).await;
    let leased = Change {
        event: Event::Leased {
            stage: stage("ocr"),
            worker: WorkerId::of_service("vision", &stage("ocr")),
            until: Utc::now() + TimeDelta::seconds(600),
        },
        ..lease(&task)
    };
    let outcomes = old_store.commit(&[leased], Utc::now()).await.unwrap();
    let [Outcome::Applied(task)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    let mut administrator = options.connect().await.unwrap();
    end_leader(&mut administrator).await;
    let new = second.lead("second", TIMINGS).await.unwrap();

    let fence = task.fence().unwrap();
    let refused = old_store.intend_submit(&fence, Utc::now()).await;
    assert!(matches!(refused, Err(StateError::Deposed(_))), "{refused:?}");
    let job = ServiceJob::new(fence, "operations/1", DateTime::UNIX_EPOCH);
    assert!(
        old_store.record_service_job(&job).await.unwrap(),
        "the lease goes on"
    );
    let known = second.led_by(&new).service_jobs(task.id).await;
    assert_eq!(known.unwrap(), [job]);
}

#[tokio::test]
async fn a_process_that_dies_in_line_leaves_it() {
    let options = database().await;
    let store = connect(&options).await;
    let leader = store.lead("first", TIMINGS).await.unwrap();
    {
        let mut gives_up = pin!(store.lead("gives up", TIMINGS));
        let polled = tokio::time::timeout(Duration::from_millis(500), &mut gives_up).await;
        assert!(polled.is_err());
    }
    let next = store.lead("next", TIMINGS);
    drop(leader);
    let next = tokio::time::timeout(TIMINGS.silence, next).await;
    assert_eq!(
        next.expect("the dead one still holds the line").unwrap().epoch(),
        Epoch(2)
    );
}
