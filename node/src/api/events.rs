//! Tells those who watch that something has changed, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::{Stream, stream};
use parkhang_actors::state::PostgresStore;
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer::Denied;
use super::desk::Desk;
use crate::admin::Access;

/// Between two looks at the database, while anybody watches.
const LOOK: Duration = Duration::from_secs(1);
/// Something is sent this often, for proxies that close what is silent.
const ALIVE: Duration = Duration::from_secs(15);

/// Looks at the database on behalf of all who watch.
#[derive(Debug, Clone)]
pub struct Pulse {
    beat: Arc<watch::Sender<u64>>,
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
        Self { beat }
    }
}

pub async fn events(desk: Desk, pulse: Pulse, headers: HeaderMap) -> Result<Response, Denied> {
    desk.admit(&headers, Access::Read, "events")?;
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((
        StatusCode::OK,
        headers,
        Body::from_stream(messages(pulse.beat.subscribe())),
    )
        .into_response())
}

fn messages(beats: watch::Receiver<u64>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(beats, |mut beats| async move {
        let silence = Instant::now() + ALIVE;
        match tokio::time::timeout_at(silence, beats.changed()).await {
            Ok(Ok(())) => {
                let message = format!("event: changed\ndata: {}\n\n", *beats.borrow_and_update());
                Some((Ok(Bytes::from(message)), beats))
            }
            Ok(Err(_)) => None,
            Err(_) => Some((Ok(Bytes::from_static(b": alive\n\n")), beats)),
        }
    })
}
