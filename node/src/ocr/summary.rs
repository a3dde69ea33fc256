//! Summary of a run of `node ocr`, as a table and as JSON, and its exit code.

use std::path::PathBuf;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use parkhang_core::domain::{JobStatus, VolumeResults};
use serde::Serialize;

use crate::words::pluralize;

/// Exit code of a run that the operator stopped: 128 and the number of the signal, as shells report it.
pub const INTERRUPTED: u8 = 130;

/// Page that failed in a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedPage {
    pub page: String,
    pub stage: String,
    pub error: String,
}

/// Volume of the summary.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VolumeSummary {
    pub volume: String,
    /// State in words.
    pub state: String,
    /// Pages that completed a stage, in this run or an earlier one.
    pub pages_done: u64,
    pub pages_read: u64,
    pub pages_skipped: u64,
    pub results: Option<VolumeResults>,
    pub failed_pages: Vec<FailedPage>,
    pub error: Option<String>,
}

impl VolumeSummary {
    fn pages(&self) -> u64 {
        let of_results = |results: &VolumeResults| u64::try_from(results.total_images).unwrap_or(0);
        self.results.as_ref().map_or(self.pages_done, of_results)
    }

    fn errors(&self) -> u64 {
        let of_results = |results: &VolumeResults| u64::try_from(results.nb_errors).unwrap_or(0);
        let so_far = self.failed_pages.len() as u64;
        self.results.as_ref().map_or(so_far, of_results)
    }
}

/// Largest number of failed pages of a volume that the table lists; JSON has all.
const NAMED_FAILURES: usize = 20;

/// Summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub job: String,
    pub status: JobStatus,
    /// True if the operator stopped the run before the job ended.
    pub interrupted: bool,
    pub wall_s: f64,
    pub cpu_s: f64,
    pub volumes: Vec<VolumeSummary>,
    /// Output folder.
    pub out: PathBuf,
    pub exported: Vec<PathBuf>,
}

impl Summary {
    /// Summary of this job and of one that was run after it.
    pub fn followed_by(self, next: Self) -> Self {
        let worse = |status: JobStatus| status != JobStatus::Completed;
        Self {
            job: format!("{}, {}", self.job, next.job),
            status: if worse(self.status) {
                self.status
            } else {
                next.status
            },
            interrupted: self.interrupted || next.interrupted,
            wall_s: self.wall_s + next.wall_s,
            // That of the process, up to the end of the later job.
            cpu_s: next.cpu_s,
            volumes: self.volumes.into_iter().chain(next.volumes).collect(),
            out: next.out,
            exported: next.exported,
        }
    }

    /// Number of failed pages plus failed volumes.
    pub fn failed(&self) -> u64 {
        let pages: u64 = self.volumes.iter().map(VolumeSummary::errors).sum();
        let volumes = self
            .volumes
            .iter()
            .filter(|volume| volume.error.is_some())
            .count();
        pages + volumes as u64
    }

