use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::state::StateError;

const DUPLICATE_DATABASE: &str = "42P04";
const UNIQUE_VIOLATION: &str = "23505";

/// Creates the database `name` on the server of `options` unless it is there; harmless when several do it at once.
/// A name is 1 to 63 of `a-z 0-9 _`.
pub(in crate::state) async fn create_database(
    options: &PgConnectOptions,
    name: &str,
) -> Result<(), StateError> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || name.len() > 63 || !name.chars().all(legal) {
        return Err(StateError::Corrupt(format!(
            "{name:?} is not a database name: use a-z, 0-9 and _"
        )));
    }
    let mut connection = options.connect().await?;
    let exists: bool = sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
        .bind(name)
        .fetch_one(&mut connection)
        .await?;
    if !exists {
        let statement = AssertSqlSafe(format!("create database \"{name}\""));
        match sqlx::query(statement).execute(&mut connection).await {
            Err(sqlx::Error::Database(refusal))
                if matches!(
                    refusal.code().as_deref(),
                    Some(DUPLICATE_DATABASE | UNIQUE_VIOLATION)
                ) => {}
            created => {
                created?;
            }
        }
    }
    connection.close().await?;
    Ok(())
}
