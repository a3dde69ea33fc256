/// Why a stage cannot work on a node now, whatever it is given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The device or the threads do not compute. Another thread may, or only another process.
    #[error("{0}")]
    Device(String),
    /// What the node writes down for itself finds no place. Nothing that the process does brings that back.
    #[error("{0}")]
    Disk(String),
}
