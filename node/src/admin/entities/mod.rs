//! `entities`: rows of users' tables that services work on, stage by stage.

mod check;
mod queueing;
mod schema;
mod status;
mod stuck;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parkhang_core::domain::{EntityPipeline, EntityStage, StageName, did_you_mean};
use parkhang_state::{EntityDatabase, EntityError, EntityTable};

use super::{Admin, Refusal};
use crate::database::entity_database;

pub use self::check::Check;
pub use self::queueing::{Retry, Trigger};
pub use self::schema::Schema;
pub use self::status::Status;
pub use self::stuck::Stuck;

/// Connections of commands to the database of a table that has one of its own.
const CONNECTIONS: u32 = 2;

/// Databases of tables that have one of their own, each opened by the first command that needs it.
#[derive(Debug, Default)]
pub struct EntityDatabases(Mutex<BTreeMap<String, EntityDatabase>>);

impl EntityDatabases {
    fn opened(&self) -> MutexGuard<'_, BTreeMap<String, EntityDatabase>> {
        // An insert cannot be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pipeline of the entity of this name in the configuration.
fn pipeline(admin: &Admin, name: &str) -> Result<Arc<EntityPipeline>, Refusal> {
    let entities = &admin.loaded.config.entity;
    let Some(entity) = entities.get(name) else {
        let known: Vec<String> = entities.keys().cloned().collect();
        let hint = did_you_mean(name, &known);
        return Err(Refusal::NotFound(format!(
            "there is no section [entity.{name}] in the configuration{hint}"
        )));
    };
    let pipeline = entity.pipeline(name);
    pipeline
        .map(Arc::new)
        .map_err(|error| Refusal::Invalid(error.to_string()))
}

/// Table of the entity of this name, which must be fit for its pipeline.
async fn table(admin: &Admin, name: &str) -> Result<EntityTable, Refusal> {
    Ok(database(admin, name).await?.open(pipeline(admin, name)?).await?)
}

/// Database of the table of the entity of this name.
async fn database(admin: &Admin, name: &str) -> Result<EntityDatabase, Refusal> {
    let opened = admin.entity_databases.opened().get(name).cloned();
    if let Some(database) = opened {
        return Ok(database);
    }
    let database = entity_database(&admin.loaded, &admin.store, name, CONNECTIONS).await?;
    // Another command may have been faster.
    let mut opened = admin.entity_databases.opened();
    Ok(opened.entry(name.to_owned()).or_insert(database).clone())
}

/// Stage that a command names, or the first.
fn stage_or_first<'a>(
    pipeline: &'a EntityPipeline,
    named: Option<&StageName>,
) -> Result<&'a EntityStage, Refusal> {
    let found = match named {
        Some(name) => pipeline.stage(name),
        None => pipeline.first(),
    };
    found.ok_or_else(|| {
        let stages: Vec<&str> = pipeline
            .stages()
            .iter()
            .map(|stage| stage.name.as_str())
            .collect();
        Refusal::NotFound(format!(
            "the stages of {} are {}",
            pipeline.name(),
            stages.join(", ")
        ))
    })
}

impl From<EntityError> for Refusal {
    fn from(error: EntityError) -> Self {
        match error {
            EntityError::Unfit(unfit) => Self::Conflict(unfit.to_string()),
            EntityError::Database(error) => error.into(),
        }
    }
}
