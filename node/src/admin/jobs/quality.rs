//! `job quality`: how well the volumes of a job were read, as far as that can be told without a truth.

use async_trait::async_trait;
use clap::{Args, ValueEnum};
use parkhang_core::domain::JobKey;
use parkhang_state::{QualityIndex, VolumeQuality};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::find;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::table;
use crate::admin::{Admin, Refusal};

/// Show how well the volumes of a job were read: the confidence of the recogniser, the perplexity of the text, and the volumes that
/// are worst by one of them, with their worst pages.
#[derive(Debug, Args)]
pub struct Quality {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// Index that ranks the volumes.
    #[arg(long, value_enum, value_name = "INDEX", default_value_t)]
    by: By,
    /// Largest number of volumes to list.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// Index of quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum By {
    /// Confidence of the recogniser: the least sure first
    #[default]
    Confidence,
    /// Perplexity of the text under a language model of Tibetan: the most surprising first; for readings without confidence
    Perplexity,
}

/// Quality of a job's finished volumes.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobQuality {
    job: String,
    /// Numbers of finished volumes by classes of both indexes.
    classes: Vec<Class>,
    /// Volumes that were read worst, the worst first.
    worst: Vec<WorstVolume>,
}

/// Finished volumes that are alike in both indexes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Class {
    /// Mean confidence from which the class reaches 0.05 up; absent for volumes whose reader has none.
    confidence: Option<f64>,
    /// Perplexity from which the class reaches to the square root of 2 times as much; absent for volumes without Tibetan text.
    perplexity: Option<f64>,
    volumes: u64,
}

/// Finished volume that is one of the worst of its job.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorstVolume {
    volume: String,
    pages: i32,
    failed_pages: i32,
    /// Perplexity of its text: stacks among which the next one would have to be guessed on average.
    perplexity: Option<f32>,
    /// Mean confidence of its lines, from 0 to 1.
    confidence_mean: Option<f32>,
    /// Confidence that a tenth of the lines does not reach.
    confidence_p10: Option<f32>,
    /// Pages that were read worst, the worst first: by confidence, or by perplexity where there is none.
    worst_pages: Vec<WorstPage>,
}

/// Page that is one of the worst of its volume.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WorstPage {
    /// Number of the page, from 1.
    page: i32,
    perplexity: f32,
    /// Mean confidence of its lines.
    confidence: Option<f32>,
}

impl From<VolumeQuality> for WorstVolume {
    fn from(quality: VolumeQuality) -> Self {
        let results = quality.results;
        Self {
            volume: quality.volume.to_string(),
            pages: results.total_images,
            failed_pages: results.nb_errors,
            perplexity: results.perplexity,
            confidence_mean: results.confidence_mean,
            confidence_p10: results.confidence_p10,
            // Metrics are data of whichever release wrote them.
            worst_pages: serde_json::from_value(quality.worst_pages).unwrap_or_default(),
        }
    }
}

#[async_trait]
impl Command for Quality {
    const NAME: [&'static str; 2] = ["job", "quality"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/quality";
    type Answer = JobQuality;

    async fn run(self, admin: &Admin) -> Result<JobQuality, Refusal> {
        let job = find(admin, &self.job).await?;
        let by = match self.by {
            By::Perplexity => QualityIndex::Perplexity,
            By::Confidence => QualityIndex::Confidence,
        };
        let classes = admin.store.quality_classes(job.id).await?;
        let worst = admin.store.worst_volumes(job.id, by, self.limit).await?;
        Ok(JobQuality {
            job: job.key.to_string(),
            classes: classes.into_iter().map(Class::from).collect(),
            worst: worst.into_iter().map(WorstVolume::from).collect(),
        })
    }
}

impl From<parkhang_state::QualityClass> for Class {
    fn from(class: parkhang_state::QualityClass) -> Self {
        Self {
            confidence: class.confidence,
            perplexity: class.perplexity,
            volumes: class.volumes,
        }
    }
}

impl Answer for JobQuality {
    fn text(&self) -> String {
        if self.worst.is_empty() {
            return "no finished volume has this index".to_owned();
        }
        let header = [
            "volume",
            "worst pages",
            "pages",
            "failed",
            "perplexity",
            "confidence",
            "p10",
        ];
        let number = |value: Option<f32>, digits: usize| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        let rows = self.worst.iter().map(|volume| {
            let pages = volume.worst_pages.iter().map(|page| page.page.to_string());
            [
                volume.volume.clone(),
                pages.collect::<Vec<_>>().join(", "),
                volume.pages.to_string(),
                volume.failed_pages.to_string(),
                number(volume.perplexity, 1),
                number(volume.confidence_mean, 3),
                number(volume.confidence_p10, 3),
            ]
        });
        table(header, rows, 2)
    }
}
