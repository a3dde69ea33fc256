use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use parkhang_test_support::Wait;

use crate::cluster::LOOK;
use crate::journal::{Journal, Line};
use crate::process::{Process, Ready};

/// Longest that a process may take to start or to end.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A node at work whose words go into the journal; killed when dropped.
pub(crate) struct Recorded {
    name: String,
    process: Process,
    ready: Ready,
    journal: Journal,
}

impl Recorded {
    /// Returns when the process says that it is ready.
    pub(crate) async fn start(name: &str, command: Command, journal: &Journal) -> Self {
        let recorded = Self::start_armed(name, command, journal).await;
        assert!(recorded.is_ready(), "{name} ended and never was ready\n{journal}");
        recorded
    }

    /// The same for a process that may die before it is ready.
    pub(crate) async fn start_armed(name: &str, mut command: Command, journal: &Journal) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let begin = journal.end();
        let mut process = Process::spawn(command);
        record(name, process.stdout(), journal);
        record(name, process.stderr(), journal);
        let mut recorded = Self {
            name: name.to_owned(),
            process,
            ready: Ready(String::new()),
            journal: journal.clone(),
        };
        if let Some(ready) = recorded.said_or_ended(begin, "READY ").await {
            recorded.ready = Ready(ready);
        }
        recorded
    }

    /// True if it has said that it is ready.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.0.is_empty()
    }

    /// Waits for a line, and returns what follows `part` in it.
    pub(crate) async fn said(&mut self, start: usize, part: &str) -> String {
        match self.said_or_ended(start, part).await {
            Some(said) => said,
            None => panic!("{} ended and never said {part:?}\n{}", self.name, self.journal),
        }
    }

    /// The same; `None` if it ends without it.
    async fn said_or_ended(&mut self, start: usize, part: &str) -> Option<String> {
        let what = format!("{} says {part:?}", self.name);
        let wait = Wait::until(&what).at_most(TIMEOUT).looking_every(LOOK);
        let mut looks_after_end = 0;
        let look = async || {
            looks_after_end += usize::from(self.has_ended());
            (looks_after_end, self.journal.find_of(&self.name, start, part))
        };
        // Its last lines may still be on their way when it has ended.
        let is_over = |(looks, line): &(usize, Option<Line>)| line.is_some() || *looks > 4;
        match wait.try_sees(look, is_over).await {
            Ok((_, line)) => line.map(|line| line.text.split_once(part).unwrap().1.to_owned()),
            Err(error) => panic!("{error}\n{}", self.journal),
        }
    }

    /// The name under which the cluster knows it.
    pub(crate) fn node(&self) -> &str {
        self.ready.name()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The address at the end of an orchestrator's READY.
    pub(crate) fn listens(&self) -> std::net::SocketAddr {
        self.ready.address().parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.0.try_wait().unwrap().is_some()
    }

    /// SIGKILL, and the end.
    pub(crate) fn kill(self) {
        self.process.kill();
    }

    /// SIGTERM, and an end in order.
    pub(crate) async fn leave(&mut self) {
        self.signal(Signal::SIGTERM);
        let status = self.end().await;
        assert!(
            status.success(),
            "{} left with {status}\n{}",
            self.node(),
            self.journal
        );
    }

    pub(crate) async fn end(&mut self) -> ExitStatus {
        let what = format!("{} ends", self.name);
        let wait = Wait::until(&what).at_most(TIMEOUT).looking_every(LOOK);
        match wait
            .try_sees(async || self.process.0.try_wait().unwrap(), Option::is_some)
            .await
        {
            Ok(status) => status.unwrap(),
            Err(error) => panic!("{error}\n{}", self.journal),
        }
    }
}

fn record(process: &str, output: impl Read + Send + 'static, journal: &Journal) {
    let (process, journal) = (process.to_owned(), journal.clone());
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            journal.push(&process, line);
        }
    });
}
