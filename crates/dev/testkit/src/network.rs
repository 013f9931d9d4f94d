//! Private networks: a machine's, and one for the programs that a test starts.
//!
//! Only the test answers there, also at the addresses of a cloud. A client of the metadata service runs in such a network and nowhere else,
//! because on a machine of a real cloud the real service would answer.

mod forward;
mod private;

use std::ffi::OsStr;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use kiln_machines::network::{NetworkNamespace, set_up_loopback};

pub use private::{assert_private, private};

/// The addresses of the metadata service and the wire server.
pub(crate) const CLOUD: [[u8; 4]; 2] = [[169, 254, 169, 254], [168, 63, 129, 16]];

/// A network with only a loopback device, which has the addresses of a cloud. A machine's network stays over restarts of the machine.
#[derive(Clone, Debug)]
pub struct Network(NetworkNamespace);

impl Network {
    pub(crate) fn new(namespace: NetworkNamespace) -> Self {
        Self(namespace)
    }

    #[track_caller]
    pub(crate) fn set_up_loopback(&self, addresses: &[Ipv4Addr]) {
        self.inside(|| set_up_loopback(addresses)).unwrap_or_else(|error| panic!("a private network: {error}"));
    }

    /// Listens in this network.
    #[track_caller]
    pub fn listen(&self, address: SocketAddr) -> TcpListener {
        self.within(|| TcpListener::bind(address)).unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// Connects in this network.
    pub fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.within(|| TcpStream::connect(address))
    }

    /// Calls `act` on a new thread in this network. Sockets, threads and programs that it creates stay there.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.0.within(act)
    }

    /// As [`within`](Self::within), for functions that do not return an error: a whole test.
    ///
    /// # Panics
    /// When the network cannot be entered.
    #[track_caller]
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.within(|| Ok(act())).unwrap_or_else(|error| panic!("{}: {error}", self.0.path().display()))
    }

    /// The file that names this network, for `nsenter --net` and `ip link … netns`.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A command that runs a program in this network, without a process in between.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.0.command(program)
    }
}
