//! Schema of the database, kept at the migrations of this build.

use std::sync::LazyLock;

use sqlx::migrate::{Migrate, Migration, MigrationType, Migrator};
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
    Migrator::with_migrations(SOURCES.iter().map(migration).collect())
});

/// Brings the schema up to date, and refuses one of a later build.
///
/// Most processes find it as it should be and need no further connection. A change needs one of its own: a migration may take
/// longer than a statement of the pool may, and so may the wait for another process that migrates the same database.
pub(super) async fn bring_up_to_date(pool: &PgPool, options: &PgConnectOptions) -> Result<(), StateError> {
    if is_current(&mut *pool.acquire().await?).await {
        return Ok(());
    }
    // A migration may be slow, and its text is long.
    let mut connection = options.clone().disable_statement_logging().connect().await?;
    MIGRATIONS.run(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Returns true if exactly the migrations of this build were applied, and false also where that cannot be found out, as in a
/// database without tables.
async fn is_current(connection: &mut PgConnection) -> bool {
    let table = &MIGRATIONS.table_name;
    let (Ok(applied), Ok(None)) = (
        connection.list_applied_migrations(table).await,
        connection.dirty_version(table).await,
    ) else {
        return false;
    };
    applied
        .iter()
        .map(|migration| (migration.version, &migration.checksum))
        .eq(MIGRATIONS
            .iter()
            .map(|migration| (migration.version, &migration.checksum)))
}
