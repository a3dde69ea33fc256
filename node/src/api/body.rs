//! Reading the body of a request, with limits on its size and time.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::StatusCode;
use tokio::time::timeout;

use super::answer::Denied;

/// Time limit from the end of a request's head to the end of its body.
const LIMIT: Duration = Duration::from_secs(30);

/// Reads a body of at most `max` bytes.
///
/// # Errors
///
/// 413 if the body is longer, 408 if it does not end in time.
pub async fn read_body(body: Body, max: usize) -> Result<Bytes, Denied> {
    let read = timeout(LIMIT, to_bytes(body, max)).await.map_err(|_| {
        let message = format!("the body did not arrive within {} s", LIMIT.as_secs());
        Denied::new(StatusCode::REQUEST_TIMEOUT, "timeout", message)
    })?;
    // A body that broke off gets the same answer as one that is too long: its client does not read it any
    // more.
    read.map_err(|_| {
        let message = format!("the body has more than {max} bytes");
        Denied::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_size_and_a_time() {
        assert_eq!(read_body(Body::from("four"), 4).await.unwrap(), "four");
        let large = read_body(Body::from("five!"), 4).await.unwrap_err();
        assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE);
        // A byte every second is no reason to wait on.
        let drip = stream::repeat(()).then(async |()| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(Bytes::from_static(b"x"))
        });
        let began = Instant::now();
        let slow = read_body(Body::from_stream(drip), 4096).await.unwrap_err();
        assert_eq!(
            (slow.status, began.elapsed()),
            (StatusCode::REQUEST_TIMEOUT, LIMIT)
        );
    }
}
