//! Table `filings` of another program, in a database of its own: which pages of a document have to be read.
//!
//! Nothing of that database is ours, so nothing is made there, and the types of its columns are taken as they are found.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgPool, PgPoolOptions};

use super::{PostgresStore, SESSION};
use crate::StateError;

/// Columns by which a filing is found, and the one that is updated.
const EXCHANGE: &str = "exchange";
const SOURCE_ID: &str = "source_id";
const BROKEN_PAGES: &str = "broken_pages";
/// Type of the column that is updated, as PostgreSQL writes it.
const PAGES_TYPE: &str = "integer[]";
/// Connections: updates come one after the other.
const CONNECTIONS: u32 = 1;
/// Longest wait for the server.
const PATIENCE: Duration = Duration::from_secs(10);
/// SQLSTATE of a statement that the role has no right to.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// Table with a row for each filing.
#[derive(Debug, Clone)]
pub struct FilingsTable {
    pool: PgPool,
    update: String,
}

/// Reason why pages cannot be recorded in a database. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnfitFilings {
    #[error("there is no table filings")]
    NoTable,
    #[error(
        "the table filings has no column {BROKEN_PAGES}: alter table filings add column {BROKEN_PAGES} {PAGES_TYPE} default '{{}}'"
    )]
    NoPages,
    #[error("the column {BROKEN_PAGES} of filings is {0}, and not {PAGES_TYPE}")]
    OtherType(String),
    #[error("the table filings has no column {0}, by which a filing is found")]
    NoKey(&'static str),
    #[error(
        "this role may not update filings: grant select ({EXCHANGE}, {SOURCE_ID}), update ({BROKEN_PAGES}) on filings to {role}"
    )]
    Denied {
        /// Name of the role, quoted where that is needed.
        role: String,
    },
}

