//! Display of progress while a job runs: a bar for each stage on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressStyle};
use parkhang_actors::stage::{StageDefinition, StageTable};
use parkhang_actors::telemetry::{ProgressBoard, RunSnapshot, StageState};
use parkhang_core::domain::{JobKey, StageName, VolumeId};
use tokio_util::sync::CancellationToken;

const REDRAW: Duration = Duration::from_millis(200);

/// Counters of one stage over all volumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTotals {
    pub finished: u64,
    pub skipped: u64,
    pub failed: u64,
}

/// Display of a progress board.
#[derive(Debug)]
pub struct ProgressDisplay {
    board: Arc<ProgressBoard>,
    job: JobKey,
    /// Stages in the order of the pipeline.
    stages: Vec<StageName>,
    /// Number of pages of each volume.
    pages: BTreeMap<VolumeId, u64>,
    /// Interval of plain lines.
    interval: Duration,
}

impl ProgressDisplay {
    pub fn new(
        board: Arc<ProgressBoard>,
        job: JobKey,
        stages: Vec<StageName>,
        pages: BTreeMap<VolumeId, u64>,
        interval: Duration,
    ) -> Self {
        Self {
            board,
            job,
            stages,
            pages,
            // A smaller one, such as zero from the configuration, would fill a log file with lines.
            interval: interval.max(Duration::from_secs(1)),
        }
    }

    /// Shows the board until `done` is cancelled.
    pub async fn run(self, done: CancellationToken) {
        if std::io::stderr().is_terminal() {
            self.bars(done).await
        } else {
            self.lines(done).await
        }
    }

    async fn bars(self, done: CancellationToken) {
        let display = MultiProgress::new();
        let bars: Vec<ProgressBar> = self
            .stages
            .iter()
            .map(|stage| {
                let bar = display.add(ProgressBar::new(0)).with_style(bar_style());
                bar.set_prefix(stage.to_string());
                bar
            })
            .collect();
        let mut ticks = tokio::time::interval(REDRAW);
        let mut clock = StageClock::default();
        loop {
            let last = tokio::select! {
                _ = ticks.tick() => false,
                () = done.cancelled() => true,
            };
            let board = self.board.snapshot(&self.job);
            let (totals, expected) = (totals(&board), expected(&self.stages, &self.pages, &board));
            for (stage, bar) in self.stages.iter().zip(&bars) {
                let total = expected.get(stage).copied().unwrap_or(0);
                bar.set_length(total);
                if let Some(&counts) = totals.get(stage) {
                    let elapsed = clock.elapsed(stage, Instant::now());
                    bar.set_position(counts.finished);
                    bar.set_message(pace(counts, total, elapsed));
                }
            }
            if last {
                for bar in &bars {
                    // The bars stay as they are, since the job may have been stopped before they were full.
                    bar.abandon();
                }
                return;
            }
        }
    }

    async fn lines(self, done: CancellationToken) {
        let mut ticks = tokio::time::interval(REDRAW);
        let mut clock = StageClock::default();
        let mut shown = BTreeMap::new();
        let mut due = Instant::now() + self.interval;
        loop {
            // After the end one more round reports what happened since the last line.
            let last = tokio::select! {
                _ = ticks.tick() => false,
                () = done.cancelled() => true,
            };
            let now = Instant::now();
            let report = last || now >= due;
            if report {
                due = now + self.interval;
            }
            let board = self.board.snapshot(&self.job);
            let (totals, expected) = (totals(&board), expected(&self.stages, &self.pages, &board));
            for stage in &self.stages {
                let Some(&counts) = totals.get(stage) else {
                    continue;
                };
                // Asked at every tick, so that the stage's clock starts when it does and not with the first line about it.
                let elapsed = clock.elapsed(stage, now);
                if report && counts.finished > 0 && shown.insert(stage, counts) != Some(counts) {
                    let total = expected.get(stage).copied().unwrap_or(0);
                    let parts = [
                        format!("{}/{total}", counts.finished),
                        pace(counts, total, elapsed),
                    ];
                    eprintln!("{stage}: {}", parts.join(", ").trim_end_matches(", "));
                }
            }
            if last {
                return;
            }
        }
    }
}

/// Times at which each stage was first seen at work: a stage that waits for another must not look slow.
#[derive(Debug, Default)]
struct StageClock {
    began: BTreeMap<StageName, Instant>,
}

impl StageClock {
    fn elapsed(&mut self, stage: &StageName, now: Instant) -> Duration {
        now - *self.began.entry(stage.clone()).or_insert(now)
    }
}

/// Content of a board at one time.
type Snapshot = BTreeMap<(VolumeId, StageName), RunSnapshot>;

/// Sums the counters of all volumes, by stage.
fn totals(board: &Snapshot) -> BTreeMap<StageName, StageTotals> {
    let mut totals: BTreeMap<StageName, StageTotals> = BTreeMap::new();
    for ((_, stage), run) in board {
        let entry = totals.entry(stage.clone()).or_default();
        entry.finished += run.progress.finished();
        entry.skipped += run.progress.skipped;
        entry.failed += run.progress.failed;
    }
    totals
}

