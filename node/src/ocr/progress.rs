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
        loop {
            let last = tokio::select! {
                _ = ticks.tick() => false,
                () = done.cancelled() => true,
            };
            let totals = totals(&self.board);
            for (stage, bar) in self.stages.iter().zip(&bars) {
                let counts = totals.get(stage).copied().unwrap_or_default();
                bar.set_position(counts.finished);
                bar.set_message(remarks(counts));
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
        let started = Instant::now();
        let mut ticks = tokio::time::interval(self.interval);
        ticks.tick().await;
        let mut shown = BTreeMap::new();
        loop {
            let last = tokio::select! {
                _ = ticks.tick() => false,
                () = done.cancelled() => true,
            };
            let totals = totals(&self.board);
            for stage in &self.stages {
                let total = self.total(stage);
                let counts = totals.get(stage).copied().unwrap_or_default();
                if counts.finished > 0 && shown.insert(stage.clone(), counts) != Some(counts) {
                    eprintln!("{}", plain_line(stage, counts, total, started.elapsed()));
                }
            }
            if last {
                return;
            }
        }
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
    ProgressStyle::with_template("{prefix:>16} {bar:32} {pos:>6}/{len:<6} {per_sec:>9} eta {eta:<8} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn remarks(counts: StageTotals) -> String {
    let mut remarks = Vec::new();
    if counts.skipped > 0 {
        remarks.push(format!("{} skipped", counts.skipped));
    }
    if counts.failed > 0 {
        remarks.push(format!("{} failed", counts.failed));
    }
    remarks.join(", ")
}

fn plain_line(stage: &StageName, counts: StageTotals, total: u64, elapsed: Duration) -> String {
    let done = counts.finished - counts.skipped;
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-3);
    let left = total.saturating_sub(counts.finished);
    let eta = if rate > 0.0 && left > 0 {
        format!(
            ", {} left",
            HumanDuration(Duration::from_secs_f64(left as f64 / rate))
        )
    } else {
        String::new()
    };
    let remarks = remarks(counts);
    let remarks = if remarks.is_empty() {
        remarks
    } else {
        format!(", {remarks}")
    };
    format!("{stage}: {}/{total}, {rate:.2}/s{eta}{remarks}", counts.finished)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_tells_rate_and_time_left() {
        let stage = StageName::new("ocr").unwrap();
        let counts = StageTotals {
            finished: 30,
            skipped: 10,
            failed: 1,
        };
        let line = plain_line(&stage, counts, 50, Duration::from_secs(10));
        assert_eq!(line, "ocr: 30/50, 2.00/s, 10 seconds left, 10 skipped, 1 failed");
    }
}
