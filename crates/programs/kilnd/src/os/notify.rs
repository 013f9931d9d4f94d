//! The `sd_notify` protocol.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable in which systemd passes its socket.
pub const VARIABLE: &str = "NOTIFY_SOCKET";

/// Notifies systemd: `READY=1`, `STATUS=…`, `STOPPING=1`, one per line. Returns false if kilnd was not started by systemd.
pub fn notify(state: &str) -> io::Result<bool> {
    match std::env::var_os(VARIABLE) {
        Some(socket) if !socket.is_empty() => notify_at(&socket, state).map(|()| true),
        _ => Ok(false),
    }
}

/// Sends a notification to a socket; a leading `@` is an abstract name.
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
    fn notification_is_sent_to_paths_and_abstract_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("kiln-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
        for (server, address) in [
            (UnixDatagram::bind(&path).expect("bind"), path.into_os_string()),
            (UnixDatagram::bind_addr(&address).expect("bind"), format!("@{name}").into()),
        ] {
            notify_at(&address, "READY=1\nSTATUS=in force").expect("sent");
            let mut buffer = [0; 64];
            let count = server.recv(&mut buffer).expect("received");
            assert_eq!(&buffer[..count], b"READY=1\nSTATUS=in force");
        }
    }
}
