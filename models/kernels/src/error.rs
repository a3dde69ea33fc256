//! Errors of inference.

/// Reason why a network could not answer. The caller decides whether to retry with a smaller batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferenceError {
    #[error("input of {actual} values does not fit the shape {expected}")]
    Shape { expected: String, actual: usize },
    #[error("device out of memory: {0}")]
    OutOfMemory(String),
    #[error("network failed: {0}")]
    Failed(String),
    /// Failure also on an input that the device is known to answer: it says nothing of the input that was asked.
    #[error("the device does not compute: {0}")]
    Device(String),
    #[error("the segmentation network tells lines from the rest of a page, but no classes of a layout")]
    NoLayout,
}