/// Error of [`FilingsTable`].
#[derive(Debug, thiserror::Error)]
pub enum FilingsError {
    #[error(transparent)]
    Unfit(#[from] UnfitFilings),
    #[error(transparent)]
    Database(#[from] StateError),
}

impl FilingsTable {
    /// Connects to a `postgres://` URL and looks for the table. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`FilingsError::Unfit`] if pages cannot be recorded there, [`FilingsError::Database`] if the server does not answer.
    pub async fn open(url: &str) -> Result<Self, FilingsError> {
        let options = PostgresStore::options_of(url)?.application_name("parkhang");
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            .connect_with(options.options(SESSION))
            .await
            .map_err(StateError::from)?;
        let update = update(&columns(&pool).await?)?;
        if !is_allowed(&pool).await? {
            return Err(denied(&pool).await?.into());
        }
        Ok(Self { pool, update })
    }

    /// Records the pages of a filing, in the place of those that were recorded before; returns false if the table has no such filing.
    /// The update is committed when this returns.
    ///
    /// # Errors
    ///
    /// [`FilingsError::Unfit`] if the right was withdrawn since the table was opened, [`FilingsError::Database`] if the server does not
    /// answer or refuses the values.
    pub async fn record(&self, exchange: &str, source_id: &str, pages: &[i32]) -> Result<bool, FilingsError> {
        // Only the types of the columns, which PostgreSQL itself has written, are put into the text.
        let updated = sqlx::query(AssertSqlSafe(self.update.clone()))
            .bind(exchange)
            .bind(source_id)
            .bind(pages)
            .execute(&self.pool)
            .await;
        match updated {
            Ok(updated) => Ok(updated.rows_affected() > 0),
            Err(sqlx::Error::Database(refusal))
                if refusal.code().as_deref() == Some(INSUFFICIENT_PRIVILEGE) =>
            {
                Err(denied(&self.pool).await?.into())
            }
            Err(error) => Err(StateError::from(error).into()),
        }
    }
}

/// Types of the columns of the table, quoted where that is needed; none if there is no table.
async fn columns(pool: &PgPool) -> Result<BTreeMap<String, String>, StateError> {
    let found: Vec<(String, String)> = sqlx::query_as(
        "select attname::text, format_type(atttypid, null) from pg_attribute
         where attrelid = to_regclass('filings') and attnum > 0 and not attisdropped",
    )
    .fetch_all(pool)
    .await?;
    Ok(found.into_iter().collect())
}

/// The statement for these columns. Ids are texts here and may be anything there, such as an enumeration.
fn update(columns: &BTreeMap<String, String>) -> Result<String, UnfitFilings> {
    if columns.is_empty() {
        return Err(UnfitFilings::NoTable);
    }
    let key = |name: &'static str| columns.get(name).ok_or(UnfitFilings::NoKey(name));
    let (exchange, source_id) = (key(EXCHANGE)?, key(SOURCE_ID)?);
    match columns.get(BROKEN_PAGES) {
        None => return Err(UnfitFilings::NoPages),
        Some(found) if found != PAGES_TYPE => return Err(UnfitFilings::OtherType(found.clone())),
        Some(_) => {}
    }
    Ok(format!(
        "update filings set {BROKEN_PAGES} = $3
         where {EXCHANGE} = $1::text::{exchange} and {SOURCE_ID} = $2::text::{source_id}"
    ))
}

async fn is_allowed(pool: &PgPool) -> Result<bool, StateError> {
    let allowed = sqlx::query_scalar(
        "select has_column_privilege('filings', 'broken_pages', 'update')
            and has_column_privilege('filings', 'exchange', 'select')
            and has_column_privilege('filings', 'source_id', 'select')",
    )
    .fetch_one(pool)
    .await?;
    Ok(allowed)
}

async fn denied(pool: &PgPool) -> Result<UnfitFilings, StateError> {
    let role = sqlx::query_scalar("select quote_ident(current_user::text)")
        .fetch_one(pool)
        .await?;
    Ok(UnfitFilings::Denied { role })
}

#[cfg(test)]
mod tests {
    use sqlx::ConnectOptions;
    use sqlx::postgres::PgConnectOptions;

    use super::*;
    use crate::EmbeddedPostgres;

    async fn run(options: &PgConnectOptions, statements: &'static str) {
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
    }

    fn url(options: &PgConnectOptions, user: &str) -> String {
        options.clone().username(user).to_url_lossy().into()
    }

    async fn unfit(url: &str) -> UnfitFilings {
        match FilingsTable::open(url).await {
            Err(FilingsError::Unfit(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    /// Rows: 123, 125.
    #[tokio::test]
    async fn a_database_says_what_it_lacks_until_pages_can_be_recorded() {
        let server = EmbeddedPostgres::temporary().unwrap();
        let options = server.create_database("filings").await.unwrap();
        let owner = url(&options, options.get_username());
        assert_eq!(unfit(&owner).await, UnfitFilings::NoTable);
        run(
            &options,
            "create type exchange_name as enum ('HKEX', 'SGX');
             create table filings (exchange exchange_name, title text);
             insert into filings values ('HKEX', 'report');",
        )
        .await;
        assert_eq!(unfit(&owner).await, UnfitFilings::NoKey(SOURCE_ID));
        run(
            &options,
            "alter table filings add column source_id bigint default 11805134",
        )
        .await;
        let lacking = unfit(&owner).await;
        assert_eq!(lacking, UnfitFilings::NoPages);
        run(&options, "alter table filings add column broken_pages text").await;
        assert_eq!(unfit(&owner).await, UnfitFilings::OtherType("text".to_owned()));
        run(&options, "alter table filings drop column broken_pages").await;
        // The statement in the message helps.
        run(
            &options,
            "alter table filings add column broken_pages integer[] default '{}'",
        )
        .await;
        assert!(
            lacking
                .to_string()
                .ends_with("alter table filings add column broken_pages integer[] default '{}'")
        );

        let table = FilingsTable::open(&owner).await.unwrap();
        assert!(table.record("HKEX", "11805134", &[3, 4]).await.unwrap());
        assert!(
            !table.record("SGX", "11805134", &[3]).await.unwrap(),
            "there is no such filing"
        );
        let pages = async || -> Vec<i32> {
            let mut connection = options.connect().await.unwrap();
            let pages = sqlx::query_scalar("select broken_pages from filings");
            pages.fetch_one(&mut connection).await.unwrap()
        };
        assert_eq!(pages().await, [3, 4]);
        assert!(table.record("HKEX", "11805134", &[]).await.unwrap());
        assert_eq!(pages().await, [0; 0]);
        let refused = table.record("LSE", "1", &[]).await.unwrap_err();
        assert!(refused.to_string().contains("LSE"), "{refused}");

        run(
            &options,
            "create role \"Detector\" login; grant select on filings to \"Detector\"",
        )
        .await;
        let detector = url(&options, "Detector");
        let denied = unfit(&detector).await;
        let statement =
            "grant select (exchange, source_id), update (broken_pages) on filings to \"Detector\"";
        assert!(denied.to_string().ends_with(statement), "{denied}");
        run(
            &options,
            "revoke all on filings from \"Detector\";
             grant select (exchange, source_id), update (broken_pages) on filings to \"Detector\"",
        )
        .await;
        let theirs = FilingsTable::open(&detector).await.unwrap();
        assert!(theirs.record("HKEX", "11805134", &[9]).await.unwrap());
        assert_eq!(pages().await, [9]);
        run(&options, "revoke all on filings from \"Detector\"").await;
        let refused = theirs.record("HKEX", "11805134", &[]).await;
        assert!(
            matches!(refused, Err(FilingsError::Unfit(UnfitFilings::Denied { .. }))),
            "{refused:?}"
        );
    }
}
