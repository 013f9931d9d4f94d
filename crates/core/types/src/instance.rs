//! Instances of a pool.

use serde::{Deserialize, Serialize};

use crate::name::InstanceId;
use crate::operation::Revision;
use crate::pool::{Provisioning, Tags};
use crate::recipe::ImageSource;

/// An instance as it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// What tells it from the others.
    pub id: InstanceId,
    /// Its host name, which is its node's name.
    pub node_name: String,
    /// The machine's own id, the one that its firmware shows.
    pub vm_id: String,
    /// Whether it runs.
    pub power: PowerState,
    /// Whether the last write to it ended.
    pub provisioning: Provisioning,
    /// What the pool may not do to it.
    pub protection: Protection,
    /// The image that it was made from.
    pub runs: ImageSource,
    /// Whether it was made from, or brought up to, the pool's recipe as it is now.
    pub latest_model: bool,
    /// The resource id of its OS disk.
    pub os_disk: Option<String>,
    /// What it was when it was read.
    pub revision: Option<Revision>,
    pub zones: Vec<String>,
    pub tags: Tags,
}

/// Whether a machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerState {
    /// On its way up.
    Starting,
    /// Up.
    Running,
    /// On its way down.
    Stopping,
    /// Down, with its hardware kept.
    Stopped,
    /// On its way down and off its hardware.
    Deallocating,
    /// Down, and a start must find hardware anew.
    Deallocated,
    /// Not said.
    Unknown,
}

/// How to turn a machine off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerDown {
    /// Keep the hardware: a start cannot fail for want of it.
    #[default]
    KeepHardware,
    /// Give the hardware back.
    Deallocate,
}

/// What a pool may not do to an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// It may not take it when the pool shrinks.
    pub from_scale_in: bool,
    /// It may not upgrade, restart or otherwise act on it.
    pub from_pool_actions: bool,
}

impl Protection {
    /// Protected from everything.
    pub const FULL: Self = Self { from_scale_in: true, from_pool_actions: true };
    /// Protected from nothing.
    pub const NONE: Self = Self { from_scale_in: false, from_pool_actions: false };
}
