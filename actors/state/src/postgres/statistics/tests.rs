use futures::future::join_all;
use proptest::prelude::*;
use proptest::sample::select;
use sqlx::{AssertSqlSafe, raw_sql};

use crate::StateStore;
use crate::postgres::PostgresStore;
use crate::postgres::tests::{applied, change, failure, lease, new_job, now, store};
use parkhang_core::domain::{ErrorCategory, Position, TaskCount, TaskStatus};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::transition::Event;

/// Rows in which a table's totals differ from what they are the totals of.
const DIFFERENCES: [&str; 4] = [
    "with held as (
         select job_id, current_stage, status, terminal, cause, sum(tasks)::bigint as tasks
         from task_counts group by 1, 2, 3, 4, 5 having sum(tasks) <> 0
     ), counted as (
         select job_id, current_stage, status, terminal, case when status = 'failed' then error_cause(last_error) end,
             count(*)
         from tasks group by 1, 2, 3, 4, 5
     )
     select count(*) from ((table held except table counted) union all (table counted except table held)) as d",
    "with held as (
         select job_id, stage, status, duration_bucket, sum(runs)::bigint as runs, sum(microseconds)::bigint as microseconds,
             sum(pages)::bigint as pages
         from run_counts group by 1, 2, 3, 4 having sum(runs) <> 0
     ), counted as (
         select t.job_id, r.stage, r.status, duration_bucket(r.done_at - r.started_at), count(*),
             sum(1000000 * extract(epoch from r.done_at - r.started_at))::bigint, sum((r.metrics ->> 'read')::bigint)::bigint
         from stage_runs r join tasks t on t.id = r.task_id where r.done_at is not null group by 1, 2, 3, 4
     )
     select count(*) from ((table held except table counted) union all (table counted except table held)) as d",
    "with held as (
         select job_id, sum(tasks)::bigint as tasks, sum(pages)::bigint as pages
         from failed_page_counts group by 1 having sum(tasks) <> 0
     ), counted as (
         select t.job_id, count(*), sum(r.nb_errors)
         from volume_results r join tasks t on t.id = r.task_id where r.nb_errors > 0 group by 1
     )
     select count(*) from ((table held except table counted) union all (table counted except table held)) as d",
    "with held as (
         select job_id, confidence_bucket, perplexity_bucket, sum(volumes)::bigint as volumes
         from quality_counts group by 1, 2, 3 having sum(volumes) <> 0
     ), counted as (
         select t.job_id, confidence_bucket(r.confidence_mean), perplexity_bucket(r.perplexity), count(*)
         from volume_results r join tasks t on t.id = r.task_id group by 1, 2, 3
     )
     select count(*) from ((table held except table counted) union all (table counted except table held)) as d",
];

/// Possible states of a task, as assignments.
const STATES: [&str; 6] = [
    "current_stage = 'pending', status = 'pending', terminal = false, worker_id = null, lease_until = null, done_at = null",
    "current_stage = 'ocr', status = 'running', terminal = false, worker_id = 'w', lease_until = now(), done_at = null",
    "current_stage = 'ocr', status = 'done', terminal = false, worker_id = null, lease_until = null, done_at = null",
    "current_stage = 'ocr', status = 'failed', terminal = false, worker_id = null, lease_until = null, done_at = null,
         last_error = jsonb_build_object('category', 'network', 'message', 'no answer after ' || id)",
    "current_stage = 'ocr', status = 'failed', terminal = true, worker_id = null, lease_until = null, done_at = null,
         last_error = jsonb_build_object('category', 'input', 'message', '\"' || id || '\" is no image')",
    "current_stage = 'done', status = 'done', terminal = false, worker_id = null, lease_until = null, done_at = now()",
];

/// Statements on about a seventh of a job's tasks.
fn statements() -> impl Strategy<Value = String> {
    let chosen = (1..=3, 0..7).prop_map(|(job, part)| {
        format!("(select id from tasks where job_id = {job} and id % 7 = {part} order by id for update)")
    });
    prop_oneof![
        1 => (1..=3, 0..7).prop_map(|(job, part)| format!(
            "insert into tasks (job_id, volume_id, max_attempts, allowance)
             select {job}, id, 3, 3 from volumes where id % 7 = {part} order by id
             on conflict (job_id, volume_id) do update set status = 'pending', current_stage = 'ocr', terminal = false,
                 worker_id = null, lease_until = null, done_at = null"
        )),
        4 => (chosen.clone(), select(&STATES[..]))
            .prop_map(|(tasks, state)| format!("update tasks set {state} where id in {tasks}")),
        1 => (chosen.clone(), 1..90, select(vec!["running", "done", "failed"])).prop_map(|(tasks, seconds, status)| format!(
            "insert into stage_runs (task_id, stage, attempt, generation, status, worker_id, started_at, done_at, metrics)
             select id, 'ocr', 1, 0, '{status}'::stage_run_status, 'w', now(),
                 case when '{status}' <> 'running' then now() + interval '{seconds} s' end,
                 jsonb_build_object('read', {seconds})
             from {tasks} as t
             on conflict (task_id, stage, attempt, generation) do update
             set status = excluded.status, done_at = excluded.done_at, metrics = excluded.metrics"
        )),
        1 => (chosen.clone(), 0..3).prop_map(|(tasks, errors)| format!(
            "insert into volume_results (
                 task_id, total_images, total_lines, total_characters, processing_duration_ms, dewarping_applied_count,
                 nb_errors, confidence_mean, perplexity
             )
             select id, 9, 9, 9, 1.0, 0, {errors}, 0.4 * {errors}, nullif(30 * {errors}, 30) from {tasks} as t
             on conflict (task_id) do update
             set nb_errors = excluded.nb_errors, confidence_mean = excluded.confidence_mean, perplexity = excluded.perplexity"
        )),
        // Under locks, as no run may be added to a task that is about to go.
        1 => chosen.prop_map(|tasks| format!(
            "select from jobs order by id for update;
             select from {tasks} as t;
             delete from stage_runs where task_id in {tasks};
             delete from volume_results where task_id in {tasks};
             delete from tasks where id in {tasks}"
        )),
        1 => Just("select fold_task_counts(0), fold_run_counts(0), fold_failed_page_counts(0), fold_quality_counts(0)".to_owned()),
    ]
}

