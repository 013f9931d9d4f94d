//! One connection: serves HTTP and dispatches requests to the services of the embedded Azure.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::Log;
use super::socket::{Breaker, Socket};
use crate::sim::{Reply, Sim};

/// ARM's limit for a request body.
const BODY_LIMIT: usize = 4 << 20;

/// Time limit for the TLS handshake, the headers and the body. A client that exceeds it is stuck or hostile.
const PATIENCE: Duration = Duration::from_secs(30);

/// The service that a listener exposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Arm,
    Imds,
    Wire,
}

#[derive(Clone)]
pub(super) struct Connection {
    pub(super) sim: Sim,
    pub(super) service: Service,
    pub(super) peer: SocketAddr,
    pub(super) log: Option<Log>,
    pub(super) in_flight: InFlight,
}

/// The number of requests in progress.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(watch::Sender<usize>);

impl InFlight {
    /// Counts a request until the guard is dropped.
    fn enter(&self) -> InFlightGuard {
        self.0.send_modify(|count| *count += 1);
        InFlightGuard(self.0.clone())
    }

    /// Waits until no request is in progress.
    pub(super) async fn wait_until_idle(&self) {
        // Fails only if the sender is dropped, and `self` owns it.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

struct InFlightGuard(watch::Sender<usize>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Connection {
    pub(super) async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>, watcher: Watcher) {
        // Responses are small and sent at once. Nagle's algorithm would delay each by 40 ms.
        let _ = stream.set_nodelay(true);
        let breaker = Breaker::default();
        let socket = Socket::new(stream, breaker.clone());
        let Some(tls) = tls else { return self.http(socket, breaker, watcher).await };
        match tokio::time::timeout(PATIENCE, tls.accept(socket)).await {
            Ok(Ok(stream)) => self.http(stream, breaker, watcher).await,
            Ok(Err(error)) => self.log_line(&format!("TLS with {} failed: {error}", self.peer)),
            Err(_) => {
                self.log_line(&format!("TLS handshake with {} timed out after {} s", self.peer, PATIENCE.as_secs()));
            }
        }
    }

    async fn http(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        breaker: Breaker,
        watcher: Watcher,
    ) {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        builder.http2().timer(TokioTimer::new());
        let service = service_fn(|request| {
            let (connection, breaker) = (self.clone(), breaker.clone());
            async move { connection.answer(request, &breaker).await }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        // Errors of a connection are the client's, or result from an injected reset.
        let _ = watcher.watch(connection).await;
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        breaker: &Breaker,
    ) -> Result<Response<Full<Bytes>>, ConnectionReset> {
        let _entered = self.in_flight.enter();
        let line = self.log.map(|_| format!("{} {}", request.method(), request.uri().path()));
        let reply = match self.read_request(request).await {
            Ok(request) => match self.service {
                Service::Arm => self.sim.arm(request),
                Service::Imds => self.sim.imds(Some(self.peer.ip()), &request),
                Service::Wire => self.sim.wire(Some(self.peer.ip()), &request),
            },
            Err(refusal) => Reply::Answer(*refusal),
        };
        let outcome = match &reply {
            Reply::Answer(response) => response.status().as_u16().to_string(),
            Reply::Reset => "reset".to_owned(),
        };
        if let Some(line) = line {
            self.log_line(&format!("{line} {outcome}"));
        }
        match reply {
            Reply::Answer(response) => Ok(response.map(Full::new)),
            Reply::Reset => {
                breaker.trip();
                Err(ConnectionReset)
            }
        }
    }

    /// Reads the whole body, and sets `Host`, which HTTP/2 puts in the URI.
    async fn read_request(&self, request: Request<Incoming>) -> Result<Request<Bytes>, Box<Response<Bytes>>> {
        let (mut parts, body) = request.into_parts();
        if !parts.headers.contains_key(HOST)
            && let Some(host) =
                parts.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
        {
            parts.headers.insert(HOST, host);
        }
        let body = match tokio::time::timeout(PATIENCE, Limited::new(body, BODY_LIMIT).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let message = format!("The request exceeds the limit of {BODY_LIMIT} bytes.");
                return Err(self.refuse(StatusCode::PAYLOAD_TOO_LARGE, "RequestContentTooLarge", &message));
            }
            Ok(Err(error)) => {
                return Err(self.refuse(
                    StatusCode::BAD_REQUEST,
                    "InvalidRequestContent",
                    &format!("The request could not be read: {error}"),
                ));
            }
            Err(_) => {
                return Err(self.refuse(
                    StatusCode::REQUEST_TIMEOUT,
                    "RequestTimeout",
                    "The request was not complete in time.",
                ));
            }
        };
        Ok(Request::from_parts(parts, body))
    }

    /// Closes the connection, because the rest of the request is unread.
    fn refuse(&self, status: StatusCode, code: &str, message: &str) -> Box<Response<Bytes>> {
        let body = match self.service {
            Service::Arm => json!({"error": {"code": code, "message": message}}),
            Service::Imds | Service::Wire => json!({"error": message}),
        };
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Box::new(response)
    }

    fn log_line(&self, line: &str) {
        if let Some(log) = self.log {
            log(line);
        }
    }
}

/// Resets the connection.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by the fault plan")]
struct ConnectionReset;
