//! Disks, and host keys: what can wait until the kubelet runs. The service manager mounts and swaps by the lines that are in `fstab` by then; only a
//! partition grows by a tool of the system, and host keys that take their time are made by one.

mod file_system;
mod grow;
mod host_keys;
mod swap_file;

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::os::systemd::{Outcome, Systemd};
use kiln_node_plan::Mount;

use crate::apply::services::{PATIENCE, ServiceError};
use crate::node::Node;

pub use grow::{grow_root, is_root_grown};
pub use host_keys::make_host_keys;

/// What can wait, and failed.
#[derive(Debug, thiserror::Error)]
pub enum LateError {
    /// A file or a device cannot be read or written.
    #[error("`{}` cannot be read or written", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The machine says no.
    #[error(transparent)]
    Host(#[from] crate::os::Error),
    /// The service manager does not mount or swap.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A tool of the system failed.
    #[error("`{tool}` failed: {said}")]
    Tool {
        tool: String,
        /// What it said.
        said: String,
    },
}

/// A swap file gets this size; 0 for none. Another size is another file: the kernel does not grow one that it uses.
pub fn swap(node: &Node, path: &str, mib: u64) -> Result<(), LateError> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    let unit = unit_of(path, "swap");
    systemd.daemon_reload().map_err(ServiceError::from)?;
    systemd.stop(&unit).map_err(ServiceError::from)?;
    let file = node.root.path().join(path.trim_start_matches('/'));
    if mib == 0 {
        return match std::fs::remove_file(&file) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(LateError::Io { path: file, source }),
            _ => Ok(()),
        };
    }
    swap_file::make(&file, mib).map_err(|source| LateError::Io { path: file, source })?;
    start(&mut systemd, &unit)
}

/// A disk is mounted where `fstab` says.
pub fn mount(node: &Node, mount: &Mount) -> Result<(), LateError> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    systemd.daemon_reload().map_err(ServiceError::from)?;
    start(&mut systemd, &unit_of(&mount.path, "mount"))
}

fn client(node: &Node) -> Option<Systemd> {
    node.systemd.as_ref().map(|socket| Systemd::new(socket, PATIENCE))
}

fn start(systemd: &mut Systemd, unit: &str) -> Result<(), LateError> {
    match systemd.start(unit).map_err(ServiceError::from)? {
        Outcome::Started => Ok(()),
        Outcome::Skipped => Err(ServiceError::Failed { unit: unit.to_owned(), result: "skipped".to_owned() }.into()),
        Outcome::Failed { result } => Err(ServiceError::Failed { unit: unit.to_owned(), result }.into()),
    }
}

/// The unit that the service manager makes of a path in `fstab`.
fn unit_of(path: &str, kind: &str) -> String {
    let trimmed = path.trim_matches('/');
    if trimmed.is_empty() {
        return format!("-.{kind}");
    }
    let mut name = String::new();
    for (index, byte) in trimmed.bytes().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if index == 0 => name.push_str("\\x2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => name.push(char::from(byte)),
            other => _ = write!(name, "\\x{other:02x}"),
        }
    }
    format!("{name}.{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_named_as_the_service_manager_names_it() {
        assert_eq!(unit_of("/mnt", "mount"), "mnt.mount");
        assert_eq!(unit_of("/var/lib/kiln/swapfile", "swap"), "var-lib-kiln-swapfile.swap");
        assert_eq!(unit_of("/data/my-disk", "mount"), "data-my\\x2ddisk.mount");
        assert_eq!(unit_of("/.x", "mount"), "\\x2ex.mount");
        assert_eq!(unit_of("/", "mount"), "-.mount");
    }
}
