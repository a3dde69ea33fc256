//! A cluster inside the process of a test.
//!
//! [`Sandbox`] is the orchestrator with its store and whatever nodes the test starts there; they call each other directly or, where
//! the test asks for it, through a session of two node servers over a socket. The stages of a node are [`FakeStage`]s, which follow a
//! [`Script`] and count what is asked of them. A test builds what it needs and no more:
//!
//! ```ignore
//! let stage = FakeStage::new("ocr", Script::Succeed).shared();
//! let sandbox = Sandbox::builder().job(job_through(&[stage.clone()], 2)).start().await;
//! sandbox.node(NodePlan::new(vec![stage.clone()])).await;
//! sandbox.ends(JobStatus::Completed).await;
//! assert_eq!(stage.runs(), 2);
//! ```
//!
//! A node that takes its work from a source needs no orchestrator: [`NodePlan::start`] takes any control plane. Everything here
//! panics where it fails, as tests do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code fails by panicking")]

mod cluster;
mod latch;
mod node;
mod session;
mod stage;

pub use cluster::{Sandbox, SandboxBuilder};
pub use latch::Latch;
pub use node::{FAST_HEALTH, NodePlan};
pub use session::Session;
pub use stage::{FakeStage, Run, Script, job_through};
