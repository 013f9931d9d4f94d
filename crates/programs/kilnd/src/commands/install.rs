//! Puts kilnd on a machine whose image has none, so that a copy of its disk gets an identity of its own. It configures nothing, removes
//! nothing and starts nothing: what it writes counts from the next start of the machine.
//!
//! The order matters. A unit that runs on a disk that belongs to nobody takes the copy for a first boot and leaves the donor's identity
//! on it, so that the owner is recorded before the unit is turned on.

use std::fs;
use std::path::PathBuf;

use crate::os::Durability;
use crate::sources::{self, VmId};
use kiln_node_plan::DesiredFile;
use kiln_node_plan::layout::VM_ID;

use crate::apply::enablement;
use crate::args::Output;
use crate::commands::{CommandResult, DONE, FAILED};
use crate::identity;
use crate::log::error_chain;
use crate::node::Node;

/// Where units look for the program.
pub const PROGRAM: &str = "/usr/bin/kilnd";
/// Where the package puts the unit too: one that is installed later replaces this one.
pub const UNIT: &str = "/usr/lib/systemd/system/kiln-identity.service";
/// Keeps kubelet from starting on a copy whose identity is not settled.
pub const GATE: &str = "/usr/lib/systemd/system/kubelet.service.d/10-kiln-identity.conf";
const UNIT_NAME: &str = "kiln-identity.service";
/// It gates kubelet by itself.
const CONFIG_UNIT: &str = "kiln-config.service";
const UNIT_TEXT: &str = include_str!("../../../../../units/kiln-identity.service");
const GATE_TEXT: &str = include_str!("install/kubelet-gate.conf");

/// Why nothing was turned on.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Without the machine's id a copy cannot be told from its donor.
    #[error("which machine this is cannot be told")]
    Machine(#[source] sources::Error),
    /// The disk says that it is another machine's, and nobody has made it this one's.
    #[error(
        "the disk belongs to the machine {recorded} and this is {machine}: its identity is not settled (`kilnd identity`)"
    )]
    Foreign {
        /// Whose it is.
        recorded: String,
        /// Which machine this is.
        machine: String,
    },
    /// The running program cannot be read.
    #[error("{path} cannot be read")]
    Program {
        /// Where it is.
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The machine's files cannot be read or written.
    #[error(transparent)]
    Host(#[from] crate::os::Error),
}

/// `kilnd install`.
pub fn run(node: &Node, output: Output) -> CommandResult {
    match own_program().and_then(|program| install(node, &program)) {
        Ok(machine) => {
            let version = env!("CARGO_PKG_VERSION");
            let text = match output {
                Output::Json => {
                    format!("{}\n", serde_json::json!({"recordedVmId": machine.as_str(), "version": version}))
                }
                Output::Text => format!("kilnd {version}: the disk belongs to the machine {}\n", machine.as_str()),
            };
            CommandResult { code: DONE, text }
        }
        Err(error) => {
            node.log.error(&format!("install: {}", error_chain(&error).join(": ")));
            CommandResult { code: FAILED, text: String::new() }
        }
    }
}

fn own_program() -> Result<Vec<u8>, InstallError> {
    let path = PathBuf::from("/proc/self/exe");
    fs::read(&path).map_err(|source| InstallError::Program { path, source })
}

/// Installs this program and its unit, and says whose disk it is. What is there just so is not written again.
pub fn install(node: &Node, program: &[u8]) -> Result<VmId, InstallError> {
    let root = &node.root;
    let machine = sources::vm_id(&node.endpoints).map_err(InstallError::Machine)?;
    let recorded = identity::recorded(node)?;
    if let Some(recorded) = &recorded
        && !recorded.parse::<VmId>().is_ok_and(|id| id.is_same_machine(&machine))
    {
        return Err(InstallError::Foreign { recorded: recorded.clone(), machine: machine.as_str().to_owned() });
    }
    let owned =
        enablement::is_wanted(root, CONFIG_UNIT)? || root.kind(UNIT)?.is_some() && root.kind(PROGRAM)?.is_some();
    if !owned {
        root.write_differing(&[DesiredFile::new(PROGRAM, program, 0o755)], Durability::Now)?;
    }
    if recorded.is_none() {
        let line = format!("{}\n", machine.as_str());
        root.write_differing(&[DesiredFile::new(VM_ID, line, 0o644)], Durability::Now)?;
    }
    if !owned {
        let files = [DesiredFile::new(GATE, GATE_TEXT, 0o644), DesiredFile::new(UNIT, UNIT_TEXT, 0o644)];
        root.write_differing(&files, Durability::Now)?;
    }
    if !enablement::is_wanted(root, UNIT_NAME)? {
        enablement::set_enabled(root, UNIT_NAME, true, Durability::Now)?;
    }
    Ok(machine)
}
