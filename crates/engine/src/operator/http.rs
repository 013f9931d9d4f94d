//! Serves metrics and health.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::metrics::Metrics;
use super::stores::Stores;

/// A scrape and a probe need two connections. The limit protects the operator from clients that open many.
const CONNECTIONS: usize = 64;
/// A client that has not sent its request by then is disconnected.
const HEADER_LIMIT: Duration = Duration::from_secs(10);

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, metrics: Arc<Metrics>, stores: Arc<Stores>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors: an accept loop without a pause would use a whole core.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (metrics, stores) = (metrics.clone(), stores.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let response = respond(request.method(), request.uri().path(), &metrics, &stores);
            async { Ok::<_, Infallible>(response) }
        });
        connections.spawn(async move {
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_LIMIT).keep_alive(false);
            // A client that disconnects early has its own error.
            let _ = server.serve_connection(TokioIo::new(stream), answer).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

fn respond(method: &Method, path: &str, metrics: &Metrics, stores: &Stores) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
    }
    match path {
        "/metrics" => {
            let mut response = text(StatusCode::OK, &metrics.text());
            let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, format);
            response
        }
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" => match stores.missing() {
            missing if missing.is_empty() => text(StatusCode::OK, "ok\n"),
            missing => text(StatusCode::SERVICE_UNAVAILABLE, &format!("not listed yet: {}\n", missing.join("; "))),
        },
        _ => text(StatusCode::NOT_FOUND, "paths: /metrics, /healthz, /readyz\n"),
    }
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_owned())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_is_healthy_at_once_and_ready_after_its_lists() {
        let (metrics, stores) = (Metrics::default(), Stores::default());
        let status = |path| respond(&Method::GET, path, &metrics, &stores).status().as_u16();
        assert_eq!(["/healthz", "/readyz", "/metrics", "/other"].map(status), [200, 503, 200, 404]);
        assert_eq!(respond(&Method::POST, "/metrics", &metrics, &stores).status(), 405);
    }
}
