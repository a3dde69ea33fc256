//! Translation between the messages and the types of `domain` that both sides work with.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::message::{Assign, AssignDocument, Report, ReportedOutcome};
use parkhang_core::domain::{
    Assignment, DocumentKey, Epoch, ErrorCategory, JobConfig, LeaseReport, StageError, StageReport,
    StageVerdict,
};

/// Limit on the bytes of an error's text that are sent.
const MAX_TEXT: usize = 4 * 1024;

/// A message that was read but says nothing that this build can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {reason}")]
pub struct Unusable {
    /// Name of the part that cannot be used.
    pub what: &'static str,
    /// The error.
    pub reason: String,
}

impl Unusable {
    pub(super) fn new(what: &'static str, reason: impl ToString) -> Self {
        Self {
            what,
            reason: reason.to_string(),
        }
    }
}

impl Assign {
    /// The message about an assignment, without the place of its document.
    ///
    /// # Errors
    ///
    /// When the configuration has no JSON form.
    pub fn new(assignment: &Assignment, epoch: Epoch) -> Result<Self, Unusable> {
        Ok(Self {
            epoch,
            fence: assignment.fence.clone(),
            lease_until: assignment.lease_until.timestamp_micros(),
            volume: assignment.volume.clone(),
            job: assignment.job.clone(),
            config: serde_json::to_string(assignment.config.as_ref())
                .map_err(|error| Unusable::new("job configuration", error))?,
        })
    }

    /// The assignment in the message, of a volume that the source of scans knows by its name.
    ///
    /// # Errors
    ///
    /// When this build does not understand the configuration: it must not run a job with half of its settings.
    pub fn into_assignment(self) -> Result<Assignment, Unusable> {
        let config: JobConfig =
            serde_json::from_str(&self.config).map_err(|error| Unusable::new("job configuration", error))?;
        // Read is not accepted: another build may allow values that this one does not.
        let config = config
            .validated()
            .map_err(|error| Unusable::new("job configuration", error))?;
        let lease_until = DateTime::<Utc>::from_timestamp_micros(self.lease_until)
            .ok_or_else(|| Unusable::new("end of the lease", self.lease_until))?;
        Ok(Assignment {
            fence: self.fence,
            lease_until,
            volume: self.volume,
            document: None,
            job: self.job,
            config: Arc::new(config),
        })
    }
}

impl AssignDocument {
    /// The assignment in the message.
    ///
    /// # Errors
    ///
    /// Those of [`Assign::into_assignment`], and when the document's key is none.
    pub fn into_assignment(self) -> Result<Assignment, Unusable> {
        let document =
            DocumentKey::new(self.document).map_err(|error| Unusable::new("place of the document", error))?;
        Ok(Assignment {
            document: Some(document),
            ..self.assign.into_assignment()?
        })
    }
}

impl Report {
    /// The message about a report.
    ///
    /// # Errors
    ///
    /// When the results have no JSON form.
    pub fn new(report: &LeaseReport) -> Result<Self, Unusable> {
        Ok(Self {
            fence: report.fence.clone(),
            outcome: ReportedOutcome::of(report.verdict.as_ref())?,
        })
    }

    /// The report in the message.
    ///
    /// # Errors
    ///
    /// When a document in it cannot be read.
    pub fn into_report(self) -> Result<LeaseReport, Unusable> {
        Ok(LeaseReport {
            fence: self.fence,
            verdict: self.outcome.into_verdict()?,
        })
    }
}

impl ReportedOutcome {
    fn of(verdict: Option<&StageVerdict>) -> Result<Self, Unusable> {
        Ok(match verdict {
            None => Self::Died,
            Some(StageVerdict::Interrupted) => Self::Interrupted,
            Some(StageVerdict::Failed(error)) => Self::Failed {
                stage: error.stage.clone(),
                item: error.item_id.clone(),
                category: error.category.as_str().to_owned(),
                // A report must fit a message, however much a library has to say about its error.
                message: clipped(&error.message).to_owned(),
                retryable: error.retryable,
            },
            Some(StageVerdict::Succeeded(report)) => Self::Succeeded {
                metrics: report.metrics.to_string(),
                fingerprint: report.fingerprint.clone(),
                results: report
                    .results
                    .as_ref()
                    .map(serde_json::to_string)
                    .transpose()
                    .map_err(|error| Unusable::new("results", error))?,
            },
        })
    }

    fn into_verdict(self) -> Result<Option<StageVerdict>, Unusable> {
        Ok(match self {
            Self::Died => None,
            Self::Interrupted => Some(StageVerdict::Interrupted),
            Self::Failed {
                stage,
                item,
                category,
                message,
                retryable,
            } => Some(StageVerdict::Failed(StageError {
                stage,
                item_id: item,
                category: category_named(&category),
                message,
                retryable,
            })),
            Self::Succeeded {
                metrics,
                fingerprint,
                results,
            } => Some(StageVerdict::Succeeded(StageReport {
                metrics: serde_json::from_str(&metrics).map_err(|error| Unusable::new("metrics", error))?,
                fingerprint,
                results: results
                    .map(|results| serde_json::from_str(&results))
                    .transpose()
                    .map_err(|error| Unusable::new("results", error))?,
            })),
        })
    }
}

/// The category of that name; one that a newer build has added is unknown here.
fn category_named(name: &str) -> ErrorCategory {
    ErrorCategory::ALL
        .into_iter()
        .find(|category| category.as_str() == name)
        .unwrap_or(ErrorCategory::Unknown)
}

fn clipped(text: &str) -> &str {
    let end = text.floor_char_boundary(MAX_TEXT);
    &text[..end]
}
