//! What tenants left behind in the container runtime. Image content and the snapshots of images stay: they are what a clone saves.

use crate::os::{FileKind, Root};

use crate::commands::inspect::bolt::Database;

/// What containerd keeps of pods and containers that ran: their names, addresses, environment and status. It finds them gone at its next
/// start and takes them for dead.
const STATES: [&str; 6] = [
    "/var/lib/containerd/io.containerd.grpc.v1.cri/containers",
    "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes",
    "/var/lib/containerd/io.containerd.runtime.v1.linux",
    "/var/lib/containerd/io.containerd.runtime.v2.task",
    "/var/lib/containerd/io.containerd.sandbox.controller.v1.shim",
    "/var/lib/containerd/tmpmounts",
];

/// The folders that something of a tenant may be in.
pub(super) fn folders(root: &Root) -> Result<Vec<String>, crate::os::Error> {
    let mut all = Vec::new();
    for path in STATES {
        if root.kind(path)? == Some(FileKind::Folder) {
            all.push(path.to_owned());
        }
    }
    Ok(all)
}

const SNAPSHOTTER: &str = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs";
/// How containerd marks a snapshot that nothing was ever written into; the next two are a container's and an image's.
const VIEW: u8 = 1;
const ACTIVE: u8 = 2;

/// What containers wrote into their file systems.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Layers {
    /// In these folders.
    Known(Vec<String>),
    /// The runtime's list of them cannot be read.
    Unknown { why: String },
}

/// The folders of what containers wrote. Layers of images lie beside them and look alike: only the runtime's own list tells them apart.
/// The list stays as it is; a container with nothing left of it is dead, and is removed by who finds it.
pub(super) fn layers(root: &Root) -> Result<Layers, crate::os::Error> {
    let Some(bytes) = root.read_if_exists(&format!("{SNAPSHOTTER}/metadata.db"))? else {
        return Ok(Layers::Known(Vec::new()));
    };
    let listed = Database::open(&bytes).and_then(|database| database.buckets(&["v1", "snapshots"]));
    let snapshots = match listed {
        Ok(snapshots) => snapshots,
        Err(bad) => return Ok(Layers::Unknown { why: format!("`{SNAPSHOTTER}/metadata.db`: {bad}") }),
    };
    let mut folders = Vec::new();
    for (_, values) in snapshots {
        let kind = values.get(b"kind".as_slice()).and_then(|value| value.first().copied());
        let id = values.get(b"id".as_slice()).and_then(|value| varint(value));
        if let (Some(VIEW | ACTIVE), Some(id)) = (kind, id) {
            for inner in ["fs", "work"] {
                let path = format!("{SNAPSHOTTER}/snapshots/{id}/{inner}");
                if root.kind(&path)? == Some(FileKind::Folder) {
                    folders.push(path);
                }
            }
        }
    }
    Ok(Layers::Known(folders))
}

/// Whether a path is one of a layer.
pub(super) fn is_layer(path: &str) -> bool {
    path.starts_with(SNAPSHOTTER)
}

fn varint(bytes: &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f).checked_shl(u32::try_from(at * 7).ok()?)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
