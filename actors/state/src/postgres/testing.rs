//! Database server whose clock is not that of this machine, for tests.

use sqlx::postgres::PgConnectOptions;
use sqlx::raw_sql;

use super::PostgresStore;
use crate::StateError;

/// Store whose server is so many minutes ahead of this machine, or behind it if the number is negative.
pub async fn with_clock_ahead(minutes: i32, options: PgConnectOptions) -> Result<PostgresStore, StateError> {
    let prepared = PostgresStore::connect_with(options.clone()).await?;
    let clock = format!(
        "create function public.clock_timestamp() returns timestamptz language sql volatile as
         $$ select pg_catalog.clock_timestamp() + interval '{minutes} minutes' $$"
    );
    raw_sql(sqlx::AssertSqlSafe(clock))
        .execute(&prepared.pool)
        .await?;
    prepared.close().await;
    let options = options.options([("search_path", "public,pg_catalog")]);
    PostgresStore::connect_with(options).await
}
