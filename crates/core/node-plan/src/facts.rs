//! What the program found out before it renders a document.

use crate::image::Image;
use crate::join::Credential;

/// What is known of the machine.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// What is in its image.
    pub image: Image,
    /// The name that it has.
    pub host_name: String,
    /// Whether its control groups are of the second kind.
    pub cgroup_v2: bool,
    /// How many processors it has; 0 where nobody looked.
    pub cpus: u32,
    /// How much memory it has; 0 where nobody looked.
    pub memory_bytes: u64,
    /// What it may join with: found where the document says, else kept by the generation in force.
    pub credential: Option<Credential>,
    /// Whether it has joined: the kubelet has a certificate of its own.
    pub joined: bool,
    /// Whether the disk is new to the machine.
    pub first_boot: bool,
}
