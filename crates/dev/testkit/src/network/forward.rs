//! Letting one address of the host into a network.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use super::Network;

impl Network {
    /// What listens at an address of the host's loopback can be reached from here, at the same address. Until the process ends.
    #[track_caller]
    pub fn forward(&self, address: SocketAddr) {
        let listener = self.listen(address);
        thread::spawn(move || {
            for inner in listener.incoming().flatten() {
                // Whoever cannot be reached there cannot be reached here: the connection ends.
                let Ok(outer) = TcpStream::connect(address) else { continue };
                if let (Ok(from), Ok(to)) = (inner.try_clone(), outer.try_clone()) {
                    thread::spawn(move || carry(from, to));
                    thread::spawn(move || carry(outer, inner));
                }
            }
        });
    }
}

/// One direction of a connection, until its end.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    // An end that broke is the other's to notice.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
