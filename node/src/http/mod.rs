//! HTTP server of a node: listeners with limits, and the routes for health, readiness and metrics.
//!
//! Health is separate from the HTTP interface for commands, on its own port: it must answer while an orchestrator or its database
//! is in trouble, a service manager and Prometheus have no token, and it may therefore show nothing secret and accept no command. By
//! default only this machine can reach it. The listener here serves both ports, because admission and deadlines are the same problem
//! for both; it must not know what its routes answer.

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
pub use secure::Certificate;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use anyhow::Result;

use self::health::router;
use self::recorder::Recorder;

/// Limits for a port that answers in milliseconds and treats all clients alike.
const SHARES: Shares = Shares {
    all: 64,
    per_address: 32,
    unauthenticated: 64,
    // Nobody presents a token on this port, so no connection is ever counted for a caller.
    per_caller: 0,
};

/// Server of health, readiness and metrics, for a service manager and Prometheus.
#[derive(Debug)]
pub struct HealthServer {
    listener: Option<HttpListener>,
    probe: Arc<OnceLock<Arc<dyn Probe>>>,
}

impl HealthServer {
    /// Starts the server; until [`HealthServer::probe`] is called the node is alive and not ready. Without an address nothing is served and no
    /// metrics are collected.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound.
    pub async fn open(address: Option<SocketAddr>) -> Result<Self> {
        let mut window = Self::closed();
        if let Some(address) = address {
            let site = Site {
                router: router(Recorder::install()?, window.probe.clone()),
                shares: SHARES,
                // No token and no TLS: service managers and Prometheus have neither, and nothing secret is
                // served.
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

    /// Sets the probe of the node's readiness. Only the first call has an effect.
    pub fn probe(&self, probe: Arc<dyn Probe>) {
        let _ = self.probe.set(probe);
    }

    /// Returns the address, with the port that the system chose for port 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(HttpListener::address)
    }
}
