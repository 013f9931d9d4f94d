//! Network namespaces, entered by a thread or a command of this process.
//!
//! A client of a metadata service runs only in a private network: on a machine of a real cloud, 169.254.169.254 answers everywhere else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{Error, command};

/// Reports that the namespace exists, and keeps it until this process has opened it.
const HOLD: &str = "echo ready; read -r line || true";

/// A network namespace, by the file that names it.
#[derive(Clone, Debug)]
pub struct NetworkNamespace {
    path: PathBuf,
}

impl NetworkNamespace {
    /// The network namespace of a process.
    pub fn of_process(process: u32) -> Self {
        Self { path: PathBuf::from(format!("/proc/{process}/ns/net")) }
    }

    /// Creates an empty network namespace. It exists as long as the returned file is open, and so ends with this process.
    pub fn create() -> Result<(Self, File), Error> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "sh", "-euc", HOLD]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = unshare.spawn().map_err(Error::spawn("unshare"))?;
        let mut line = String::new();
        let read = holder.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
        if !matches!(read, Some(Ok(_))) || line != "ready\n" {
            return Err(Error::NoNamespaces { name: "a private network".to_owned() });
        }
        let path = Self::of_process(holder.id()).path;
        let file = File::open(&path).map_err(Error::file(&path))?;
        drop(holder.stdin.take());
        holder.wait().map_err(Error::spawn("unshare"))?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        Ok((Self { path }, file))
    }

    /// The file that names the namespace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `act` on a new thread in this network. Sockets that it creates stay there, and so do the threads and programs that it starts.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let namespace = File::open(&self.path)?;
        let result = thread::scope(|scope| {
            let inside = || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                act()
            };
            scope.spawn(inside).join()
        });
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A command that runs a program in this network, without a process in between.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut option = OsString::from("--net=");
        option.push(&self.path);
        let mut command = Command::new("nsenter");
        command.arg(option).arg("--").arg(program);
        command
    }
}

/// Brings up the loopback device in the network of this thread and adds addresses to it.
pub fn set_up_loopback(addresses: &[Ipv4Addr]) -> Result<(), Error> {
    command::run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    for address in addresses {
        command::run(Command::new("ip").args(["address", "add", &format!("{address}/32"), "dev", "lo"]))?;
    }
    Ok(())
}
