use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Silence after which the kernel probes a connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
/// Time between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Unanswered probes after which the connection has failed.
const KEEPALIVE_PROBES: u32 = 3;

/// Tunes a socket so that small messages leave at once, and a peer that is gone without closing the connection is noticed: the
/// kernel's own limit for data that nobody acknowledges is a quarter of an hour.
pub(super) fn tune(stream: &TcpStream, unacknowledged: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_PROBES),
    )?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(unacknowledged))?;
    Ok(())
}
