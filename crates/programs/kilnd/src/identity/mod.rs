//! `kilnd identity`: detects a cloned disk and resets its identity, early in the boot and without a network.
//!
//! Clone detection compares the VM id that is recorded on the disk with the id in DMI. If they differ, the disk was cloned: [`reset`] deletes
//! everything on the list of [`items`], [`edit`] removes the identity from files that stay, [`fresh`] creates a new one, [`tenants`] handles
//! the remains of containers, and [`ancestry`] records the clone. [`join`] determines how the kubelet joins. The donor's disk is never
//! cleaned; every clone resets itself before any service reads the old identity. If the VM id cannot be read, kilnd does not guess: the gate
//! stays closed.

pub mod ancestry;
mod edit;
mod fresh;
pub mod items;
pub mod join;
mod reset;
mod tenants;

use crate::os::Durability;
use crate::sources::{self, VmId};
use kiln_node_plan::BadDropIn;
use kiln_node_plan::DesiredFile;
use kiln_node_plan::layout::{BOOT, VM_ID};

use crate::apply::enablement;
use crate::args::Output;
use crate::boot::kind::{BootKind, BootRecord};
use crate::commands::{CommandResult, DONE, FAILED};
use crate::node::Node;

pub use edit::edit_files;
pub use fresh::{INITIATOR, IQN_PREFIX, MACHINE_ID, UNINITIALIZED};
pub use reset::{Cleaned, clean};

/// Records the owner of the disk at the end of a first boot.
const CONFIG_UNIT: &str = "kiln-config.service";

/// Why the identity could not be established. The gate stays closed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot determine whether this disk was cloned from machine {recorded}: the VM id is unreadable")]
    Unknown {
        recorded: String,
        #[source]
        source: sources::Error,
    },
    #[error("invalid identity drop-in")]
    DropIn(#[from] BadDropIn),
    #[error(transparent)]
    Os(#[from] crate::os::Error),
}

/// `kilnd identity`.
pub fn run(node: &Node, output: Output) -> CommandResult {
    match establish(node) {
        Ok(record) => {
            let text = match output {
                Output::Json => format!("{}\n", serde_json::json!(record)),
                Output::Text => format!("{} boot\n", record.kind.as_str()),
            };
            CommandResult { code: DONE, text }
        }
        Err(error) => {
            node.log.report(&error);
            CommandResult { code: FAILED, text: String::new() }
        }
    }
}

/// Determines the kind of this boot, resets a clone, and records the kind for later commands.
pub fn establish(node: &Node) -> Result<BootRecord, IdentityError> {
    let boot_id = node.boot_id();
    // A restart of the unit. Deciding again would take a machine that has been configured since for one that booted again.
    if let Some(record) = node.boot()?.filter(|record| !boot_id.is_empty() && record.boot_id == boot_id) {
        node.log.info(&format!("kind of boot: {}, as established before", record.kind.as_str()));
        return Ok(record);
    }
    let recorded = recorded(node)?;
    let record = BootRecord { boot_id, ..decide(recorded, sources::vm_id(&node.endpoints))? };
    node.log.info(&format!("kind of boot: {}", record.kind.as_str()));
    let id = record.vm_id.as_deref();
    match record.kind {
        BootKind::Again => {}
        BootKind::First => node.log.step("create missing identity files", || fresh::complete(node))?,
        BootKind::Clone => {
            let donor = record.recorded.as_deref().unwrap_or_default();
            node.log.step("reset the identity", || reset::reset(node, donor, id))?;
            // Without kiln-config.service, no later unit records the owner.
            if let Some(id) = id.filter(|_| !enablement::is_wanted(&node.root, CONFIG_UNIT).unwrap_or(true)) {
                node.root.sync(&["/"])?;
                let line = format!("{id}\n");
                node.root.write_all(&[DesiredFile::new(VM_ID, line, 0o644)], Durability::Now)?;
            }
        }
    }
    let bytes = serde_json::to_vec(&record).unwrap_or_default();
    node.root.write_all(&[DesiredFile::new(BOOT, &bytes, 0o644)], Durability::Later)?;
    Ok(record)
}

/// The VM id that is recorded on the disk.
pub fn recorded(node: &Node) -> Result<Option<String>, crate::os::Error> {
    let bytes = node.root.read_if_exists(VM_ID)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|id| !id.is_empty()))
}

/// Determines the kind of a boot.
fn decide(recorded: Option<String>, machine: Result<VmId, sources::Error>) -> Result<BootRecord, IdentityError> {
    let (kind, machine) = match (&recorded, machine) {
        (None, machine) => (BootKind::First, machine.ok()),
        (Some(recorded), Err(source)) => return Err(IdentityError::Unknown { recorded: recorded.clone(), source }),
        (Some(recorded), Ok(machine)) => {
            // A damaged id cannot be ours.
            let same = recorded.parse::<VmId>().is_ok_and(|id| id.is_same_machine(&machine));
            (if same { BootKind::Again } else { BootKind::Clone }, Some(machine))
        }
    };
    Ok(BootRecord { kind, vm_id: machine.map(String::from), boot_id: String::new(), recorded })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e90";
    const OTHER: &str = "902da516-0000-3e4a-8b57-7f2b4c6d8e90";

    fn kind(recorded: Option<&str>, machine: &str) -> BootKind {
        decide(recorded.map(str::to_owned), Ok(machine.parse().expect("an id"))).expect("decided").kind
    }

    #[test]
    fn kind_of_boot_follows_from_the_ids() {
        assert_eq!(kind(None, ID), BootKind::First);
        assert_eq!(kind(Some(ID), ID), BootKind::Again);
        assert_eq!(kind(Some("902DA516-5F3C-3E4A-8B57-7F2B4C6D8E90"), ID), BootKind::Again, "the other byte order");
        assert_eq!(kind(Some(OTHER), ID), BootKind::Clone);
        assert_eq!(kind(Some("garbage"), ID), BootKind::Clone);
    }

    #[test]
    fn unreadable_id_is_an_error_if_the_disk_has_an_owner() {
        let none = || Err(sources::Error::Read { path: "/sys/x".into(), source: std::io::Error::other("none") });
        let error = decide(Some(ID.to_owned()), none()).expect_err("unknown");
        assert!(error.to_string().contains(ID), "{error}");
        assert_eq!(decide(None, none()).expect("no owner").kind, BootKind::First);
    }
}
