//! Database with very many tasks, for tests of the cost of a question.

use std::collections::BTreeMap;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, raw_sql};

use crate::StateError;

/// Fills a database with the job `crowd`, of which most is done and something is wrong everywhere, and the job `few`, with a
/// hundred tasks behind all others. Volume n is `Wn-In`.
const CROWD: &str = "
    insert into jobs (job_key, operation, pipeline, config, status, created_at)
    select key, 'ocr', '{line_detection,line_extraction,ocr,reduce}', '{\"priority\": 0, \"max_attempts\": 3}', 'running', now()
    from unnest('{crowd,few}'::text[]) as key;

    insert into volumes (bdrc_w_id, bdrc_i_id) select 'W' || n, 'I' || n from generate_series(1, COUNT) n;

    insert into tasks (
        job_id, volume_id, max_attempts, allowance, current_stage, status, attempts, terminal, last_error, done_at, started_at,
        worker_id, lease_until
    )
    select
        1, v.id, 3, 3,
        case when k < 700 then 'done' when k < 730 then 'ocr' when k < 731 then 'reduce' when k < 800 then 'line_extraction'
            else 'pending' end,
        (case when k < 700 then 'done' when k < 730 then 'failed' when k < 731 then 'running' when k < 800 then 'done'
            else 'pending' end)::task_status,
        case when k between 700 and 719 then 3 when k between 720 and 729 then 1 else 0 end,
        k between 700 and 719,
        case when k between 700 and 729 then jsonb_build_object(
            'stage', 'ocr', 'item_id', null, 'category', case when k < 720 then 'input' else 'network' end,
            'message', 'page ' || v.id || ' of \"' || v.bdrc_i_id || '.jpg\" failed', 'retryable', k >= 720
        ) end,
        case when k < 700 then now() end, now(),
        case when k = 730 then 'cpu-' || v.id % 50 || '.1/reduce/1' end,
        case when k = 730 then now() + interval '1 hour' end
    from volumes v, lateral (select v.id * 7919 % 1000 as k) as k
    order by v.id;

    insert into tasks (job_id, volume_id, max_attempts, allowance) select 2, id, 3, 3 from volumes order by id limit 100;

    insert into stage_runs (
        task_id, stage, attempt, generation, status, worker_id, started_at, done_at, metrics, error
    )
    select t.id, 'ocr', 1, 0,
        (case t.status when 'failed' then 'failed' else 'done' end)::stage_run_status, 'gpu-' || t.id % 1000 || '.1/ocr/1',
        ended - interval '1 second' * (20 + t.id % 400), ended, '{\"read\": 350, \"failed\": 1}', t.last_error
    from tasks t, lateral (select now() - interval '10 days' * (t.id % 100000) / 100000 as ended) as r
    where t.current_stage in ('done', 'ocr', 'reduce');

    insert into volume_results (
        task_id, total_images, total_lines, total_characters, processing_duration_ms, dewarping_applied_count, nb_errors
    )
    select id, 350, 2100, 120000, 4.5, 0, case when id % 20 = 0 then 3 else 0 end from tasks where current_stage = 'done';
";

/// Fills an empty database, whose schema is up to date.
pub async fn fill(options: &PgConnectOptions, tasks: u32) -> Result<(), StateError> {
    let mut connection = options.connect().await?;
    let statements = CROWD.replace("COUNT", &tasks.to_string());
    raw_sql(AssertSqlSafe(statements))
        .execute(&mut connection)
        .await?;
    raw_sql("vacuum analyze").execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Number of times that each of the large tables has been read from end to end. Waits until all other connections are closed:
/// the server counts a session's reads by then.
///
/// # Errors
///
/// [`StateError::Unavailable`] if the server does not answer.
pub async fn reads(options: &PgConnectOptions) -> Result<BTreeMap<String, i64>, StateError> {
    let mut connection = options.connect().await?;
    while others(&mut connection).await? > 0 {
        tokio::task::yield_now().await;
    }
    let reads: Vec<(String, i64)> = sqlx::query_as(
        "select relname::text, seq_scan from pg_stat_user_tables
         where relname in ('tasks', 'stage_runs', 'volumes', 'volume_results')",
    )
    .fetch_all(&mut connection)
    .await?;
    connection.close().await?;
    Ok(reads.into_iter().collect())
}

async fn others(connection: &mut PgConnection) -> Result<i64, StateError> {
    let others = "select count(*) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'";
    Ok(sqlx::query_scalar(others).fetch_one(connection).await?)
}
