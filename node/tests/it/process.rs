//! Processes of the program, each killed when dropped, so that a failing test leaves none behind.

use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn spawn(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// What the process says, where its command pipes that; to be taken once.
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.0.stdout.take().unwrap()
    }

    /// As [`Process::stdout`].
    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.0.stderr.take().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.id()).unwrap();
        kill(Pid::from_raw(id), signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }

    /// SIGKILL, and the end.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The line by which a node says that it is ready, without its first word.
pub(crate) struct Ready(pub(crate) String);

impl Ready {
    /// The name under which the cluster knows the node.
    pub(crate) fn name(&self) -> &str {
        self.0.split(' ').next().unwrap()
    }

    /// Where an orchestrator listens.
    pub(crate) fn address(&self) -> &str {
        self.0.rsplit(' ').next().unwrap().trim()
    }

    /// What follows these letters.
    pub(crate) fn said(&self, letters: &str) -> &str {
        let mut words = self.0.split(' ');
        words.find_map(|word| word.strip_prefix(letters)).unwrap()
    }
}

/// Memory of a process, in KiB.
pub(crate) fn memory_of(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
