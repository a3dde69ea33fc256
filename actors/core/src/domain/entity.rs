//! Entities: rows of a user's own table that services work on, stage by stage.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pipeline::StageName;

/// Longest name of a table, a column or an index that Postgres keeps whole, in bytes.
const MAX_IDENTIFIER: usize = 63;

/// Status of one stage of an entity, the content of the column `{stage}_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntityStatus {
    /// Nobody has asked for the stage.
    Pending,
    Queued,
    /// A worker took it; its service has the job or is about to get it.
    Started,
    Completed,
    Failed,
}

impl EntityStatus {
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Queued,
        Self::Started,
        Self::Completed,
        Self::Failed,
    ];

    /// Name in the column.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Queued => "queued",
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for EntityStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that is no status of a stage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no status: pending, queued, started, completed or failed")]
pub struct UnknownEntityStatus(pub String);

impl FromStr for EntityStatus {
    type Err = UnknownEntityStatus;

    fn from_str(text: &str) -> Result<Self, UnknownEntityStatus> {
        let known = Self::ALL.into_iter().find(|status| status.as_str() == text);
        known.ok_or_else(|| UnknownEntityStatus(text.to_owned()))
    }
}

/// Kind of a failure of a service, by which the policy decides about another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// The work cannot succeed.
    Hard,
    /// The same work may succeed later.
    Retriable,
}

/// Number of tries and time that a stage grants an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageLimits {
    /// Tries after the first one.
    pub max_retries: u32,
    /// Time after which a job without an end counts as lost.
    pub stuck_timeout: Duration,
}

impl Default for StageLimits {
    fn default() -> Self {
        Self {
            max_retries: 3,
            stuck_timeout: Duration::from_secs(600),
        }
    }
}

/// Stage of a pipeline over entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityStage {
    pub name: StageName,
    /// Stage that is queued when this one is completed.
    pub next: Option<StageName>,
    pub limits: StageLimits,
}

/// Pipeline over the rows of one table. One that exists has at least one stage and none twice, and every `next` names one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityPipeline {
    name: String,
    table: Vec<String>,
    stages: Vec<EntityStage>,
}

/// Reason why stages and a table are no pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntity {
    #[error("needs at least one stage")]
    NoStages,
    #[error("has the stage {0} twice")]
    Twice(StageName),
    #[error("stage {stage} is followed by {next}, which is no stage of it")]
    NoNext { stage: StageName, next: StageName },
    #[error("stage {0} is followed by itself, directly or through others")]
    Circle(StageName),
    #[error("{0:?} is no name of a table: TABLE or SCHEMA.TABLE")]
    Table(String),
    #[error("{0:?} is no name of an entity: small letters, digits and '_', starting with a letter")]
    Name(String),
    #[error("the name {0} would be longer than the {MAX_IDENTIFIER} bytes that Postgres keeps")]
    TooLong(String),
}

impl EntityPipeline {
    /// Checks the parts of a pipeline. `table` is `TABLE` or `SCHEMA.TABLE`.
    ///
    /// # Errors
    ///
    /// [`InvalidEntity`] with the first fault.
    pub fn new(name: &str, table: &str, stages: Vec<EntityStage>) -> Result<Self, InvalidEntity> {
        if StageName::new(name).is_err() {
            return Err(InvalidEntity::Name(name.to_owned()));
        }
        let parts: Vec<String> = table.split('.').map(str::to_owned).collect();
        let is_part =
            |part: &String| !part.is_empty() && part.len() <= MAX_IDENTIFIER && !part.contains('\0');
        if parts.len() > 2 || !parts.iter().all(is_part) {
            return Err(InvalidEntity::Table(table.to_owned()));
        }
        let pipeline = Self {
            name: name.to_owned(),
            table: parts,
            stages,
        };
        let channel = pipeline.channel();
        if channel.len() > MAX_IDENTIFIER {
            return Err(InvalidEntity::TooLong(channel));
        }
        pipeline.check_stages()?;
        Ok(pipeline)
    }

