//! What a launch needs of a cloud: machines that belong to no pool.

use std::future::Future;

use serde::{Deserialize, Serialize};

use crate::error::FactoryError;
use crate::image::SecurityType;
use crate::name::MachineName;
use crate::pool::{Provisioning, Tags};
use crate::secret::SecretText;

/// The tag by which everything that was made for a cluster is found again. Each part of a machine carries it.
pub const OWNER_TAG: &str = "kiln.dev_owner";

/// The tag that says how far a launch is: the time at which it began, and [`LAUNCH_DONE`] once its maker knows of the machine. What has the
/// time and not the word for long was left by a maker that is gone.
pub const LAUNCH_TAG: &str = "kiln.dev_launch";

/// See [`LAUNCH_TAG`].
pub const LAUNCH_DONE: &str = "done";

/// A machine to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineSpec {
    /// Its name, and its host name.
    pub name: MachineName,
    pub location: String,
    /// A zone, where the region has them.
    pub zone: Option<String>,
    /// The machine size.
    pub size: String,
    /// The resource id of the image or of one of its versions.
    pub image: String,
    /// The resource id of the subnet.
    pub subnet: String,
    /// The resource id of the security group.
    pub security_group: Option<String>,
    /// What the machine reads at first boot, not yet encoded.
    pub custom_data: SecretText,
    /// The first user.
    pub admin_user: String,
    /// The first user's public key.
    pub ssh_public_key: String,
    /// Whether the cloud may take it back.
    pub priority: Priority,
    /// Resource ids of the identities that it may use.
    pub identities: Vec<String>,
    /// Its OS disk.
    pub disk: MachineDisk,
    /// What the firmware vouches for.
    pub security_type: SecurityType,
    /// Whether the host encrypts caches and temporary disks.
    pub encryption_at_host: bool,
    /// Tags of each of its parts. The owner's tag is among them: what carries it can be found and removed later.
    pub tags: Tags,
}

/// The OS disk of a machine to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineDisk {
    /// Its kind, in the cloud's word (`Premium_LRS`).
    pub kind: String,
    /// Its size in GiB; the image's where none is given.
    pub size_gib: Option<u32>,
    /// The resource id of the keys that it is encrypted with.
    pub encryption_set: Option<String>,
}

/// Whether the cloud may take a machine back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Priority {
    /// It may not.
    #[default]
    Regular,
    /// It may, at any time; the machine is deleted then.
    Spot,
}

/// A machine as it was read, or what a killed creation left of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub name: MachineName,
    /// Whether it exists.
    pub state: MachineState,
    /// Resource ids of all its parts: the VM, the network interface, disks.
    pub parts: Vec<String>,
    pub tags: Tags,
}

/// Whether a machine exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachineState {
    /// It does.
    Present {
        /// Whether the last write to it ended.
        provisioning: Provisioning,
        /// The id that its firmware shows, once it has one.
        vm_id: Option<String>,
    },
    /// Only parts of it do: a creation was killed, or a deletion.
    Fragment,
}

/// A cloud that makes single machines.
pub trait Machines: Send + Sync {
    /// What can go wrong.
    type Error: FactoryError;

    /// Makes a machine and waits until the cloud says that it is there. Repeating it after it was killed half way completes it. What has
    /// the name of one of its parts and another owner is not touched.
    fn create(&self, spec: &MachineSpec) -> impl Future<Output = Result<Machine, Self::Error>> + Send;

    /// Sets [`LAUNCH_TAG`] of a machine to [`LAUNCH_DONE`].
    fn confirm(&self, name: &MachineName) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// A machine, or what is left of it, by its name.
    fn describe(&self, name: &MachineName) -> impl Future<Output = Result<Option<Machine>, Self::Error>> + Send;

    /// All machines and fragments that carry a tag with this value.
    fn list(&self, tag: &str, value: &str) -> impl Future<Output = Result<Vec<Machine>, Self::Error>> + Send;

    /// Deletes a machine with all its parts, and waits until they are gone. A machine that does not exist is deleted already.
    fn delete(&self, name: &MachineName) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Deletes what [`list`](Machines::list) found of a machine and nothing else, and waits until it is gone. Each part is looked at
    /// again before: one that carries the tag no longer is left.
    fn collect(
        &self,
        machine: &Machine,
        tag: &str,
        value: &str,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}
