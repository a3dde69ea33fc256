//! Stages, pipelines, and the position of a task in one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::unknown_stage::UnknownStage;
use super::volume::InvalidName;

/// Name of a stage, as stored in `tasks.current_stage` and as the artifact folder of the stage.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StageName(String);

impl StageName {
    /// Accepts `[a-z][a-z0-9_]{0,62}` except the pseudo-stages `pending` and `done`.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] for any other text.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidName> {
        let name = name.into();
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
        let reserved = matches!(name.as_str(), "pending" | "done");
        if !starts_well || name.len() > 63 || reserved || !name.chars().all(legal) {
            return Err(InvalidName {
                kind: "stage name",
                rule: "up to 63 letters (a-z), digits and '_', starting with a letter",
                name,
            });
        }
        Ok(Self(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StageName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        Self::new(name)
    }
}

impl TryFrom<String> for StageName {
    type Error = InvalidName;

    fn try_from(name: String) -> Result<Self, InvalidName> {
        Self::new(name)
    }
}

impl From<StageName> for String {
    fn from(name: StageName) -> Self {
        name.0
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Kind of device that a stage needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hardware {
    Cpu,
    Gpu,
}

impl Hardware {
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Gpu];

    /// Name in messages and tables, and of the role whose nodes have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        }
    }
}

/// Place of a task in its pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Position {
    /// Position before the first stage.
    Pending,
    /// Position in a stage, or past it and before the next one, as the status of the task says.
    At(StageName),
    /// Position past the last stage.
    Done,
}

impl Position {
    /// Text of `tasks.current_stage`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "pending",
            Self::At(stage) => stage.as_str(),
            Self::Done => "done",
        }
    }
}

impl FromStr for Position {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text {
            "pending" => Ok(Self::Pending),
            "done" => Ok(Self::Done),
            stage => StageName::new(stage).map(Self::At),
        }
    }
}

impl TryFrom<String> for Position {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<Position> for String {
    fn from(position: Position) -> Self {
        position.as_str().to_owned()
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Stages of a job, in order; at least one, none twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<StageName>", into = "Vec<StageName>")]
pub struct Pipeline(Vec<StageName>);

/// Reason for which a list of stages is no pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPipeline {
    #[error("a pipeline needs at least one stage")]
    Empty,
    #[error("stage {0} appears twice in the pipeline")]
    Repeated(StageName),
}

impl Pipeline {
    /// Accepts stages in order, at least one, none twice.
    ///
    /// # Errors
    ///
    /// [`InvalidPipeline`] for any other list.
    pub fn new(stages: Vec<StageName>) -> Result<Self, InvalidPipeline> {
        if stages.is_empty() {
            return Err(InvalidPipeline::Empty);
        }
        for (index, stage) in stages.iter().enumerate() {
            if stages[..index].contains(stage) {
                return Err(InvalidPipeline::Repeated(stage.clone()));
            }
        }
        Ok(Self(stages))
    }

    /// Stages in order.
    pub fn stages(&self) -> &[StageName] {
        &self.0
    }

    /// Place of the stage of a name, from 0 on.
    ///
    /// # Errors
    ///
    /// [`UnknownStage`] if the pipeline has none of the name.
    pub fn place_of(&self, name: &str) -> Result<usize, UnknownStage> {
        let place = self.0.iter().position(|stage| stage.as_str() == name);
        place.ok_or_else(|| UnknownStage::new(name, &self.0))
    }

    /// Number of stages from `stage` to the end, including itself; 0 for one that is not in this pipeline.
    pub fn to_go(&self, stage: &StageName) -> usize {
        self.0.iter().skip_while(|other| *other != stage).count()
    }

    /// First stage.
    pub fn first(&self) -> &StageName {
        // `new` refuses an empty list, and every pipeline is made by it.
        &self.0[0]
    }

    /// Stage that runs after `position` is done; `None` at the end, and for a stage this pipeline does not have.
    pub fn after(&self, position: &Position) -> Option<&StageName> {
        match position {
            Position::Pending => self.0.first(),
            Position::At(stage) => {
                let index = self.0.iter().position(|s| s == stage)?;
                self.0.get(index + 1)
            }
            Position::Done => None,
        }
    }

    /// Position whose completion makes `stage` runnable; `None` for a stage this pipeline does not have.
    pub fn before(&self, stage: &StageName) -> Option<Position> {
        let index = self.0.iter().position(|s| s == stage)?;
        Some(match index.checked_sub(1) {
            None => Position::Pending,
            Some(previous) => Position::At(self.0[previous].clone()),
        })
    }

    /// True for the last stage.
    pub fn is_last(&self, stage: &StageName) -> bool {
        self.0.last() == Some(stage)
    }
}

impl TryFrom<Vec<StageName>> for Pipeline {
    type Error = InvalidPipeline;

    fn try_from(stages: Vec<StageName>) -> Result<Self, InvalidPipeline> {
        Self::new(stages)
    }
}

impl From<Pipeline> for Vec<StageName> {
    fn from(pipeline: Pipeline) -> Self {
        pipeline.0
    }
}