/// A transaction, and whether it is committed.
fn transactions() -> impl Strategy<Value = Vec<(Vec<String>, bool)>> {
    let transaction = (
        prop::collection::vec(statements(), 1..4),
        prop::bool::weighted(0.8),
    );
    prop::collection::vec(transaction, 1..12)
}

async fn differences(store: &PostgresStore) -> [i64; 4] {
    let mut found = [0; 4];
    for (found, statement) in found.iter_mut().zip(DIFFERENCES) {
        let differences: i64 = sqlx::query_scalar(statement)
            .fetch_one(&store.pool)
            .await
            .unwrap();
        *found = differences;
    }
    found
}

/// A deadlock or a task that has gone ends a transaction, as a rollback does.
async fn run(store: &PostgresStore, transactions: &[(Vec<String>, bool)]) {
    for (statements, is_committed) in transactions {
        let mut transaction = store.pool.begin().await.unwrap();
        raw_sql("set local deadlock_timeout = '10ms'")
            .execute(&mut *transaction)
            .await
            .unwrap();
        let mut is_whole = *is_committed;
        for statement in statements {
            let done = raw_sql(AssertSqlSafe(statement.clone()))
                .execute(&mut *transaction)
                .await;
            is_whole &= done.is_ok();
            if done.is_err() {
                break;
            }
        }
        if is_whole {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
    }
}

/// Totals are exact also while others write: every comparison is one statement.
#[test]
fn totals_are_what_is_counted_whoever_writes_and_how() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let store = runtime.block_on(async {
        let store = store().await;
        for _ in 0..3 {
            store.create_job(&new_job(0), now()).await.unwrap();
        }
        let volumes =
            "insert into volumes (bdrc_w_id, bdrc_i_id) select 'W', 'I' || n from generate_series(1, 60) n";
        raw_sql(volumes).execute(&store.pool).await.unwrap();
        store
    });
    let writers = prop::collection::vec(transactions(), 4);
    let config = ProptestConfig {
        cases: 24,
        // What one case leaves behind is where the next begins, so that none can be made smaller by itself.
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    };
    proptest!(config, |(writers in writers)| {
        runtime.block_on(async {
            let all = join_all(writers.iter().map(|transactions| run(&store, transactions)));
            let mut all = std::pin::pin!(all);
            loop {
                tokio::select! {
                    _ = &mut all => break,
                    found = differences(&store) => prop_assert_eq!(found, [0; 4], "while others write"),
                }
            }
            prop_assert_eq!(differences(&store).await, [0; 4]);
            Ok(())
        })?;
    });
    let found = runtime.block_on(async {
        raw_sql("truncate tasks cascade")
            .execute(&store.pool)
            .await
            .unwrap();
        differences(&store).await
    });
    assert_eq!(found, [0; 4]);
}

#[tokio::test]
async fn rows_of_a_busy_job_are_folded() {
    let store = store().await;
    let job = store.create_job(&new_job(1), now()).await.unwrap();
    let task = store.tasks(job.id).await.unwrap().remove(0);
    let mut task = applied(&store, lease(&task, &job)).await;
    let rows = async || -> i64 {
        let count = sqlx::query_scalar("select count(*) from task_counts");
        count.fetch_one(&store.pool).await.unwrap()
    };
    let mut most = rows().await;
    // That none of so many folds them has a probability of 0.99 ^ 3000.
    for turn in 0..3000 {
        task = match turn % 2 {
            0 => applied(&store, change(&task, Event::Released)).await,
            _ => applied(&store, lease(&task, &job)).await,
        };
        let now = rows().await;
        if now < most {
            break;
        }
        most = now;
    }
    // A change adds two rows, and may fold them with all others: these two nobody sees.
    assert!(most + 2 > 100 && rows().await < most, "{most}");
    let counts = store.job_task_counts(Some(job.id)).await.unwrap();
    assert_eq!(counts.iter().map(|count| count.tasks).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn jobs_that_are_over_are_not_among_what_is_open() {
    let store = store().await;
    let job = store.create_job(&new_job(50), now()).await.unwrap();
    let task = store.tasks(job.id).await.unwrap().remove(0);
    let running = applied(&store, lease(&task, &job)).await;
    let failed = applied(&store, change(&running, failure(ErrorCategory::Network, "no"))).await;
    let count = |position, status, tasks| TaskCount {
        position,
        status,
        tasks,
    };
    let mut found = store.count_tasks().await.unwrap();
    found.sort_by_key(|count| count.tasks);
    assert_eq!(
        found,
        [
            count(failed.position, TaskStatus::Failed, 1),
            count(Position::Pending, TaskStatus::Pending, 49),
        ]
    );
    store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    assert_eq!(store.count_tasks().await.unwrap(), []);
}
