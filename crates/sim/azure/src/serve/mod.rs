//! The embedded Azure on sockets: ARM and Entra with TLS, the metadata service and the wire server without.

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
use connection::{Connection, InFlight, Service};

/// The time that requests in progress have to finish when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// The time that idle connections then have to close, so that the last responses are delivered. An idle client may not notice the shutdown
/// for hours.
const LINGER: Duration = Duration::from_millis(250);

/// The pause after a failed accept. The usual reason is too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The addresses to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    pub arm: SocketAddr,
    pub imds: SocketAddr,
    pub wire: SocketAddr,
}

/// An error of binding an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {what}: {source}")]
pub struct BindError {
    pub address: SocketAddr,
    pub what: &'static str,
    pub source: io::Error,
}

/// Receives a line for each request and for each failed connection.
pub type Log = fn(&str);

/// Bound listeners. Requests are answered once [`Sockets::serve`] runs.
#[derive(Debug)]
pub struct Sockets {
    arm: TcpListener,
    imds: TcpListener,
    wire: TcpListener,
    /// The addresses, with the ports that the system chose.
    pub addresses: Listen,
}

impl Sockets {
    /// Binds all addresses.
    pub async fn bind(listen: Listen) -> Result<Self, BindError> {
        let (arm, arm_at) = bind(listen.arm, "ARM").await?;
        let (imds, imds_at) = bind(listen.imds, "the metadata service").await?;
        let (wire, wire_at) = bind(listen.wire, "the wire server").await?;
        Ok(Self { arm, imds, wire, addresses: Listen { arm: arm_at, imds: imds_at, wire: wire_at } })
    }

    /// Answers requests until `stop` completes, then waits up to [`GRACE`] for requests in progress.
    pub async fn serve(self, sim: Sim, tls: Arc<ServerConfig>, log: Option<Log>, stop: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let in_flight = InFlight::default();
        let acceptor = TlsAcceptor::from(tls);
        let on = |service, stream: TcpStream, peer| {
            let tls = (service == Service::Arm).then(|| acceptor.clone());
            let connection = Connection { sim: sim.clone(), service, peer, log, in_flight: in_flight.clone() };
            tokio::spawn(connection.run(stream, tls, graceful.watcher()));
        };
        let mut stop = pin!(stop);
        loop {
            let (service, accepted) = tokio::select! {
                () = &mut stop => break,
                accepted = self.arm.accept() => (Service::Arm, accepted),
                accepted = self.imds.accept() => (Service::Imds, accepted),
                accepted = self.wire.accept() => (Service::Wire, accepted),
            };
            match accepted {
                Ok((stream, peer)) => on(service, stream, peer),
                Err(error) => {
                    if let Some(log) = log {
                        log(&format!("cannot accept a connection: {error}"));
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        // New connections are refused from here on.
        drop((self.arm, self.imds, self.wire));
        let idle = async {
            in_flight.wait_until_idle().await;
            tokio::time::sleep(LINGER).await;
        };
        // Connections that are still open are closed when the runtime is dropped.
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
