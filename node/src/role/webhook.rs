//! `POST /job-complete`, by which services tell of the end of their jobs: the rows of entities, and the tasks at external stages.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use chrono::Utc;
use futures::StreamExt;
use parkhang_actors::services::{Heard, JobListener, JobMessage};
use parkhang_core::failpoint::Failpoint;
use parkhang_service::webhook::{SIGNATURE, SignatureError, TIMESTAMP, verify};
use parkhang_state::{AuditEntry, PostgresStore};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tracing::warn;

use crate::config::Loaded;
use crate::http::{HttpListener, Shares, Site};

const PATH: &str = "/job-complete";
/// Limits on connections. All services may come through one proxy.
const SHARES: Shares = Shares {
    all: 256,
    per_address: 256,
    unauthenticated: 256,
    // Nobody presents a token here, so no connection is ever counted for a caller.
    per_caller: 0,
};
/// Longest time from the end of a request's head to the end of its body.
const BODY_LIMIT: Duration = Duration::from_secs(30);
/// Bodies of the largest size that are in memory at the same time. Anybody can send one.
const BODIES: usize = 8;
/// First bytes of a body that wait for no room: there are as many of them as connections at most. So bodies that somebody begins and does not end
/// keep no message of the usual size waiting.
const AT_ONCE: usize = 64 << 10;
/// Pause between two entries of the audit log, so that nobody without the secret can fill the database.
const BETWEEN_ENTRIES: Duration = Duration::from_secs(10);

/// Somebody who gives work to services.
#[derive(Debug)]
pub struct Listener {
    pub listener: Arc<dyn JobListener>,
    /// Field of a message with the id of the row, beside the usual ones.
    pub id_field: Option<String>,
}

#[derive(Debug)]
struct Webhook {
    listeners: Vec<Listener>,
    store: PostgresStore,
    secret: Option<SecretString>,
    bodies: Bodies,
    /// Refusals since the last entry of the audit log, and its time.
    refused: Mutex<(u64, Option<Instant>)>,
}

/// Starts listening where the configuration says; `None` if it says nowhere.
///
/// # Errors
///
/// If the address cannot be bound.
pub async fn serve(loaded: &Loaded, router: Router) -> Result<Option<HttpListener>> {
    let Some(address) = loaded.config.webhook.listen else {
        return Ok(None);
    };
    let site = Site {
        router,
        shares: SHARES,
        recognise: Arc::new(|_| None),
        tls: None,
    };
    Ok(Some(HttpListener::serve(address, "webhook.listen", site).await?))
}

/// Route of the messages, which go to these listeners.
pub fn router(loaded: &Loaded, store: &PostgresStore, listeners: Vec<Listener>) -> Router {
    let secret = loaded.secrets.webhook.as_ref().map(|secret| secret.text.clone());
    if secret.is_none() && loaded.config.webhook.listen.is_some() {
        warn!("webhooks are not signed: set WEBHOOK_SECRET or webhook.secret_file");
    }
    if loaded.config.webhook.listen.is_none() && !loaded.config.webhook.on_api {
        for (name, _) in loaded
            .config
            .service
            .iter()
            .filter(|(_, service)| service.webhook)
        {
            warn!(
                service = name,
                "the service is to tell of the ends of its jobs, and this process does not listen: without webhook.listen somewhere they are asked about after half of stuck_timeout"
            );
        }
    }
    let sizes = loaded.config.service.values().map(|service| service.max_body());
    let webhook = Arc::new(Webhook {
        bodies: Bodies::new(sizes.max().unwrap_or_default()),
        refused: Mutex::default(),
        store: store.clone(),
        listeners,
        secret,
    });
    Router::new().route(
        PATH,
        post(move |request: Request<Body>| async move { webhook.answer(request).await }),
    )
}

