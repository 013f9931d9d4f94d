//! The port that a launch needs of a cloud: machines outside of pools.

use std::future::Future;

use serde::{Deserialize, Serialize};

use crate::error::FactoryError;
use crate::image::SecurityType;
use crate::name::MachineName;
use crate::pool::Provisioning;
use crate::secret::Secret;
use crate::tags::Tags;

/// A machine to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineSpec {
    /// Also its host name.
    pub name: MachineName,
    pub location: String,
    pub zone: Option<String>,
    pub size: String,
    /// The resource id of an image definition or version.
    pub image: String,
    /// A resource id.
    pub subnet: String,
    /// A resource id.
    pub security_group: Option<String>,
    /// Not yet base64-encoded.
    pub custom_data: Secret,
    pub admin_user: String,
    pub ssh_public_key: String,
    pub priority: Priority,
    /// Resource ids of managed identities.
    pub identities: Vec<String>,
    pub disk: MachineDisk,
    pub security_type: SecurityType,
    pub encryption_at_host: bool,
    /// Tags of each of its parts, including [`OWNER_TAG`](crate::OWNER_TAG).
    pub tags: Tags,
}

/// The OS disk of a machine to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineDisk {
    /// The cloud's name of the disk type (`Premium_LRS`).
    pub kind: String,
    /// Defaults to the image's size.
    pub size_gib: Option<u32>,
    /// The resource id of a disk encryption set.
    pub encryption_set: Option<String>,
}

/// Whether the cloud may evict a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Priority {
    #[default]
    Regular,
    /// The cloud may evict it at any time, which deletes it.
    Spot,
}

/// The state of a machine, or the parts that an interrupted creation or deletion left of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub name: MachineName,
    pub state: MachineState,
    /// Resource ids of the VM, its network interface and its disks.
    pub parts: Vec<String>,
    pub tags: Tags,
}

/// Whether a machine exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachineState {
    Present {
        provisioning: Provisioning,
        /// The id in its firmware, once it has one.
        vm_id: Option<String>,
    },
    /// Only some of its parts exist.
    Fragment,
}

/// A cloud that creates single machines.
pub trait Machines: Send + Sync {
    /// The error type of this cloud.
    type Error: FactoryError;

    /// Creates a machine and waits until it exists. Repeating an interrupted creation completes it. A part that exists with another
    /// owner is not changed.
    fn create(&self, spec: &MachineSpec) -> impl Future<Output = Result<Machine, Self::Error>> + Send;

    /// Sets [`LAUNCH_TAG`] of a machine to [`LAUNCH_DONE`].
    fn confirm(&self, name: &MachineName) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Looks a machine, or its remaining parts, up.
    fn describe(&self, name: &MachineName) -> impl Future<Output = Result<Option<Machine>, Self::Error>> + Send;

    /// Lists the machines and fragments that have a tag with this value.
    fn list(&self, tag: &str, value: &str) -> impl Future<Output = Result<Vec<Machine>, Self::Error>> + Send;

    /// Deletes a machine with all its parts and waits until they are gone. Succeeds if the machine does not exist.
    fn delete(&self, name: &MachineName) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Deletes exactly the parts that [`list`](Machines::list) returned and waits until they are gone. Each part is read again first;
    /// one that no longer has the tag is kept.
    fn collect(
        &self,
        machine: &Machine,
        tag: &str,
        value: &str,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}
