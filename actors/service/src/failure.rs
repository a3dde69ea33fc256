//! Failures that a service reports of a job, by their texts.

use parkhang_core::domain::FailureKind;

use crate::category::FailureCategory;
use crate::error::ServiceError;

/// Parts of texts about failures that no other try will mend.
const HARD: [(&str, FailureCategory); 7] = [
    ("enotfound", FailureCategory::Dns),
    ("dns lookup failed", FailureCategory::Dns),
    ("econnrefused", FailureCategory::Refused),
    ("connection refused", FailureCategory::Refused),
    ("no content", FailureCategory::Answer),
    ("forbidden", FailureCategory::Access),
    ("not found", FailureCategory::Request),
];
/// Statuses of HTTP of such failures,
const HARD_STATUSES: [(&str, FailureCategory); 2] = [
    ("403", FailureCategory::Access),
    ("404", FailureCategory::Request),
];
/// and words in front of one, without which a number may be anything.
const BEFORE_A_STATUS: [&str; 7] = ["http", "status", "code", "error", "returned", "response", "got"];
/// Longest text of a failure, in characters.
const MAX_MESSAGE: usize = 1000;

/// Failure of a job at its service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFailure {
    pub message: String,
    pub kind: FailureKind,
}

impl From<ServiceError> for JobFailure {
    /// Failure of a job that was not submitted for this error.
    fn from(error: ServiceError) -> Self {
        Self {
            message: error.to_string(),
            kind: error.kind(),
        }
    }
}

impl JobFailure {
    /// Failure with the text that a service gives for it, of which the beginning is kept.
    pub fn new(message: &str) -> Self {
        Self {
            message: message.chars().take(MAX_MESSAGE).collect(),
            kind: kind_of(message),
        }
    }
}

/// Kind of a failure that a text describes. A text that says nothing known is of one that may pass, as the number of tries is bounded.
pub fn kind_of(message: &str) -> FailureKind {
    match category_of(message) {
        Some(_) => FailureKind::Hard,
        None => FailureKind::Retriable,
    }
}

/// Category of a failure that a text describes, if no other try will usually mend it.
pub fn category_of(message: &str) -> Option<FailureCategory> {
    let text = message.to_lowercase();
    let named = HARD.iter().find(|(part, _)| text.contains(part));
    named.map(|(_, category)| *category).or_else(|| by_status(&text))
}

fn by_status(text: &str) -> Option<FailureCategory> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.iter().enumerate().find_map(|(index, word)| {
        let before = index.checked_sub(1).and_then(|before| words.get(before));
        let (_, category) = HARD_STATUSES.iter().find(|(status, _)| status == word)?;
        before
            .is_none_or(|before| BEFORE_A_STATUS.contains(before))
            .then_some(*category)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: 234, 235.
    #[test]
    fn a_failure_is_known_by_its_text() {
        for hard in [
            "ENOTFOUND: DNS lookup failed",
            "connect ECONNREFUSED 127.0.0.1:80",
            "Connection refused",
            "404 Not Found",
            "HTTP 403",
            "status code: 404",
            "No content extracted",
        ] {
            assert_eq!(kind_of(hard), FailureKind::Hard, "{hard}");
        }
        for retriable in [
            "Timeout after 404 ms",
            "HTTP 429: rate limited",
            "500 Internal Server Error",
            "worker crashed",
            "",
        ] {
            assert_eq!(kind_of(retriable), FailureKind::Retriable, "{retriable}");
        }
    }
}
