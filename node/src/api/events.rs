//! Notification of clients that something has changed, by server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::{Stream, stream};
use parkhang_state::PostgresStore;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::answer::Denied;
use super::per_caller::PerCaller;
use super::state::ApiState;
use crate::admin::Access;
use crate::http::Endless;

/// Time between two polls of the database, while any client is connected.
const LOOK: Duration = Duration::from_secs(1);
/// Time without an event after which a comment is sent, since proxies close idle connections.
const ALIVE: Duration = Duration::from_secs(15);

/// Largest number of streams of one caller; each window of the console has one.
const STREAMS: usize = 24;

/// Poller of the database on behalf of all streams, so that their number does not matter to the database.
#[derive(Debug, Clone)]
pub struct Pulse {
    beat: Arc<watch::Sender<u64>>,
    streams: PerCaller,
}

impl Pulse {
    /// Starts polling, which ends when this and all clones of it are dropped.
    pub fn start(store: PostgresStore) -> Self {
        let beat = Arc::new(watch::Sender::new(0));
        // The task holds no strong reference, so it cannot keep the sender alive that it waits to see
        // dropped.
        let weak = Arc::downgrade(&beat);
        tokio::spawn(async move {
            let mut last = None;
            loop {
                tokio::time::sleep(LOOK).await;
                let Some(beat) = weak.upgrade() else { return };
                // Nobody watches most of the time, and the database need not be asked then.
                if beat.receiver_count() == 0 {
                    continue;
                }
                // An unreachable database has changed nothing that a client could read; the commands report
                // the outage.
                let Ok(now) = store.change_mark().await else {
                    continue;
                };
                // `last` is kept while nobody watches, so the first look after a pause notices what changed
                // in it.
                if last.replace(now.clone()) != Some(now) {
                    beat.send_modify(|number| *number += 1);
                }
            }
        });
        Self {
            beat,
            streams: PerCaller::new(STREAMS),
        }
    }
}

pub async fn events(state: ApiState, pulse: Pulse, headers: HeaderMap) -> Result<Response, Denied> {
    let caller = state.admit(&headers, Access::Read, "events")?;
    // A stream never ends by itself, so waiting for a place could last for ever; the caller is refused at once.
    let Some(stream) = pulse.streams.now(&caller.name) else {
        let message = format!("{} has {STREAMS} streams of events open; close one", caller.name);
        return Err(Denied::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message));
    };
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    let messages = Body::from_stream(messages(pulse.beat.subscribe(), stream));
    let mut response = (StatusCode::OK, headers, messages).into_response();
    // Without this the connection would be closed with the deadline of ordinary answers.
    response.extensions_mut().insert(Endless);
    Ok(response)
}

/// Returns the stream of messages. It owns the permit `held`, which is released when the client disconnects.
fn messages(
    beats: watch::Receiver<u64>,
    held: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((beats, held), |(mut beats, held)| async move {
        let silence = Instant::now() + ALIVE;
        match tokio::time::timeout_at(silence, beats.changed()).await {
            Ok(Ok(())) => {
                // Only the fact of a change is sent: the client asks again for what it shows, with its own
                // rights.
                let message = format!("event: changed\ndata: {}\n\n", *beats.borrow_and_update());
                Some((Ok(Bytes::from(message)), (beats, held)))
            }
            // The sender is dropped when the interface stops; ending the body lets the client connect to
            // another orchestrator.
            Ok(Err(_)) => None,
            Err(_) => Some((Ok(Bytes::from_static(b": alive\n\n")), (beats, held))),
        }
    })
}
