//! The stage table: what is known of each stage apart from its logic. Nodes start a pool for each row, the autoscaler counts by its
//! hardware, pipelines are checked by the tables that it reads and writes, and commands say by it what a change makes stale.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parkhang_core::domain::{
    Hardware, InvalidPipeline, JobConfig, Pipeline, StageName, UnknownStage, did_you_mean,
};
use parkhang_store::artifact::{ArtifactRow, LineDetectionRow, LineImageRow, TableSchema};
use serde_json::{Map, Value};

use super::{StageLogic, StageServices};

/// Input of stages that begin from the scans of a volume, which the source of pages gives and no stage writes.
pub const SCANS: &str = "scans";

/// Input of stages that begin from what other jobs have read: lines with their places and texts, which no stage of the job writes.
pub const READINGS: &str = "readings";

/// Models that nodes load for a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageModels {
    /// The stage has no network.
    None,
    /// Each volume is done with all that its node has loaded of these kinds.
    All(&'static [ModelKind]),
    /// Each volume is done with one of those that its node has loaded of this kind.
    Choice(ModelKind),
}

/// Purpose of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelKind {
    /// It finds lines of Tibetan.
    Segmenter,
    /// It reads lines of Tibetan.
    Recogniser,
    /// It finds and reads print of other scripts.
    Print,
    /// It sees the regions of pages and the cells of tables.
    Layout,
    /// It makes vectors of texts.
    Embeddings,
    /// It counts the tokens of texts as the model that embeds them.
    Tokenizer,
    /// It is no model of ours: a service of the configuration, which nobody has to load.
    Service,
}

impl StageModels {
    /// Kinds of models that a node has to load for the stage.
    pub fn kinds(&self) -> &[ModelKind] {
        match self {
            Self::None => &[],
            Self::All(kinds) => kinds,
            Self::Choice(kind) => std::slice::from_ref(kind),
        }
    }
}

/// Row of the stage table.
#[derive(Debug, Clone, Copy)]
pub struct StageDefinition {
    /// Name in pipelines, in the database and in the keys of artifacts; legal as a [`StageName`].
    pub name: &'static str,
    pub hardware: Hardware,
    pub models: StageModels,
    /// Part of a job's configuration that decides the results, by key, beside the models.
    pub settings: fn(&JobConfig) -> Map<String, Value>,
    /// Names of the tables that the stage reads, and [`SCANS`] if it reads those. Of several sets any one is enough.
    pub reads: &'static [&'static [&'static str]],
    /// Tables that the stage writes; none for a stage that takes a volume as a whole.
    pub writes: &'static [TableSchema],
    /// Constructor of the logic, called once per process.
    pub build: fn(&StageServices) -> std::io::Result<Arc<dyn StageLogic>>,
}

impl StageDefinition {
    #[expect(
        clippy::expect_used,
        reason = "the names in the table are legal, which a test checks"
    )]
    pub fn name(&self) -> StageName {
        StageName::new(self.name).expect("a stage is defined under a legal name")
    }

    /// True if the stage begins from the scans of a volume.
    pub fn has_scans(&self) -> bool {
        self.reads.iter().any(|set| set.contains(&SCANS))
    }

    /// True if the stage begins from what other jobs have read.
    pub fn has_readings(&self) -> bool {
        self.reads.iter().any(|set| set.contains(&READINGS))
    }

    /// True if the stage goes page by page.
    pub const fn has_pages(&self) -> bool {
        !self.writes.is_empty()
    }
}

/// Reason for which a list of stages is not a pipeline of this program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PipelineError {
    #[error(transparent)]
    UnknownStage(#[from] UnknownStage),
    #[error("stage {stage} reads {table}, which {}", unwritten(.writers))]
    MissingTable {
        stage: String,
        table: String,
        /// Stages that write the table.
        writers: Vec<String>,
    },
    #[error("there is no pipeline {pipeline}{}; the pipelines are {}", did_you_mean(.pipeline, .known), .known.join(", "))]
    UnknownPipeline { pipeline: String, known: Vec<String> },
    #[error("pipeline {0} is built in: give this one another name")]
    BuiltIn(String),
    #[error(
        "{0:?} cannot be the name of a pipeline: up to 63 letters (a-z), digits and '_', starting with a letter"
    )]
    IllegalName(String),
    #[error(transparent)]
    Invalid(#[from] InvalidPipeline),
}

fn unwritten(writers: &[String]) -> String {
    if writers.is_empty() {
        return "no stage writes".to_owned();
    }
    format!("no stage before it writes ({} does)", writers.join(" or "))
}

/// Stages that this program knows: those that it runs, and the names of those that services do for it.
#[derive(Clone)]
pub struct StageTable {
    rows: Arc<[StageDefinition]>,
    external: Arc<BTreeSet<StageName>>,
}

impl fmt::Debug for StageTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.rows.iter().map(|stage| stage.name))
            .entries(self.external.iter())
            .finish()
    }
}

