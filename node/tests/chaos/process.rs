use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parkhang_test_support::Wait;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use crate::cluster::LOOK;
use crate::journal::{Journal, Line};

/// Longest that a process may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A node at work; killed when dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    pid: Pid,
    /// What follows READY.
    ready: String,
    journal: Journal,
}

impl Process {
    /// Returns when the process says that it is ready.
    pub(crate) async fn start(name: &str, command: std::process::Command, journal: &Journal) -> Self {
        let mut command = Command::from(command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let begin = journal.end();
        let mut child = command.spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
        record(name, child.stdout.take().unwrap(), journal);
        record(name, child.stderr.take().unwrap(), journal);
        let mut process = Self {
            name: name.to_owned(),
            child,
            pid,
            ready: String::new(),
            journal: journal.clone(),
        };
        process.ready = process.said(begin, "READY ").await;
        process
    }

    /// Waits for a line, and returns what follows `part` in it.
    pub(crate) async fn said(&mut self, start: usize, part: &str) -> String {
        let what = format!("{} says {part:?}", self.name);
        let wait = Wait::until(&what).at_most(PATIENCE).looking_every(LOOK);
        let mut looks_after_end = 0;
        let look = async || {
            looks_after_end += usize::from(self.has_ended());
            (looks_after_end, self.journal.find_of(&self.name, start, part))
        };
        // Its last lines may still be on their way when it has ended.
        let is_over = |(looks, line): &(usize, Option<Line>)| line.is_some() || *looks > 4;
        match wait.try_sees(look, is_over).await {
            Ok((_, Some(line))) => line.text.split_once(part).unwrap().1.to_owned(),
            Ok((_, None)) => panic!("{} ended and never said {part:?}\n{}", self.name, self.journal),
            Err(error) => panic!("{error}\n{}", self.journal),
        }
    }

    /// The name under which the cluster knows it.
    pub(crate) fn node(&self) -> &str {
        self.ready.split(' ').next().unwrap()
    }

    /// The address at the end of an orchestrator's READY.
    pub(crate) fn listens(&self) -> std::net::SocketAddr {
        self.ready.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid, signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// SIGKILL, and the end.
    pub(crate) async fn kill(mut self) {
        // It may have ended by itself.
        let _ = self.child.start_kill();
        self.end().await;
    }

    pub(crate) async fn end(&mut self) -> ExitStatus {
        match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => status.unwrap(),
            Err(_) => panic!("{} does not end\n{}", self.name, self.journal),
        }
    }
}

fn record(process: &str, output: impl AsyncRead + Unpin + Send + 'static, journal: &Journal) {
    let (process, journal) = (process.to_owned(), journal.clone());
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            journal.push(&process, line);
        }
    });
}
