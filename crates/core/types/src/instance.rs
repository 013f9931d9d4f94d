//! Instances of a pool.

use serde::{Deserialize, Serialize};

use crate::name::InstanceId;
use crate::operation::Revision;
use crate::pool::Provisioning;
use crate::recipe::ImageSource;
use crate::tags::Tags;

/// The state of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    pub id: InstanceId,
    /// Its host name, which is also its node's name.
    pub node_name: String,
    /// The id in its firmware.
    pub vm_id: String,
    pub power: PowerState,
    /// Whether the VM agent in its guest reports, which shows that its disk boots.
    pub agent_ready: bool,
    pub provisioning: Provisioning,
    pub protection: Protection,
    /// The image that it was created from.
    pub runs: ImageSource,
    /// Whether it was created from, or updated to, the pool's current recipe.
    pub latest_model: bool,
    /// The resource id of its OS disk.
    pub os_disk: Option<String>,
    pub revision: Option<Revision>,
    pub zones: Vec<String>,
    pub tags: Tags,
}

/// The power state of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerState {
    Starting,
    Running,
    Stopping,
    /// Off, with its hardware reserved.
    Stopped,
    Deallocating,
    /// Off, and a start needs free capacity.
    Deallocated,
    /// The cloud did not report it.
    Unknown,
}

/// How to power a machine off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerDown {
    /// Stop it and keep its hardware, so that the next start cannot fail for lack of capacity.
    #[default]
    KeepHardware,
    Deallocate,
}

/// Protection of an instance from its scale set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// Not delete it when scaling in.
    pub from_scale_in: bool,
    /// Not upgrade, restart or otherwise change it.
    pub from_pool_actions: bool,
}

impl Protection {
    /// Protected from scale-in and from all actions of the scale set.
    pub const FULL: Self = Self { from_scale_in: true, from_pool_actions: true };
    /// Not protected.
    pub const NONE: Self = Self { from_scale_in: false, from_pool_actions: false };
}
