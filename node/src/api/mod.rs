//! HTTP interface of an orchestrator: the commands of the table under `/api/v1`, for clients with a token.
//!
//! Routes, methods, arguments and the OpenAPI description are all made from the table of `admin`, so a new command needs no line here,
//! and its arguments are checked by the parser that the command line uses. What is written by hand is what the table cannot say:
//! who a request comes from, limits on bodies and streams, files, and the notification of changes.
//!
//! A command that changes something runs in a task of its own, and the audit log has it before it begins: a client that disconnects
//! neither stops it halfway nor hides that it ran. Nothing of a client without a token is read or stored, since such a client could
//! fill memory or the database. The room must not decide anything about jobs and has no access to the orchestrator's actors, only
//! to what [`crate::admin::Admin`] holds.

mod answer;
mod body;
mod documents;
mod edits;
mod events;
mod files;
mod openapi;
mod per_caller;
mod pictures;
mod router;
mod server;
mod session;
mod state;
mod view;

pub use server::{Served, serve};
