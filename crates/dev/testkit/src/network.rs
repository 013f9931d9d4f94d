//! Networks of their own: a machine's, and one for the programs that a test starts.
//!
//! Nobody answers there but the test, also not under the addresses that a cloud has: a client of the metadata service runs in one of
//! them and nowhere else, since on a machine of a real cloud the real one would answer.

mod forward;
mod private;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub use private::{assert_private, private};

/// A network with nothing but loopback and the addresses of a cloud. A machine's stays over restarts of the machine.
#[derive(Clone, Debug)]
pub struct Network {
    namespace: PathBuf,
}

impl Network {
    /// That of a process.
    pub(crate) fn of(process: u32) -> Self {
        Self { namespace: PathBuf::from(format!("/proc/{process}/ns/net")) }
    }

    /// Listens there.
    #[track_caller]
    pub fn listen(&self, address: SocketAddr) -> TcpListener {
        self.within(|| TcpListener::bind(address)).unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// Connects there.
    pub fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.within(|| TcpStream::connect(address))
    }

    /// Does something in that network. A thread moves there and ends; sockets that it makes stay, and threads that it starts are there.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let namespace = File::open(&self.namespace)?;
        let moved = thread::scope(|scope| {
            let inside = || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                act()
            };
            scope.spawn(inside).join()
        });
        moved.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// The same for what cannot fail, or fails by panicking: a whole test.
    ///
    /// # Panics
    /// When the network cannot be entered.
    #[track_caller]
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.within(|| Ok(act())).unwrap_or_else(|error| panic!("{}: {error}", self.namespace.display()))
    }

    /// A program that runs there, as the process that is started.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        let mut network = std::ffi::OsString::from("--net=");
        network.push(&self.namespace);
        command.arg(network).arg("--").arg(program);
        command
    }
}
