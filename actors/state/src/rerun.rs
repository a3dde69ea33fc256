//! Results of a rerun, as it was done or as it would be.

use parkhang_core::domain::{Task, TaskId};

/// Number of tasks, of which there may be very many, and the first of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    pub number: u64,
    pub first: Vec<Task>,
}

impl Sample {
    /// Largest number of tasks that a sample holds.
    pub const SIZE: usize = 1_000;
}

impl Extend<Task> for Sample {
    fn extend<T: IntoIterator<Item = Task>>(&mut self, tasks: T) {
        for task in tasks {
            self.number += 1;
            if self.first.len() < Self::SIZE {
                self.first.push(task);
            }
        }
    }
}

/// Tasks that a rerun sent back, and those that it selected in vain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RerunResult {
    /// Tasks that will be done again, in their new state.
    pub tasks: Sample,
    /// Selected tasks that have not come as far as the stage and will run it anyway.
    pub not_reached: Sample,
}

/// Result that a rerun would have with the tasks as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RerunPreview {
    pub result: RerunResult,
    /// Ids of all tasks that would be done again.
    pub reached: Vec<TaskId>,
}