impl Webhook {
    async fn answer(&self, request: Request<Body>) -> Response {
        let (head, body) = request.into_parts();
        // Whose sender it is shows only when the body is here, so all that are being read share a bound.
        let (body, _held) = match timeout(BODY_LIMIT, self.bodies.read(body)).await {
            Ok(Some(read)) => read,
            Ok(None) => {
                return refusal(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the body is too long, or broke off",
                );
            }
            Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
        };
        if let Err(error) = self.verify(&head.headers, &body) {
            self.write_down(error).await;
            return refusal(StatusCode::UNAUTHORIZED, &error.to_string());
        }
        hear(&self.listeners, &body).await
    }

    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), SignatureError> {
        let Some(secret) = &self.secret else {
            return Ok(());
        };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        verify(secret, header(TIMESTAMP), header(SIGNATURE), body, Utc::now())
    }

    /// Writes into the audit log that somebody without the secret was refused.
    async fn write_down(&self, error: SignatureError) {
        let Some(refused) = self.due() else { return };
        let now = Utc::now();
        let entry = AuditEntry {
            at: now,
            done_at: Some(now),
            who: "webhook".to_owned(),
            via: "http".to_owned(),
            command: "job-complete".to_owned(),
            arguments: json!({ "refused": refused }),
            refusal: Some(error.to_string()),
        };
        warn!(refused, %error, "webhooks without the right signature were refused");
        if let Err(error) = self.store.record_audit(&entry).await {
            warn!(%error, "cannot write down that a webhook was refused");
        }
    }

    /// Counts a refusal; returns the number since the last entry if another one is due.
    fn due(&self) -> Option<u64> {
        // A count and a time cannot be left half changed.
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.0 += 1;
        let is_due = refused.1.is_none_or(|last| last.elapsed() >= BETWEEN_ENTRIES);
        is_due.then(|| std::mem::replace(&mut *refused, (0, Some(Instant::now()))).0)
    }
}

/// Answer to a message about a job of which no listener knows.
const UNKNOWN: &str = "nothing here has such a job";

/// Tells the listeners in turn, until one has the job.
async fn hear(listeners: &[Listener], body: &Bytes) -> Response {
    let mut refused = None;
    for Listener { listener, id_field } in listeners {
        let message = match JobMessage::read(body, id_field.as_deref()) {
            Ok(message) => message,
            // Another may have the id by a name of its own.
            Err(error) => {
                refused.get_or_insert((StatusCode::UNPROCESSABLE_ENTITY, error.to_string()));
                continue;
            }
        };
        Failpoint::WebhookCame.pass();
        match listener.hear(&message).await {
            Ok(Heard::Processed) => {
                Failpoint::WebhookWritten.pass();
                return answer(StatusCode::OK, &json!({ "status": "processed" }));
            }
            Ok(Heard::UnknownJob) => refused = Some((StatusCode::NOT_FOUND, UNKNOWN.to_owned())),
            Err(error) => {
                warn!(%error, "a webhook cannot be carried out now");
                let message = format!("{error}; send it again");
                return refusal(StatusCode::SERVICE_UNAVAILABLE, &message);
            }
        }
    }
    let (status, message) = refused.unwrap_or_else(|| (StatusCode::NOT_FOUND, UNKNOWN.to_owned()));
    refusal(status, &message)
}

/// Bodies of messages that are in memory.
#[derive(Debug)]
struct Bodies {
    /// Largest number of bytes of one.
    most: usize,
    /// Permits for the bytes of all beyond their first ones.
    bytes: Arc<Semaphore>,
}

impl Bodies {
    fn new(most: usize) -> Self {
        Self {
            most,
            bytes: Arc::new(Semaphore::new(
                most.saturating_sub(AT_ONCE)
                    .saturating_mul(BODIES)
                    .min(Semaphore::MAX_PERMITS),
            )),
        }
    }

    /// Reads a body, whose bytes count until the permit is dropped; waits where there are too many. `None` if it is too long or broke off.
    async fn read(&self, body: Body) -> Option<(Bytes, Option<OwnedSemaphorePermit>)> {
        // One that says so itself takes no room from others.
        if body.size_hint().lower() > self.most as u64 {
            return None;
        }
        let length = body
            .size_hint()
            .exact()
            .and_then(|length| usize::try_from(length).ok());
        let beyond = length.unwrap_or(self.most).saturating_sub(AT_ONCE);
        let (mut read, mut held) = (Vec::new(), None::<OwnedSemaphorePermit>);
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.ok()?;
            if read.len() + piece.len() > self.most {
                return None;
            }
            if held.is_none() && read.len() + piece.len() > AT_ONCE {
                // For all that may come: bodies that hold some and wait for more would wait for each other.
                let count = u32::try_from(beyond).ok()?;
                // Nobody closes the semaphore.
                held = Some(self.bytes.clone().acquire_many_owned(count).await.ok()?);
            }
            read.extend_from_slice(&piece);
        }
        Some((read.into(), held))
    }
}

