//! Signals that stop a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal as PosixSignal;
use nix::unistd::getppid;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that stop a process: the first asks it to leave in order, the second to stop at once.
#[derive(Debug)]
pub struct ShutdownSignals {
    interrupt: Signal,
    terminate: Signal,
    /// True if an interrupt belongs to the command line of the terminal at the moment.
    attended: Arc<AtomicBool>,
}

impl ShutdownSignals {
    pub fn listen() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            attended: Arc::default(),
        })
    }

    /// Returns the switch: while it is true, an interrupt (Ctrl-C) belongs to the command line and is ignored here.
    pub fn attended(&self) -> Arc<AtomicBool> {
        self.attended.clone()
    }

    pub async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => {
                    // Relaxed suffices: the flag orders no other memory, and a key pressed in the same moment
                    // may go either way.
                    if !self.attended.load(Ordering::Relaxed) {
                        return;
                    }
                }
                _ = self.terminate.recv() => return,
            }
        }
    }
}

/// Makes the end of the parent process a signal to stop.
///
/// # Errors
///
/// If the parent has ended already.
pub fn when_gone(parent: i32) -> Result<()> {
    // The parent may have ended before the signal was set up, so it is compared afterwards.
    set_pdeathsig(PosixSignal::SIGTERM)?;
    // An orphan has another parent, so a changed number tells that the signal will never come.
    if getppid().as_raw() != parent {
        bail!("the process that started this one is gone");
    }
    Ok(())
}
