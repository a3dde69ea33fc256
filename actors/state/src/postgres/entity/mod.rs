//! Entities: rows of a user's own table whose columns carry the state of a pipeline of services.
//!
//! The table is somebody else's, so nothing is made in it: [`EntityTable::schema`] is a script for its owner to run, and
//! [`EntityTable::check`] says what is missing. Identifiers come from a configuration and are quoted wherever they stand. A claim is one
//! statement, which gives a row to one worker and waits for none; every other step locks its row, asks
//! [`policy::entity`](parkhang_core::policy::entity), and writes the answer in the same transaction, with the next stage where one is queued.

mod check;
mod columns;
mod looks;
mod notices;
mod queueing;
mod schema;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parkhang_core::domain::{EntityPipeline, StageName};
use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgPool, PgPoolOptions};

use self::columns::{Columns, quoted, table_of};
use super::{ACQUIRE_TIMEOUT, PostgresStore};
use crate::StateError;

pub use check::{EntityLack, UnfitEntity};
pub use looks::{EntityCounts, StageCounts, SubmittedJob};
pub use notices::QueuedRows;
pub use queueing::StuckEntities;
pub use steps::{ClaimedEntity, EntityOutcome, Finding};

/// Column by which a row is found, and the one by whose order rows are claimed.
const ID: &str = "id";
const CREATED_AT: &str = "created_at";
/// Setting of a transaction in which a worker writes, which the triggers look at.
const OWN_STEP: &str = "parkhang.own_step";

/// Table of entities, whose columns are fit for its pipeline. Clones share its connections.
#[derive(Debug, Clone)]
pub struct EntityTable {
    pool: PgPool,
    pipeline: Arc<EntityPipeline>,
    /// Type of the column `id`, as PostgreSQL writes it.
    id_type: String,
}

/// Database that tables of entities are in: that of a cluster, or one of somebody else's, in which nothing of ours is made.
#[derive(Debug, Clone)]
pub struct EntityDatabase {
    pool: PgPool,
}

impl PostgresStore {
    /// Returns the database of this store as one of tables of entities.
    pub fn entity_database(&self) -> EntityDatabase {
        EntityDatabase {
            pool: self.pool.clone(),
        }
    }
}

impl EntityDatabase {
    /// Connects to the database of a `postgres://` URL with so many connections at most. No settings are asked of the session, which
    /// poolers refuse.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the URL is not valid or the server does not answer.
    pub async fn connect(url: &str, connections: u32) -> Result<Self, StateError> {
        let options = PostgresStore::options_of(url)?.application_name("parkhang");
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE_TIMEOUT);
        Ok(Self {
            pool: pool.connect_with(options).await?,
        })
    }

    /// Opens the table of a pipeline in this database. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`UnfitEntity`] with all that is missing, [`StateError`] if the server does not answer.
    pub async fn open(&self, pipeline: Arc<EntityPipeline>) -> Result<EntityTable, EntityError> {
        let (lacks, id_type) = check::look(&self.pool, &pipeline).await?;
        let needed: Vec<EntityLack> = lacks.into_iter().filter(EntityLack::is_fatal).collect();
        match id_type {
            Some(id_type) if needed.is_empty() => Ok(EntityTable {
                pool: self.pool.clone(),
                pipeline,
                id_type,
            }),
            _ => Err(UnfitEntity {
                entity: pipeline.name().to_owned(),
                lacks: needed,
            }
            .into()),
        }
    }

    /// Returns what a table lacks for its pipeline: columns, indexes and the view.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn check(&self, pipeline: &EntityPipeline) -> Result<Vec<EntityLack>, StateError> {
        let (lacks, _) = check::look(&self.pool, pipeline).await?;
        Ok(lacks)
    }
}

/// Error of opening a table of entities.
#[derive(Debug, thiserror::Error)]
pub enum EntityError {
    #[error(transparent)]
    Unfit(#[from] UnfitEntity),
    #[error(transparent)]
    Database(#[from] StateError),
}

impl EntityTable {
    pub fn pipeline(&self) -> &Arc<EntityPipeline> {
        &self.pipeline
    }

    /// Returns the script that makes a table fit for its pipeline. It may be run again, and drops nothing.
    pub fn schema(pipeline: &EntityPipeline) -> String {
        schema::script(pipeline)
    }

    /// Asks the database for an answer, and for nothing else.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if there is none.
    pub async fn ping(&self) -> Result<(), StateError> {
        sqlx::query("select 1").execute(&self.pool).await?;
        Ok(())
    }

    fn table(&self) -> String {
        table_of(&self.pipeline)
    }

    fn columns(stage: &StageName) -> Columns {
        Columns::of(stage)
    }

    /// A time as the database counts it.
    fn interval(time: Duration) -> PgInterval {
        PgInterval {
            months: 0,
            days: 0,
            microseconds: i64::try_from(time.as_micros()).unwrap_or(i64::MAX),
        }
    }

    /// Condition on the id of a row, which is the parameter of this number.
    fn is_id(&self, parameter: u8) -> String {
        format!("{} = ${parameter}::text::{}", quoted(ID), self.id_type)
    }
}
