//! The container runtime and its registries.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::describe::document;

document! {
    /// The container runtime.
    pub struct Runtime {
        /// Its version. It must be in the image.
        version: String = Drain,
        /// The runtime of pods that ask for none: `runc`, `nvidia-container-runtime`.
        default_runtime: String = Restart,
        /// The image of the pause container.
        sandbox_image: String = Restart,
        /// Whether systemd owns the control groups.
        systemd_cgroup: Option<bool> = Drain,
        /// More of its configuration, merged over what kiln writes.
        configuration: BTreeMap<String, Value> = Restart,
        /// The folder of images and containers.
        root: String = Replace,
    }
}

document! {
    /// A registry that is reached in another way than by its name.
    pub struct Registry {
        /// Its host as images name it, `docker.io`; `_default` for all others.
        host: String = None,
        /// Where to ask instead, in this order.
        mirrors: Vec<String> = None,
        /// Whether the registry itself is asked when no mirror answers.
        fall_back: Option<bool> = None,
        /// Certificates that its mirrors are trusted by, PEM.
        certificate_authority: String = None,
    }
}
