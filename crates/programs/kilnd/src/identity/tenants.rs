//! Remains of containers in containerd. Images and their snapshots stay, because they are what a clone saves.

use std::path::Path;

use crate::os::{FileKind, Root};

use crate::commands::inspect::bolt::Database;

/// containerd's records of pods and containers. Without them containerd considers the containers dead at its next start.
const STATES: [&str; 6] = [
    "/var/lib/containerd/io.containerd.grpc.v1.cri/containers",
    "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes",
    "/var/lib/containerd/io.containerd.runtime.v1.linux",
    "/var/lib/containerd/io.containerd.runtime.v2.task",
    "/var/lib/containerd/io.containerd.sandbox.controller.v1.shim",
    "/var/lib/containerd/tmpmounts",
];

/// The existing folders of these records.
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
/// Snapshot kinds of containerd: a read-only view, and the writable layer of a container. Image layers are committed.
const VIEW: u8 = 1;
const ACTIVE: u8 = 2;

/// Writable layers of containers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Layers {
    Known(Vec<String>),
    /// The list of snapshots cannot be read.
    Unknown {
        why: String,
    },
}

/// The folders of writable layers. Image layers have the same form, so they can only be distinguished with containerd's database. The database is
/// not changed; containerd removes dead containers itself.
pub(super) fn layers(root: &Root) -> Result<Layers, crate::os::Error> {
    let Some(bytes) = root.read_if_exists(format!("{SNAPSHOTTER}/metadata.db"))? else {
        return Ok(Layers::Known(Vec::new()));
    };
    let listed = Database::open(&bytes).and_then(|database| database.buckets(&["v1", "snapshots"]));
    let snapshots = match listed {
        Ok(snapshots) => snapshots,
        Err(error) => return Ok(Layers::Unknown { why: format!("`{SNAPSHOTTER}/metadata.db`: {error}") }),
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

/// Whether a path is a layer.
pub(super) fn is_layer(path: &Path) -> bool {
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
