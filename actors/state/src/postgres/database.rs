//! Databases of a server: names, existence and creation.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::StateError;

/// Port on which PostgreSQL listens by default.
const USUAL_PORT: u16 = 5432;
/// SQLSTATE of `create database` for a name that is taken.
const DUPLICATE_DATABASE: &str = "42P04";
/// SQLSTATE of `create database` that another session was faster with.
const UNIQUE_VIOLATION: &str = "23505";

/// Returns true if the server of `options` has the database.
pub(crate) async fn has_database(options: &PgConnectOptions, name: &str) -> Result<bool, StateError> {
    let mut connection = options.connect().await?;
    let is_there = is_there(&mut connection, name).await?;
    connection.close().await?;
    Ok(is_there)
}

async fn is_there(connection: &mut PgConnection, name: &str) -> Result<bool, StateError> {
    let exists = sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
        .bind(name)
        .fetch_one(connection)
        .await?;
    Ok(exists)
}

/// Creates the database `name` on the server of `options` unless it is there; harmless when several do it at once.
/// A name is 1 to 63 of `a-z 0-9 _`.
pub(crate) async fn create_database(options: &PgConnectOptions, name: &str) -> Result<(), StateError> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || name.len() > 63 || !name.chars().all(legal) {
        return Err(StateError::Corrupt(format!(
            "{name:?} is not a database name: use a-z, 0-9 and _"
        )));
    }
    // The server copies a database file by file, which takes seconds on a busy disk: nothing to warn of.
    let mut connection = options.clone().disable_statement_logging().connect().await?;
    if !is_there(&mut connection, name).await? {
        // `create database` takes no parameters; the name was checked above.
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

/// `HOST/NAME` of a database, with the port if it is not the usual one.
pub(super) fn place(options: &PgConnectOptions) -> String {
    let (host, port) = (options.get_host(), options.get_port());
    let name = options.get_database().unwrap_or_default();
    if port == USUAL_PORT {
        format!("{host}/{name}")
    } else {
        format!("{host}:{port}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PostgresStore;

    #[test]
    fn a_place_holds_no_secret() {
        let of = |url: &str| place(&PostgresStore::options_of(url).unwrap());
        assert_eq!(of("postgres://otto:secret@db.example/press"), "db.example/press");
        assert_eq!(
            of("postgres://otto:secret@db.example:5433/press"),
            "db.example:5433/press"
        );
    }
}
