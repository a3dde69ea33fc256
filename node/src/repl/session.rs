//! Running of a command, with waits and retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use parkhang_actors::cluster::DeskError;
use parkhang_actors::wire::{CommandOutcome, Fault, OpenError};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::line::Line;
use super::order::Given;
use crate::admin::Access;

/// Interval of polls while a command waits.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Session of an operator: a connection and the place for notices.
#[derive(Debug, Clone)]
pub struct Session {
    pub line: Line,
    patience: Duration,
    pub notices: Notices,
}

/// Answer of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub text: String,
    /// True if the subject of the command has failed.
    pub failed: bool,
}

impl Session {
    pub fn new(line: Line, patience: Duration) -> Self {
        Self {
            line,
            patience,
            notices: Notices::default(),
        }
    }

    /// Runs a command on any connected orchestrator.
    ///
    /// # Errors
    ///
    /// With a message for the operator.
    pub async fn give(&self, given: &Given) -> Result<Shown, String> {
        loop {
            let (data, text, failed) = match self.outcome(given).await? {
                CommandOutcome::Done { data, text, failed } => (data, text, failed),
                CommandOutcome::Refused { message, .. } => return Err(message),
            };
            if given.wait && data["finished_at"] == Value::Null {
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            }
            let text = match given.json {
                true => format!("{data:#}"),
                false => text,
            };
            return Ok(Shown { text, failed });
        }
    }

    /// Sends a command once an orchestrator is connected. If the answer was lost, a command that only reads is sent again.
    async fn outcome(&self, given: &Given) -> Result<CommandOutcome, String> {
        let deadline = Instant::now() + self.patience;
        let name = given.entry.name;
        loop {
            let error = match self.line.ask(name, &given.arguments).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error,
            };
            match error {
                DeskError::Unanswered { node } if given.entry.access > Access::Read => {
                    return Err(format!(
                        "{node} did not answer, and whether the command was carried out is not known: look before you give it again"
                    ));
                }
                DeskError::Unanswered { node } if Instant::now() < deadline => {
                    self.notices.tell(format!("{node} did not answer; asking again"));
                }
                DeskError::OutOfTouch => self.back_in_touch(deadline).await?,
                DeskError::Misunderstood {
                    error: OpenError::Unreadable(Fault::TooLarge { .. }),
                    ..
                } => {
                    return Err(
                        "the command is too long to be sent: give it on the command line, as node job create"
                            .to_owned(),
                    );
                }
                error => return Err(error.to_string()),
            }
        }
    }

    async fn back_in_touch(&self, deadline: Instant) -> Result<(), String> {
        let mut known = self.line.in_touch();
        if known.desks.is_empty() {
            self.notices
                .tell("no orchestrator is in touch; waiting for one".to_owned());
        }
        while known.desks.is_empty() {
            let changed = timeout_at(deadline, self.line.changed_from(&known)).await;
            known = changed.map_err(|_| DeskError::OutOfTouch.to_string())?;
        }
        Ok(())
    }
}

/// Output for notices: above the line being edited, or to standard error.
#[derive(Debug, Clone, Default)]
pub struct Notices(Option<Desk>);

#[derive(Debug, Clone)]
struct Desk {
    writing: Arc<AtomicBool>,
    above: SyncSender<String>,
}

impl Notices {
    /// Returns the output for a terminal whose user may be `writing` a line.
    pub fn above(writing: Arc<AtomicBool>, above: SyncSender<String>) -> Self {
        Self(Some(Desk { writing, above }))
    }

    pub fn tell(&self, news: String) {
        match &self.0 {
            // The buffer is bounded: a notice that does not fit is dropped.
            Some(desk) if desk.writing.load(Ordering::Relaxed) => drop(desk.above.try_send(news)),
            _ => eprintln!("{news}"),
        }
    }
}
