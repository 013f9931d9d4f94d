//! `kilnd install`: installs kilnd on a machine whose image does not have it, so that clones of its disk reset their identity. It configures
//! nothing and starts nothing; the unit takes effect at the next boot.
//!
//! The order matters: the owner of the disk is recorded before the unit is enabled. On a disk without an owner the unit would treat a clone as a
//! first boot and keep the donor's identity.

use std::fs;
use std::path::PathBuf;

use crate::os::Durability;
use crate::sources::{self, VmId};
use kiln_node_plan::DesiredFile;
use kiln_node_plan::layout::{PACKAGED_UNITS, VM_ID};

use crate::apply::enablement;
use crate::args::Output;
use crate::commands::{CommandResult, DONE, FAILED};
use crate::identity;
use crate::node::Node;

/// The path in the unit files.
pub const PROGRAM: &str = "/usr/bin/kilnd";
/// The path of the unit in the package, which may be installed later.
pub const UNIT: &str = "/usr/lib/systemd/system/kiln-identity.service";
/// A drop-in that keeps the kubelet from starting on a clone before its reset.
pub const GATE: &str = "/usr/lib/systemd/system/kubelet.service.d/10-kiln-identity.conf";
/// The link that enables the unit.
pub const LINK: &str = "/etc/systemd/system/sysinit.target.wants/kiln-identity.service";
const UNIT_NAME: &str = "kiln-identity.service";
/// Gates the kubelet itself.
const CONFIG_UNIT: &str = "kiln-config.service";
const UNIT_TEXT: &str = include_str!("../../../../../units/kiln-identity.service");
const GATE_TEXT: &str = include_str!("install/kubelet-gate.conf");

/// Why kilnd was not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot read the VM id, without which a clone cannot be detected")]
    Machine(#[source] sources::Error),
    #[error(
        "this disk was cloned from machine {recorded}, and its identity was not reset on this machine ({machine})\nhint: run `kilnd identity`"
    )]
    Clone { recorded: String, machine: String },
    #[error("cannot read `{}`", path.display())]
    Program {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Os(#[from] crate::os::Error),
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
                Output::Text => {
                    format!("kilnd {version} installed; the disk belongs to machine {}\n", machine.as_str())
                }
            };
            CommandResult { code: DONE, text }
        }
        Err(error) => {
            node.log.report(&error);
            CommandResult { code: FAILED, text: String::new() }
        }
    }
}

fn own_program() -> Result<Vec<u8>, InstallError> {
    let path = PathBuf::from("/proc/self/exe");
    fs::read(&path).map_err(|source| InstallError::Program { path, source })
}

/// Installs kilnd and its unit, and records the owner of the disk. Files that are up to date are not written.
pub fn install(node: &Node, program: &[u8]) -> Result<VmId, InstallError> {
    let root = &node.root;
    let machine = sources::vm_id(&node.endpoints).map_err(InstallError::Machine)?;
    let recorded = identity::recorded(node)?;
    if let Some(recorded) = &recorded
        && !recorded.parse::<VmId>().is_ok_and(|id| id.is_same_machine(&machine))
    {
        return Err(InstallError::Clone { recorded: recorded.clone(), machine: machine.as_str().to_owned() });
    }
    let is_managed =
        enablement::is_wanted(root, CONFIG_UNIT)? || root.kind(UNIT)?.is_some() && root.kind(PROGRAM)?.is_some();
    // Where the package is installed, the program belongs to it.
    let is_packaged = root.kind(PACKAGED_UNITS)?.is_some() && root.kind(PROGRAM)?.is_some();
    if !is_managed && !is_packaged {
        root.write_differing(&[DesiredFile::new(PROGRAM, program, 0o755)], Durability::Now)?;
    }
    if recorded.is_none() {
        let line = format!("{}\n", machine.as_str());
        root.write_differing(&[DesiredFile::new(VM_ID, line, 0o644)], Durability::Now)?;
    }
    if !is_managed {
        let files = [DesiredFile::new(GATE, GATE_TEXT, 0o644), DesiredFile::new(UNIT, UNIT_TEXT, 0o644)];
        root.write_differing(&files, Durability::Now)?;
    }
    if !enablement::is_wanted(root, UNIT_NAME)? {
        enablement::set_enabled(root, UNIT_NAME, true, Durability::Now)?;
    }
    Ok(machine)
}
