//! What a node answers over HTTP: whether it lives, whether it can do its part, and its metrics. It shows no secrets and
//! takes no orders, and by default only this machine can ask.

mod admission;
mod connection;
mod health;
mod listener;
mod recorder;
mod secure;

pub use admission::Shares;
pub use connection::Endless;
pub use health::{Probe, Readiness};
pub use listener::{HttpListener, Site};
pub use secure::acceptor;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use anyhow::Result;

use self::health::router;
use self::recorder::Recorder;

/// Of a port that answers in milliseconds, and everybody alike.
const SHARES: Shares = Shares {
    all: 64,
    per_address: 32,
    strangers: 64,
    per_caller: 0,
};

/// The window through which a supervisor and Prometheus look at a node.
#[derive(Debug)]
pub struct Window {
    listener: Option<HttpListener>,
    probe: Arc<OnceLock<Arc<dyn Probe>>>,
}

impl Window {
    /// Answers from now on; until [`Window::probe`] is called the node is alive and not ready. Without an address nothing is
    /// answered and nothing collected.
    pub async fn open(address: Option<SocketAddr>) -> Result<Self> {
        let mut window = Self::closed();
        if let Some(address) = address {
            let site = Site {
                router: router(Recorder::install()?, window.probe.clone()),
                shares: SHARES,
                recognise: Arc::new(|_| None),
                tls: None,
            };
            window.listener = Some(HttpListener::serve(address, "health.listen", site).await?);
        }
        Ok(window)
    }

    pub fn closed() -> Self {
        Self {
            listener: None,
            probe: Arc::new(OnceLock::new()),
        }
    }

    /// Who knows whether the node can do its part. The first one that is named stays.
    pub fn probe(&self, probe: Arc<dyn Probe>) {
        let _ = self.probe.set(probe);
    }

    /// With the port that the system chose for port 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(HttpListener::address)
    }
}
