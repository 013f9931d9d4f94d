//! A TCP proxy between client and server whose connections can be broken.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The state of the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connections {
    /// Forwards everything.
    Forwarded,
    /// Closes all connections, including new ones.
    Closed,
    /// Keeps connections open and forwards nothing.
    Stalled,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    connections: watch::Sender<Connections>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, state) = watch::channel(Connections::Forwarded);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, state.clone()));
            }
        });
        Self { address, connections, task }
    }

    pub(crate) fn set(&self, connections: Connections) {
        self.connections.send_replace(connections);
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, mut state: watch::Receiver<Connections>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    if *state.borrow_and_update() == Connections::Forwarded {
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => return,
            _ = state.changed() => {}
        }
    }
    // A stalled connection stays until the state changes; then it is closed in either case.
    while *state.borrow_and_update() == Connections::Stalled && state.changed().await.is_ok() {}
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
