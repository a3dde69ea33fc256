//! Commands that somebody gives, and what becomes of them: the way to an orchestrator, in this process or over HTTP, what to do when an
//! answer is lost, and waiting for the end of what was begun. Both the command line and `node repl` give their commands here.

mod line;
mod remote;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use crate::admin::{Access, Entry, Reply};
use crate::terminal::{shown, shown_json};

pub use self::line::Line;
pub use self::remote::{AskError, Remote};

/// Between two looks for an orchestrator.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Longest wait for an orchestrator to be in touch, where nobody says another.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The orchestrators that are known at one time, by their nodes' names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InTouch {
    pub leader: Option<String>,
    /// The one that commands are given to.
    pub asked: Option<String>,
}

/// A command of the table.
#[derive(Debug)]
pub struct Given {
    pub entry: &'static Entry,
    pub arguments: Map<String, Value>,
    /// Show the answer as JSON.
    pub json: bool,
    /// Ask until what the command is about has ended.
    pub wait: bool,
}

/// Somebody who gives commands, and is told what becomes of them.
#[derive(Debug, Clone)]
pub struct Session {
    pub line: Line,
    timeout: Duration,
    pub notices: Notices,
}

/// Answer of a command, as a terminal shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub text: String,
    /// True where what was asked about has failed.
    pub failed: bool,
}

impl Shown {
    pub fn of(reply: Reply, json: bool) -> Self {
        let text = if json {
            shown_json(&format!("{:#}", reply.data)).into_owned()
        } else {
            shown(&reply.text).into_owned()
        };
        Self {
            text,
            failed: reply.failed,
        }
    }
}

impl Session {
    pub fn new(line: Line, timeout: Duration) -> Self {
        Self {
            line,
            timeout,
            notices: Notices::default(),
        }
    }

    /// Has a command carried out, by whichever orchestrator is in touch.
    ///
    /// # Errors
    ///
    /// With what an operator is to be told.
    pub async fn give(&self, given: &Given) -> Result<Shown, String> {
        let given = self.given(given).await;
        given.map_err(|reason| shown(&reason).into_owned())
    }

    async fn given(&self, given: &Given) -> Result<Shown, String> {
        let Given { entry, arguments, .. } = given;
        let mut reply = self.reply(entry, arguments).await?;
        if given.wait {
            let ask = async |entry: &'static Entry, arguments: &Map<String, Value>| {
                self.reply(entry, arguments).await
            };
            reply = entry
                .until_over(arguments, reply, ask, |news| self.notices.notify(news))
                .await?;
        }
        Ok(Shown::of(reply, given.json))
    }

    /// Waits for an orchestrator to be in touch. What only asks is asked again where an answer was lost.
    async fn reply(&self, entry: &'static Entry, arguments: &Map<String, Value>) -> Result<Reply, String> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let error = match self.line.ask(entry, arguments).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let error = match error {
                AskError::Refused(message) => return Err(message),
                // Nothing was sent, so even a command that changes something may be given again.
                AskError::Disconnected => {
                    self.back_in_touch(deadline).await?;
                    continue;
                }
                AskError::Call(error) => error,
            };
            // A command whose answer was lost may have been carried out; giving it again could do it twice.
            if !error.is_unsent() && error.may_pass() && entry.access > Access::Read {
                return Err(format!(
                    "{error}; whether the command was carried out is not known: look before you give it again"
                ));
            }
            if !error.may_pass() || Instant::now() >= deadline {
                return Err(error.to_string());
            }
            // A connection that was refused is told by `back_in_touch`; an answer that was lost would
            // otherwise go unnoticed.
            if !error.is_unsent() {
                self.notices.notify(format!("{error}; asking again"));
            }
            self.back_in_touch(deadline).await?;
        }
    }

    async fn back_in_touch(&self, deadline: Instant) -> Result<(), String> {
        let mut is_told = false;
        while self.line.look().await.asked.is_none() {
            if Instant::now() >= deadline {
                return Err(AskError::Disconnected.to_string());
            }
            if !is_told {
                self.notices
                    .notify("no orchestrator is in touch; waiting for one".to_owned());
                // Once for each wait: a line every half second would fill the terminal.
                is_told = true;
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }
}

/// Place for news that nobody asked for: above the line that is being written, or to standard error.
#[derive(Debug, Clone, Default)]
pub struct Notices(Option<Terminal>);

#[derive(Debug, Clone)]
struct Terminal {
    writing: Arc<AtomicBool>,
    above: SyncSender<String>,
}

impl Notices {
    /// News above the line of a terminal at which somebody may be `writing`.
    pub fn above(writing: Arc<AtomicBool>, above: SyncSender<String>) -> Self {
        Self(Some(Terminal { writing, above }))
    }

    pub fn notify(&self, news: String) {
        let news = shown(&news).into_owned();
        match &self.0 {
            // One that finds no room any more is one too many.
            Some(terminal) if terminal.writing.load(Ordering::Relaxed) => {
                drop(terminal.above.try_send(news));
            }
            _ => eprintln!("{news}"),
        }
    }
}
