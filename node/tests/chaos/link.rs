use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Where a link leads.
#[derive(Clone)]
pub(crate) enum Upstream {
    /// A process that may come back under another address.
    Process(watch::Receiver<Option<SocketAddr>>),
    Socket(PathBuf),
}

/// A network cable: connections to its address go on to where it leads, until it goes dark. Then nothing is forwarded and
/// nothing is closed, as when a switch dies between two machines.
pub(crate) struct Link {
    address: SocketAddr,
    lit: watch::Sender<bool>,
    accepting: AbortHandle,
}

impl Link {
    pub(crate) async fn to(upstream: Upstream) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let lit = watch::Sender::new(true);
        let accepting = tokio::spawn(accept(listener, upstream, lit.subscribe())).abort_handle();
        Self {
            address,
            lit,
            accepting,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn darken(&self) {
        self.lit.send_replace(false);
    }

    pub(crate) fn restore(&self) {
        self.lit.send_replace(true);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, upstream: Upstream, lit: watch::Receiver<bool>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            return;
        };
        tokio::spawn(connect(client, upstream.clone(), lit.clone()));
    }
}

async fn connect(mut client: TcpStream, upstream: Upstream, mut lit: watch::Receiver<bool>) {
    if lit.wait_for(|lit| *lit).await.is_err() {
        return;
    }
    // Nobody there closes the client, as a host without a listener does.
    match upstream {
        Upstream::Process(address) => {
            let address = *address.borrow();
            if let Some(address) = address
                && let Ok(mut server) = TcpStream::connect(address).await
            {
                let (server_read, server_write) = server.split();
                let (client_read, client_write) = client.split();
                join(client_read, client_write, server_read, server_write, lit).await;
            }
        }
        Upstream::Socket(path) => {
            if let Ok(mut server) = UnixStream::connect(path).await {
                let (server_read, server_write) = server.split();
                let (client_read, client_write) = client.split();
                join(client_read, client_write, server_read, server_write, lit).await;
            }
        }
    }
}

async fn join(
    client_read: impl AsyncRead + Unpin,
    client_write: impl AsyncWrite + Unpin,
    server_read: impl AsyncRead + Unpin,
    server_write: impl AsyncWrite + Unpin,
    lit: watch::Receiver<bool>,
) {
    tokio::join!(
        forward(client_read, server_write, lit.clone()),
        forward(server_read, client_write, lit)
    );
}

async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut lit: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        if lit.wait_for(|lit| *lit).await.is_err() {
            return;
        }
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            // The other side has gone already, or learns now that this one has.
            let _ = to.shutdown().await;
            return;
        }
    }
}
