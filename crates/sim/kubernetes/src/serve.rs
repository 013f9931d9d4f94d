//! The API server behind a socket, with TLS and a token.

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
use crate::server::{Body, Server, read, refusal};

/// A client that does not finish its handshake, its headers or its body in this time is stuck or hostile.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long requests under way may take to end when the server stops. Watches are ended first.
const GRACE: Duration = Duration::from_secs(5);

/// A pause after an accept that failed: the usual reason is too many open files, which only time heals.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for the API server: {source}")]
pub struct BindError {
    pub address: SocketAddr,
    /// Why not.
    pub source: io::Error,
}

/// A bound listener. Nobody is answered before [`Socket::serve`].
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

    /// Answers requests that show the token until `stop` ends.
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
        // Connections that do not end in time are cut when the runtime goes.
        let _ = timeout(GRACE, graceful.shutdown()).await;
    }
}

async fn connection(server: Server, token: Token, stream: TcpStream, tls: TlsAcceptor, watcher: Watcher) {
    // Answers are small and come at once: waiting for more to send costs 40 ms each.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(PATIENCE, tls.accept(stream)).await else { return };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder.http2().timer(TokioTimer::new());
    let service = service_fn(|request| {
        let (server, token) = (server.clone(), token.clone());
        async move { Ok::<_, Infallible>(answer(&server, &token, request).await) }
    });
    // How a connection ends is the client's affair.
    let _ = watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await;
}

/// Paths that tell nothing of the cluster.
const OPEN: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

async fn answer(server: &Server, token: &Token, request: Request<Incoming>) -> Response<Body> {
    if !OPEN.contains(&request.uri().path()) && !token.is_in(request.headers()) {
        return refusal(&ApiError::unauthorized());
    }
    match timeout(PATIENCE, read(request)).await {
        Ok(Ok(request)) => server.answer(&request),
        Ok(Err(refusal)) => refusal,
        Err(_) => refusal(&ApiError::bad("the request did not come to its end in time")),
    }
}
