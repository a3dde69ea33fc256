//! The stage `combine`: makes one text of what several jobs have read. Pages, lines and pictures are those of the first of them.

mod archive;
mod readings;
mod rows;

use async_trait::async_trait;
use parkhang_combine::{Skeleton, combine};
use serde_json::json;
use tracing::warn;

pub use self::readings::{PageReadings, ReadingsError, read_readings};
use self::rows::Combiner;
use super::compute;
use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::table::{READINGS, StageDefinition, StageModels};
use crate::runner::CpuPool;
use parkhang_core::domain::{ErrorCategory, Hardware, Input, StageError, StageName, Unfit};
use parkhang_store::artifact::{OcrResultRow, TableSchema};

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "combine",
    hardware: Hardware::Cpu,
    models: StageModels::None,
    settings: |config| {
        let keys = [("inputs", json!(config.inputs)), ("how", json!(config.how))];
        // Left out where nothing is known, so that results that were made before the key was there still stand.
        let trust = (!config.trust.is_empty()).then(|| ("trust", json!(config.trust)));
        keys.into_iter()
            .chain(trust)
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    },
    reads: &[&[READINGS]],
    writes: &[TableSchema::of::<OcrResultRow>()],
    build: |services| {
        let cpu = services.cpu.clone();
        Ok(services.paged(STAGE, Combine { cpu }))
    },
};

/// The stage that combines readings.
#[derive(Debug)]
pub(crate) struct Combine {
    cpu: CpuPool,
}

#[async_trait]
impl StageInfo for Combine {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }

    async fn check(&self) -> Result<(), Unfit> {
        super::check_threads(&self.cpu)
    }
}

#[async_trait]
impl PageStage for Combine {
    type Input = PageReadings;
    type Fetched = ();
    type Row = OcrResultRow;

    const VERSION: u32 = 2;

    fn image_name(row: &OcrResultRow) -> &str {
        &row.image_name
    }

    fn image_path(_: &OcrResultRow) -> Option<&str> {
        None
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<PageReadings>>, StageError> {
        let (config, store) = (run.config(), run.store.as_ref());
        let pages = read_readings(store, run.volume(), config.layout, &config.inputs).await;
        let pages = pages.map_err(|error| stage_error(run, error))?;
        let planned = |page: PageReadings| PlannedPage {
            name: page.name.clone(),
            index: u32::try_from(page.page_index).unwrap_or(0),
            input_path: page.source_name.clone(),
            input_hash: page.made_of,
            cost: 1.0,
            input: page,
        };
        Ok(pages.into_iter().map(planned).collect())
    }

    async fn fetch(&self, _: &VolumeRun, _: &PlannedPage<PageReadings>) -> Result<(), StageError> {
        Ok(())
    }

    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageReadings>,
        (): (),
    ) -> Result<Vec<OcrResultRow>, StageError> {
        let (input, how, volume) = (page.input.clone(), run.config().how, run.volume().clone());
        let trusts = run.config().trust.of(page.input.inputs.iter());
        let (rows, left_out) = compute(&self.cpu, run, move |_| {
            let readings = input.readings();
            let skeleton = Skeleton::new(&readings);
            let lines = combine(&skeleton, &trusts, how);
            let combiner = Combiner {
                page: &input,
                volume: &volume,
            };
            Ok((combiner.rows(&lines), skeleton.left_out))
        })
        .await?;
        for reading in left_out {
            let input = page.input.inputs.get(reading).map(ToString::to_string);
            let page = page.name.as_str();
            warn!(volume = %run.volume(), page, input, "a reading has another text than the others and is left out");
        }
        Ok(rows)
    }
}

fn stage_error(run: &VolumeRun, error: ReadingsError) -> StageError {
    match error {
        // Shown behind "waiting for".
        ReadingsError::Unread { input, volume } => {
            let reader = match input {
                Input::Job(job) => format!("job {job}"),
                archive @ Input::Archive(_) => archive.to_string(),
            };
            run.error(ErrorCategory::Pending, format!("{reader} to read {volume}"))
        }
        ReadingsError::NoInputs => run.error(ErrorCategory::Config, error),
        ReadingsError::Page { reason, .. } => run.error(ErrorCategory::Input, reason),
        ReadingsError::Storage(error) => run.storage_error(&error),
        ReadingsError::Artifact(error) => run.artifact_error(&error),
    }
}
