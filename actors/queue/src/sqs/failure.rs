use std::error::Error;

use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::BatchResultErrorEntry;
use parkhang_core::domain::ErrorCategory;
use parkhang_store::storage::s3::chain;

use crate::QueueError;

/// Beginning of some codes in the older of the two protocols. The JSON protocol, which the SDK speaks, has names of its own for them,
/// but AWS sends the old ones along for the sake of old clients, and the SDK prefers those.
const OLD_PREFIX: &str = "AWS.SimpleQueueService.";

/// Meaning of a failed request or entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    NoQueue,
    /// A queue of the name has other settings.
    Exists,
    /// The receipt is worth nothing any more.
    Stale,
    /// The message would be invisible for longer than any may be.
    AtCap,
    /// Too many messages are in flight.
    InFlight,
    /// The server does not know the request.
    Unsupported,
    /// A purge of the last minute is still going on.
    Purging,
    /// A queue of the name was deleted in the last minute.
    DeletedLately,
    Failed(ErrorCategory),
}

/// Failed request, or failed entry of one.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) meaning: Meaning,
    code: String,
    message: String,
}

impl Failure {
    pub(super) fn new(meaning: Meaning, code: &str, message: impl Into<String>) -> Self {
        Self {
            meaning,
            code: code.to_owned(),
            message: message.into(),
        }
    }

    /// Failure on the way there or back.
    pub(super) fn network(code: &str, message: impl Into<String>) -> Self {
        Self::new(Meaning::Failed(ErrorCategory::Network), code, message)
    }

    /// Failure of one entry of a batch.
    pub(super) fn of_entry(entry: &BatchResultErrorEntry) -> Self {
        let message = entry.message().unwrap_or("no message");
        // A code that is not known is the server's fault unless it says that it is ours.
        let status = if entry.sender_fault() { 400 } else { 500 };
        Self::new(
            meaning_of(status, Some(entry.code()), message),
            entry.code(),
            message,
        )
    }

    fn category(&self) -> ErrorCategory {
        match self.meaning {
            Meaning::NoQueue | Meaning::Exists | Meaning::Unsupported => ErrorCategory::Config,
            Meaning::Stale | Meaning::AtCap => ErrorCategory::Input,
            Meaning::InFlight | Meaning::Purging | Meaning::DeletedLately => ErrorCategory::Transient,
            Meaning::Failed(category) => category,
        }
    }

    /// True if the same request may succeed if it is sent again soon.
    pub(super) fn is_retryable(&self) -> bool {
        matches!(self.meaning, Meaning::Failed(category) if category.retryable_by_default())
    }

    /// True if the server failed and did not say at what, as some do at a request that they do not know.
    pub(super) fn is_speechless(&self) -> bool {
        self.code.starts_with("HTTP 5")
    }

    pub(super) fn into_error(self, action: &'static str, queue: &str, attempts: u32) -> QueueError {
        let category = self.category();
        let queue = queue.to_owned();
        match self.meaning {
            Meaning::NoQueue => QueueError::NotFound { queue },
            Meaning::InFlight => QueueError::InFlight { queue },
            Meaning::Purging => QueueError::PurgedLately { queue },
            Meaning::Exists => QueueError::Exists {
                queue,
                message: self.message,
            },
            _ => QueueError::Remote {
                action,
                queue,
                attempts,
                category,
                code: self.code,
                message: self.message,
            },
        }
    }
}

impl<E> From<SdkError<E, HttpResponse>> for Failure
where
    E: ProvideErrorMetadata + Error + 'static,
{
    fn from(error: SdkError<E, HttpResponse>) -> Self {
        let config = Meaning::Failed(ErrorCategory::Config);
        match &error {
            SdkError::ServiceError(service) => {
                let status = service.raw().status().as_u16();
                let code = service.err().code();
                let message = service.err().message().unwrap_or("no message");
                let named = code.map_or_else(|| format!("HTTP {status}"), str::to_owned);
                Self::new(meaning_of(status, code, message), &named, message)
            }
            SdkError::ConstructionFailure(_) => Self::new(config, "InvalidRequest", chain(&error)),
            SdkError::DispatchFailure(failure) if failure.is_user() => {
                Self::new(config, "InvalidRequest", chain(&error))
            }
            SdkError::TimeoutError(_) => Self::network("TimedOut", chain(&error)),
            _ => Self::network("NoAnswer", chain(&error)),
        }
    }
}

