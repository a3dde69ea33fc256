//! Errors of the database as errors of the store.

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;

use super::pooling;
use crate::StateError;

/// SQLSTATE class of statements that do not fit the schema (unknown table, column, type).
const SYNTAX_OR_ACCESS_RULE: &str = "42";

/// SQLSTATE classes of values that the database does not take: data exceptions, broken constraints, rows that are written twice in one
/// statement, and values beyond its limits.
const REFUSED: [&str; 4] = ["21", "22", "23", "54"];

impl From<sqlx::Error> for StateError {
    fn from(error: sqlx::Error) -> Self {
        if let Some(reason) = error.as_database_error().and_then(by_pooler) {
            return Self::Pooled(reason);
        }
        match error {
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::TypeNotFound { .. } => Self::Corrupt(error.to_string()),
            // The first two are refused each time, so they must not look like an outage, which callers wait out.
            sqlx::Error::Database(refusal) => {
                let code = refusal.code().unwrap_or_default();
                let is_of = |class: &str| code.starts_with(class);
                if is_of(SYNTAX_OR_ACCESS_RULE) {
                    Self::Corrupt(refusal.to_string())
                } else if REFUSED.into_iter().any(is_of) {
                    Self::Refused(refusal.message().to_owned())
                } else {
                    Self::Unavailable(refusal.to_string())
                }
            }
            other => Self::Unavailable(other.to_string()),
        }
    }
}

fn by_pooler(refusal: &(dyn DatabaseError + 'static)) -> Option<&'static str> {
    pooling::reason(&refusal.code()?, refusal.message())
}

impl From<MigrateError> for StateError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(version) => Self::Corrupt(format!(
                "the schema has migration {version}, which this build does not know: it belongs to a later release"
            )),
            MigrateError::VersionMismatch(version) => Self::Corrupt(format!(
                "migration {version} was applied in another wording than this build has"
            )),
            MigrateError::Dirty(version) => {
                Self::Corrupt(format!("migration {version} was left half applied"))
            }
            MigrateError::Execute(error) => error.into(),
            other => Self::Unavailable(other.to_string()),
        }
    }
}
