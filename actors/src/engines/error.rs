//! Failures of engines: of one page, or of the service.

use parkhang_answers::chat::ChatError;
use parkhang_answers::embeddings::EmbeddingError;
use parkhang_answers::vision::VisionError;
use parkhang_core::domain::ErrorCategory;
use parkhang_service::ServiceError;
use serde_json::Value;

/// Failure of an engine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The service is away, overloaded, or shuts us out: any other page would have met the same.
    #[error("service {service}: {reason}")]
    Away {
        service: String,
        reason: String,
        category: ErrorCategory,
    },
    #[error("service {service}: {reason}")]
    Page {
        service: String,
        reason: String,
        category: ErrorCategory,
        /// Answer that came all the same.
        answer: Option<Box<Value>>,
    },
}

/// Failure of an engine that does not know its name.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failure {
    Service(ServiceError),
    /// Nothing was sent, for this reason: the service has failed, and is left alone for longer than a request waits.
    LeftAlone(String),
    /// Google's error of one image.
    Image(VisionError),
    /// An answer of a language model without the text of the page.
    Answer(ChatError, Box<Value>),
    /// An answer without the vectors of the texts, which no other try would give.
    Vectors(EmbeddingError),
}

impl Failure {
    pub(super) fn of(self, service: String) -> EngineError {
        match self {
            Self::Service(error) => {
                let (reason, category) = (error.to_string(), category(&error));
                if error.is_of_the_service() {
                    return EngineError::Away {
                        service,
                        reason,
                        category,
                    };
                }
                page(service, reason, category, None)
            }
            // Without the rest of the pause: this is kept and shown later, and the record of the service tells the time.
            Self::LeftAlone(reason) => EngineError::Away {
                service,
                reason,
                category: ErrorCategory::Service,
            },
            Self::Image(error) if error.is_about_access() => EngineError::Away {
                service,
                reason: error.to_string(),
                category: ErrorCategory::Config,
            },
            // Tried again long enough.
            Self::Image(error) if error.may_pass() => EngineError::Away {
                service,
                reason: error.to_string(),
                category: ErrorCategory::Service,
            },
            Self::Image(error) => page(service, error.to_string(), ErrorCategory::Input, None),
            Self::Vectors(error) => page(service, error.to_string(), ErrorCategory::Runtime, None),
            Self::Answer(error, answer) => {
                page(service, error.to_string(), ErrorCategory::Input, Some(answer))
            }
        }
    }
}

fn page(service: String, reason: String, category: ErrorCategory, answer: Option<Box<Value>>) -> EngineError {
    EngineError::Page {
        service,
        reason,
        category,
        answer,
    }
}

fn category(error: &ServiceError) -> ErrorCategory {
    match error {
        ServiceError::Status {
            status: 401 | 403 | 404,
            ..
        } => ErrorCategory::Config,
        ServiceError::Status { status, .. } if *status < 500 && !matches!(status, 408 | 425 | 429) => {
            ErrorCategory::Input
        }
        ServiceError::TooLarge { .. } | ServiceError::NoContent => ErrorCategory::Input,
        // Tried again already.
        ServiceError::Malformed(_) => ErrorCategory::Runtime,
        _ => ErrorCategory::Service,
    }
}
