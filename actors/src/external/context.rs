//! Context of the bodies of submits.

use std::collections::BTreeMap;

use parkhang_core::domain::{Fence, Job, StageName, StageRun, StageRunStatus, Task};
use parkhang_store::artifact::{ArtifactLayout, VolumeLayout};
use serde_json::{Value, json};

use super::Site;

/// Makes what the body of a submit may name: the task, and the keys of what the stages before have written; `runs` are all of the task.
pub(super) fn context(site: &Site, job: &Job, task: &Task, fence: &Fence, runs: &[StageRun]) -> Value {
    let layout = ArtifactLayout::of(&job.config, &job.key).volume(&task.volume);
    let stages = job.pipeline.stages().iter();
    let before = stages.take_while(|stage| **stage != fence.stage);
    let artifacts: BTreeMap<&str, Vec<String>> = before
        .map(|stage| (stage.as_str(), keys(site, &layout, stage, runs)))
        .collect();
    json!({
        "job": job.key.as_str(),
        "taskId": task.id.0,
        "volume": task.volume.to_string(),
        "stage": fence.stage.as_str(),
        "attempt": fence.attempt.0,
        "generation": fence.generation.0,
        "storage": site.storage,
        "artifacts": artifacts,
        "webhook_url": site.webhook_url,
    })
}

/// Keys of the tables that one of our stages writes, or of the last result of one that a service does.
fn keys(site: &Site, layout: &VolumeLayout, stage: &StageName, runs: &[StageRun]) -> Vec<String> {
    if let Some(row) = site.stages.get(stage) {
        let tables = row.writes.iter();
        return tables
            .map(|table| layout.table(stage, table.name).to_string())
            .collect();
    }
    let mut done = runs
        .iter()
        .filter(|run| run.fence.stage == *stage && run.status == StageRunStatus::Done)
        .filter(|run| run.worker.service().is_some());
    let last = done.next_back();
    last.map(|run| layout.service_result(&run.fence).to_string())
        .into_iter()
        .collect()
}
