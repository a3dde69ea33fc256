//! Faults of a node.

/// Reason for which a stage cannot work on a node now, whichever volume it is given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The device or the threads do not compute. Another thread may, or only another process.
    #[error("{0}")]
    Device(String),
    /// The node's own disk takes nothing, such as a manifest. No restart of a part of the process changes that.
    #[error("{0}")]
    Disk(String),
}
