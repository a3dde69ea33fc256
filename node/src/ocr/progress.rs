//! What a person sees while a job runs: one bar per stage on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressStyle};
use parkhang_actors::domain::StageName;
use parkhang_actors::telemetry::{ProgressBoard, StageProgress};
use tokio_util::sync::CancellationToken;

const REDRAW: Duration = Duration::from_millis(200);

/// Counters of one stage over all volumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTotals {
    pub finished: u64,
    pub skipped: u64,
    pub failed: u64,
}

/// Shows the board until `done` is cancelled.
#[derive(Debug)]
pub struct ProgressDisplay {
    board: Arc<ProgressBoard>,
    /// In pipeline order.
    stages: Vec<StageName>,
    /// Volumes of the job, and their pages.
    volumes: u64,
    pages: u64,
    /// Between two plain lines.
    interval: Duration,
}

impl ProgressDisplay {
    pub fn new(
        board: Arc<ProgressBoard>,
        stages: Vec<StageName>,
        (volumes, pages): (u64, u64),
        interval: Duration,
    ) -> Self {
        Self {
            board,
            stages,
            volumes,
            pages,
            interval: interval.max(Duration::from_secs(1)),
        }
    }

    /// Items that a stage sees over all volumes: pages, but for `reduce`, which takes a volume at once.
    fn total(&self, stage: &StageName) -> u64 {
        if stage.as_str() == "reduce" {
            self.volumes
        } else {
            self.pages
        }
    }

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
                let bar = display
                    .add(ProgressBar::new(self.total(stage)))
                    .with_style(bar_style());
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
            let totals = totals(&self.board);
            for (stage, bar) in self.stages.iter().zip(&bars) {
                if let Some(&counts) = totals.get(stage) {
                    let elapsed = clock.elapsed(stage, Instant::now());
                    bar.set_position(counts.finished);
                    bar.set_message(pace(counts, self.total(stage), elapsed));
                }
            }
            if last {
                for bar in &bars {
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
            let last = tokio::select! {
                _ = ticks.tick() => false,
                () = done.cancelled() => true,
            };
            let now = Instant::now();
            let report = last || now >= due;
            if report {
                due = now + self.interval;
            }
            let totals = totals(&self.board);
            for stage in &self.stages {
                let Some(&counts) = totals.get(stage) else {
                    continue;
                };
                let elapsed = clock.elapsed(stage, now);
                if report && counts.finished > 0 && shown.insert(stage, counts) != Some(counts) {
                    let total = self.total(stage);
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

/// When each stage was first seen at work: one that waits for another must not look slow.
#[derive(Debug, Default)]
struct StageClock {
    began: BTreeMap<StageName, Instant>,
}

impl StageClock {
    fn elapsed(&mut self, stage: &StageName, now: Instant) -> Duration {
        now - *self.began.entry(stage.clone()).or_insert(now)
    }
}

/// Adds the volumes up, per stage.
pub fn totals(board: &ProgressBoard) -> BTreeMap<StageName, StageTotals> {
    let mut totals: BTreeMap<StageName, StageTotals> = BTreeMap::new();
    for ((_, stage), progress) in board.snapshot() {
        let StageProgress { skipped, failed, .. } = progress;
        let entry = totals.entry(stage).or_default();
        entry.finished += progress.finished();
        entry.skipped += skipped;
        entry.failed += failed;
    }
    totals
}

fn bar_style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix:>16} {bar:32} {pos:>6}/{len:<6} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Rate, time left and what did not go as usual. Skipped items tell nothing of the rate.
fn pace(counts: StageTotals, total: u64, elapsed: Duration) -> String {
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
    fn a_stage_is_timed_from_its_own_beginning() {
        let mut clock = StageClock::default();
        let (first, second) = (StageName::new("ocr").unwrap(), StageName::new("reduce").unwrap());
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(clock.elapsed(&first, start), Duration::ZERO);
        assert_eq!(clock.elapsed(&second, after(7)), Duration::ZERO);
        assert_eq!(clock.elapsed(&first, after(9)), Duration::from_secs(9));
        assert_eq!(clock.elapsed(&second, after(9)), Duration::from_secs(2));
    }
}
