//! `tasks show`: a volume of a job with its history.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use parkhang_core::domain::{Job, JobKey, ServiceJob, StageRun, Task, VolumeId, VolumeResults};
use parkhang_state::{ServiceStore, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::{State, TaskLine, find};
use crate::admin::actors::PageInHand;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::{away, table};
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// Show one volume of a job: its state, every try of every stage, and its results.
///
/// While a stage runs, the pages that its node works on are listed with their current step.
#[derive(Debug, Args)]
pub struct Show {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Volume, as W-I.
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
}

/// Volume of a job with its history.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskDetails {
    #[serde(flatten)]
    task: TaskLine,
    /// Category of the error with which its last try failed.
    category: Option<&'static str>,
    /// Page at which it failed, if it was one.
    item: Option<String>,
    /// When the stage may be tried again, if it has to wait.
    not_before: Option<DateTime<Utc>>,
    /// One run for each lease, the oldest first.
    runs: Vec<Run>,
    results: Option<Results>,
    /// Jobs that services have had for it, in the order in which they were submitted.
    services: Vec<AtService>,
    /// Pages that are worked on, as the node last reported; if they are many, those that have been at their step for longest.
    at_work: Vec<PageInHand>,
}

/// Run of a stage under one lease.
#[derive(Debug, Serialize, ToSchema)]
pub struct Run {
    stage: String,
    attempt: i32,
    generation: i64,
    /// running, done, failed, interrupted or cancelled
    status: &'static str,
    worker: String,
    started_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    /// Category and message of the error with which it failed.
    error: Option<String>,
    /// Names of the models that it used; none if the stage has no network or the run has not ended.
    models: Vec<String>,
    /// Pages that it computed; absent for a stage that does not work page by page.
    pages_made: Option<u64>,
    /// Pages whose earlier results it kept.
    pages_kept: Option<u64>,
    /// Pages that failed.
    pages_failed: Option<u64>,
    /// Metrics that the stage reported.
    #[schema(value_type = Object)]
    metrics: serde_json::Value,
}

/// Job of a service for one lease.
#[derive(Debug, Serialize, ToSchema)]
pub struct AtService {
    stage: String,
    attempt: i32,
    generation: i64,
    /// Id that the service gave the job.
    job: String,
    submitted_at: DateTime<Utc>,
    /// Times that the service was asked about it.
    polls: u32,
    /// Time of the last of them.
    polled_at: Option<DateTime<Utc>>,
    /// Time at which the service told of it by the webhook for the first time.
    told_at: Option<DateTime<Utc>>,
}

impl From<ServiceJob> for AtService {
    fn from(job: ServiceJob) -> Self {
        Self {
            stage: job.fence.stage.to_string(),
            attempt: job.fence.attempt.0,
            generation: job.fence.generation.0,
            job: job.job,
            submitted_at: job.submitted_at,
            polls: job.polls,
            polled_at: job.polled_at,
            told_at: job.told_at,
        }
    }
}

impl AtService {
    fn in_a_line(&self, now: DateTime<Utc>) -> String {
        let asked = self.polled_at.map_or("not asked about".to_owned(), |last| {
            let times = pluralize(u64::from(self.polls), "time");
            format!("asked about {times}, last {}", away(last, now))
        });
        let told = self
            .told_at
            .map_or("not told of by a webhook".to_owned(), |told| {
                format!("told of by a webhook {}", away(told, now))
            });
        format!(
            "{} {}: submitted {} as job {}, {asked}, {told}",
            self.stage,
            self.attempt,
            away(self.submitted_at, now),
            self.job
        )
    }
}

/// Results of a volume. Confidences are from 0 to 1.
#[derive(Debug, Serialize, ToSchema)]
pub struct Results {
    pub images: i32,
    pub lines: i32,
    characters: i32,
    pub errors: i32,
    duration_ms: f32,
    pub confidence_mean: Option<f32>,
    confidence_p10: Option<f32>,
    confidence_p50: Option<f32>,
    confidence_p90: Option<f32>,
    /// Stacks among which the next one of the text would have to be guessed on average; absent for text that is not Tibetan.
    pub perplexity: Option<f32>,
}

