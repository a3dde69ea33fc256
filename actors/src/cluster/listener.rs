use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::connection::Connector;

/// Pause after the kernel could not give out a connection, mostly for want of file descriptors: trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `leaving`. Each handshake runs in a task of its own, so that a silent peer holds up nobody;
/// connections beyond `max_unauthenticated` that are not authenticated yet are closed at once, as anybody can open them.
pub(super) async fn serve(
    listener: TcpListener,
    connector: Connector,
    max_unauthenticated: usize,
    tasks: TaskTracker,
    leaving: CancellationToken,
) {
    let unauthenticated = Arc::new(Semaphore::new(max_unauthenticated));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = leaving.cancelled() => return,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = unauthenticated.clone().try_acquire_owned() else {
            debug!(%from, "too many connections that are not authenticated; closing this one");
            continue;
        };
        let (connector, leaving) = (connector.clone(), leaving.clone());
        tasks.spawn(async move {
            let session = tokio::select! {
                session = connector.accept(stream, from) => session,
                () = leaving.cancelled() => return,
            };
            // Authenticated or gone: either way it counts no longer.
            drop(permit);
            match session {
                Ok(mut session) => {
                    // The name of the node is logged by the endpoints, once it introduces itself.
                    debug!(%from, "node connected");
                    tokio::select! {
                        () = session.closed() => debug!(%from, "node disconnected"),
                        () = leaving.cancelled() => {}
                    }
                }
                Err(error) => warn!(%from, error = &error as &dyn std::error::Error, "connection refused"),
            }
        });
    }
}
