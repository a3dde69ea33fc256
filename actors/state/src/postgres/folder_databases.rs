//! Databases of output folders, and the removal of those whose folder is gone.
//!
//! A database takes 9 MiB of disk, and the server's autovacuum visits every one of them: folders come and go, and without this
//! theirs would stay. Which folder a database belongs to, and when it was last opened, is its comment, as comments can be read from
//! any database of a server.

use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use super::database::create_database;
use crate::StateError;

/// Time for which the database of a folder that is gone is kept: the folder may be on a disk that is away for a while.
const KEPT: TimeDelta = TimeDelta::days(1);
/// Databases that are removed at once, at most. Each removal makes the server write its checkpoint.
const AT_ONCE: usize = 20;
/// SQLSTATE of `drop database` where somebody is connected.
const IN_USE: &str = "55006";

/// Databases of output folders on one server.
#[derive(Debug, Clone)]
pub struct FolderDatabases {
    /// Options to connect with to a database that is always there.
    admin: PgConnectOptions,
}

/// Comment of a folder's database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    folder: PathBuf,
    opened_at: DateTime<Utc>,
}

impl Owner {
    /// Returns true if the database may be removed at `now`, should the folder be gone.
    fn is_unused(&self, now: DateTime<Utc>) -> bool {
        now.signed_duration_since(self.opened_at) >= KEPT
    }
}

impl FolderDatabases {
    pub(crate) fn on(admin: PgConnectOptions) -> Self {
        Self { admin }
    }

    /// Opens the database `name` of `folder` at `now`, creates it if it is not there, and returns the options to connect to it with.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if the name is none, [`StateError::Unavailable`] if the server does not answer.
    pub async fn open(
        &self,
        name: &str,
        folder: &Path,
        now: DateTime<Utc>,
    ) -> Result<PgConnectOptions, StateError> {
        create_database(&self.admin, name).await?;
        let owner = Owner {
            folder: folder.to_owned(),
            opened_at: now,
        };
        // A path that is no text cannot be noted, and its database stays.
        if let Ok(comment) = serde_json::to_string(&owner) {
            let mut connection = self.admin.connect().await?;
            // `comment on` takes no parameters, so the server itself quotes them.
            let statement: String =
                sqlx::query_scalar("select format('comment on database %I is %L', $1, $2)")
                    .bind(name)
                    .bind(comment)
                    .fetch_one(&mut connection)
                    .await?;
            sqlx::query(AssertSqlSafe(statement))
                .execute(&mut connection)
                .await?;
            connection.close().await?;
        }
        Ok(self.admin.clone().database(name))
    }

    /// Removes databases whose folder is gone and that nobody has opened for a day before `now`, twenty at most, and returns their
    /// folders. Those that somebody is connected to stay.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the server does not answer.
    pub async fn remove_unowned(&self, now: DateTime<Utc>) -> Result<Vec<PathBuf>, StateError> {
        let mut connection = self.admin.connect().await?;
        let databases: Vec<(String, String)> = sqlx::query_as(
            "select datname::text, comment from pg_database, shobj_description(oid, 'pg_database') as comment \
             where comment is not null and not datistemplate order by datname",
        )
        .fetch_all(&mut connection)
        .await?;
        // Comments of others are no owners.
        let owned = databases
            .into_iter()
            .filter_map(|(name, comment)| Some((name, serde_json::from_str::<Owner>(&comment).ok()?)));
        // Before folders are looked for, which may be on a disk that does not answer.
        let unused = owned.filter(|(_, owner)| owner.is_unused(now));
        let mut removed = Vec::new();
        for (name, owner) in unused {
            if removed.len() == AT_ONCE {
                break;
            }
            // A folder that cannot be looked for is taken to be there.
            let exists = tokio::fs::try_exists(&owner.folder).await.unwrap_or(true);
            if !exists && drop_database(&mut connection, &name).await? {
                removed.push(owner.folder);
            }
        }
        connection.close().await?;
        Ok(removed)
    }
}

/// Removes a database, and returns false if somebody is connected to it.
async fn drop_database(connection: &mut PgConnection, name: &str) -> Result<bool, StateError> {
    let statement: String = sqlx::query_scalar("select format('drop database if exists %I', $1)")
        .bind(name)
        .fetch_one(&mut *connection)
        .await?;
    match sqlx::query(AssertSqlSafe(statement)).execute(connection).await {
        Err(sqlx::Error::Database(refusal)) if refusal.code().as_deref() == Some(IN_USE) => Ok(false),
        dropped => {
            dropped?;
            Ok(true)
        }
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::testing::at;

    use super::*;

    #[test]
    fn a_database_is_unused_a_day_after_its_folder_was_last_opened() {
        let owner = Owner {
            folder: "/out".into(),
            opened_at: at(0),
        };
        let day = 24 * 60 * 60;
        assert!(owner.is_unused(at(day)));
        assert!(!owner.is_unused(at(day - 1)));
        // A clock that was ahead when the folder was opened keeps it longer, and removes nothing.
        assert!(!owner.is_unused(at(-day)));
    }
}
