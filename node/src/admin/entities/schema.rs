use async_trait::async_trait;
use clap::Args;
use parkhang_state::EntityTable;
use serde::Serialize;
use utoipa::ToSchema;

use super::pipeline;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};

/// Script that makes a table fit for its pipeline.
#[derive(Debug, Serialize, ToSchema)]
pub struct Script {
    entity: String,
    sql: String,
}

impl Answer for Script {
    fn text(&self) -> String {
        self.sql.trim_end().to_owned()
    }
}

/// Print the SQL that makes a table fit for its pipeline: columns, partial indexes, triggers that announce queued rows, and a view of where each row stands.
///
/// It may be run again after a change of the stages, and drops nothing. Nothing is run by this command.
#[derive(Debug, Args)]
pub struct Schema {
    /// Entity, a section [entity.NAME] of the configuration.
    #[arg(value_name = "ENTITY")]
    entity: String,
}

#[async_trait]
impl Command for Schema {
    const NAME: [&'static str; 2] = ["entities", "schema"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/entities/{entity}/schema";
    const MAY_BE_FIRST: bool = true;
    type Answer = Script;

    async fn run(self, admin: &Admin) -> Result<Script, Refusal> {
        let pipeline = pipeline(admin, &self.entity)?;
        Ok(Script {
            sql: EntityTable::schema(&pipeline),
            entity: self.entity,
        })
    }
}
