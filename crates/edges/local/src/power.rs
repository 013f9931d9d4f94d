//! What a machine is made of, and what switches it on and off.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::str::FromStr;

use kiln_types::{BadName, InstanceId, MachineName, PoolName, PowerDown, Secret};
use serde::{Deserialize, Serialize};

/// What a machine is called in its state folder: `POOL_3` for an instance of a pool, its own name for one that is of none. No machine
/// outside a pool has a `_`, so that neither can be taken for the other. It is safe as the name of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MachineKey(String);

impl MachineKey {
    /// The key of an instance.
    pub fn of_instance(pool: &PoolName, instance: &InstanceId) -> Self {
        Self(format!("{pool}_{instance}"))
    }

    /// The key of a machine that is of no pool.
    pub fn of_machine(name: &MachineName) -> Self {
        Self(name.to_string())
    }

    /// The pool and the number of an instance; none for a machine that is of no pool.
    pub fn instance(&self) -> Option<(&str, &str)> {
        self.0.rsplit_once('_')
    }

    /// The key as written.
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
        let rule = "1 to 160 letters, digits, `-`, `_` or `.`, first a letter or digit";
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

/// How a machine is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A container with a systemd of its own, on this machine's kernel.
    Nspawn,
    /// A virtual machine with a kernel of its own.
    Qemu,
}

/// The disk of a machine. Only what is written by the machine itself is its own; everything below is shared and never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskPath {
    /// Folders to be laid over each other by overlayfs.
    Folders {
        /// The shared folders, lowest first; never empty.
        lower: Vec<PathBuf>,
        /// What the machine writes.
        upper: PathBuf,
        /// overlayfs's own folder, on the file system of `upper`.
        work: PathBuf,
    },
    /// A qcow2 file; it names the shared files below it by itself.
    Qcow2(PathBuf),
}

/// What a machine is made of when it is switched on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// Its name, unique in the state folder.
    pub name: MachineKey,
    /// Its host name, which is its node's name.
    pub computer_name: String,
    /// The id that its firmware shows, a UUID.
    pub vm_id: String,
    /// How it is run.
    pub kind: Kind,
    pub disk: DiskPath,
    /// A small number, 1 and up, that no other machine of the state folder has: what addresses are derived from.
    pub number: u16,
    /// What it reads at first boot, not yet encoded.
    pub custom_data: Option<Secret>,
    /// Virtual processors.
    pub cores: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
}

/// A machine could not be switched on or off, or nobody can tell whether it is on.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} machine `{machine}`")]
pub struct PowerError {
    /// What was to be done: `switch on`, `switch off`, `look at`.
    pub act: &'static str,
    pub machine: MachineKey,
    /// Why not.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// What switches machines on and off.
///
/// It keeps no state that outlives the machines: whether one is on is seen by looking. For one machine only one verb runs at a time.
pub trait Power: Send + Sync + 'static {
    /// Switches a machine on and returns once it runs; its system may still be coming up. One that is on stays as it is.
    fn switch_on(&self, body: &Body) -> impl Future<Output = Result<(), PowerError>> + Send;

    /// Shuts a machine down, with force after a while, and returns once nothing uses its disk any more. One that is off stays so.
    fn switch_off(&self, name: &MachineKey, how: PowerDown) -> impl Future<Output = Result<(), PowerError>> + Send;

    /// Whether a machine is on.
    fn is_on(&self, name: &MachineKey) -> impl Future<Output = Result<bool, PowerError>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_safe_as_a_file_name_and_tells_instances_from_machines() {
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
