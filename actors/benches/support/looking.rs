//! Loop that looks at intervals for what there is to do, as the pipelines are written that keep their state in columns of a table: a
//! worker and a poller for each stage, five rows at a time.

use std::time::Duration;

use parkhang_service::{JobLook, JobService, JobsClient};
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, query, query_as};
use tokio_util::sync::CancellationToken;

use crate::support::pass;
use crate::{STAGES, client};

const BATCH: i64 = 5;
const LOOK: Duration = Duration::from_millis(500);
const ASK: Duration = Duration::from_secs(2);

pub(crate) fn start(pool: PgPool, url: String, stop: CancellationToken) {
    for (index, stage) in STAGES.into_iter().enumerate() {
        let (pool, url, stop) = (pool.clone(), url.clone(), stop.clone());
        let next = STAGES.get(index + 1).copied();
        tokio::spawn(async move {
            let client = client(&url);
            tokio::select! {
                () = work(&pool, &client, stage) => {}
                () = ask(&pool, &client, stage, next) => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

/// Claims rows and submits them, one after the other.
async fn work(pool: &PgPool, client: &JobsClient, stage: &str) {
    let claim = format!(
        "update leads set {stage}_status = 'started', {stage}_started_at = now() where id in (
             select id from leads where {stage}_status = 'queued' order by created_at limit $1 for update skip locked
         ) returning id"
    );
    let note = format!("update leads set {stage}_job_id = $2 where id = $1");
    loop {
        let rows: Vec<(i64,)> = query_as(AssertSqlSafe(claim.clone()))
            .bind(BATCH)
            .fetch_all(pool)
            .await
            .unwrap();
        for (id,) in rows {
            let body = serde_json::json!({"stage": stage, "id": id.to_string()});
            let job = client
                .submit(&format!("{stage}-{id}"), body.to_string())
                .await
                .unwrap();
            query(AssertSqlSafe(note.clone()))
                .bind(id)
                .bind(job)
                .execute(pool)
                .await
                .unwrap();
        }
        pass(LOOK).await;
    }
}

/// Asks about all jobs, one after the other.
async fn ask(pool: &PgPool, client: &JobsClient, stage: &str, next: Option<&str>) {
    let started = format!(
        "select id, {stage}_job_id from leads where {stage}_status = 'started' and {stage}_job_id is not null"
    );
    let queued = next.map_or(String::new(), |next| format!(", {next}_status = 'queued'"));
    let completed = format!(
        "update leads set {stage}_status = 'completed', {stage}_result = $2, {stage}_completed_at = now(){queued} where id = $1"
    );
    loop {
        let rows: Vec<(i64, String)> = query_as(AssertSqlSafe(started.clone()))
            .fetch_all(pool)
            .await
            .unwrap();
        for (id, job) in rows {
            if let JobLook::Completed(result) = client.look(&job).await.unwrap() {
                query(AssertSqlSafe(completed.clone()))
                    .bind(id)
                    .bind(result)
                    .execute(pool)
                    .await
                    .unwrap();
            }
        }
        pass(ASK).await;
    }
}
