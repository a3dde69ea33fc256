//! Pure decisions: what may follow what, when to retry, in which order, where. No clock and no I/O: time and chance are
//! arguments.

pub mod autoscale;
pub mod batch_size;
pub mod budget;
pub mod claim;
pub mod forecast;
pub mod job_action;
pub mod model_choice;
pub mod order;
pub mod percentile;
pub mod placement;
pub mod poison;
pub mod pool_health;
pub mod rerun;
pub mod retry;
pub mod task_state;
pub mod transition;
pub mod why;
