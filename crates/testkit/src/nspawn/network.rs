//! The network of a machine: its own, with nothing but loopback and the addresses of a cloud.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The network of a machine. It stays over restarts of the machine.
#[derive(Clone, Debug)]
pub struct Network {
    namespace: PathBuf,
}

impl Network {
    pub(super) fn of(process: u32) -> Self {
        Self { namespace: PathBuf::from(format!("/proc/{process}/ns/net")) }
    }

    /// Listens there.
    #[track_caller]
    pub fn listen(&self, address: SocketAddr) -> TcpListener {
        self.within(move || TcpListener::bind(address)).unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// Connects there.
    pub fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.within(move || TcpStream::connect(address))
    }

    /// Does something in that network. A thread moves there and ends; sockets that it makes stay.
    pub fn within<T: Send + 'static>(&self, act: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        let namespace = File::open(&self.namespace)?;
        let moved = thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            act()
        });
        moved.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
