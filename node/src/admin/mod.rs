//! What operators ask and order. One table of commands, each with its name, arguments, help and a handler that returns data,
//! from which the command line, the console inside a cluster and the HTTP interface are made.

mod actors;
pub mod aliases;
mod arguments;
mod audit;
mod chaos;
pub mod cli;
mod cluster;
mod command;
mod dead;
mod jobs;
mod nodes;
mod operator;
mod orders;
mod reading;
mod refusal;
mod since;
mod skipped;
mod table;
mod tasks;
mod text;
mod volumes;
mod workers;

use std::sync::Arc;

use parkhang_actors::stage::{PipelineError, Pipelines, StageTable};
use parkhang_state::PostgresStore;

use crate::config::Loaded;

pub use self::arguments::{Argument, Kind};
pub use self::command::{Access, Entry, Reply, Verb};
pub use self::jobs::models::missed;
pub use self::jobs::{Hands, Obstacle, by_job, models_pair};
pub use self::operator::{CommandDesk, Operator};
pub use self::reading::{Library, page};
pub use self::refusal::Refusal;
pub use self::table::table;
pub use self::tasks::find as find_task;
pub use self::text::table as text_table;

/// What commands work on.
#[derive(Debug, Clone)]
pub struct Admin {
    pub store: PostgresStore,
    pub loaded: Arc<Loaded>,
    pub library: Arc<Library>,
    pub stages: StageTable,
    /// The store in words, for whoever chose it with a configuration of their own.
    pub database: Option<Arc<str>>,
    /// Whether whoever gave the command sees the standard error of this process.
    pub shows_progress: bool,
    /// Who gives the command.
    pub asked_by: Arc<str>,
}

impl Admin {
    pub fn new(store: PostgresStore, loaded: Arc<Loaded>) -> Self {
        Self {
            store,
            library: Arc::new(Library::new(loaded.clone())),
            stages: StageTable::built_in(),
            loaded,
            database: None,
            shows_progress: false,
            asked_by: Arc::from(""),
        }
    }

    /// Pipelines that jobs can name.
    ///
    /// # Errors
    ///
    /// [`PipelineError`] for one of the configuration that the stages are not fit for.
    pub fn pipelines(&self) -> Result<Pipelines, PipelineError> {
        self.loaded.config.pipelines(&self.stages)
    }

    /// The same for a command that somebody gives.
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
