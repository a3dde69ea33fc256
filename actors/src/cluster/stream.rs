use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ractor_cluster::{BoxRead, BoxWrite, ClusterBidiStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A connected stream that is to become a session.
pub(super) struct Link<S> {
    pub stream: S,
    /// Silence after which a peer is dead. ractor_cluster sends pings every 1 to 5 s, but does not check that they arrive.
    pub idle: Duration,
    /// Name of this connection, and of no other, in the events of the node server.
    pub label: String,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> ClusterBidiStream for Link<S> {
    fn split(self: Box<Self>) -> (BoxRead, BoxWrite) {
        let (reader, writer) = tokio::io::split(self.stream);
        (Box::new(IdleLimit::new(reader, self.idle)), Box::new(writer))
    }

    fn peer_label(&self) -> Option<String> {
        Some(self.label.clone())
    }
}

/// A reader that fails when nothing arrives for the limit.
struct IdleLimit<R> {
    reader: R,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
}

impl<R> IdleLimit<R> {
    fn new(reader: R, limit: Duration) -> Self {
        Self {
            reader,
            limit,
            deadline: Box::pin(tokio::time::sleep(limit)),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for IdleLimit<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(result) = Pin::new(&mut self.reader).poll_read(cx, buf) {
            let deadline = Instant::now() + self.limit;
            self.deadline.as_mut().reset(deadline);
            return Poll::Ready(result);
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the peer sent nothing for too long",
        )))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(12);

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_an_error_at_the_limit() {
        let (_quiet, end) = tokio::io::duplex(8);
        let started = Instant::now();
        let error = IdleLimit::new(end, LIMIT).read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!((LIMIT..LIMIT * 2).contains(&started.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn every_byte_moves_the_limit() {
        let (mut peer, end) = tokio::io::duplex(8);
        let mut reader = IdleLimit::new(end, LIMIT);
        for byte in 0..5 {
            tokio::time::advance(LIMIT - Duration::from_secs(1)).await;
            peer.write_u8(byte).await.unwrap();
            assert_eq!(reader.read_u8().await.unwrap(), byte);
        }
        let quiet_since = Instant::now();
        assert!(reader.read_u8().await.is_err());
        assert!(quiet_since.elapsed() >= LIMIT);
    }
}
