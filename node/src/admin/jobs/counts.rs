use std::collections::BTreeSet;

use parkhang_core::domain::{Pipeline, Position, StageName, TaskStatus};
use parkhang_state::JobTaskCount;
use serde::Serialize;
use utoipa::ToSchema;

/// Counts of a job's volumes by their progress with one stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct StageCounts {
    pub stage: String,
    /// Volumes whose next stage it is.
    pub waiting: u64,
    pub running: u64,
    /// Volumes that failed at it and will be tried again.
    pub retrying: u64,
    /// Volumes that failed at it for good.
    pub failed: u64,
    /// Volumes that have completed it.
    pub done: u64,
}

/// Counts for each stage, in the order of the pipeline.
pub fn tallies(pipeline: &Pipeline, counts: &[JobTaskCount]) -> Vec<StageCounts> {
    let stages = pipeline.stages();
    let mut tallies: Vec<StageCounts> = stages
        .iter()
        .map(|stage| StageCounts {
            stage: stage.to_string(),
            ..StageCounts::default()
        })
        .collect();
    for count in counts {
        // Index of the stage that comes next or runs; those before it are done.
        let at = match (&count.position, count.status) {
            (Position::Pending, _) => 0,
            (Position::Done, _) => stages.len(),
            (Position::At(stage), status) => match place(stages, stage) {
                Some(place) if status == TaskStatus::Done => place + 1,
                Some(place) => place,
                // A task may stand at a stage that a newer or older build knows; it belongs to no column
                // here.
                None => continue,
            },
        };
        for counts in tallies.iter_mut().take(at) {
            counts.done += count.tasks;
        }
        // For a task that is done `at` is behind the last stage, and all stages were counted above.
        if let Some(counts) = tallies.get_mut(at) {
            let number = match count.status {
                TaskStatus::Running => &mut counts.running,
                TaskStatus::Failed if count.terminal => &mut counts.failed,
                TaskStatus::Failed => &mut counts.retrying,
                TaskStatus::Pending | TaskStatus::Done => &mut counts.waiting,
            };
            *number += count.tasks;
        }
    }
    tallies
}

/// Stages that volumes wait for, to be begun or to be tried again.
pub fn waiting_stages(pipeline: &Pipeline, counts: &[JobTaskCount]) -> BTreeSet<StageName> {
    let tallies = tallies(pipeline, counts);
    let stages = tallies.iter().zip(pipeline.stages());
    let waiting = stages.filter(|(counts, _)| counts.waiting + counts.retrying > 0);
    waiting.map(|(_, stage)| stage.clone()).collect()
}

fn place(stages: &[StageName], stage: &StageName) -> Option<usize> {
    stages.iter().position(|known| known == stage)
}

#[cfg(test)]
mod tests {
    use parkhang_actors::stage::ocr_pipeline;
    use parkhang_core::domain::JobId;

    use super::*;

    fn count(position: &str, status: TaskStatus, terminal: bool, tasks: u64) -> JobTaskCount {
        let position = position.parse().unwrap();
        JobTaskCount {
            job: JobId(1),
            position,
            status,
            terminal,
            tasks,
        }
    }

    /// Rows: F9.
    #[test]
    fn every_volume_is_counted_once_at_each_stage_that_it_has_come_to() {
        let counts = [
            count("pending", TaskStatus::Pending, false, 1),
            count("line_detection", TaskStatus::Running, false, 2),
            count("line_detection", TaskStatus::Done, false, 4),
            count("ocr", TaskStatus::Failed, false, 8),
            count("ocr", TaskStatus::Failed, true, 16),
            count("ocr", TaskStatus::Pending, false, 32),
            count("reduce", TaskStatus::Done, false, 64),
            count("done", TaskStatus::Done, false, 128),
        ];
        let tallies = tallies(&ocr_pipeline(), &counts);
        let numbers = |counts: &StageCounts| {
            (
                counts.waiting,
                counts.running,
                counts.retrying,
                counts.failed,
                counts.done,
            )
        };
        let numbers: Vec<_> = tallies.iter().map(numbers).collect();
        assert_eq!(
            numbers,
            [
                (1, 2, 0, 0, 252),
                (4, 0, 0, 0, 248),
                (32, 0, 8, 16, 192),
                (0, 0, 0, 0, 192)
            ]
        );
    }
}
