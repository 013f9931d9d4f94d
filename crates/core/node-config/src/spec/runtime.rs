//! Container runtime and registry mirrors.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::describe::document;

document! {
    /// Settings of the container runtime.
    pub struct Runtime {
        /// Version of containerd. The image must contain it.
        version: String = Drain,
        /// Default runtime of pods, such as `runc` or `nvidia-container-runtime`.
        default_runtime: String = Restart,
        /// Image of the pause container.
        sandbox_image: String = Restart,
        /// Uses the systemd cgroup driver.
        systemd_cgroup: Option<bool> = Drain,
        /// Additional containerd configuration, merged over kiln's defaults.
        configuration: BTreeMap<String, Value> = Restart,
        /// Data directory for images and containers.
        root: String = Replace,
    }
}

document! {
    /// Mirrors of a container registry.
    pub struct Registry {
        /// Host of the registry in image names, such as `docker.io`. `_default` matches all other registries.
        host: String = None,
        /// URLs of mirrors in order of preference.
        mirrors: Vec<String> = None,
        /// Falls back to the registry itself if no mirror responds.
        fall_back: Option<bool> = None,
        /// Certificate authority of the mirrors, in PEM.
        certificate_authority: String = None,
    }
}
