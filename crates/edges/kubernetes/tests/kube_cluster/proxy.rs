//! A wire between client and server that can be cut.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the wire does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Carries everything.
    Whole,
    /// Breaks every connection and each new one.
    Cut,
    /// Keeps connections and carries nothing.
    Dead,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    wire: watch::Sender<Wire>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (wire, state) = watch::channel(Wire::Whole);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, state.clone()));
            }
        });
        Self { address, wire, task }
    }

    pub(crate) fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, mut state: watch::Receiver<Wire>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    if *state.borrow_and_update() == Wire::Whole {
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => return,
            _ = state.changed() => {}
        }
    }
    // A dead wire keeps what it has until it is cut or whole again; then the connection is broken either way.
    while *state.borrow_and_update() == Wire::Dead && state.changed().await.is_ok() {}
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
