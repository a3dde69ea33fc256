//! Reports of a node's readiness: the READY line, the service manager, and the health server.

use std::fs::OpenOptions;
use std::io::{Write, stdout};
use std::os::fd::RawFd;
use std::path::PathBuf;

use anyhow::{Context, Result};
use parkhang_actors::cluster::NodeName;
use sd_notify::NotifyState;
use tracing::warn;

use crate::config::Loaded;
use crate::http::HealthServer;

/// Channels through which a node reports that it is ready.
#[derive(Debug)]
pub struct ReadinessReporter {
    pub node: NodeName,
    pub window: HealthServer,
    /// URL of its HTTP interface.
    pub api: Option<String>,
    ready_fd: Option<RawFd>,
}

impl ReadinessReporter {
    pub async fn open(loaded: &Loaded, node: NodeName, ready_fd: Option<RawFd>) -> Result<Self> {
        Ok(Self {
            window: HealthServer::open(loaded.config.health.listen).await?,
            api: None,
            node,
            ready_fd,
        })
    }

    /// Returns the channels of a process without a health server.
    pub fn unwatched(node: NodeName, ready_fd: Option<RawFd>) -> Self {
        Self {
            node,
            window: HealthServer::closed(),
            api: None,
            ready_fd,
        }
    }

    /// Reports that the node is ready; `details` follow its name in the READY line.
    ///
    /// # Errors
    ///
    /// If the file descriptor of `--ready-fd` cannot be written.
    pub fn ready(&mut self, details: &str) -> Result<()> {
        let health = self
            .window
            .address()
            .map_or(String::new(), |address| format!(" health={address}"));
        let api = self
            .api
            .as_ref()
            .map_or(String::new(), |url| format!(" api={url}"));
        let line = format!("READY {}{health}{api} {details}", self.node);
        announce(&mut stdout(), &line);
        // Taken, since the descriptor is closed below and its number may belong to another file afterwards.
        if let Some(fd) = self.ready_fd.take() {
            write_and_close(fd, &line).with_context(|| format!("--ready-fd {fd}"))?;
        }
        notify(&[NotifyState::Ready, NotifyState::Status(details)]);
        Ok(())
    }

    pub fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }
}

/// Prints a line for whoever reads the output.
fn announce(output: &mut impl Write, line: &str) {
    // Not by `println!`, which panics where the reader has gone.
    if let Err(error) = writeln!(output, "{line}").and_then(|()| output.flush()) {
        // A node that works must not end because nobody hears of it.
        warn!(%error, "cannot print that the node is ready");
    }
}

/// Notifies the service manager, if there is one.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        // A node that works must not end because nobody hears of it.
        warn!(%error, "cannot notify the service manager");
    }
}

/// Writes a line to a descriptor and closes it, so that a reader that waits for the end does not wait for that of the process.
fn write_and_close(fd: RawFd, line: &str) -> Result<()> {
    // Opened through /proc, as making a file of a bare number needs unsafe code, which this workspace
    // forbids.
    let path = PathBuf::from(format!("/proc/self/fd/{fd}"));
    let mut file = OpenOptions::new()
        .write(true)
        .open(&path)
        .context("is not open for writing")?;
    writeln!(file, "{line}")?;
    nix::unistd::close(fd)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_does_not_end_the_node() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        announce(&mut writer, "READY orch.1");
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        announce(&mut writer, "READY orch.1");
        drop(writer);
        assert_eq!(std::io::read_to_string(&mut reader).unwrap(), "READY orch.1\n");
    }
}
