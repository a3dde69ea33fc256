//! What the process says about itself: the progress board that a person or a console looks at, and the events that emit
//! the log line and the counter together.

mod progress;

pub use progress::{PageOutcome, ProgressBoard, StageProgress, StageState};
