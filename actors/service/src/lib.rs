//! Services: other people's HTTP endpoints that do work for a stage.
//!
//! A service takes a job by one request and answers with its id at once; that the job is over it tells by a webhook, or when it is asked.
//! [`JobsClient`] submits and asks, [`BodyTemplate`] makes the body of a submit, [`webhook`] signs and verifies what comes in. Everything
//! that a service sends is bounded in size and time, and what goes wrong is a [`ServiceError`], whose kind says whether the same request
//! may succeed later.
//!
//! The crate knows HTTP, and neither tasks nor tables: who remembers a job, and what its end means, is a matter of its callers.

mod answer;
mod client;
mod error;
mod failure;
mod settings;
mod template;
mod transport;
pub mod webhook;

pub use answer::JobLook;
pub use client::JobsClient;
pub use error::ServiceError;
pub use failure::{JobFailure, kind_of};
pub use settings::{Fields, InvalidService, JobsSettings, Paths};
pub use template::{BodyTemplate, TemplateError};
pub use transport::Transport;
