//! The HTTP interface of an orchestrator: the commands of the table under `/api/v1`, for those who have a token.

mod answer;
mod body;
mod desk;
mod events;
mod files;
mod openapi;
mod router;
mod server;
mod session;
mod view;

pub use server::{Served, serve};
