//! Pages of a volume for a service that reads them from the storage.

use parkhang_answers::vision::responses_in;
use parkhang_core::domain::{ErrorCategory, FailureKind, Usage};
use parkhang_service::JobFailure;
use parkhang_store::artifact::{
    ArtifactError, Digest, LineDetectionRow, LineImageRow, VolumeLayout, read_table,
};
use parkhang_store::storage::{ArtifactKey, ArtifactStore, StorageError};
use serde_json::json;

use super::Site;
use crate::engines::{PagesToRead, asked_about};

/// Scheme of buckets in places of artifacts, and the one by which Google names those of its own.
const BUCKET: &str = "s3://";
const OF_GOOGLE: &str = "gs://";

/// Reason for which nothing can be submitted.
#[derive(Debug)]
pub(super) enum Unsubmitted {
    /// The storage is away or shuts us out, whatever is read there.
    Outage(String),
    Failed(JobFailure),
}

impl From<JobFailure> for Unsubmitted {
    fn from(failure: JobFailure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ArtifactError> for Unsubmitted {
    fn from(error: ArtifactError) -> Self {
        match error.category() {
            // What is stored is missing or damaged.
            ErrorCategory::Input => Self::Failed(JobFailure {
                message: error.to_string(),
                kind: FailureKind::Retriable,
            }),
            _ => Self::Outage(error.to_string()),
        }
    }
}

/// Pages that a service is to read, and the place of its answers.
#[derive(Debug)]
pub(super) struct VolumePages {
    pages: PagesToRead,
    output: ArtifactKey,
}

impl VolumePages {
    /// Reads which pages there are, and what they are made of.
    ///
    /// # Errors
    ///
    /// The reason for which they cannot be submitted.
    pub(super) async fn of(site: &Site, layout: &VolumeLayout, reader: Digest) -> Result<Self, Unsubmitted> {
        let Some(bucket) = site.storage.strip_prefix(BUCKET) else {
            let message = format!(
                "{} is no bucket of Google's, from which it could read pages",
                site.storage
            );
            let kind = FailureKind::Hard;
            return Err(JobFailure { message, kind }.into());
        };
        let store = site.artifacts.as_ref();
        let found = read_table::<LineDetectionRow>(store, &layout.line_detection()).await;
        let lines = read_table::<LineImageRow>(store, &layout.line_images()).await;
        let (found, lines) = (found?.rows, lines?.provenance.pages);
        // A page on which nothing failed has a size.
        if found
            .iter()
            .any(|page| page.rotated_width > 0 && page.rotated_image_path.is_empty())
        {
            let message =
                "the job keeps no pictures (artifacts=tables) that the service could read".to_owned();
            let kind = FailureKind::Hard;
            return Err(JobFailure { message, kind }.into());
        }
        // Those that the stage `ocr` asks for: it leaves out what failed before, and pages without a picture.
        let pages: Vec<(&LineDetectionRow, Digest)> = found
            .iter()
            .filter(|page| !page.rotated_image_path.is_empty())
            .filter_map(|page| Some((page, lines.get(&page.image_name)?.digest())))
            .collect();
        let named = pages
            .iter()
            .map(|(page, made_of)| (page.image_name.as_str(), *made_of));
        let output = layout.operation(asked_about(reader, named));
        let uri = |key: &str| format!("{OF_GOOGLE}{bucket}/{key}");
        Ok(Self {
            pages: PagesToRead {
                images: pages
                    .iter()
                    .map(|(page, _)| uri(&page.rotated_image_path))
                    .collect(),
                output: format!("{}/", uri(output.as_str())),
            },
            output,
        })
    }

    /// Body of a submit.
    pub(super) fn body(&self) -> String {
        json!(self.pages).to_string()
    }

    /// Place of the answers, which is made of what is asked.
    pub(super) fn place(&self) -> &str {
        self.output.as_str()
    }

    /// Use of the service by a submit: each page counts.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            calls: self.pages.images.len() as u64,
            ..Usage::default()
        }
    }

    /// Returns whether the answers about all pages are there.
    ///
    /// # Errors
    ///
    /// [`StorageError`] if the storage does not say.
    pub(super) async fn are_answered(&self, artifacts: &dyn ArtifactStore) -> Result<bool, StorageError> {
        let found = artifacts.list(&self.output).await?;
        let answers: usize = found
            .iter()
            .filter_map(|(key, _)| responses_in(key.as_str().rsplit('/').next()?))
            .sum();
        Ok(answers >= self.pages.images.len())
    }
}
