//! Whose disk this is: decided once, early and without a network. A disk that woke up in another machine gets an identity of its own
//! before anybody reads the old one.

pub mod ancestry;
mod fresh;
pub mod items;
pub mod join;
mod netplan;
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
use crate::log::error_chain;
use crate::node::Node;

pub use fresh::{INITIATOR, IQN_PREFIX, MACHINE_ID, UNINITIALIZED};
pub use netplan::neutralise;
pub use reset::{Cleaned, clean};

/// Who records whose disk this is, once a node has its configuration.
const CONFIG_UNIT: &str = "kiln-config.service";

/// Why a machine has no identity of its own. The gate stays shut.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Nobody can say whether this is a clone.
    #[error("the disk belongs to the machine {recorded}, and whether this is it cannot be told")]
    Unknown {
        /// The recorded id.
        recorded: String,
        #[source]
        source: sources::Error,
    },
    /// A drop-in of the image cannot be followed.
    #[error("the image's list of identities is not sound")]
    DropIn(#[from] BadDropIn),
    /// The machine's files cannot be read or written.
    #[error(transparent)]
    Host(#[from] crate::os::Error),
}

/// `kilnd identity`.
pub fn run(node: &Node, output: Output) -> CommandResult {
    match settle(node) {
        Ok(record) => {
            let text = match output {
                Output::Json => format!("{}\n", serde_json::json!(record)),
                Output::Text => format!("{} boot\n", record.kind.as_str()),
            };
            CommandResult { code: DONE, text }
        }
        Err(error) => {
            node.log.error(&format!("identity: {}", error_chain(&error).join(": ")));
            CommandResult { code: FAILED, text: String::new() }
        }
    }
}

/// Decides what this boot is, makes a clone a machine of its own, and says so to everybody who comes later.
pub fn settle(node: &Node) -> Result<BootRecord, IdentityError> {
    let recorded = recorded(node)?;
    let record = decide(recorded, sources::vm_id(&node.endpoints))?;
    node.log.info(&format!("identity: {} boot", record.kind.as_str()));
    let id = record.vm_id.as_deref();
    match record.kind {
        BootKind::Again => {}
        BootKind::First => node.log.step("make what is missing", || fresh::complete(node))?,
        BootKind::Clone => {
            let donor = record.recorded.as_deref().unwrap_or_default();
            node.log.step("reset the identity", || reset::reset(node, donor, id))?;
            // Where nobody configures the node after us, nobody else records it.
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

/// The machine that the disk belongs to; none when it belongs to nobody.
pub fn recorded(node: &Node) -> Result<Option<String>, crate::os::Error> {
    let bytes = node.root.read_if_exists(VM_ID)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|id| !id.is_empty()))
}

/// What a boot is, by whom the disk belongs to and which machine this is.
fn decide(recorded: Option<String>, machine: Result<VmId, sources::Error>) -> Result<BootRecord, IdentityError> {
    let (kind, machine) = match (&recorded, machine) {
        (None, machine) => (BootKind::First, machine.ok()),
        (Some(recorded), Err(source)) => return Err(IdentityError::Unknown { recorded: recorded.clone(), source }),
        (Some(recorded), Ok(machine)) => {
            // What is no id any more cannot be ours.
            let same = recorded.parse::<VmId>().is_ok_and(|id| id.is_same_machine(&machine));
            (if same { BootKind::Again } else { BootKind::Clone }, Some(machine))
        }
    };
    Ok(BootRecord { kind, vm_id: machine.map(String::from), recorded })
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
    fn a_boot_is_the_first_another_or_that_of_a_clone() {
        assert_eq!(kind(None, ID), BootKind::First);
        assert_eq!(kind(Some(ID), ID), BootKind::Again);
        assert_eq!(kind(Some("902DA516-5F3C-3E4A-8B57-7F2B4C6D8E90"), ID), BootKind::Again, "the other spelling");
        assert_eq!(kind(Some(OTHER), ID), BootKind::Clone);
        assert_eq!(kind(Some("garbage"), ID), BootKind::Clone);
    }

    #[test]
    fn a_disk_with_an_owner_in_a_machine_without_an_id_is_not_guessed_at() {
        let none = || Err(sources::Error::Read { path: "/sys/x".into(), source: std::io::Error::other("none") });
        let error = decide(Some(ID.to_owned()), none()).expect_err("unknown");
        assert!(error.to_string().contains(ID), "{error}");
        assert_eq!(decide(None, none()).expect("nobody's").kind, BootKind::First);
    }
}
