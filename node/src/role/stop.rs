use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The orders to stop that a process gets. The first asks for order, the second for haste.
#[derive(Debug)]
pub struct StopOrders {
    interrupt: Signal,
    terminate: Signal,
}

impl StopOrders {
    pub fn listen() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
