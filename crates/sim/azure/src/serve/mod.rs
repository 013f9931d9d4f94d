//! The embedded Azure behind sockets: ARM and Entra with TLS, the metadata service and the wire server without.

mod connection;
mod socket;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::sim::Sim;
use connection::{Busy, Connection, Face};

/// How long requests under way may take to end when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// How long connections without a request may take to close themselves then: time for the last answers to leave. An idle client may
/// not look at its connection for hours.
const LINGER: Duration = Duration::from_millis(250);

/// A pause after an accept that failed: the usual reason is too many open files, which only time heals.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// ARM and Entra.
    pub arm: SocketAddr,
    /// The metadata service.
    pub imds: SocketAddr,
    /// The wire server.
    pub wire: SocketAddr,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {what}: {source}")]
pub struct BindError {
    pub address: SocketAddr,
    /// What for.
    pub what: &'static str,
    /// Why not.
    pub source: io::Error,
}

/// Takes a line for each request and for each connection that failed.
pub type Log = fn(&str);

/// Bound listeners. Nobody is answered before [`Sockets::serve`].
#[derive(Debug)]
pub struct Sockets {
    arm: TcpListener,
    imds: TcpListener,
    wire: TcpListener,
    /// The addresses, with the ports that the system chose.
    pub addresses: Listen,
}

impl Sockets {
    /// Binds all of them or none.
    pub async fn bind(listen: Listen) -> Result<Self, BindError> {
        let (arm, arm_at) = bind(listen.arm, "ARM").await?;
        let (imds, imds_at) = bind(listen.imds, "the metadata service").await?;
        let (wire, wire_at) = bind(listen.wire, "the wire server").await?;
        Ok(Self { arm, imds, wire, addresses: Listen { arm: arm_at, imds: imds_at, wire: wire_at } })
    }

    /// Answers requests until `stop` ends; then those under way get [`GRACE`] to end.
    pub async fn serve(self, sim: Sim, tls: Arc<ServerConfig>, log: Option<Log>, stop: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let busy = Busy::default();
        let acceptor = TlsAcceptor::from(tls);
        let on = |face, stream: TcpStream, peer| {
            let tls = (face == Face::Arm).then(|| acceptor.clone());
            let connection = Connection { sim: sim.clone(), face, peer, log, busy: busy.clone() };
            tokio::spawn(connection.run(stream, tls, graceful.watcher()));
        };
        let mut stop = pin!(stop);
        loop {
            let (face, accepted) = tokio::select! {
                () = &mut stop => break,
                accepted = self.arm.accept() => (Face::Arm, accepted),
                accepted = self.imds.accept() => (Face::Imds, accepted),
                accepted = self.wire.accept() => (Face::Wire, accepted),
            };
            match accepted {
                Ok((stream, peer)) => on(face, stream, peer),
                Err(error) => {
                    if let Some(log) = log {
                        log(&format!("a connection was not accepted: {error}"));
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        // New callers are refused from here on.
        drop((self.arm, self.imds, self.wire));
        let idle = async {
            busy.over().await;
            tokio::time::sleep(LINGER).await;
        };
        // Connections that are open after that are cut when the runtime goes.
        let _ = tokio::time::timeout(GRACE, async {
            tokio::select! {
                () = graceful.shutdown() => {}
                () = idle => {}
            }
        })
        .await;
    }
}

async fn bind(address: SocketAddr, what: &'static str) -> Result<(TcpListener, SocketAddr), BindError> {
    let fail = |source| BindError { address, what, source };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let bound = listener.local_addr().map_err(fail)?;
    Ok((listener, bound))
}
