//! The node's side of the work: a supervisor that keeps one pool per stage alive, and the pools that run stages.
//!
//! The room knows nothing of placement or of the database: a pool runs the assignments that it is given and repeats its reports
//! until they are recorded, and whether the [`ControlPlane`] behind it is in this process, on another node or a source of work
//! makes no difference. The tree has three levels. The supervisor (`node`) starts a pool for each stage that fits the hardware and
//! replaces one that dies; too many restarts end the node, so that its service manager sees it. A pool (`pool`) owns a fixed
//! number of slots and queues nothing, because a queue would hold leases that no slot works on while another node is free. A
//! worker (`stage_worker`) is an actor for one lease, so that a panic is an event and a kill takes effect at the next await.
//!
//! A fault has to be blamed on the right one: a volume that makes every device hang looks like a device that hangs with every
//! volume. So a pool without progress is replaced first and tested with input whose answer is known, and its volumes wait for the
//! judgement (`node/repair`, with the decisions in `policy::pool_health`). Leases of volumes that are not to blame are released
//! without counting a try.

mod control;
mod control_plane;
mod health;
mod lease_gauge;
mod node;
mod pool;
mod progress_watch;
mod restarts;
mod stage_worker;

pub use control::{IdempotentExecutor, NodeControl};
pub use control_plane::ControlPlane;
pub(crate) use control_plane::progress_of;
pub use health::HealthPolicy;
pub use node::{NodeConfig, NodeSupervisor, OutOfOrder, StagesOutOfOrder};
pub use pool::PoolHandle;
