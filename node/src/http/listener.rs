//! Listener that accepts connections within limits, and serves each in a task of its own.

use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::HeaderMap;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::admission::{Admission, Admitted, Number, Shares};
use super::connection::{HEAD, converse};
use super::secure::Certificate;

/// Pause after a failure to accept, such as too many open files, which would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Function that returns the name of the caller that a request's head authenticates; `None` if it authenticates nobody.
pub type Recognise = Arc<dyn Fn(&HeaderMap) -> Option<String> + Send + Sync>;

/// Routes of a listener, with its limits on connections.
#[derive(Clone)]
pub struct Site {
    pub router: Router,
    pub shares: Shares,
    pub recognise: Recognise,
    /// Certificate for TLS; if set, plain HTTP is not accepted.
    pub tls: Option<Certificate>,
}

impl fmt::Debug for Site {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Site")
            .field("shares", &self.shares)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

/// HTTP/1.1 listener on an address, which stops when it is dropped.
#[derive(Debug)]
pub struct HttpListener {
    address: SocketAddr,
    secure: bool,
    _stop: DropGuard,
}

impl HttpListener {
    /// Starts listening. `key` is the key of the address in the configuration, for messages.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound.
    pub async fn serve(address: SocketAddr, key: &str, site: Site) -> Result<Self> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| {
            // No other port is taken instead: whoever has this one, maybe another user, would be shown tokens that are meant for us.
            let advice = match error.kind() {
                ErrorKind::AddrInUse => {
                    ": another process has the port; set another one, or 0 for any that is free"
                }
                _ => "",
            };
            anyhow::Error::new(error).context(format!("cannot listen on {address} ({key}){advice}"))
        });
        Self::on(listener?, site)
    }

    fn on(listener: TcpListener, site: Site) -> Result<Self> {
        let address = listener.local_addr()?;
        let secure = site.tls.is_some();
        let stop = CancellationToken::new();
        let guests = Guests::new(site.shares, stop.clone());
        // Dropping the listener cancels this task and, through child tokens, every connection.
        tokio::spawn(
            stop.clone()
                .run_until_cancelled_owned(accept(listener, site, guests)),
        );
        Ok(Self {
            address,
            secure,
            _stop: stop.drop_guard(),
        })
    }

    /// Returns the address, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for a browser.
    pub fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
}

async fn accept(listener: TcpListener, site: Site, guests: Guests) {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // The stream is dropped without an answer: writing one could block on the very client that floods.
        let Some(guest) = guests.arrive(from.ip()) else {
            debug!(%from, "too many HTTP connections; closing this one");
            continue;
        };
        let site = site.clone();
        tokio::spawn(async move {
            let stop = guest.stop.clone();
            match stop.run_until_cancelled(serve(stream, site, &guest)).await {
                // Broken connections are the client's doing and arrive in any number, so they must not fill
                // the log at a higher level.
                Some(Err(error)) => debug!(error = format!("{error:#}"), %from, "HTTP connection ended"),
                None => debug!(%from, "HTTP connection closed"),
                Some(Ok(())) => {}
            }
        });
    }
}

async fn serve(stream: TcpStream, site: Site, guest: &Guest) -> Result<()> {
    let seen = |headers: &HeaderMap| {
        if let Some(caller) = (site.recognise)(headers) {
            // Told before the request is answered, so that a long request is not taken for an unauthenticated
            // one and replaced.
            guest.is_known(&caller);
        }
    };
    match site.tls {
        None => converse(stream, site.router, seen).await,
        Some(tls) => {
            // The handshake runs in the connection's task: in the accepting loop a silent client would block
            // all others.
            let shaken = timeout(HEAD, tls.acceptor().accept(stream)).await;
            converse(shaken.context("no TLS handshake in time")??, site.router, seen).await
        }
    }
}

/// Connections of a listener, with the tokens that close them.
#[derive(Debug, Clone)]
struct Guests {
    room: Arc<Mutex<Room>>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Room {
    admission: Admission,
    stops: HashMap<Number, CancellationToken>,
}

impl Guests {
    fn new(shares: Shares, stop: CancellationToken) -> Self {
        let room = Room {
            admission: Admission::new(shares),
            stops: HashMap::new(),
        };
        Self {
            room: Arc::new(Mutex::new(room)),
            stop,
        }
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        // No code that holds the lock can leave the maps half changed, so a poisoned lock is safe to use.
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrive(&self, address: IpAddr) -> Option<Guest> {
        let mut room = self.room();
        let number = match room.admission.arrive(address) {
            Admitted::Yes { number } => number,
            Admitted::InPlaceOf { number, closed } => {
                // A connection leaves the admission and this map under one lock, so one that can be closed is
                // always here.
                if let Some(stop) = room.stops.remove(&closed) {
                    stop.cancel();
                }
                number
            }
            Admitted::No => return None,
        };
        let stop = self.stop.child_token();
        room.stops.insert(number, stop.clone());
        Some(Guest {
            number,
            stop,
            guests: self.clone(),
        })
    }
}

/// Admission of a connection, which ends when this is dropped.
#[derive(Debug)]
struct Guest {
    number: Number,
    stop: CancellationToken,
    guests: Guests,
}

impl Guest {
    fn is_known(&self, caller: &str) {
        self.guests.room().admission.recognise(self.number, caller);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // For a connection that was replaced both are gone already, and removing them again has no effect.
        let mut room = self.guests.room();
        room.admission.leave(self.number);
        room.stops.remove(&self.number);
    }
}