    fn check_stages(&self) -> Result<(), InvalidEntity> {
        if self.stages.is_empty() {
            return Err(InvalidEntity::NoStages);
        }
        let mut seen = BTreeSet::new();
        for stage in &self.stages {
            if !seen.insert(&stage.name) {
                return Err(InvalidEntity::Twice(stage.name.clone()));
            }
            // The longest names that are made of it.
            let column = format!("{}_completed_at", stage.name);
            let index = format!("idx_{}_{}_started", self.table_name(), stage.name);
            if let Some(long) = [column, index]
                .into_iter()
                .find(|name| name.len() > MAX_IDENTIFIER)
            {
                return Err(InvalidEntity::TooLong(long));
            }
        }
        for stage in &self.stages {
            if let Some(next) = &stage.next
                && !seen.contains(next)
            {
                let (stage, next) = (stage.name.clone(), next.clone());
                return Err(InvalidEntity::NoNext { stage, next });
            }
            // A way that is longer than the pipeline passes a stage twice.
            let mut at = Some(stage);
            for _ in &self.stages {
                at = at.and_then(|stage| self.stage(stage.next.as_ref()?));
            }
            if at.is_some() {
                return Err(InvalidEntity::Circle(stage.name.clone()));
            }
        }
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Channel on which the database announces rows that were queued.
    pub fn channel(&self) -> String {
        format!("parkhang_{}", self.name)
    }

    /// Name of the table without its schema.
    pub fn table_name(&self) -> &str {
        self.table.last().map_or("", String::as_str)
    }

    /// Schema of the table, where one is named.
    pub fn schema(&self) -> Option<&str> {
        match &self.table[..] {
            [schema, _] => Some(schema),
            _ => None,
        }
    }

    /// Stages in the order in which they were named.
    pub fn stages(&self) -> &[EntityStage] {
        &self.stages
    }

    pub fn stage(&self, name: &StageName) -> Option<&EntityStage> {
        self.stages.iter().find(|stage| stage.name == *name)
    }

    /// Stage at which an entity begins.
    pub fn first(&self) -> Option<&EntityStage> {
        self.stages.first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(chain: &[(&str, Option<&str>)]) -> Vec<EntityStage> {
        let name = |name: &str| StageName::new(name).unwrap();
        let stage = |(stage, next): &(&str, Option<&str>)| EntityStage {
            name: name(stage),
            next: next.map(name),
            limits: StageLimits::default(),
        };
        chain.iter().map(stage).collect()
    }

    fn refusal(table: &str, chain: &[(&str, Option<&str>)]) -> String {
        EntityPipeline::new("leads", table, stages(chain))
            .unwrap_err()
            .to_string()
    }

    /// Rows: 219.
    #[test]
    fn statuses_read_back_and_nothing_else_is_one() {
        for status in EntityStatus::ALL {
            assert_eq!(status.to_string().parse(), Ok(status));
        }
        assert!("done".parse::<EntityStatus>().is_err());
    }

    #[test]
    fn a_pipeline_is_stages_that_lead_somewhere() {
        let chain = [("scrape", Some("intel")), ("intel", None)];
        let pipeline = EntityPipeline::new("leads", "crm.leads", stages(&chain)).unwrap();
        assert_eq!((pipeline.schema(), pipeline.table_name()), (Some("crm"), "leads"));
        assert_eq!(refusal("leads", &[]), "needs at least one stage");
        assert_eq!(
            refusal("leads", &[("a", None), ("a", None)]),
            "has the stage a twice"
        );
        assert!(refusal("leads", &[("a", Some("b"))]).contains("followed by b"));
        assert!(refusal("leads", &[("a", Some("b")), ("b", Some("a"))]).contains("itself"));
        assert!(refusal("a.b.c", &[("a", None)]).contains("TABLE or SCHEMA.TABLE"));
        assert!(refusal("", &[("a", None)]).contains("no name of a table"));
        let long = "a".repeat(51);
        assert!(refusal("leads", &[(&long, None)]).contains("longer than the 63 bytes"));
        let long = EntityPipeline::new(&"a".repeat(60), "leads", stages(&[("a", None)]));
        assert!(long.unwrap_err().to_string().contains("longer than the 63 bytes"));
        assert!(EntityPipeline::new("Leads", "leads", stages(&[("a", None)])).is_err());
    }
}
