//! The API server on a socket, with TLS and a token.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::access::Token;
use crate::control::TICK_SECONDS;
use crate::error::ApiError;
use crate::server::{Body, Server, error_response, read};

/// The timeout of handshake, headers and body. A slower client is stuck or hostile.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long open requests may take when the server stops. Watches are ended first.
const GRACE: Duration = Duration::from_secs(5);

/// The pause after a failed accept. The usual reason is too many open files, which only time resolves.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for the API server: {source}")]
pub struct BindError {
    pub address: SocketAddr,
    pub source: io::Error,
}

/// A bound listener. No request is handled before [`Socket::serve`].
#[derive(Debug)]
pub struct Socket {
    listener: TcpListener,
    /// The address, with the port that the system chose.
    pub address: SocketAddr,
}

impl Socket {
    /// Binds an address.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let fail = |source| BindError { address, source };
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self { listener, address })
    }

    /// Handles requests that carry the token until `stop` completes.
    pub async fn serve(self, server: Server, tls: Arc<ServerConfig>, token: Token, stop: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let acceptor = TlsAcceptor::from(tls);
        let mut stop = pin!(stop);
        let mut ticks = interval(Duration::from_secs(TICK_SECONDS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                _ = ticks.tick() => {
                    server.tick();
                    continue;
                }
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection =
                        connection(server.clone(), token.clone(), stream, acceptor.clone(), graceful.watcher());
                    tokio::spawn(connection);
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
        drop(self.listener);
        server.close();
        // Connections that do not end in time are closed with the runtime.
        let _ = timeout(GRACE, graceful.shutdown()).await;
    }
}

async fn connection(server: Server, token: Token, stream: TcpStream, tls: TlsAcceptor, watcher: Watcher) {
    // Responses are small and immediate: waiting for more data would cost 40 ms each.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(CLIENT_TIMEOUT, tls.accept(stream)).await else { return };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(CLIENT_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    let service = service_fn(|request| {
        let (server, token) = (server.clone(), token.clone());
        async move { Ok::<_, Infallible>(handle(&server, &token, request).await) }
    });
    // The client may end a connection in any way.
    let _ = watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await;
}

/// Paths that need no token and reveal nothing about the cluster.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

async fn handle(server: &Server, token: &Token, request: Request<Incoming>) -> Response<Body> {
    if !PUBLIC.contains(&request.uri().path()) && !token.is_in(request.headers()) {
        return error_response(&ApiError::unauthorized());
    }
    match timeout(CLIENT_TIMEOUT, read(request)).await {
        Ok(Ok(request)) => server.handle(&request),
        Ok(Err(response)) => response,
        Err(_) => error_response(&ApiError::bad("the request was not complete in time")),
    }
}
