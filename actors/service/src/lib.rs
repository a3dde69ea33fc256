//! Services: other people's HTTP endpoints that do work for a stage.
//!
//! A service takes a job by one request and answers with its id at once; that the job is over it tells by a webhook, or when it is asked.
//! [`JobsClient`], which is a [`JobService`], submits and asks, [`BodyTemplate`] makes the body of a submit, [`webhook`] signs and verifies what comes in. Others do
//! their work while the request waits: [`ChatClient`] asks language models, [`VisionClient`] Google Vision. Everything that a service sends is bounded in size and time, and what goes wrong is a [`ServiceError`], whose kind says whether the same request
//! may succeed later.
//!
//! The crate knows HTTP, and neither tasks nor tables: who remembers a job, and what its end means, is a matter of its callers.

mod account;
mod answer;
mod category;
mod chat;
mod client;
mod endpoint;
mod error;
mod failure;
mod settings;
mod template;
mod transport;
mod vision;
pub mod webhook;

#[cfg(test)]
mod testing;

pub use account::is_account;
pub use answer::JobLook;
pub use category::FailureCategory;
pub use chat::ChatClient;
pub use client::{JobService, JobsClient};
pub use endpoint::Credential;
pub use error::ServiceError;
pub use failure::{JobFailure, category_of, kind_of};
pub use settings::{Fields, InvalidService, JobsSettings, Paths, check_url};
pub use template::{BodyTemplate, TemplateError};
pub use transport::{Bounds, Transport};
pub use vision::VisionClient;
