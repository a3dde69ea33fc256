use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal as PosixSignal;
use nix::unistd::getppid;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The orders to stop that a process gets. The first asks for order, the second for haste.
#[derive(Debug)]
pub struct StopOrders {
    interrupt: Signal,
    terminate: Signal,
    /// Whether an interrupt is somebody else's at the moment.
    attended: Arc<AtomicBool>,
}

impl StopOrders {
    pub fn listen() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            attended: Arc::default(),
        })
    }

    /// While this is true, an interrupt (Ctrl-C) is for whoever sits at the terminal.
    pub fn attended(&self) -> Arc<AtomicBool> {
        self.attended.clone()
    }

    pub async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => {
                    if !self.attended.load(Ordering::Relaxed) {
                        return;
                    }
                }
                _ = self.terminate.recv() => return,
            }
        }
    }
}

/// From now on the end of the parent process is an order to stop.
pub fn when_gone(parent: i32) -> Result<()> {
    set_pdeathsig(PosixSignal::SIGTERM)?;
    if getppid().as_raw() != parent {
        bail!("the process that started this one is gone");
    }
    Ok(())
}
