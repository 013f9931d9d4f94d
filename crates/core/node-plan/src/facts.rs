//! Facts about a machine that rendering a document needs.

use std::collections::BTreeMap;

use crate::image::Image;
use crate::join::Credential;

/// Facts about a machine.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub image: Image,
    pub host_name: String,
    pub cgroup_v2: bool,
    /// 0 if unknown.
    pub cpus: u32,
    /// 0 if unknown.
    pub memory_bytes: u64,
    /// The join credential: from `spec.credentialFrom`, else from the generation in force.
    pub credential: Option<Credential>,
    /// Whether the node has joined: the kubelet has its own certificate, which has not expired.
    pub joined: bool,
    pub first_boot: bool,
    /// The temporary disk that was found; none if the image names it or there is none.
    pub temporary_disk: Option<String>,
    /// The name of the `.network` file with which systemd-networkd configures the primary interface. Only known if the document sets an MTU.
    pub network_file: Option<String>,
    /// Kernel settings in `sysctl.d` files of the image, by path below `/proc/sys`. Only known if the document configures the pod network.
    pub sysctls: BTreeMap<String, ImageSysctl>,
}

/// A kernel setting in a file of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSysctl {
    pub value: String,
    pub file: String,
}
