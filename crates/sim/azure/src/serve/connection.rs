//! One connection: HTTP on it, and each request to the right face of the embedded Azure.

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

/// ARM's limit for a request.
const BODY_LIMIT: usize = 4 << 20;

/// A client that does not finish its handshake, its headers or its body in this time is stuck or hostile.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is asked on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    Arm,
    Imds,
    Wire,
}

#[derive(Clone)]
pub(super) struct Connection {
    pub(super) sim: Sim,
    pub(super) face: Face,
    pub(super) peer: SocketAddr,
    pub(super) log: Option<Log>,
    pub(super) busy: Busy,
}

/// How many requests are under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Busy(watch::Sender<usize>);

impl Busy {
    /// Counts a request until the guard goes.
    fn enter(&self) -> Entered {
        self.0.send_modify(|count| *count += 1);
        Entered(self.0.clone())
    }

    /// Waits until there is none.
    pub(super) async fn over(&self) {
        // It fails only when the sender is gone, which is ours.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

struct Entered(watch::Sender<usize>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Connection {
    pub(super) async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>, watcher: Watcher) {
        // Answers are small and come at once: waiting for more to send costs 40 ms each.
        let _ = stream.set_nodelay(true);
        let breaker = Breaker::default();
        let socket = Socket::new(stream, breaker.clone());
        let Some(tls) = tls else { return self.http(socket, breaker, watcher).await };
        match tokio::time::timeout(PATIENCE, tls.accept(socket)).await {
            Ok(Ok(stream)) => self.http(stream, breaker, watcher).await,
            Ok(Err(error)) => self.say(&format!("TLS with {} failed: {error}", self.peer)),
            Err(_) => self.say(&format!("TLS with {} was not finished in {} s", self.peer, PATIENCE.as_secs())),
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
        // How a connection ends is the client's affair; a reset is our own doing.
        let _ = watcher.watch(connection).await;
    }

    async fn answer(&self, request: Request<Incoming>, breaker: &Breaker) -> Result<Response<Full<Bytes>>, Broken> {
        let _entered = self.busy.enter();
        let line = self.log.map(|_| format!("{} {}", request.method(), request.uri().path()));
        let reply = match self.whole(request).await {
            Ok(request) => match self.face {
                Face::Arm => self.sim.arm(request),
                Face::Imds => self.sim.imds(Some(self.peer.ip()), &request),
                Face::Wire => self.sim.wire(Some(self.peer.ip()), &request),
            },
            Err(refusal) => Reply::Answer(*refusal),
        };
        let told = match &reply {
            Reply::Answer(response) => response.status().as_u16().to_string(),
            Reply::Reset => "reset".to_owned(),
        };
        if let Some(line) = line {
            self.say(&format!("{line} {told}"));
        }
        match reply {
            Reply::Answer(response) => Ok(response.map(Full::new)),
            Reply::Reset => {
                breaker.trip();
                Err(Broken)
            }
        }
    }

    /// The request with all of its body, and with the `Host` that HTTP/2 has elsewhere.
    async fn whole(&self, request: Request<Incoming>) -> Result<Request<Bytes>, Box<Response<Bytes>>> {
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
                let message = format!("The request is larger than the {BODY_LIMIT} bytes that are allowed.");
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
                    "The request did not come to its end in time.",
                ));
            }
        };
        Ok(Request::from_parts(parts, body))
    }

    /// What remains unread of the request makes the connection useless.
    fn refuse(&self, status: StatusCode, code: &str, message: &str) -> Box<Response<Bytes>> {
        let body = match self.face {
            Face::Arm => json!({"error": {"code": code, "message": message}}),
            Face::Imds | Face::Wire => json!({"error": message}),
        };
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Box::new(response)
    }

    fn say(&self, line: &str) {
        if let Some(log) = self.log {
            log(line);
        }
    }
}

/// The connection is to be broken off.
#[derive(Debug, thiserror::Error)]
#[error("the connection is broken off")]
struct Broken;
