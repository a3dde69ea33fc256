//! Policies: the decisions of the system, as pure functions.
//!
//! Which status may follow which, when to try again, in which order to start, where to place, whom to blame for a dead node,
//! how many workers to run: each of these is a function of its arguments, and time and chance are among them. There is no
//! clock, no I/O and no waiting here. That is what lets the rules be tested by properties, over thousands of random histories,
//! and lets the stores, the orchestrator, the sources of work and the simulation share them: the two stores cannot differ in a
//! transition, and the simulation schedules as the cluster does.
//!
//! A policy returns a value that says what is to be done, such as an `Event` or a `Remedy`, and never does it. Callers read the
//! facts, ask, and carry the answer out under their own locks. So a policy may be asked again with newer facts at no cost, and
//! its answer can be shown to an operator instead of being carried out, as `diagnosis` and `forecast` do.

pub mod alarm;
pub mod autoscale;
pub mod batch_size;
pub mod breaker;
pub mod budget;
pub mod claim;
pub mod correction;
pub mod diagnosis;
pub mod entity;
pub mod forecast;
pub mod job_action;
pub mod model_choice;
pub mod order;
pub mod percentile;
pub mod placement;
pub mod poison;
pub mod pool_health;
pub mod request;
pub mod rerun;
pub mod retry;
pub mod service;
pub mod slow_nodes;
pub mod spending;
pub mod task_state;
pub mod transition;
