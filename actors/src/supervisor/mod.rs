//! The node's side of the work: a supervisor that keeps one pool per stage alive, and the pools that run stages. It
//! knows nothing of placement or of the database; it runs what it is assigned and reports until it is heard.

mod control_plane;
mod desk;
mod health;
mod node;
mod occupancy;
mod pool;
mod progress_watch;
mod restarts;
mod stage_worker;

pub use control_plane::ControlPlane;
pub use desk::{NodeDesk, OrderBook};
pub use health::HealthPolicy;
pub use node::{NodeConfig, NodeSupervisor, OutOfOrder, StagesOutOfOrder};
pub use pool::PoolHandle;
