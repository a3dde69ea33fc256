//! Servers in the process of a test.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Serves requests at a free port; returns the URL, and the server, which ends with the value.
pub(crate) async fn serve<A>(
    answer: impl Fn(Request<Incoming>) -> A + Clone + Send + 'static,
) -> (String, JoinSet<()>)
where
    A: Future<Output = Result<Response<Full<Bytes>>, hyper::Error>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(answer.clone());
            connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (url, server)
}
