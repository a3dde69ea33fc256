//! How a node stands to those who watch it: the READY line, the service manager, and the window that answers over HTTP.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::RawFd;
use std::path::PathBuf;

use anyhow::{Context, Result};
use parkhang_actors::cluster::NodeName;
use sd_notify::NotifyState;
use tracing::warn;

use crate::config::Loaded;
use crate::http::Window;

/// A node on its way to be ready, and what shows it.
#[derive(Debug)]
pub struct Standing {
    pub node: NodeName,
    pub window: Window,
    /// Where it takes commands over HTTP.
    pub api: Option<String>,
    ready_fd: Option<RawFd>,
}

impl Standing {
    pub async fn open(loaded: &Loaded, node: NodeName, ready_fd: Option<RawFd>) -> Result<Self> {
        Ok(Self {
            window: Window::open(loaded.config.health.listen).await?,
            api: None,
            node,
            ready_fd,
        })
    }

    /// Of a process that answers nobody itself.
    pub fn unwatched(node: NodeName, ready_fd: Option<RawFd>) -> Self {
        Self {
            node,
            window: Window::closed(),
            api: None,
            ready_fd,
        }
    }

    /// Tells everybody who waits that the node has begun its work: `details` follow its name.
    pub fn ready(&mut self, details: &str) -> Result<()> {
        let health = self.window.address();
        let health = health.map_or(String::new(), |address| format!(" health={address}"));
        let api = self
            .api
            .as_ref()
            .map_or(String::new(), |url| format!(" api={url}"));
        let line = format!("READY {}{health}{api} {details}", self.node);
        println!("{line}");
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

/// Without a service manager nobody is told.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "cannot tell the service manager");
    }
}

/// Whoever waits at the other end sees the line and then the end.
fn write_and_close(fd: RawFd, line: &str) -> Result<()> {
    let path = PathBuf::from(format!("/proc/self/fd/{fd}"));
    let mut file = OpenOptions::new()
        .write(true)
        .open(&path)
        .context("is not open for writing")?;
    writeln!(file, "{line}")?;
    nix::unistd::close(fd)?;
    Ok(())
}
