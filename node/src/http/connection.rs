//! One connection of a listener, with a deadline for everything at which the client can be slow.

use std::time::Duration;

use anyhow::{Result, bail};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_io_timeout::TimeoutStream;
use tower_service::Service;

/// Time limit for the head of a request, for a TLS handshake, and for an idle connection between two requests.
pub const HEAD: Duration = Duration::from_secs(10);
/// Time within which the client must take some bytes of an answer.
const WRITE: Duration = Duration::from_secs(30);
/// Time limit from the end of a request's head to the beginning of its answer.
const REQUEST: Duration = Duration::from_secs(120);
/// Time limit for writing an answer.
const ANSWER: Duration = Duration::from_secs(300);
/// Largest number of bytes of an answer that wait to be written.
const WRITE_BUFFER: usize = 64 << 10;

/// Extension that marks a response without an end, such as a stream of events. It has no deadline as a whole; the client must still
/// take what is written in time.
#[derive(Debug, Clone, Copy)]
pub struct Endless;

/// Serves requests until the connection ends. `seen` gets the head of each before it is answered.
///
/// # Errors
///
/// If a deadline has passed, or the connection broke.
pub async fn converse<S>(stream: S, router: Router, seen: impl Fn(&HeaderMap)) -> Result<()>
where
    S: AsyncRead + AsyncWrite,
{
    let mut stream = TimeoutStream::new(stream);
    // A client that reads nothing is noticed by this timeout; reading has none, as hyper's timer covers heads
    // and `read_body` the bodies.
    stream.set_write_timeout(Some(WRITE));
    // The deadline of the answer is set inside the service but must end the connection outside of it, hence a
    // channel.
    let deadline = watch::Sender::new(None);
    let service = service_fn(|request: Request<Incoming>| {
        seen(request.headers());
        let answered = timeout_at(
            Instant::now() + REQUEST,
            router.clone().call(request.map(Body::new)),
        );
        let deadline = &deadline;
        async move {
            // The router itself cannot fail; only the time limit is an error here.
            let response = answered.await.unwrap_or_else(|_| Ok(too_slow()));
            let is_endless = response
                .as_ref()
                .is_ok_and(|response| response.extensions().get::<Endless>().is_some());
            // The deadline is not cleared when the answer has been written: an idle connection is closed long before it, and the next
            // request replaces it.
            deadline.send_replace((!is_endless).then(|| Instant::now() + ANSWER));
            response
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        // Hyper buffers this much for each connection; the default of several hundred KiB times all
        // connections is memory that anybody could make the process allocate.
        .max_buf_size(WRITE_BUFFER);
    // HTTP/1.1 only: the deadlines here are those of one request at a time on a connection.
    let connection = builder.serve_connection(TokioIo::new(Box::pin(stream)), service);
    tokio::select! {
        served = connection => Ok(served?),
        () = reached(deadline.subscribe()) => bail!("the answer was not taken in time"),
    }
}

/// Waits until the deadline that was set last has passed.
async fn reached(mut deadline: watch::Receiver<Option<Instant>>) {
    loop {
        let until = *deadline.borrow_and_update();
        let over = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => return,
            // The sender lives as long as the connection.
            _ = deadline.changed() => {}
        }
    }
}

fn too_slow() -> Response {
    let body = r#"{"error":"timeout","message":"no answer was ready in time"}"#;
    let headers = [("content-type", "application/json")];
    (StatusCode::GATEWAY_TIMEOUT, headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::{Bytes, to_bytes};
    use axum::routing::{get, post};
    use futures::{StreamExt, stream};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;

    /// Longer than any deadline; only paused time passes so quickly.
    const LONG: Duration = Duration::from_secs(3600);

    fn router() -> Router {
        let beats = || stream::repeat(Ok::<_, Infallible>(Bytes::from_static(b"beat\n")));
        let endless = move || async move {
            let slowly = beats().then(async |beat| {
                tokio::time::sleep(Duration::from_secs(15)).await;
                beat
            });
            let mut response = Body::from_stream(slowly).into_response();
            response.extensions_mut().insert(Endless);
            response
        };
        Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/long", get(|| async { vec![b'x'; 10 << 20] }))
            .route("/never", get(std::future::pending::<()>))
            .route("/endless", get(endless))
            .route(
                "/body",
                post(async |body: Body| to_bytes(body, 99).await.map(|_| "read").unwrap_or("cut")),
            )
    }

    /// The other side of a connection that has just been opened, and its end.
    fn connect() -> (DuplexStream, JoinHandle<Result<()>>) {
        let (ours, theirs) = duplex(1024);
        (theirs, tokio::spawn(converse(ours, router(), |_| {})))
    }

    /// Returns whether the other side took nothing for too long.
    fn was_too_slow(error: &anyhow::Error) -> bool {
        let causes = error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<std::io::Error>());
        causes
            .into_iter()
            .any(|error| error.kind() == std::io::ErrorKind::TimedOut)
    }

    async fn send(stream: &mut DuplexStream, request: &str) {
        stream.write_all(request.as_bytes()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_ends_the_connection() {
        let (mut client, served) = connect();
        send(&mut client, "GET / HTT").await;
        let began = Instant::now();
        timeout(LONG, served).await.unwrap().unwrap().unwrap_err();
        assert_eq!(began.elapsed(), HEAD);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_ends_the_request() {
        let (mut client, served) = connect();
        send(
            &mut client,
            "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1",
        )
        .await;
        let began = Instant::now();
        let mut answer = String::new();
        timeout(LONG, client.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
        assert_eq!(began.elapsed(), REQUEST);
        // The rest of the body is waited for no longer.
        timeout(LONG, served).await.unwrap().unwrap().ok();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_ends_the_connection() {
        let (mut client, served) = connect();
        send(&mut client, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let began = Instant::now();
        let error = timeout(LONG, served).await.unwrap().unwrap().unwrap_err();
        assert!(was_too_slow(&error), "{error:#}");
        assert_eq!(began.elapsed(), WRITE);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_read_byte_by_byte_ends_the_connection() {
        let (mut client, served) = connect();
        send(&mut client, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let began = Instant::now();
        let drip = async {
            while client.read_u8().await.is_ok() {
                tokio::time::sleep(WRITE / 2).await;
            }
        };
        tokio::select! {
            ended = timeout(LONG, served) => assert!(ended.unwrap().unwrap().is_err()),
            () = drip => {}
        }
        assert_eq!(began.elapsed(), ANSWER);
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_never_answers_is_answered_for() {
        let (mut client, _served) = connect();
        send(
            &mut client,
            "GET /never HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        )
        .await;
        let mut answer = String::new();
        timeout(LONG, client.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
        assert!(
            answer.ends_with(r#""message":"no answer was ready in time"}"#),
            "{answer}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_events_goes_on_for_as_long_as_it_is_read() {
        let (mut client, served) = connect();
        send(&mut client, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let (began, mut beats) = (Instant::now(), 0);
        let mut buffer = [0; 256];
        while began.elapsed() < 3 * ANSWER {
            let read = client.read(&mut buffer).await.unwrap();
            beats += buffer[..read]
                .windows(4)
                .filter(|bytes| *bytes == b"beat")
                .count();
        }
        assert!(beats > 50, "{beats}");
        // Nobody reads on.
        let error = timeout(LONG, served).await.unwrap().unwrap().unwrap_err();
        assert!(was_too_slow(&error), "{error:#}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_connection_serves_one_request_after_the_other() {
        let (mut client, served) = connect();
        let began = Instant::now();
        // Together they take longer than an answer may.
        while began.elapsed() < 2 * ANSWER {
            send(&mut client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
            let mut answer = [0; 512];
            let read = client.read(&mut answer).await.unwrap();
            assert!(answer[..read].ends_with(b"hello"));
            tokio::time::sleep(HEAD / 2).await;
        }
        drop(client);
        served.await.unwrap().unwrap();
    }
}
