use std::error::Error;

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::super::{ArtifactKey, StorageError};
use parkhang_core::domain::ErrorCategory;

/// Meaning of a failed request for the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Absent,
    /// The condition of a conditional write does not hold: the key is taken.
    Taken,
    /// The object is the one that the reader has.
    Unchanged,
    /// The range starts past the end of the object.
    PastEnd,
    /// The object has more bytes than the reader takes.
    TooLarge {
        size: u64,
        limit: u64,
    },
    /// An upload in parts does not exist any more: it was completed or aborted.
    UploadGone,
    /// Another write of the same key got in the way.
    Conflict,
    /// The server does not know the request or a header of it.
    NotImplemented,
    /// The store is shut to us, whichever object is asked for: the credentials or the rights are gone, or the bucket or its room is.
    Shut,
    Failed(ErrorCategory),
}

/// Failed request.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) meaning: Meaning,
    /// S3's error code, or a word for what happened on the way.
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

    pub(super) fn too_large(size: u64, limit: u64) -> Self {
        Self::new(Meaning::TooLarge { size, limit }, "TooLarge", "")
    }

    pub(super) fn category(&self) -> ErrorCategory {
        match self.meaning {
            Meaning::Absent | Meaning::PastEnd | Meaning::TooLarge { .. } => ErrorCategory::Input,
            Meaning::UploadGone | Meaning::Conflict => ErrorCategory::Transient,
            Meaning::NotImplemented => ErrorCategory::Config,
            Meaning::Taken | Meaning::Unchanged => ErrorCategory::Unknown,
            // It may be opened again, and until then no object is to blame.
            Meaning::Shut => ErrorCategory::Network,
            Meaning::Failed(category) => category,
        }
    }

    /// True if the same request may succeed if it is sent again.
    pub(super) fn is_retryable(&self) -> bool {
        match self.meaning {
            // The request of a lost upload cannot succeed any more: `write_parts` begins another upload.
            Meaning::UploadGone => false,
            // Not within seconds.
            Meaning::Shut => false,
            _ => self.category().retryable_by_default(),
        }
    }

    pub(super) fn into_error(self, action: &'static str, key: &ArtifactKey, attempts: u32) -> StorageError {
        let key = key.clone();
        match self.meaning {
            Meaning::Absent => StorageError::NotFound { key },
            Meaning::TooLarge { size, limit } => StorageError::TooLarge { key, size, limit },
            _ => StorageError::Remote {
                action,
                key,
                attempts,
                category: self.category(),
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
        match &error {
            SdkError::ServiceError(service) => {
                let status = service.raw().status().as_u16();
                let code = service.err().code();
                let message = service.err().message().unwrap_or("no message");
                Self {
                    meaning: meaning_of(status, code),
                    code: code.map_or_else(|| format!("HTTP {status}"), str::to_owned),
                    message: message.to_owned(),
                }
            }
            SdkError::ConstructionFailure(_) => Self::new(
                Meaning::Failed(ErrorCategory::Config),
                "InvalidRequest",
                chain(&error),
            ),
            SdkError::DispatchFailure(failure) if failure.is_user() => Self::new(
                Meaning::Failed(ErrorCategory::Config),
                "InvalidRequest",
                chain(&error),
            ),
            SdkError::TimeoutError(_) => Self::network("TimedOut", chain(&error)),
            _ => Self::network("NoAnswer", chain(&error)),
        }
    }
}

/// Codes are more exact than statuses, but not every server sends them, and answers to HEAD have none.
fn meaning_of(status: u16, code: Option<&str>) -> Meaning {
    use ErrorCategory::{Config, Network, Unknown};
    match code {
        Some("NoSuchKey") => return Meaning::Absent,
        Some("NoSuchUpload") => return Meaning::UploadGone,
        Some("NoSuchBucket") => return Meaning::Shut,
        Some("ConditionalRequestConflict" | "OperationAborted") => return Meaning::Conflict,
        // The next try signs with fresh credentials.
        Some("ExpiredToken" | "RequestExpired" | "TokenRefreshRequired") => return Meaning::Failed(Network),
        // The bytes did not arrive as they were sent.
        Some("BadDigest" | "IncompleteBody" | "XAmzContentChecksumMismatch" | "RequestTimeout") => {
            return Meaning::Failed(Network);
        }
        Some("SlowDown" | "Throttling" | "ThrottlingException" | "RequestLimitExceeded") => {
            return Meaning::Failed(Network);
        }
        // The end of an upload is answered 200 before it is known how it ends.
        Some("PreconditionFailed") => return Meaning::Taken,
        Some("InternalError" | "ServiceUnavailable") => return Meaning::Failed(Network),
        _ => {}
    }
    match status {
        304 => Meaning::Unchanged,
        401 | 403 | 507 => Meaning::Shut,
        404 => Meaning::Absent,
        409 => Meaning::Conflict,
        412 => Meaning::Taken,
        416 => Meaning::PastEnd,
        501 => Meaning::NotImplemented,
        // Success that cannot be read is no success.
        200..=299 | 408 | 429 | 500..=599 => Meaning::Failed(Network),
        300..=499 => Meaning::Failed(Config),
        _ => Meaning::Failed(Unknown),
    }
}

/// Text of an error with its causes, each once.
pub fn chain(error: &dyn Error) -> String {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.dedup();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_and_a_lost_body_are_tried_again_and_a_closed_door_is_not() {
        let retried = |status, code| Failure::new(meaning_of(status, code), "", "").is_retryable();
        for (status, code) in [
            (503, Some("SlowDown")),
            (500, Some("InternalError")),
            (200, Some("InternalError")),
            (200, None),
            (502, None),
            (429, None),
            (400, Some("RequestTimeout")),
            (400, Some("BadDigest")),
            (400, Some("ExpiredToken")),
            (409, Some("ConditionalRequestConflict")),
        ] {
            assert!(retried(status, code), "{status} {code:?}");
        }
        for (status, code) in [
            (403, Some("AccessDenied")),
            (403, Some("SignatureDoesNotMatch")),
            (404, Some("NoSuchBucket")),
            (404, Some("NoSuchKey")),
            (301, Some("PermanentRedirect")),
            (400, Some("InvalidArgument")),
            (412, Some("PreconditionFailed")),
            (200, Some("PreconditionFailed")),
            (501, Some("NotImplemented")),
            (507, None),
        ] {
            assert!(!retried(status, code), "{status} {code:?}");
        }
    }

    #[test]
    fn a_store_that_is_shut_is_an_outage_and_a_missing_key_is_not() {
        let category = |status, code| Failure::new(meaning_of(status, Some(code)), "", "").category();
        for (status, code) in [
            (404, "NoSuchBucket"),
            (403, "AccessDenied"),
            (403, "InvalidAccessKeyId"),
            (403, "RequestTimeTooSkewed"),
            (401, "Unauthorized"),
            (400, "ExpiredToken"),
            (507, "XMinioStorageFull"),
        ] {
            assert_eq!(category(status, code), ErrorCategory::Network, "{status} {code}");
        }
        assert_eq!(category(404, "NoSuchKey"), ErrorCategory::Input);
        assert_eq!(category(400, "InvalidArgument"), ErrorCategory::Config);
    }
}
