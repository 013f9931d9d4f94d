//! The control plane that all machines of this process share. Each machine reaches it through a forwarded port of its private network.

use std::sync::OnceLock;

use control_plane::{ControlPlane, Options};
use serde_json::Value;

use super::booted::cluster::joining_objects;

/// The control plane, started by the first test that needs it. It ends with this process.
pub(crate) fn plane() -> &'static ControlPlane {
    static STARTED: OnceLock<ControlPlane> = OnceLock::new();
    STARTED.get_or_init(|| {
        let plane = ControlPlane::start(&Options::default()).unwrap_or_else(|error| panic!("{error}"));
        for object in joining_objects() {
            plane.apply(&object).unwrap_or_else(|error| panic!("{error}"));
        }
        plane
    })
}

/// A Node object, if the node has registered.
pub(crate) fn node(name: &str) -> Option<Value> {
    plane().get(&["node", name]).ok()
}
