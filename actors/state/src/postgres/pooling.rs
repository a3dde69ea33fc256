//! Poolers in front of the database that do not keep sessions, which this program needs: for the lock of the leader, for notices, and for
//! limits on statements. Each is found out by what it refuses or leaves out, as none says what it is.

use sqlx::postgres::PgPool;

use super::SESSION;
use crate::StateError;

/// SQLSTATEs of a prepared statement that is another session's, and of one that this session does not have.
const ELSEWHERE: [&str; 2] = ["42P05", "26000"];
/// SQLSTATE with which poolers refuse settings that come with a connection.
const PROTOCOL_VIOLATION: &str = "08P01";

const STATEMENTS: &str = "it gives a prepared statement to another session";
const SETTINGS: &str = "it does not pass the settings of a session on";

/// Reason for an error, by its SQLSTATE and text, if a pooler is.
pub(super) fn reason(code: &str, message: &str) -> Option<&'static str> {
    if ELSEWHERE.contains(&code) {
        return Some(STATEMENTS);
    }
    (code == PROTOCOL_VIOLATION && message.contains("startup parameter")).then_some(SETTINGS)
}

/// Checks that a new session has the settings that it was begun with.
pub(super) async fn check_settings(pool: &PgPool) -> Result<(), StateError> {
    let [(name, value), ..] = SESSION;
    let is_set: bool = sqlx::query_scalar("select current_setting($1)::interval = $2::text::interval")
        .bind(name)
        .bind(value)
        .fetch_one(pool)
        .await?;
    if is_set {
        Ok(())
    } else {
        Err(StateError::Pooled(SETTINGS))
    }
}

#[cfg(test)]
mod tests {
    use sqlx::raw_sql;

    use super::*;
    use crate::postgres::tests;

    #[tokio::test]
    async fn errors_of_sessions_that_a_pooler_mixes_up_name_it() {
        let store = tests::store().await;
        for mixed_up in [
            "execute nobody_prepared_this",
            "prepare a as select 1; prepare a as select 1",
        ] {
            let error = raw_sql(mixed_up).execute(&store.pool).await.unwrap_err();
            let error = StateError::from(error);
            assert!(
                matches!(error, StateError::Pooled(STATEMENTS)),
                "{mixed_up}: {error}"
            );
        }
        // As PgBouncer 1.18 and 1.25 say it.
        for refused in [
            "unsupported startup parameter: options",
            "unsupported startup parameter in options: statement_timeout",
        ] {
            assert_eq!(reason(PROTOCOL_VIOLATION, refused), Some(SETTINGS));
        }
        assert_eq!(reason(PROTOCOL_VIOLATION, "invalid frontend message"), None);
    }
}
