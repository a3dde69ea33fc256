//! `volumes show`: a volume with its images and jobs.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use parkhang_core::domain::{ImageRecord, VolumeId};
use parkhang_state::{Readers, VolumeWork};
use serde::Serialize;
use utoipa::ToSchema;

use super::VolumeLine;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::tasks::{Results, TaskLine};
use crate::admin::text::{away, table};
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// Largest number of jobs in an answer.
const JOBS: u32 = 50;

/// Show a volume: its latest version with the images, and the jobs that contain it with their results.
#[derive(Debug, Args)]
pub struct Show {
    /// Volume, as W-I.
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
    /// Number of the first image to show; 1 is the first.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    from: u32,
    /// Largest number of images to show.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    limit: u32,
}

/// Volume with its images and jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct VolumeDetails {
    #[serde(flatten)]
    volume: VolumeLine,
    /// Jobs that contain it, the newest first, fifty at most.
    jobs: Vec<VolumeJob>,
    /// Requested images, in reading order.
    listed: Vec<Image>,
    /// Value of `from` for the next images, if there are more.
    next: Option<u32>,
}

/// Job that contains the volume.
#[derive(Debug, Serialize, ToSchema)]
pub struct VolumeJob {
    job: String,
    created_at: DateTime<Utc>,
    task: TaskLine,
    /// True if the job has read the latest version that was imported.
    latest: bool,
    results: Option<Results>,
}

/// Image as the volume's list describes it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Image {
    /// Number of the image, from 1.
    number: u32,
    name: String,
    width: Option<u32>,
    height: Option<u32>,
    /// Mode of its pixels, such as 1, L or RGB.
    mode: Option<String>,
    /// Format, if it is not that of the name's extension.
    format: Option<String>,
    compression: Option<String>,
    /// Size of the file, in bytes.
    size: Option<u64>,
    /// Error of the program that made the list, if it could not read the image.
    error: Option<String>,
}

#[async_trait]
impl Command for Show {
    const NAME: [&'static str; 2] = ["volumes", "show"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/volumes/{volume}";
    type Answer = VolumeDetails;

    async fn run(self, admin: &Admin) -> Result<VolumeDetails, Refusal> {
        let store = &admin.store;
        let known = store.volume(&self.volume).await?;
        let unknown = || Refusal::NotFound(format!("no volume {} is known", self.volume));
        let known = known.ok_or_else(unknown)?;
        // The parser of `--from` begins at 1, so this does not underflow.
        let images = store.images(&self.volume, self.from - 1, self.limit).await?;
        let mut jobs = Vec::new();
        for work in store.work_on(&self.volume, JOBS).await? {
            let readers = Readers {
                jobs: vec![work.job.id],
                model: None,
            };
            let volume = std::slice::from_ref(&self.volume);
            // The question of `job create` for volumes that are read already, asked of one job: so both agree.
            let read = store.already_read(volume, &work.job.pipeline, &readers).await?;
            jobs.push(VolumeJob::of(work, !read.is_empty()));
        }
        let shown = u32::try_from(images.len()).unwrap_or(u32::MAX);
        let next = self.from.saturating_add(shown);
        let all = known.list.as_ref().map_or(0, |list| list.images);
        Ok(VolumeDetails {
            volume: VolumeLine::from(known),
            jobs,
            listed: (self.from..)
                .zip(images)
                .map(|(number, image)| Image::of(number, image))
                .collect(),
            next: (next <= all).then_some(next),
        })
    }
}

impl VolumeJob {
    fn of(work: VolumeWork, latest: bool) -> Self {
        Self {
            task: TaskLine::of(&work.task, &work.job),
            job: work.job.key.to_string(),
            created_at: work.job.created_at,
            latest,
            results: work.results.map(Results::from),
        }
    }
}

impl Image {
    fn of(number: u32, image: ImageRecord) -> Self {
        Self {
            number,
            name: image.name,
            width: image.width,
            height: image.height,
            mode: image.mode,
            format: image.format,
            compression: image.compression,
            size: image.size,
            error: image.error,
        }
    }
}

impl Answer for VolumeDetails {
    fn text(&self) -> String {
        let now = Utc::now();
        let VolumeLine {
            volume,
            version,
            images,
            imported_at,
            ..
        } = &self.volume;
        let mut text = match (version, images, imported_at) {
            (Some(version), Some(images), Some(at)) => format!(
                "{volume}: version {version} with {}, imported {}\n",
                pluralize(*images, "image"),
                away(*at, now)
            ),
            _ => format!("{volume}: its list of images was not imported\n"),
        };
        let number = |number: Option<i32>| number.map_or(String::new(), |number| number.to_string());
        let header = [
            "job",
            "created",
            "state",
            "latest version",
            "images",
            "lines",
            "errors",
            "confidence",
            "perplexity",
        ];
        let jobs = self.jobs.iter().map(|job| {
            let results = job.results.as_ref();
            let confidence = results.and_then(|results| results.confidence_mean);
            let perplexity = results.and_then(|results| results.perplexity);
            [
                job.job.clone(),
                away(job.created_at, now),
                job.task.words.clone(),
                if job.latest { "yes" } else { "" }.to_owned(),
                number(results.map(|results| results.images)),
                number(results.map(|results| results.lines)),
                number(results.map(|results| results.errors)),
                confidence.map_or(String::new(), |mean| format!("{mean:.3}")),
                perplexity.map_or(String::new(), |perplexity| format!("{perplexity:.1}")),
            ]
        });
        text.push_str(&if self.jobs.is_empty() {
            "in no job".to_owned()
        } else {
            table(header, jobs, 4)
        });
        if !self.listed.is_empty() {
            let header = ["image", "file", "mode", "width", "height"];
            let side = |side: Option<u32>| side.map_or(String::new(), |side| side.to_string());
            let images = self.listed.iter().map(|image| {
                [
                    image.number.to_string(),
                    image.name.clone(),
                    image.error.clone().or(image.mode.clone()).unwrap_or_default(),
                    side(image.width),
                    side(image.height),
                ]
            });
            text.push('\n');
            text.push_str(&table(header, images, 3));
        }
        if let Some(next) = self.next {
            text.push_str(&format!("\nmore: --from {next}"));
        }
        text
    }
}
