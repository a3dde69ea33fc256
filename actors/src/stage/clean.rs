//! The stage `clean`: has a language model correct the lines that `ocr` has read. A line changes by no more than the service is allowed to;
//! a page whose correction fails stands as it was read, as a text with errors is better than none.

use std::collections::HashMap;

use async_trait::async_trait;
use parkhang_answers::clean::{corrected, numbered};
use serde_json::{Map, Value, json};
use tracing::{info, warn};

use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::quality::text_score;
use super::table::{ModelKind, StageDefinition, StageModels};
use crate::engines::{Corrector, Engine, EngineError};
use crate::runner::off_the_clock;
use crate::telemetry::at_step;
use parkhang_core::domain::{ErrorCategory, Hardware, JobConfig, PageStep, StageError, StageName, Usage};
use parkhang_store::artifact::{
    ArtifactRow, ImageName, LineDetectionRow, ModelRef, OcrResultRow, ServiceRef, TableSchema, read_table,
};

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "clean",
    hardware: Hardware::Cpu,
    models: StageModels::Choice(ModelKind::Service),
    settings: |_| Map::new(),
    reads: &[&[LineDetectionRow::TABLE, OcrResultRow::TABLE]],
    writes: &[TableSchema::of::<OcrResultRow>()],
    build: |services| {
        let correctors = services.models.engines.iter().filter_map(Engine::corrector);
        let correctors = correctors.collect();
        Ok(services.paged(STAGE, Clean { correctors }))
    },
};

/// The stage that has lines corrected.
#[derive(Debug)]
pub(crate) struct Clean {
    /// Services that can be asked about a text.
    correctors: Vec<Corrector>,
}

/// Lines of a page, and who corrects them.
#[derive(Debug)]
pub(crate) struct PageToClean {
    corrector: Corrector,
    rows: Vec<OcrResultRow>,
}

impl Clean {
    fn corrector(&self, config: &JobConfig) -> Option<&Corrector> {
        let stage = self.name();
        let mut named = config.models.of(&stage);
        named.find_map(|name| {
            self.correctors
                .iter()
                .find(|one| one.engine().model().name == name)
        })
    }
}

#[async_trait]
impl StageInfo for Clean {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }

    fn models(&self) -> Vec<ModelRef> {
        let engines = self.correctors.iter().map(Corrector::engine);
        engines.map(|engine| engine.model().clone()).collect()
    }
}

#[async_trait]
impl PageStage for Clean {
    type Input = PageToClean;
    type Fetched = ();
    type Row = OcrResultRow;

    const VERSION: u32 = 1;

    fn model_settings(&self, config: &JobConfig) -> Map<String, Value> {
        let most = self.corrector(config).map(Corrector::most_change);
        Map::from_iter([("most_change".to_owned(), json!(most))])
    }

    fn models_of(&self, planned: &[PlannedPage<PageToClean>]) -> Vec<ModelRef> {
        let page = planned.first();
        page.map_or_else(
            || self.models(),
            |page| vec![page.input.corrector.engine().model().clone()],
        )
    }

    async fn service_of(&self, planned: &[PlannedPage<PageToClean>]) -> Option<ServiceRef> {
        Some(planned.first()?.input.corrector.engine().served().await)
    }

    fn image_name(row: &OcrResultRow) -> &str {
        &row.image_name
    }

    fn image_path(_: &OcrResultRow) -> Option<&str> {
        None
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<PageToClean>>, StageError> {
        let corrector = self.corrector(run.config()).ok_or_else(|| {
            let message =
                "the stage needs a service of the kind openai that the node knows: models=clean=NAME";
            run.error(ErrorCategory::Config, message)
        })?;
        let artifact_error = |error| run.artifact_error(&error);
        let pages = read_table::<LineDetectionRow>(run.store.as_ref(), &run.layout.line_detection())
            .await
            .map_err(artifact_error)?;
        let texts = read_table::<OcrResultRow>(run.store.as_ref(), &run.layout.ocr_results())
            .await
            .map_err(artifact_error)?;
        let mut by_page: HashMap<String, Vec<OcrResultRow>> = HashMap::new();
        for row in texts.rows {
            by_page.entry(row.image_name.clone()).or_default().push(row);
        }
        let mut planned = Vec::new();
        for page in pages.rows {
            // A page that failed before has no fingerprint there.
            let Some(made_of) = texts.provenance.pages.get(&page.image_name) else {
                continue;
            };
            let mut rows = by_page.remove(&page.image_name).unwrap_or_default();
            rows.sort_by_key(|row| row.line_index);
            let characters: usize = rows.iter().map(|row| row.text.len()).sum();
            planned.push(PlannedPage {
                name: ImageName::new(page.image_name.as_str())
                    .map_err(|error| run.error(ErrorCategory::Input, error))?,
                index: u32::try_from(page.page_index).unwrap_or(0),
                input_path: run.layout.ocr_results().as_str().to_owned(),
                input_hash: made_of.digest(),
                cost: characters as f64,
                input: PageToClean {
                    corrector: corrector.clone(),
                    rows,
                },
            });
        }
        Ok(planned)
    }

    async fn fetch(&self, _: &VolumeRun, _: &PlannedPage<PageToClean>) -> Result<(), StageError> {
        Ok(())
    }

    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageToClean>,
        (): (),
    ) -> Result<Vec<OcrResultRow>, StageError> {
        let PageToClean { corrector, rows } = &page.input;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        let (volume, name) = (run.volume(), page.name.as_str());
        let engine = corrector.engine();
        let service = engine.model().name.as_str();
        at_step(PageStep::Asking);
        off_the_clock(run.may_spend(service)).await?;
        let mut usage = Usage::default();
        let answer = off_the_clock(corrector.correct(&numbered(&texts), &mut usage)).await;
        off_the_clock(
            run.context
                .account
                .charge(service, usage, engine.prices(), &run.halt),
        )
        .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error @ EngineError::Page { .. }) => {
                warn!(%volume, page = name, %error, "the page is not corrected, and stands as it was read");
                return Ok(rows.clone());
            }
            Err(EngineError::Away {
                category,
                service,
                reason,
            }) => {
                return Err(run.service_away(category, format!("service {service}: {reason}")));
            }
        };
        let corrected = corrected(&texts, &answer, corrector.most_change());
        let (changed, refused) = (corrected.changed, corrected.refused);
        info!(%volume, page = name, changed, refused, lines = rows.len(), "lines corrected");
        let lines = rows.iter().zip(corrected.lines);
        Ok(lines.map(|(row, text)| with_text(row, text)).collect())
    }
}

/// The row with another text. Its syllables stand for the text that was read, and go with it.
fn with_text(row: &OcrResultRow, text: String) -> OcrResultRow {
    let mut row = row.clone();
    if row.text != text {
        row.segments.clear();
        row.perplexity = text_score(&text, row.encoding).perplexity();
        row.text = text;
        row.sources = None;
    }
    row
}
