//! Waiting for the end of what a command has begun. Whoever gave the command asks again and again: an orchestrator answers at once, so that
//! a wait of hours outlives it.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::{Entry, Reply, table};

/// Between two questions.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Before the first word on how far it is,
const FIRST_WORD: Duration = Duration::from_secs(5);
/// and between two.
const NEXT_WORD: Duration = Duration::from_secs(30);

/// The flag with which a command line waits, and the question whose answer says when to stop.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    pub flag: &'static str,
    pub help: &'static str,
    /// The command that is asked.
    pub ask: [&'static str; 2],
    /// Its arguments, from those of the command that waits.
    pub arguments: fn(&Map<String, Value>) -> Map<String, Value>,
    /// Verdict that it is over, by what the command that waits answered and by what the question is answered now.
    pub is_over: fn(&Value, &Value) -> bool,
    /// Lines for somebody who has waited for a while. None is shown twice in a row.
    pub progress: fn(&Value) -> Vec<String>,
    /// True where the last answer to the question is that of the whole command.
    pub answers: bool,
}

impl Entry {
    /// Asks until what the command began is over, and returns what the command answers then; `first` is what it answered itself.
    ///
    /// # Errors
    ///
    /// When a question is not answered.
    pub async fn until_over<E>(
        &self,
        given: &Map<String, Value>,
        first: Reply,
        mut ask: impl AsyncFnMut(&'static Entry, &Map<String, Value>) -> Result<Reply, E>,
        mut report: impl FnMut(String),
    ) -> Result<Reply, E> {
        let question = self.wait.and_then(|wait| Some((wait, table().named(&wait.ask)?)));
        let Some((wait, entry)) = question else {
            return Ok(first);
        };
        let arguments = (wait.arguments)(given);
        let (mut reported, mut next_word) = (Vec::new(), Instant::now() + FIRST_WORD);
        loop {
            let now = ask(entry, &arguments).await?;
            if (wait.is_over)(&first.data, &now.data) {
                if !wait.answers {
                    return Ok(first);
                }
                // To another command than this one, what it is about may be a failure: a job that was cancelled as it should be.
                let failed = if entry.name == self.name {
                    now.failed
                } else {
                    first.failed
                };
                return Ok(Reply { failed, ..now });
            }
            if Instant::now() >= next_word {
                let lines = (wait.progress)(&now.data);
                for line in lines.iter().filter(|line| !reported.contains(*line)) {
                    report(line.clone());
                }
                // Only the last lines are kept, so that one which went away and returned is reported again.
                (reported, next_word) = (lines, Instant::now() + NEXT_WORD);
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}