/// First table that is missing from the set which lacks the fewest; `None` where a set is complete.
fn missing(sets: &[&[&'static str]], written: &BTreeSet<&str>) -> Option<&'static str> {
    let absent = |set: &&[&'static str]| -> Vec<&'static str> {
        let tables = set.iter().filter(|table| !written.contains(*table));
        tables.copied().collect()
    };
    let fewest = sets.iter().map(absent).min_by_key(Vec::len)?;
    fewest.first().copied()
}

impl StageTable {
    /// The stages that come with the program.
    pub fn built_in() -> Self {
        Self::new(super::STAGES.iter().copied())
    }

    /// A table of just these stages.
    pub fn new(stages: impl IntoIterator<Item = StageDefinition>) -> Self {
        Self {
            rows: stages.into_iter().collect(),
            external: Arc::default(),
        }
    }

    /// The same table with stages that services do. One that is a row already stays one.
    pub fn with_external(self, stages: impl IntoIterator<Item = StageName>) -> Self {
        let external: BTreeSet<StageName> = stages
            .into_iter()
            .filter(|stage| self.get(stage).is_none())
            .collect();
        Self {
            external: Arc::new(external),
            ..self
        }
    }

    /// Rows in their order.
    pub fn stages(&self) -> &[StageDefinition] {
        &self.rows
    }

    /// Names of the rows.
    pub fn names(&self) -> Vec<StageName> {
        self.rows.iter().map(StageDefinition::name).collect()
    }

    /// True for a stage that a service does.
    pub fn is_external(&self, stage: &str) -> bool {
        self.external.iter().any(|external| external.as_str() == stage)
    }

    pub fn get(&self, stage: &StageName) -> Option<&StageDefinition> {
        self.named(stage.as_str()).ok()
    }

    /// Row of the stage of a name.
    ///
    /// # Errors
    ///
    /// [`UnknownStage`] if there is none.
    pub fn named(&self, stage: &str) -> Result<&StageDefinition, UnknownStage> {
        let row = self.rows.iter().find(|row| row.name == stage);
        row.ok_or_else(|| {
            let known = self.names().into_iter().chain(self.external.iter().cloned());
            UnknownStage::new(stage, known)
        })
    }

    /// Hardware of a stage; `None` for a stage that this program does not have.
    pub fn hardware_of(&self, stage: &StageName) -> Option<Hardware> {
        self.get(stage).map(|row| row.hardware)
    }

    /// Models of a stage; none for a stage that this program does not have.
    pub fn models_of(&self, stage: &StageName) -> StageModels {
        self.get(stage).map_or(StageModels::None, |row| row.models)
    }

    /// Keys of a configuration, with their values, that decide the results of a stage; none for a stage that this program does not have.
    pub fn settings_of(&self, stage: &StageName, config: &JobConfig) -> Map<String, Value> {
        self.get(stage)
            .map(|row| (row.settings)(config))
            .unwrap_or_default()
    }

    /// First stage of a pipeline whose results, and those of the stages behind it, no longer stand once a job's configuration is `after`
    /// instead of `before`.
    pub fn first_stale<'p>(
        &self,
        pipeline: &'p Pipeline,
        before: &JobConfig,
        after: &JobConfig,
    ) -> Option<&'p StageName> {
        pipeline.stages().iter().find(|stage| {
            let differs = |row: &StageDefinition| (row.settings)(before) != (row.settings)(after);
            self.get(stage).is_some_and(differs) || !before.models.of(stage).eq(after.models.of(stage))
        })
    }

    /// Makes a pipeline of stages by name. A stage that a service does reads and writes no table.
    ///
    /// # Errors
    ///
    /// [`PipelineError`] for a stage that is not in the table, is named twice, or reads a table that no stage before it writes.
    pub fn pipeline(&self, names: &[impl AsRef<str>]) -> Result<Pipeline, PipelineError> {
        let mut written = BTreeSet::from([SCANS, READINGS]);
        let mut stages = Vec::with_capacity(names.len());
        for name in names {
            let name = name.as_ref();
            if let Some(external) = self.external.iter().find(|external| external.as_str() == name) {
                stages.push(external.clone());
                continue;
            }
            let stage = self.named(name)?;
            if let Some(table) = missing(stage.reads, &written) {
                return Err(PipelineError::MissingTable {
                    stage: name.to_owned(),
                    table: table.to_owned(),
                    writers: self.writers(table),
                });
            }
            written.extend(stage.writes.iter().map(|table| table.name));
            if stage.has_readings() {
                // Readings come with the pages and lines of the job that found them.
                written.extend([LineDetectionRow::TABLE, LineImageRow::TABLE]);
            }
            stages.push(stage.name());
        }
        Ok(Pipeline::new(stages)?)
    }

    fn writers(&self, table: &str) -> Vec<String> {
        let writes = |row: &&StageDefinition| row.writes.iter().any(|written| written.name == table);
        let writers = self.rows.iter().filter(writes);
        writers.map(|row| row.name.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests;
