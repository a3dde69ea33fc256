//! Counts of tasks, and sums over the history of a job's runs.

use std::collections::BTreeMap;

use serde::Serialize;

use parkhang_core::domain::{JobId, Position, StageName, StageRun, StageRunStatus, TaskStatus};
use parkhang_core::policy::forecast::Pace;
use parkhang_core::policy::percentile::percentile;

/// Bounds between the classes in which durations are counted, in seconds: about three steps to a power of ten, at familiar
/// figures.
pub const DURATION_BOUNDS_S: [f64; 11] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0];

/// Number of tasks of a job that stand at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTaskCount {
    pub job: JobId,
    pub position: Position,
    pub status: TaskStatus,
    /// Failed, and not to be tried again.
    pub terminal: bool,
    pub tasks: u64,
}

/// Times that the stages of a job should take.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Paces {
    /// Paces of the stages that have runs to take one from.
    pub stages: BTreeMap<StageName, Pace>,
    /// Median number of pages of a volume.
    pub pages_of_a_volume: Option<f64>,
}

/// Sums over the runs of one stage, of all tasks of a job. Durations and pages are those of the runs that are done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageStatistics {
    pub stage: StageName,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub interrupted: u64,
    /// Nearest-rank percentiles of the duration, in seconds and to one per cent; absent while no run is done.
    pub p50_s: Option<f64>,
    pub p95_s: Option<f64>,
    /// Sum of the durations, in seconds.
    pub seconds: f64,
    /// Numbers of runs by duration: shorter than the first of [`DURATION_BOUNDS_S`], from there to the next one, and so on; the
    /// last count is of those not shorter than any. A duration within one per cent of a bound may be counted on its other side.
    pub durations: Vec<u64>,
    /// Pages that were made, including failed ones, without those whose results stood already.
    pub pages: u64,
}

impl StageStatistics {
    /// Throughput of one slot, in pages a second; `None` where no time has been spent.
    pub fn pages_per_slot_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.pages as f64 / self.seconds)
    }

    /// Statistics of the runs of one stage, if there are any.
    pub(super) fn of(runs: &[&StageRun]) -> Option<Self> {
        let stage = &runs.first()?.fence.stage;
        let count = |status| runs.iter().filter(|run| run.status == status).count() as u64;
        let done = runs.iter().filter(|run| run.status == StageRunStatus::Done);
        let seconds: Vec<f64> = done
            .clone()
            .filter_map(|run| run.ended_at.map(|ended| ended - run.started_at))
            .map(|took| took.as_seconds_f64())
            .collect();
        let percentile = |percent| (!seconds.is_empty()).then(|| percentile(&seconds, percent));
        let number = |run: &StageRun, key: &str| run.metrics[key].as_u64().unwrap_or_default();
        Some(Self {
            stage: stage.clone(),
            running: count(StageRunStatus::Running),
            done: count(StageRunStatus::Done),
            failed: count(StageRunStatus::Failed),
            interrupted: count(StageRunStatus::Interrupted),
            p50_s: percentile(50.0),
            p95_s: percentile(95.0),
            seconds: seconds.iter().sum(),
            durations: spread(seconds.iter().map(|duration| (*duration, 1))),
            pages: done.map(|run| number(run, "read") + number(run, "failed")).sum(),
        })
    }

    /// Statistics of the runs of a job, in the order of the stages' names.
    pub(super) fn of_tallies(mut tallies: Vec<RunCounts>) -> Vec<Self> {
        tallies.sort_by_key(|counts| counts.duration_bucket);
        let mut by_stage: BTreeMap<StageName, Vec<RunCounts>> = BTreeMap::new();
        for counts in tallies {
            by_stage.entry(counts.stage.clone()).or_default().push(counts);
        }
        by_stage
            .into_iter()
            .map(|(stage, tallies)| Self::of_stage(stage, &tallies))
            .collect()
    }

    fn of_stage(stage: StageName, tallies: &[RunCounts]) -> Self {
        let of = |status| tallies.iter().filter(move |counts| counts.status == status);
        let count = |status| of(status).map(|counts| counts.runs).sum();
        let done: u64 = count(StageRunStatus::Done);
        // Nearest rank over the buckets, which come in the order of their durations: the one in which the rank falls.
        let percentile = |percent: u64| {
            let rank = (done * percent).div_ceil(100).max(1);
            let mut behind = 0;
            let bucket = of(StageRunStatus::Done).find(|counts| {
                behind += counts.runs;
                behind >= rank
            });
            bucket.map(|counts| middle_of(counts.duration_bucket))
        };
        Self {
            running: count(StageRunStatus::Running),
            done,
            failed: count(StageRunStatus::Failed),
            interrupted: count(StageRunStatus::Interrupted),
            p50_s: percentile(50),
            p95_s: percentile(95),
            seconds: of(StageRunStatus::Done).map(|counts| counts.seconds).sum(),
            durations: spread(
                of(StageRunStatus::Done).map(|counts| (middle_of(counts.duration_bucket), counts.runs)),
            ),
            pages: of(StageRunStatus::Done).map(|counts| counts.pages).sum(),
            stage,
        }
    }
}

/// Number of runs of one stage with one status and about the same duration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunCounts {
    pub stage: StageName,
    pub status: StageRunStatus,
    /// Class of the duration: in bucket `b` it is above 1.02^(b-1) seconds and not above 1.02^b. Meaningless while runs go on.
    pub duration_bucket: i16,
    pub runs: u64,
    /// Sum of their durations.
    pub seconds: f64,
    /// Pages that they made, including failed ones.
    pub pages: u64,
}

/// Duration in the middle of the bucket, in seconds; none of the bucket is more than one per cent away from it.
fn middle_of(duration_bucket: i16) -> f64 {
    1.02_f64.powf(f64::from(duration_bucket) - 0.5)
}

/// Numbers of runs between the bounds, given durations in seconds and the number of runs that took each of them.
fn spread(durations: impl IntoIterator<Item = (f64, u64)>) -> Vec<u64> {
    let mut counts = vec![0; DURATION_BOUNDS_S.len() + 1];
    for (seconds, runs) in durations {
        counts[DURATION_BOUNDS_S.partition_point(|bound| *bound <= seconds)] += runs;
    }
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(seconds: f64) -> RunCounts {
        RunCounts {
            stage: "ocr".parse().unwrap(),
            status: StageRunStatus::Done,
            duration_bucket: (seconds.ln() / 1.02_f64.ln()).ceil() as i16,
            runs: 1,
            seconds,
            pages: 0,
        }
    }

    proptest! {
        #[test]
        fn percentiles_of_buckets_are_those_of_the_durations_to_one_per_cent(
            durations in prop::collection::vec(0.001..100_000.0_f64, 1..60),
        ) {
            let found = StageStatistics::of_tallies(durations.iter().map(|seconds| counts(*seconds)).collect());
            for (percent, found) in [(50.0, found[0].p50_s), (95.0, found[0].p95_s)] {
                let exact = percentile(&durations, percent);
                let found = found.unwrap();
                prop_assert!((found - exact).abs() <= exact * 0.010_001, "{found} for {exact}");
            }
        }
    }

    #[test]
    fn a_duration_is_counted_above_the_bound_that_it_reaches() {
        let counts = spread([(0.0, 1), (0.1, 2), (0.29, 3), (3599.0, 4), (3600.0, 5), (1e9, 6)]);
        assert_eq!(counts, [1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 4, 11]);
    }
}
