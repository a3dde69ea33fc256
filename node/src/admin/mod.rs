//! Commands of operators: one table, each row with its name, arguments, help and a handler that returns data.
//!
//! The command line, the console inside a cluster, the HTTP interface with its description, and the documents are all made from the
//! table, so a command exists in all of them or in none, its arguments are checked by one parser, and its refusals have one
//! wording. A handler gets [`Admin`], which is the state store, the configuration and the artifacts, and nothing of the interface that
//! it was called through: it returns data, and the interface decides how to show it. A handler must not hold state between calls or
//! act on a node or orchestrator of its process, since the same command may be given from a process that has neither.
//!
//! A command that changes something is written to the audit log before it begins and again when it has ended, so that one that was
//! cut off is seen to have been tried.

mod actors;
pub mod aliases;
mod arguments;
mod audit;
mod chaos;
mod cluster;
mod command;
mod corrections;
mod diagnosis;
mod entities;
mod jobs;
mod nodes;
mod operator;
mod orders;
mod queues;
mod reading;
mod refusal;
mod services;
mod since;
mod skipped;
mod table;
mod tasks;
pub mod text;
mod volumes;
mod wait;
mod workers;

use std::sync::Arc;

use parkhang_actors::stage::{PipelineError, Pipelines, StageTable};
use parkhang_state::PostgresStore;

use crate::config::Loaded;

pub use self::arguments::{Argument, Kind};
pub use self::command::{Access, Entry, Reply, VOLUME_LIST, Verb};
pub use self::corrections::too_many_edits;
pub use self::diagnosis::{cluster_facts, missing_models};
pub use self::entities::EntityDatabases;
pub use self::jobs::{by_job, models_pair};
pub use self::operator::Operator;
pub use self::reading::{Indexes, Library, Page as PageAnswer};
pub use self::refusal::Refusal;
pub use self::services::{ServiceLine, service_lines};
pub use self::table::table;
pub use self::tasks::find as find_task;
pub use self::text::table as text_table;

/// Environment that commands run in.
#[derive(Debug, Clone)]
pub struct Admin {
    pub store: PostgresStore,
    pub loaded: Arc<Loaded>,
    pub library: Arc<Library>,
    pub indexes: Arc<Indexes>,
    pub entity_databases: Arc<EntityDatabases>,
    /// Stages that this build knows.
    pub stages: StageTable,
    /// Description of the database for error messages; set on a command line, whose user chose it with a configuration.
    pub database: Option<Arc<str>>,
    /// True if the user who gave the command sees the standard error of this process.
    pub shows_progress: bool,
    /// Name of the user who gives the command.
    pub asked_by: Arc<str>,
}

impl Admin {
    pub fn new(store: PostgresStore, loaded: Arc<Loaded>) -> Self {
        Self {
            store,
            library: Arc::new(Library::new(loaded.clone())),
            indexes: Arc::new(Indexes::new(loaded.clone())),
            entity_databases: Arc::default(),
            stages: loaded.config.stage_table(),
            loaded,
            database: None,
            shows_progress: false,
            asked_by: Arc::from(""),
        }
    }

    /// Returns the pipelines that jobs can name.
    ///
    /// # Errors
    ///
    /// [`PipelineError`] for one of the configuration that the stages are not fit for.
    pub fn pipelines(&self) -> Result<Pipelines, PipelineError> {
        self.loaded.config.pipelines(&self.stages)
    }

    /// Returns a copy for a command that `who` gives.
    pub fn asked_by(&self, who: &str) -> Self {
        Self {
            asked_by: Arc::from(who),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod example_stage;
#[cfg(test)]
mod tests;
