//! Schema of the database, kept at the migrations of this build or of a later one.
//!
//! While a cluster is brought from one build to the next, and if it has to go back, processes of both work on one database, whose schema is that of
//! the later one. So a migration only adds what an earlier build need not know: tables, columns with a default, indexes. One that does more is named
//! `NNNN_breaking_...`, and earlier builds refuse the database.

use std::sync::LazyLock;

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use sqlx::{ConnectOptions, Connection, SqlStr};

use crate::StateError;

/// Version, description and text of each file in `migrations`, from the build script.
const SOURCES: &[(i64, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// Migrations of this build, compiled in.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migration = |&(version, description, sql): &(i64, &'static str, &'static str)| {
        let sql = SqlStr::from_static(sql);
        Migration::new(version, description.into(), MigrationType::Simple, sql, false)
    };
    let mut migrator = Migrator::with_migrations(SOURCES.iter().map(migration).collect());
    // Those of a later build, see `refuse_breaking`.
    migrator.set_ignore_missing(true);
    migrator
});

/// Begin of the description of a migration that earlier builds cannot work with.
const BREAKING: &str = "breaking ";

/// Migrations of a database beside those of this build.
enum Applied {
    /// Not all of them, or that cannot be found out, as in a database without tables.
    Fewer,
    Same,
    /// All of them, and others.
    More,
}

/// Brings the schema up to date, and refuses one of a later build that this one cannot work with.
///
/// Most processes find it as it should be and need no further connection. A change needs one of its own: a migration may take
/// longer than a statement of the pool may, and so may the wait for another process that migrates the same database.
pub(super) async fn bring_up_to_date(pool: &PgPool, options: &PgConnectOptions) -> Result<(), StateError> {
    match applied(&mut *pool.acquire().await?).await {
        Applied::Same => return Ok(()),
        Applied::More => {}
        Applied::Fewer => {
            // A migration may be slow, and its text is long.
            let mut connection = options.clone().disable_statement_logging().connect().await?;
            MIGRATIONS.run(&mut connection).await?;
            connection.close().await?;
        }
    }
    refuse_breaking(pool).await
}

async fn applied(connection: &mut PgConnection) -> Applied {
    let table = &MIGRATIONS.table_name;
    let (Ok(applied), Ok(None)) = (
        connection.list_applied_migrations(table).await,
        connection.dirty_version(table).await,
    ) else {
        return Applied::Fewer;
    };
    let of_this_build = MIGRATIONS
        .iter()
        .map(|migration| (migration.version, &migration.checksum));
    let mut found = applied
        .iter()
        .map(|migration| (migration.version, &migration.checksum));
    if !found.by_ref().take(SOURCES.len()).eq(of_this_build) {
        Applied::Fewer
    } else if found.next().is_none() {
        Applied::Same
    } else {
        Applied::More
    }
}

/// Refuses a schema with a migration that this build does not know and cannot work with; says of others that they are there.
async fn refuse_breaking(pool: &PgPool) -> Result<(), StateError> {
    let newest = SOURCES.last().map_or(0, |(version, _, _)| *version);
    let later: Vec<(i64, String)> = sqlx::query_as(
        "select version, description from _sqlx_migrations where version > $1 order by version",
    )
    .bind(newest)
    .fetch_all(pool)
    .await?;
    let breaks = |(_, description): &&(i64, String)| description.starts_with(BREAKING);
    if let Some((version, _)) = later.iter().find(breaks) {
        return Err(MigrateError::VersionMissing(*version).into());
    }
    if let Some((version, _)) = later.last() {
        tracing::info!(
            schema = version,
            known = newest,
            "the database has the schema of a later build, which this one can work with"
        );
    }
    Ok(())
}
