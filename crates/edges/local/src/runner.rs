//! The configuration of a machine, and the trait that starts and stops machines.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kiln_types::{BadName, InstanceId, MachineName, PoolName, PowerDown, Secret};
use serde::{Deserialize, Serialize};

/// The name of a machine in its state folder: `POOL_3` for an instance of a pool, otherwise the machine's own name, which contains no `_`. It
/// is safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MachineKey(String);

impl MachineKey {
    /// The key of an instance.
    pub fn of_instance(pool: &PoolName, instance: &InstanceId) -> Self {
        Self(format!("{pool}_{instance}"))
    }

    /// The key of a machine outside of pools.
    pub fn of_machine(name: &MachineName) -> Self {
        Self(name.to_string())
    }

    /// The pool and the number of an instance; `None` for a machine outside of pools.
    pub fn instance(&self) -> Option<(&str, &str)> {
        self.0.rsplit_once('_')
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MachineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for MachineKey {
    type Error = BadName;

    fn try_from(input: String) -> Result<Self, BadName> {
        let plain = input.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if plain && input.starts_with(|c: char| c.is_ascii_alphanumeric()) && input.len() <= 160 {
            return Ok(Self(input));
        }
        let rule = "1 to 160 letters, digits, `-`, `_` or `.`, starting with a letter or digit";
        Err(BadName { noun: "machine key", input, rule })
    }
}

impl FromStr for MachineKey {
    type Err = BadName;

    fn from_str(input: &str) -> Result<Self, BadName> {
        Self::try_from(input.to_owned())
    }
}

impl From<MachineKey> for String {
    fn from(key: MachineKey) -> Self {
        key.0
    }
}

/// The program that runs a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MachineKind {
    /// A container with its own systemd, on the host's kernel.
    Nspawn,
    /// A virtual machine with its own kernel.
    Qemu,
}

/// The disk of a machine. The machine writes only to the top layer; the layers below are shared and never change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskPath {
    /// The folders of an overlayfs mount.
    Folders {
        /// The shared folders, lowest first; never empty.
        lower: Vec<PathBuf>,
        /// The writable layer.
        upper: PathBuf,
        /// overlayfs's own folder, on the file system of `upper`.
        work: PathBuf,
    },
    /// A qcow2 file, which refers to the shared files below it.
    Qcow2(PathBuf),
}

/// The configuration with which a machine is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineConfig {
    /// Unique in the state folder.
    pub name: MachineKey,
    /// The host name, and the name of the node.
    pub computer_name: String,
    /// The UUID that the firmware shows.
    pub vm_id: String,
    pub kind: MachineKind,
    pub disk: DiskPath,
    /// A number from 1, unique in the state folder, that determines the addresses.
    pub number: u16,
    /// Read by the machine at first boot; not encoded.
    pub custom_data: Option<Secret>,
    pub cores: u32,
    pub memory_mib: u32,
}

/// A machine could not be started or stopped, or its state could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} machine `{machine}`")]
pub struct RunnerError {
    /// The failed action: `start`, `stop`, `switch the disk of`, `read the state of`.
    pub act: &'static str,
    pub machine: MachineKey,
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Starts and stops machines.
///
/// Implementations are stateless: whether a machine is running is read from the system. The caller makes sure that only one
/// method runs at a time for one machine.
pub trait MachineRunner: Send + Sync + 'static {
    /// Starts a machine and returns when it runs; its system may still be booting. A running machine is left as it is.
    fn start(&self, config: &MachineConfig) -> impl Future<Output = Result<(), RunnerError>> + Send;

    /// Shuts a machine down, kills it after a while, and returns when no process uses its disk. A stopped machine is left as it is.
    fn stop(&self, name: &MachineKey, how: PowerDown) -> impl Future<Output = Result<(), RunnerError>> + Send;

    /// Lets a running virtual machine write to another qcow2 file from now on, which exists and is based on the one that it used.
    fn switch_disk(&self, name: &MachineKey, disk: &Path) -> impl Future<Output = Result<(), RunnerError>> + Send;

    /// Whether a machine is running.
    fn is_running(&self, name: &MachineKey) -> impl Future<Output = Result<bool, RunnerError>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_safe_as_a_file_name_and_distinguishes_instances_from_machines() {
        for bad in ["", ".", "..", "a/b", "-a", "a b"] {
            assert_eq!(bad.parse::<MachineKey>().unwrap_err().input, bad);
        }
        let instance = MachineKey::of_instance(&"a".parse().unwrap(), &"3".parse().unwrap());
        assert_eq!(instance.as_str(), "a_3");
        assert_eq!(instance.instance(), Some(("a", "3")));
        assert_eq!(MachineKey::of_machine(&"a-3".parse().unwrap()).instance(), None);
        assert!("a_3".parse::<MachineName>().is_err());
    }
}
