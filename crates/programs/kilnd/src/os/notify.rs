//! Telling the service manager how far a service is.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where the service manager listens, by its own word.
pub const VARIABLE: &str = "NOTIFY_SOCKET";

/// Says something to the service manager that started this program: `READY=1`, `STATUS=…`, `STOPPING=1`, one per line. Says whether there
/// is one to say it to.
pub fn notify(state: &str) -> io::Result<bool> {
    match std::env::var_os(VARIABLE) {
        Some(socket) if !socket.is_empty() => notify_at(&socket, state).map(|()| true),
        _ => Ok(false),
    }
}

/// Says something to a service manager that listens there; a leading `@` is a name without a file.
pub fn notify_at(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_hears_what_is_said_by_file_and_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("kiln-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
        for (server, spelled) in [
            (UnixDatagram::bind(&path).expect("bind"), path.into_os_string()),
            (UnixDatagram::bind_addr(&address).expect("bind"), format!("@{name}").into()),
        ] {
            notify_at(&spelled, "READY=1\nSTATUS=in force").expect("sent");
            let mut buffer = [0; 64];
            let count = server.recv(&mut buffer).expect("heard");
            assert_eq!(&buffer[..count], b"READY=1\nSTATUS=in force");
        }
    }
}