/// Estimates the number of items of each stage over all volumes: what the stage reported when it began a volume, and before that
/// the volume's pages without those that failed in an earlier stage. For a stage without pages a volume is one item.
fn expected(
    stages: &[StageName],
    pages: &BTreeMap<VolumeId, u64>,
    board: &Snapshot,
) -> BTreeMap<StageName, u64> {
    let table = StageTable::built_in();
    let has_pages = |stage: &StageName| table.get(stage).is_none_or(StageDefinition::has_pages);
    let mut expected = BTreeMap::new();
    for (volume, &pages) in pages {
        let mut left = pages;
        let mut goes_on = true;
        for stage in stages {
            let seen = board.get(&(volume.clone(), stage.clone()));
            let total = match seen {
                Some(run) => run.progress.pages,
                None if !goes_on => 0,
                None if !has_pages(stage) => 1,
                None => left,
            };
            *expected.entry(stage.clone()).or_default() += total;
            if let Some(run) = seen {
                left = run.progress.pages.saturating_sub(run.progress.failed);
                goes_on = run.state != StageState::Failed;
            }
        }
    }
    expected
}

fn bar_style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix:>16} {bar:32} {pos:>6}/{len:<6} {msg}")
        // The template is a constant that parses; a plain bar is no reason to fail.
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Formats the rate, the time left, and the numbers of skipped and failed items. Skipped items cost next to no time, so they do not
/// count for the rate.
fn pace(counts: StageTotals, total: u64, elapsed: Duration) -> String {
    // Skipped items are part of the finished ones, so this does not underflow.
    let done = counts.finished - counts.skipped;
    let left = total.saturating_sub(counts.finished);
    let mut parts = Vec::new();
    if done > 0 && !elapsed.is_zero() {
        let rate = done as f64 / elapsed.as_secs_f64();
        parts.push(format!("{rate:.2}/s"));
        if left > 0 {
            let time = Duration::from_secs_f64(left as f64 / rate);
            parts.push(format!("{} left", HumanDuration(time)));
        }
    }
    if counts.skipped > 0 {
        parts.push(format!("{} skipped", counts.skipped));
    }
    if counts.failed > 0 {
        parts.push(format!("{} failed", counts.failed));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::StageProgress;
    use parkhang_core::domain::testing::stage;

    fn counts(finished: u64, skipped: u64, failed: u64) -> StageTotals {
        StageTotals {
            finished,
            skipped,
            failed,
        }
    }

    #[test]
    fn the_pace_tells_rate_and_time_left() {
        let ten_seconds = Duration::from_secs(10);
        assert_eq!(
            pace(counts(30, 10, 1), 50, ten_seconds),
            "2.00/s, 10 seconds left, 10 skipped, 1 failed"
        );
        assert_eq!(pace(counts(50, 0, 0), 50, ten_seconds), "5.00/s");
        assert_eq!(pace(counts(50, 50, 0), 50, ten_seconds), "50 skipped");
        assert_eq!(pace(counts(0, 0, 0), 50, Duration::ZERO), "");
    }

    #[test]
    fn pages_that_failed_are_not_to_come() {
        let stages = ["line_detection", "ocr", "reduce"].map(stage);
        let volume = |name: &str| name.parse::<VolumeId>().unwrap();
        let pages = BTreeMap::from([(volume("W1-I1"), 10), (volume("W1-I2"), 5), (volume("W1-I3"), 7)]);
        let numbers = |board: &Snapshot| {
            let expected = expected(&stages, &pages, board);
            stages.each_ref().map(|stage| expected[stage])
        };
        assert_eq!(numbers(&Snapshot::new()), [22, 22, 3]);

        let run = |pages, failed, state| RunSnapshot {
            progress: StageProgress {
                pages,
                failed,
                ..StageProgress::default()
            },
            state,
        };
        let mut board = Snapshot::from([
            (
                (volume("W1-I1"), stages[0].clone()),
                run(10, 3, StageState::Running),
            ),
            (
                (volume("W1-I2"), stages[0].clone()),
                run(5, 2, StageState::Failed),
            ),
        ]);
        assert_eq!(numbers(&board), [22, 7 + 7, 2]);
        // A stage that has begun knows best: blank pages stand in the table of the stage before.
        board.insert(
            (volume("W1-I1"), stages[1].clone()),
            run(10, 0, StageState::Running),
        );
        assert_eq!(numbers(&board), [22, 10 + 7, 2]);
    }

    #[test]
    fn a_stage_is_timed_from_its_own_beginning() {
        let mut clock = StageClock::default();
        let (first, second) = (stage("ocr"), stage("reduce"));
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(clock.elapsed(&first, start), Duration::ZERO);
        assert_eq!(clock.elapsed(&second, after(7)), Duration::ZERO);
        assert_eq!(clock.elapsed(&first, after(9)), Duration::from_secs(9));
        assert_eq!(clock.elapsed(&second, after(9)), Duration::from_secs(2));
    }
}