/// Codes are more exact than statuses; some mean more than one thing, which only the message tells.
fn meaning_of(status: u16, code: Option<&str>, message: &str) -> Meaning {
    use ErrorCategory::{Config, Network, Transient, Unknown};
    let code = code.map(|code| code.strip_prefix(OLD_PREFIX).unwrap_or(code));
    match code {
        Some("NonExistentQueue" | "QueueDoesNotExist") => return Meaning::NoQueue,
        Some("QueueAlreadyExists" | "QueueNameExists") => return Meaning::Exists,
        Some("ReceiptHandleIsInvalid" | "InvalidIdFormat" | "MessageNotInflight") => return Meaning::Stale,
        Some("InvalidParameterValue") if message.contains("receipt handle has expired") => {
            return Meaning::Stale;
        }
        Some("InvalidParameterValue") if message.contains("Total VisibilityTimeout") => {
            return Meaning::AtCap;
        }
        Some("OverLimit") => return Meaning::InFlight,
        Some("InvalidAction" | "UnsupportedOperation" | "UnknownOperationException" | "NotImplemented") => {
            return Meaning::Unsupported;
        }
        Some("PurgeQueueInProgress") => return Meaning::Purging,
        Some("QueueDeletedRecently") => return Meaning::DeletedLately,
        Some(
            "RequestThrottled"
            | "Throttling"
            | "ThrottlingException"
            | "ThrottledException"
            | "RequestLimitExceeded"
            | "TooManyRequestsException"
            | "KmsThrottled",
        ) => return Meaning::Failed(Network),
        Some("InternalError" | "InternalFailure" | "ServiceUnavailable" | "InternalServerError") => {
            return Meaning::Failed(Network);
        }
        // The next try signs with fresh credentials, or another clock.
        Some("ExpiredToken" | "ExpiredTokenException" | "RequestExpired") => {
            return Meaning::Failed(Transient);
        }
        _ => {}
    }
    match status {
        501 => Meaning::Unsupported,
        // Success that cannot be read is no success.
        200..=299 | 408 | 429 | 500..=599 => Meaning::Failed(Network),
        300..=499 => Meaning::Failed(Config),
        _ => Meaning::Failed(Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_is_tried_again_and_a_closed_door_is_not() {
        let retried = |status, code| Failure::new(meaning_of(status, code, ""), "", "").is_retryable();
        for (status, code) in [
            (400, Some("RequestThrottled")),
            (400, Some("ThrottlingException")),
            (400, Some("AWS.SimpleQueueService.KmsThrottled")),
            (403, Some("ExpiredToken")),
            (500, Some("InternalFailure")),
            (503, None),
            (429, None),
            (200, None),
        ] {
            assert!(retried(status, code), "{status} {code:?}");
        }
        for (status, code) in [
            (403, Some("AccessDenied")),
            (400, Some("InvalidClientTokenId")),
            (400, Some("InvalidParameterValue")),
            (400, Some("AWS.SimpleQueueService.NonExistentQueue")),
            (400, Some("ReceiptHandleIsInvalid")),
            (403, Some("OverLimit")),
            (403, Some("AWS.SimpleQueueService.PurgeQueueInProgress")),
            (400, Some("InvalidAction")),
            (501, None),
        ] {
            assert!(!retried(status, code), "{status} {code:?}");
        }
    }

    #[test]
    fn a_code_has_the_same_meaning_in_both_protocols() {
        for (old, new, meaning) in [
            ("NonExistentQueue", "QueueDoesNotExist", Meaning::NoQueue),
            ("MessageNotInflight", "MessageNotInflight", Meaning::Stale),
            ("PurgeQueueInProgress", "PurgeQueueInProgress", Meaning::Purging),
        ] {
            let old = format!("{OLD_PREFIX}{old}");
            assert_eq!(meaning_of(400, Some(&old), ""), meaning);
            assert_eq!(meaning_of(400, Some(new), ""), meaning);
        }
    }

    #[test]
    fn a_wrong_parameter_is_told_from_a_lost_lease_and_from_the_cap() {
        let meaning = |message| meaning_of(400, Some("InvalidParameterValue"), message);
        let expired =
            "Value AQ== for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.";
        assert_eq!(meaning(expired), Meaning::Stale);
        let capped = "Value 600 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is \
            beyond the limit [43200 seconds]";
        assert_eq!(meaning(capped), Meaning::AtCap);
        assert_eq!(
            meaning("Value 11 for parameter MaxNumberOfMessages is invalid."),
            Meaning::Failed(ErrorCategory::Config)
        );
    }
}
