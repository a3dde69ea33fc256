//! `job stats`: durations and throughput of a job's stages.

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{JobKey, StageName};
use parkhang_state::{DURATION_BOUNDS_S, StageStatistics, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::find;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::orders::node_meant;
use crate::admin::text::table;
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// Number of slowest volumes shown.
const SLOWEST: u32 = 5;

/// Show how long the stages of a job took, their throughput, and the slowest volumes.
#[derive(Debug, Args)]
pub struct Stats {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// Count only what this node did: its name, or a unique prefix of it. It may have left the cluster.
    #[arg(long, value_name = "NODE")]
    worker: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Statistics {
    job: String,
    /// Stages in the order of the pipeline; one that has not run is left out.
    stages: Vec<StageStats>,
    /// Finished volumes with the longest total time of their stages, the slowest first; none for a single node.
    slowest: Vec<SlowVolume>,
}

/// Finished volume.
#[derive(Debug, Serialize, ToSchema)]
pub struct SlowVolume {
    volume: String,
    seconds: f64,
    pages: u64,
    seconds_per_page: Option<f64>,
}

/// Statistics of the runs of a stage.
#[derive(Debug, Serialize, ToSchema)]
pub struct StageStats {
    stage: String,
    running: u64,
    done: u64,
    failed: u64,
    interrupted: u64,
    /// Median duration of the finished runs, in seconds.
    p50_s: Option<f64>,
    /// 95th percentile of their durations, in seconds.
    p95_s: Option<f64>,
    /// Histogram of the durations of the finished runs.
    durations: Vec<DurationCount>,
    /// Pages that finished runs computed or that failed in them; pages whose results were kept are left out.
    pages: u64,
    pages_per_slot_second: Option<f64>,
}

/// Class of the histogram: runs that took at least the bound of the class before, and less than this one.
#[derive(Debug, Serialize, ToSchema)]
pub struct DurationCount {
    /// Upper bound, in seconds; absent for the last class, which has none.
    under_s: Option<f64>,
    runs: u64,
}

#[async_trait]
impl Command for Stats {
    const NAME: [&'static str; 2] = ["job", "stats"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/stats";
    type Answer = Statistics;

    async fn run(self, admin: &Admin) -> Result<Statistics, Refusal> {
        let job = find(admin, &self.job).await?;
        let (mut stages, slowest) = match &self.worker {
            Some(name) => {
                // The slowest volumes are those of whole pipelines, which several nodes may have worked on.
                let node = node_meant(admin, name).await?;
                (
                    admin.store.node_statistics(&node, Some(job.id)).await?,
                    Vec::new(),
                )
            }
            None => (
                admin.store.stage_statistics(job.id).await?,
                admin.store.slowest_volumes(job.id, SLOWEST).await?,
            ),
        };
        let place = |stage: &StageName| job.pipeline.stages().iter().position(|known| known == stage);
        stages.sort_by_key(|stage| place(&stage.stage));
        Ok(Statistics {
            job: job.key.to_string(),
            stages: stages.iter().map(StageStats::from).collect(),
            slowest: slowest.into_iter().map(SlowVolume::from).collect(),
        })
    }
}

impl From<parkhang_state::SlowVolume> for SlowVolume {
    fn from(slow: parkhang_state::SlowVolume) -> Self {
        Self {
            seconds_per_page: (slow.pages > 0).then(|| slow.seconds / slow.pages as f64),
            volume: slow.volume,
            seconds: slow.seconds,
            pages: slow.pages,
        }
    }
}

impl From<&StageStatistics> for StageStats {
    fn from(stage: &StageStatistics) -> Self {
        Self {
            stage: stage.stage.to_string(),
            running: stage.running,
            done: stage.done,
            failed: stage.failed,
            interrupted: stage.interrupted,
            p50_s: stage.p50_s,
            p95_s: stage.p95_s,
            durations: bounds()
                .zip(&stage.durations)
                .map(|(under_s, &runs)| DurationCount { under_s, runs })
                .collect(),
            pages: stage.pages,
            pages_per_slot_second: stage.pages_per_slot_second(),
        }
    }
}

fn bounds() -> impl Iterator<Item = Option<f64>> {
    DURATION_BOUNDS_S.into_iter().map(Some).chain([None])
}

impl Answer for Statistics {
    fn text(&self) -> String {
        let mut text = stage_table(&self.stages);
        for slow in &self.slowest {
            let a_page = slow
                .seconds_per_page
                .map_or(String::new(), |seconds| format!(", {seconds:.2} s a page"));
            text.push_str(&format!(
                "\nslow: {}, {:.1} s for {}{a_page}",
                slow.volume,
                slow.seconds,
                pluralize(slow.pages, "page")
            ));
        }
        text
    }
}

/// Formats the statistics of stages as a table.
pub fn stage_table(stages: &[StageStats]) -> String {
    let header = [
        "stage",
        "running",
        "done",
        "failed",
        "interrupted",
        "p50 s",
        "p95 s",
        "pages",
        "pages/s of a slot",
    ];
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    let rows = stages.iter().map(|stage| {
        [
            stage.stage.clone(),
            stage.running.to_string(),
            stage.done.to_string(),
            stage.failed.to_string(),
            stage.interrupted.to_string(),
            number(stage.p50_s),
            number(stage.p95_s),
            stage.pages.to_string(),
            number(stage.pages_per_slot_second),
        ]
    });
    table(header, rows, 1)
}
