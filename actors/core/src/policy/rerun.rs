//! Reruns: the selection of tasks by an operator, and those of them that can be done again from a stage.

use glob::Pattern;

use crate::domain::{ErrorCategory, Job, Position, RetryScope, StageError, StageName, Task, VolumeId};
use crate::policy::transition::{self, Event, Phase};

/// Number of letters of a message that make up its cause.
const CAUSE_LETTERS: usize = 500;

/// Selection of tasks of a job: those that meet all conditions given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Names of volumes (`W-I`), where `*` stands for any text and `?` for any letter. An empty list is every volume.
    pub volumes: Vec<Pattern>,
    /// Phases, of which the task must be in one. An empty list is every phase.
    pub phases: Vec<Phase>,
    /// Stage at which the task stands.
    pub stage: Option<StageName>,
    /// Category of the error with which the last try failed.
    pub error: Option<ErrorCategory>,
    /// Cause with which the last try failed.
    pub cause: Option<Cause>,
}

/// Text that failures have in common: their category, a colon and their message, in which `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause(Pattern);

impl Cause {
    pub fn new(text: &str) -> Self {
        // Escaping writes `*` as `[*]`; it alone gets its meaning back, as messages may hold `?` and
        // brackets.
        let pattern = Pattern::escape(text).replace("[*]", "*");
        Self(Pattern::new(&pattern).unwrap_or_default())
    }

    pub fn is_of(&self, error: &StageError) -> bool {
        // Cut like `error_cause` of the database, by which operators are shown causes.
        let message = error.message.chars().take(CAUSE_LETTERS).collect::<String>();
        self.0.matches(&format!("{}: {message}", error.category.as_str()))
    }
}

impl TaskFilter {
    /// True for a task that meets the conditions; `scope` is that of its job.
    pub fn admits(&self, task: &Task, scope: RetryScope) -> bool {
        let category = task.last_error.as_ref().map(|error| error.category);
        let is_in = |phase| self.phases.contains(&phase);
        (self.phases.is_empty() || Phase::of(task, scope).is_ok_and(is_in))
            && self
                .stage
                .as_ref()
                .is_none_or(|stage| matches!(&task.position, Position::At(at) if at == stage))
            && self.error.is_none_or(|wanted| category == Some(wanted))
            && self
                .cause
                .as_ref()
                .is_none_or(|cause| task.last_error.as_ref().is_some_and(|error| cause.is_of(error)))
            && self.admits_volume(&task.volume)
    }

    fn admits_volume(&self, volume: &VolumeId) -> bool {
        if self.volumes.is_empty() {
            return true;
        }
        let name = volume.to_string();
        self.volumes.iter().any(|pattern| pattern.matches(&name))
    }
}

/// Order to do a stage, and everything after it, again for some tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rerun {
    pub tasks: TaskFilter,
    pub from: StageName,
    /// Recompute results that still stand, instead of making only those that are missing or out of date.
    pub force: bool,
}

impl Rerun {
    /// Rerun of those of the tasks that stand at the stage, from there.
    pub fn where_they_stand(stage: StageName, tasks: TaskFilter) -> Self {
        Self {
            tasks: TaskFilter {
                stage: Some(stage.clone()),
                ..tasks
            },
            from: stage,
            force: false,
        }
    }

    pub fn event(&self) -> Event {
        Event::Rerun {
            stage: self.from.clone(),
            force: self.force,
        }
    }

    /// Splits the selected tasks into those that have come as far as the stage and those that have not, which will run it anyway.
    pub fn split<'a>(&self, job: &Job, tasks: impl IntoIterator<Item = &'a Task>) -> Split<'a> {
        let mut split = Split::default();
        let scope = job.config.retry_scope;
        for task in tasks.into_iter().filter(|task| self.tasks.admits(task, scope)) {
            // Any time will do: that of a rerun is written nowhere.
            let now = job.created_at;
            match transition::next(task, &job.pipeline, scope, &self.event(), now) {
                Ok(_) => split.reached.push(task),
                Err(_) => split.not_reached.push(task),
            }
        }
        split
    }
}

/// Selected tasks of a job, split by [`Rerun::split`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Split<'a> {
    pub reached: Vec<&'a Task>,
    pub not_reached: Vec<&'a Task>,
}

#[cfg(test)]
mod tests;