fn refusal(status: StatusCode, message: &str) -> Response {
    answer(status, &json!({ "status": "refused", "message": message }))
}

fn answer(status: StatusCode, value: &Value) -> Response {
    let headers = [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
    ];
    (status, headers, value.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use async_trait::async_trait;
    use futures::{FutureExt, stream};
    use parkhang_state::StateError;

    use super::*;

    const MOST: usize = AT_ONCE + 1000;

    /// A body of which so many bytes have come, and the rest does not.
    fn begun(bytes: usize) -> Body {
        let piece = Ok::<_, Infallible>(Bytes::from(vec![b'x'; bytes]));
        Body::from_stream(stream::iter([piece]).chain(stream::pending()))
    }

    #[tokio::test]
    async fn bodies_have_a_size_each_and_together() {
        let bodies = Bodies::new(MOST);
        let (whole, held) = bodies.read(Body::from(vec![b'x'; MOST])).await.unwrap();
        assert_eq!(whole.len(), MOST);
        assert_eq!(bodies.bytes.available_permits(), 1000 * (BODIES - 1));
        drop(held);
        assert!(bodies.read(Body::from(vec![b'x'; MOST + 1])).await.is_none());

        let mut slow: Vec<_> = (0..BODIES).map(|_| Box::pin(bodies.read(begun(MOST)))).collect();
        for read in &mut slow {
            assert!(read.now_or_never().is_none());
        }
        assert_eq!(bodies.bytes.available_permits(), 0);
        // What is no longer than most messages waits for none of them.
        let short = bodies.read(Body::from(vec![b'x'; AT_ONCE])).await.unwrap();
        assert_eq!(short.0.len(), AT_ONCE);
        let mut late = Box::pin(bodies.read(Body::from(vec![b'x'; MOST])));
        assert!((&mut late).now_or_never().is_none());
        // Its sender hangs up, or its time is over.
        slow.pop();
        assert_eq!(late.await.unwrap().0.len(), MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_come_evenly_do_not_wait_for_each_other() {
        let bodies = Bodies::new(MOST);
        let evenly = || {
            let halves = [MOST - 500, 500].map(|bytes| Bytes::from(vec![b'x'; bytes]));
            Body::from_stream(stream::iter(halves).then(|half| async {
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(half)
            }))
        };
        let reads = (0..2 * BODIES).map(|_| async { bodies.read(evenly()).await.unwrap().0.len() });
        let all = timeout(BODY_LIMIT, futures::future::join_all(reads)).await;
        assert_eq!(all.unwrap(), vec![MOST; 2 * BODIES]);
    }

    /// Listener that has every job.
    #[derive(Debug)]
    struct Open;

    #[async_trait]
    impl JobListener for Open {
        async fn hear(&self, _: &JobMessage) -> Result<Heard, StateError> {
            Ok(Heard::Processed)
        }
    }

    #[tokio::test]
    async fn a_message_is_for_whoever_can_read_it() {
        let listener = |id_field: Option<&str>| Listener {
            listener: Arc::new(Open),
            id_field: id_field.map(str::to_owned),
        };
        let body = Bytes::from(
            json!({ "stage": "scrape", "companyId": 7, "jobId": "j", "status": "completed" }).to_string(),
        );
        for (listeners, status) in [
            (vec![listener(None), listener(Some("companyId"))], StatusCode::OK),
            (vec![listener(None)], StatusCode::UNPROCESSABLE_ENTITY),
        ] {
            assert_eq!(hear(&listeners, &body).await.status(), status);
        }
    }
}
