//! Tells those who watch that something has changed, as server-sent events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::{Stream, stream};
use parkhang_state::PostgresStore;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::answer::Denied;
use super::desk::Desk;
use crate::admin::Access;
use crate::http::Endless;

/// Between two looks at the database, while anybody watches.
const LOOK: Duration = Duration::from_secs(1);
/// Something is sent this often, for proxies that close what is silent.
const ALIVE: Duration = Duration::from_secs(15);

/// Streams of one caller at once: a window of the console each.
const STREAMS: usize = 24;

/// Looks at the database on behalf of all who watch.
#[derive(Debug, Clone)]
pub struct Pulse {
    beat: Arc<watch::Sender<u64>>,
    /// Streams that each caller may still open, by name.
    streams: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

impl Pulse {
    /// Looks for as long as this or a clone of it lives.
    pub fn start(store: PostgresStore) -> Self {
        let beat = Arc::new(watch::Sender::new(0));
        let weak = Arc::downgrade(&beat);
        tokio::spawn(async move {
            let mut last = None;
            loop {
                tokio::time::sleep(LOOK).await;
                let Some(beat) = weak.upgrade() else { return };
                if beat.receiver_count() == 0 {
                    continue;
                }
                let Ok(now) = store.change_mark().await else {
                    continue;
                };
                if last.replace(now.clone()) != Some(now) {
                    beat.send_modify(|number| *number += 1);
                }
            }
        });
        Self {
            beat,
            streams: Arc::default(),
        }
    }

    fn stream_of(&self, caller: &str) -> Option<OwnedSemaphorePermit> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let left = streams.entry(caller.to_owned());
        let left = left.or_insert_with(|| Arc::new(Semaphore::new(STREAMS)));
        left.clone().try_acquire_owned().ok()
    }
}

pub async fn events(desk: Desk, pulse: Pulse, headers: HeaderMap) -> Result<Response, Denied> {
    let caller = desk.admit(&headers, Access::Read, "events")?;
    let Some(stream) = pulse.stream_of(&caller.name) else {
        let message = format!("{} has {STREAMS} streams of events open; close one", caller.name);
        return Err(Denied::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message));
    };
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    let messages = Body::from_stream(messages(pulse.beat.subscribe(), stream));
    let mut response = (StatusCode::OK, headers, messages).into_response();
    response.extensions_mut().insert(Endless);
    Ok(response)
}

/// `held` is given up with the stream.
fn messages(
    beats: watch::Receiver<u64>,
    held: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((beats, held), |(mut beats, held)| async move {
        let silence = Instant::now() + ALIVE;
        match tokio::time::timeout_at(silence, beats.changed()).await {
            Ok(Ok(())) => {
                let message = format!("event: changed\ndata: {}\n\n", *beats.borrow_and_update());
                Some((Ok(Bytes::from(message)), (beats, held)))
            }
            Ok(Err(_)) => None,
            Err(_) => Some((Ok(Bytes::from_static(b": alive\n\n")), (beats, held))),
        }
    })
}
