//! Questions about many tasks at once, for those who watch.

use sqlx::Row;
use sqlx::postgres::PgPool;

use super::rows::word;
use crate::domain::{Position, TaskStatus};
use crate::state::{StateError, TaskCount};

pub(super) async fn ping(pool: &PgPool) -> Result<(), StateError> {
    sqlx::query("select 1").execute(pool).await?;
    Ok(())
}

pub(super) async fn count_tasks(pool: &PgPool) -> Result<Vec<TaskCount>, StateError> {
    let rows = sqlx::query(
        "select t.current_stage, t.status::text as status, count(*) as tasks
         from tasks t join jobs j on j.id = t.job_id
         where j.status not in ('completed', 'failed', 'cancelled')
         group by t.current_stage, t.status",
    )
    .fetch_all(pool)
    .await?;
    rows.iter()
        .map(|row| {
            let position: &str = row.try_get("current_stage")?;
            Ok(TaskCount {
                position: position
                    .parse::<Position>()
                    .map_err(|error| StateError::Corrupt(error.to_string()))?,
                status: word(row, &TaskStatus::ALL, TaskStatus::as_str)?,
                tasks: u64::try_from(row.try_get::<i64, _>("tasks")?).unwrap_or_default(),
            })
        })
        .collect()
}