#[async_trait]
impl Command for Show {
    const NAME: [&'static str; 2] = ["tasks", "show"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/tasks/{volume}";
    type Answer = TaskDetails;

    async fn run(self, admin: &Admin) -> Result<TaskDetails, Refusal> {
        let (job, task) = find(admin, &self.job, &self.volume).await?;
        let runs = admin.store.stage_runs(task.id).await?;
        let results = admin.store.volume_results(task.id).await?;
        let services = admin.store.service_jobs(task.id).await?;
        Ok(TaskDetails {
            task: TaskLine::of(&task, &job),
            category: task.last_error.as_ref().map(|error| error.category.as_str()),
            item: task.last_error.as_ref().and_then(|error| error.item_id.clone()),
            not_before: task.not_before,
            runs: runs.into_iter().map(Run::from).collect(),
            results: results.map(Results::from),
            services: services.into_iter().map(AtService::from).collect(),
            at_work: at_work(admin, &job, &task).await?,
        })
    }
}

async fn at_work(admin: &Admin, job: &Job, task: &Task) -> Result<Vec<PageInHand>, Refusal> {
    let Some(lease) = &task.lease else {
        return Ok(Vec::new());
    };
    let work = admin
        .store
        .actors()
        .await?
        .into_iter()
        // The report of a node that lost the lease may still name the volume; only the holder's counts.
        .filter(|reported| reported.node == lease.worker.node())
        .flat_map(|reported| reported.actors)
        .filter_map(|actor| actor.work)
        .find(|work| work.job == job.key && work.volume == task.volume);
    Ok(PageInHand::all(work.map_or_else(Vec::new, |work| work.at_work)))
}

impl From<StageRun> for Run {
    fn from(run: StageRun) -> Self {
        Self {
            stage: run.fence.stage.to_string(),
            attempt: run.fence.attempt.0,
            generation: run.fence.generation.0,
            status: run.status.as_str(),
            worker: run.worker.to_string(),
            started_at: run.started_at,
            ended_at: run.ended_at,
            error: run.error.map(|error| error.to_string()),
            models: models(&run.metrics),
            pages_made: run.metrics["read"].as_u64(),
            pages_kept: run.metrics["skipped"].as_u64(),
            pages_failed: run.metrics["failed"].as_u64(),
            metrics: run.metrics,
        }
    }
}

fn models(metrics: &serde_json::Value) -> Vec<String> {
    metrics["models"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

impl Run {
    /// Formats the counts of pages, such as `6`, or `4, 2 kept, 1 failed`.
    fn pages(&self) -> String {
        let others: Vec<String> = [(self.pages_kept, "kept"), (self.pages_failed, "failed")]
            .into_iter()
            .filter_map(|(pages, what)| Some((pages?, what)))
            .filter(|(pages, _)| *pages > 0)
            .map(|(pages, what)| format!("{pages} {what}"))
            .collect();
        self.pages_made
            // A zero is shown only where it would otherwise be an empty cell, which means unknown.
            .filter(|made| *made > 0 || others.is_empty())
            .map(|made| made.to_string())
            .into_iter()
            .chain(others)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl From<VolumeResults> for Results {
    fn from(results: VolumeResults) -> Self {
        Self {
            images: results.total_images,
            lines: results.total_lines,
            characters: results.total_characters,
            errors: results.nb_errors,
            duration_ms: results.processing_duration_ms,
            confidence_mean: results.confidence_mean,
            confidence_p10: results.confidence_p10,
            confidence_p50: results.confidence_p50,
            confidence_p90: results.confidence_p90,
            perplexity: results.perplexity,
        }
    }
}

impl TaskDetails {
    /// Models of each stage's last run that succeeded, in the order in which these runs ended.
    fn last_models(&self) -> Vec<(&str, &[String])> {
        let mut last: Vec<(&str, &[String])> = Vec::new();
        for run in self.runs.iter().filter(|run| run.status == "done") {
            // Removed and pushed again instead of replaced, so that the order is that of the last runs.
            last.retain(|(stage, _)| *stage != run.stage);
            last.push((&run.stage, &run.models));
        }
        last.retain(|(_, models)| !models.is_empty());
        last
    }
}

impl Answer for TaskDetails {
    fn text(&self) -> String {
        let now = Utc::now();
        let task = &self.task;
        let number = |count: i32| u64::try_from(count).unwrap_or(0);
        let tries = pluralize(number(task.attempts), "time");
        let mut text = format!("{}: {}, failed {tries}", task.volume, task.words);
        // Losses are no failed tries. The error of a volume that was set aside for them counts the last one too.
        if task.interruptions > 0 && task.state != State::Failed {
            let losses = pluralize(number(task.interruptions), "time");
            text.push_str(&format!(", lost its worker {losses} in a row"));
        }
        text.push('\n');
        if let (Some(error), Some(category)) = (&task.error, self.category) {
            let item = self
                .item
                .as_ref()
                .map_or(String::new(), |item| format!(" at {item}"));
            text.push_str(&format!("last error{item}: {error} ({category})\n"));
        }
        if let Some(time) = self.not_before.filter(|time| *time > now) {
            text.push_str(&format!("to be tried again {}\n", away(time, now)));
        }
        let header = [
            "stage", "try", "status", "worker", "started", "took", "pages", "error",
        ];
        let rows = self.runs.iter().map(|run| {
            let took = run.ended_at.map_or(String::new(), |ended| {
                format!("{:.1} s", (ended - run.started_at).as_seconds_f64())
            });
            let generation = if run.generation > 0 {
                format!(" (g{})", run.generation)
            } else {
                String::new()
            };
            [
                run.stage.clone(),
                format!("{}{generation}", run.attempt),
                run.status.to_owned(),
                run.worker.clone(),
                away(run.started_at, now),
                took,
                run.pages(),
                run.error.clone().unwrap_or_default(),
            ]
        });
        text.push_str(&table(header, rows, usize::MAX));
        for job in &self.services {
            text.push_str(&format!("\n{}", job.in_a_line(now)));
        }
        for (stage, models) in self.last_models() {
            text.push_str(&format!("\n{stage} was done with {}", models.join(", ")));
        }
        if let Some(results) = &self.results {
            let confidence = results
                .confidence_mean
                .map_or(String::new(), |mean| format!(", confidence {mean:.3}"));
            let perplexity = results.perplexity.map_or(String::new(), |perplexity| {
                format!(", perplexity {perplexity:.1}")
            });
            text.push_str(&format!(
                "\n{}, {}, {}, {} failed{confidence}{perplexity}",
                pluralize(number(results.images), "page"),
                pluralize(number(results.lines), "line"),
                pluralize(number(results.characters), "character"),
                pluralize(number(results.errors), "page"),
            ));
        }
        for page in &self.at_work {
            text.push_str(&format!("\n{}", page.in_a_line(now)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::testing::{fence, stage_run, worker};
    use parkhang_core::domain::{Fence, Generation};
    use serde_json::json;

    use super::*;

    fn run(stage: &str, generation: i64, metrics: serde_json::Value) -> Run {
        Run::from(StageRun {
            fence: Fence {
                generation: Generation(generation),
                ..fence(1, stage)
            },
            worker: worker("gpu-1/ocr/1"),
            ..stage_run(stage, 1, metrics)
        })
    }

    fn line(state: State, interruptions: i32) -> TaskLine {
        TaskLine {
            volume: "W1-I1".to_owned(),
            task: 1,
            state,
            words: state.as_str().to_owned(),
            stage: None,
            attempts: 0,
            interruptions,
            worker: None,
            error: None,
            started_at: None,
            done_at: None,
        }
    }

    #[test]
    fn losses_are_counted_once() {
        let heading = |state| {
            let details = TaskDetails {
                task: line(state, 4),
                category: None,
                item: None,
                not_before: None,
                runs: Vec::new(),
                results: None,
                services: Vec::new(),
                at_work: Vec::new(),
            };
            details.text().lines().next().map(str::to_owned)
        };
        let waiting = "W1-I1: waiting, failed 0 times, lost its worker 4 times in a row";
        assert_eq!(heading(State::Waiting).as_deref(), Some(waiting));
        assert_eq!(
            heading(State::Failed).as_deref(),
            Some("W1-I1: failed, failed 0 times")
        );
    }

    #[test]
    fn a_run_says_which_pages_it_kept_and_the_volume_what_it_was_read_with_last() {
        let first = run("ocr", 0, json!({ "read": 6, "skipped": 0, "models": ["old"] }));
        let again = run("ocr", 1, json!({ "read": 2, "skipped": 4, "models": ["new"] }));
        let kept = run("ocr", 2, json!({ "read": 0, "skipped": 6, "models": ["new"] }));
        let with_failed_pages = run("ocr", 0, json!({ "read": 2, "skipped": 0, "failed": 1 }));
        let reduce = run("reduce", 0, json!({ "lines": 9 }));
        let pages = [&first, &again, &kept, &with_failed_pages, &reduce].map(Run::pages);
        assert_eq!(pages, ["6", "2, 4 kept", "6 kept", "2, 1 failed", ""]);
        let details = TaskDetails {
            task: line(State::Done, 0),
            category: None,
            item: None,
            not_before: None,
            runs: vec![first, again, kept, reduce],
            results: Some(Results {
                images: 2,
                lines: 1,
                characters: 30,
                errors: 1,
                duration_ms: 1.0,
                confidence_mean: None,
                confidence_p10: None,
                confidence_p50: None,
                confidence_p90: None,
                perplexity: None,
            }),
            services: Vec::new(),
            at_work: Vec::new(),
        };
        let text = details.text();
        assert!(
            text.ends_with("\nocr was done with new\n2 pages, 1 line, 30 characters, 1 page failed"),
            "{text}"
        );
    }
}
