//! Forwarding from a private network to the host, and inside a private network.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use super::Network;

impl Network {
    /// Forwards connections to an address of the host's loopback device, at the same address, until this process ends.
    #[track_caller]
    pub fn forward(&self, address: SocketAddr) {
        let listener = self.listen(address);
        thread::spawn(move || {
            for inner in listener.incoming().flatten() {
                // An address that refuses connections on the host closes them here.
                let Ok(outer) = TcpStream::connect(address) else { continue };
                if let (Ok(from), Ok(to)) = (inner.try_clone(), outer.try_clone()) {
                    thread::spawn(move || copy(from, to));
                    thread::spawn(move || copy(outer, inner));
                }
            }
        });
    }
}

impl Network {
    /// Forwards connections to `from` to another address of the same network, until this process ends. A server that listens on loopback
    /// becomes reachable from other machines.
    #[track_caller]
    pub fn relay(&self, from: SocketAddr, to: SocketAddr) {
        let (listener, network) = (self.listen(from), self.clone());
        thread::spawn(move || {
            for inner in listener.incoming().flatten() {
                let Ok(outer) = network.connect(to) else { continue };
                if let (Ok(from), Ok(to)) = (inner.try_clone(), outer.try_clone()) {
                    thread::spawn(move || copy(from, to));
                    thread::spawn(move || copy(outer, inner));
                }
            }
        });
    }
}

/// Copies one direction of a connection.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    // The reader of a broken connection reports it.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
