use async_trait::async_trait;
use clap::Args;
use parkhang_state::EntityLack;
use serde::Serialize;
use utoipa::ToSchema;

use super::{database, pipeline};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};

/// Parts that a table lacks for its pipeline.
#[derive(Debug, Serialize, ToSchema)]
pub struct Lacks {
    entity: String,
    lacks: Vec<Lack>,
}

/// One thing that a table lacks.
#[derive(Debug, Serialize, ToSchema)]
pub struct Lack {
    what: String,
    /// True if the entity cannot be worked on without it; else it is missed by operators and by the speed of queries.
    needed: bool,
}

impl Answer for Lacks {
    fn text(&self) -> String {
        if self.lacks.is_empty() {
            return format!("{}: the table has all that its pipeline needs", self.entity);
        }
        let lines: Vec<&str> = self.lacks.iter().map(|lack| lack.what.as_str()).collect();
        let entity = &self.entity;
        format!(
            "{}\n`node entities schema {entity}` prints what to run",
            lines.join("\n")
        )
    }

    fn failed(&self) -> bool {
        !self.lacks.is_empty()
    }
}

/// Compare a table with what its pipeline needs, and list what is missing: columns, indexes, triggers, the view.
#[derive(Debug, Args)]
pub struct Check {
    /// Entity, a section [entity.NAME] of the configuration.
    #[arg(value_name = "ENTITY")]
    entity: String,
}

#[async_trait]
impl Command for Check {
    const NAME: [&'static str; 2] = ["entities", "check"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/entities/{entity}/check";
    type Answer = Lacks;

    async fn run(self, admin: &Admin) -> Result<Lacks, Refusal> {
        let pipeline = pipeline(admin, &self.entity)?;
        let lacks = database(admin, &self.entity).await?.check(&pipeline).await?;
        let lack = |lack: &EntityLack| Lack {
            what: lack.to_string(),
            needed: lack.is_fatal(),
        };
        Ok(Lacks {
            entity: self.entity,
            lacks: lacks.iter().map(lack).collect(),
        })
    }
}
