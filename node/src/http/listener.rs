use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower_service::Service;
use tracing::{debug, warn};

/// Connections at once; more wait in the queue of the kernel.
const MAX_CONNECTIONS: usize = 64;
/// For the head of a request; also how long a connection may lie idle between two of them.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// After a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers HTTP/1.1 on an address until it is dropped.
#[derive(Debug)]
pub struct HttpListener {
    address: SocketAddr,
    secure: bool,
    _stop: DropGuard,
}

impl HttpListener {
    /// `key` is where the configuration names the address.
    pub async fn serve(address: SocketAddr, key: &str, router: Router) -> Result<Self> {
        let listener = TcpListener::bind(address).await;
        Self::on(
            listener.with_context(|| format!("cannot listen on {address} ({key})"))?,
            router,
            None,
        )
    }

    /// As [`Self::serve`]; where another process has the port, on a free one. With `tls` nothing else is understood.
    pub async fn serve_nearby(
        address: SocketAddr,
        key: &str,
        router: Router,
        tls: Option<TlsAcceptor>,
    ) -> Result<Self> {
        let listener = match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                TcpListener::bind(SocketAddr::new(address.ip(), 0)).await
            }
            listener => listener,
        };
        Self::on(
            listener.with_context(|| format!("cannot listen on {address} ({key})"))?,
            router,
            tls,
        )
    }

    fn on(listener: TcpListener, router: Router, tls: Option<TlsAcceptor>) -> Result<Self> {
        let address = listener.local_addr()?;
        let secure = tls.is_some();
        let stop = CancellationToken::new();
        tokio::spawn(
            stop.clone()
                .run_until_cancelled_owned(accept(listener, router, tls, stop.clone())),
        );
        Ok(Self {
            address,
            secure,
            _stop: stop.drop_guard(),
        })
    }

    /// With the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// As a browser is told.
    pub fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
}

async fn accept(listener: TcpListener, router: Router, tls: Option<TlsAcceptor>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (router, tls) = (router.clone(), tls.clone());
        let connection = async move {
            match tls {
                None => converse(stream, router).await,
                Some(tls) => {
                    let shaken = tokio::time::timeout(HEAD_LIMIT, tls.accept(stream));
                    converse(shaken.await.context("no TLS handshake in time")??, router).await
                }
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            if let Err(error) = connection.await {
                debug!(%error, %from, "HTTP connection ended");
            }
            drop(place);
        }));
    }
}

async fn converse<S>(stream: S, router: Router) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| router.clone().call(request.map(Body::new)));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), service)
        .await?;
    Ok(())
}