    /// Exit code: 0 if nothing failed, 130 if the operator stopped the run, else 1.
    pub fn exit_code(&self) -> u8 {
        match (self.interrupted, self.failed(), self.status) {
            // An interrupted run reports that first, whatever failed before: the same command continues it.
            (true, ..) => INTERRUPTED,
            (false, 0, JobStatus::Completed) => 0,
            _ => 1,
        }
    }

    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED);
        table.set_header([
            "volume",
            "state",
            "pages",
            "skipped",
            "lines",
            "characters",
            "errors",
            "confidence",
        ]);
        for volume in &self.volumes {
            let results = volume.results.as_ref();
            let unknown = || "-".to_owned();
            let count = |number: fn(&VolumeResults) -> i32| {
                results.map_or_else(unknown, |results| number(results).to_string())
            };
            let confidence = results.and_then(|results| results.confidence_mean);
            let mut row = vec![Cell::new(&volume.volume), Cell::new(&volume.state)];
            let numbers = [
                volume.pages().to_string(),
                volume.pages_skipped.to_string(),
                count(|results| results.total_lines),
                count(|results| results.total_characters),
                volume.errors().to_string(),
                confidence.map_or_else(unknown, |mean| format!("{mean:.3}")),
            ];
            row.extend(numbers.map(|number| Cell::new(number).set_alignment(CellAlignment::Right)));
            table.add_row(row);
        }
        let mut text = format!("{table}\n");
        for volume in &self.volumes {
            if let Some(error) = &volume.error {
                text += &format!("{}: {error}\n", volume.volume);
            }
            for failed in volume.failed_pages.iter().take(NAMED_FAILURES) {
                let FailedPage { page, stage, error } = failed;
                text += &format!("{} {page}, {stage}: {error}\n", volume.volume);
            }
            let unnamed = volume.failed_pages.len().saturating_sub(NAMED_FAILURES);
            if unnamed > 0 {
                let unnamed = pluralize(unnamed, "more page");
                text += &format!("{}: {unnamed} failed, see errors.parquet\n", volume.volume);
            }
        }
        let read: u64 = self.volumes.iter().map(|volume| volume.pages_read).sum();
        let skipped: u64 = self.volumes.iter().map(|volume| volume.pages_skipped).sum();
        // A run without anything to do may take no measurable time.
        let rate = if self.wall_s > 0.0 {
            60.0 * read as f64 / self.wall_s
        } else {
            0.0
        };
        text += &format!(
            "job {} {}: {} read, {skipped} skipped, {} failed; {:.1} s ({rate:.0} pages a minute), {:.1} CPU s\n",
            self.job,
            if self.interrupted {
                "interrupted; run the same command again to continue"
            } else {
                self.status.as_str()
            },
            pluralize(read, "page"),
            self.failed(),
            self.wall_s,
            self.cpu_s,
        );
        for path in &self.exported {
            text += &format!("{}\n", path.display());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(status: JobStatus, nb_errors: i32, interrupted: bool) -> Summary {
        let results = VolumeResults {
            total_images: 3,
            nb_errors,
            ..VolumeResults::default()
        };
        let volume = VolumeSummary {
            volume: "W1-I1".into(),
            state: "done".into(),
            pages_done: 3,
            pages_read: 3,
            pages_skipped: 0,
            results: Some(results),
            failed_pages: Vec::new(),
            error: None,
        };
        Summary {
            job: "ocr".into(),
            status,
            interrupted,
            wall_s: 2.0,
            cpu_s: 3.0,
            volumes: vec![volume],
            out: PathBuf::from("out"),
            exported: Vec::new(),
        }
    }

    /// Rows: 213.
    #[test]
    fn exit_codes() {
        assert_eq!(summary(JobStatus::Completed, 0, false).exit_code(), 0);
        assert_eq!(summary(JobStatus::Completed, 1, false).exit_code(), 1);
        assert_eq!(summary(JobStatus::Failed, 0, false).exit_code(), 1);
        assert_eq!(summary(JobStatus::Running, 0, true).exit_code(), 130);
    }

    #[test]
    fn two_jobs_of_a_run_have_one_summary() {
        let (mut first, second) = (
            summary(JobStatus::Failed, 1, false),
            summary(JobStatus::Completed, 0, false),
        );
        first.job = "page_ocr".into();
        let both = second.clone().followed_by(first);
        assert_eq!(
            (both.job.as_str(), both.status),
            ("ocr, page_ocr", JobStatus::Failed)
        );
        assert_eq!((both.volumes.len(), both.failed(), both.exit_code()), (2, 1, 1));
        let fine = second.clone().followed_by(second);
        assert_eq!(fine.exit_code(), 0);
    }

    #[test]
    fn failed_pages_are_named_up_to_a_number() {
        let mut summary = summary(JobStatus::Completed, 22, false);
        summary.volumes[0].failed_pages = (0..22)
            .map(|number| FailedPage {
                page: format!("p{number}"),
                stage: "line_detection".into(),
                error: "the JPEG data ends too early".into(),
            })
            .collect();
        let text = summary.table();
        assert!(
            text.contains("W1-I1 p19, line_detection: the JPEG data ends too early\n"),
            "{text}"
        );
        assert!(!text.contains("p20,"), "{text}");
        assert!(
            text.contains("W1-I1: 2 more pages failed, see errors.parquet\n"),
            "{text}"
        );
    }

    #[test]
    fn a_volume_that_is_not_done_counts_what_was_read() {
        let mut summary = summary(JobStatus::Running, 0, true);
        summary.volumes[0].results = None;
        summary.volumes[0].pages_done = 7;
        summary.volumes[0].pages_read = 5;
        summary.volumes[0].pages_skipped = 2;
        let text = summary.table();
        let row = text.lines().find(|line| line.contains("W1-I1")).unwrap();
        let cells: Vec<&str> = row.split(['│', '┆']).map(str::trim).collect();
        assert_eq!(cells[3..9], ["7", "2", "-", "-", "0", "-"], "{text}");
    }

    /// Rows: 214.
    #[test]
    fn the_table_names_every_volume_and_the_rate() {
        let text = summary(JobStatus::Completed, 1, false).table();
        assert!(
            text.contains("W1-I1") && text.contains("90 pages a minute"),
            "{text}"
        );
    }
}
