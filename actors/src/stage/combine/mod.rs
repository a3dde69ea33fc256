//! The stage `combine`: makes one text of what several jobs have read. Pages, lines and pictures are those of the first of them.

mod archive;
mod readings;
mod rows;

use async_trait::async_trait;
use parkhang_combine::{Skeleton, combine};
use serde_json::json;
use tracing::warn;

use self::readings::{PageReadings, read_inputs};
use self::rows::Combiner;
use super::compute;
use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::table::{READINGS, StageDefinition, StageModels};
use crate::runner::CpuPool;
use parkhang_core::domain::{Hardware, StageError, StageName, Unfit};
use parkhang_store::artifact::{OcrResultRow, TableSchema};

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "combine",
    hardware: Hardware::Cpu,
    models: StageModels::None,
    settings: |config| {
        let keys = [("inputs", json!(config.inputs)), ("how", json!(config.how))];
        keys.into_iter()
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
        read_inputs(run).await
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
        let (rows, left_out) = compute(&self.cpu, run, move |_| {
            let readings = input.readings();
            let skeleton = Skeleton::new(&readings);
            let lines = combine(&skeleton, &[], how);
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
