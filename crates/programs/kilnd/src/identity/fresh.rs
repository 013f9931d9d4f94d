//! What a machine has of its own from the beginning.

use kiln_node_plan::DesiredFile;
use std::fmt::Write as _;

use crate::os::ssh::{HOST_KEY, HostKey};
use crate::os::{Durability, Root, random};

use super::{IdentityError, items, netplan};
use crate::node::Node;

/// What stands in the place of a machine id before the first boot: PID 1 draws one, and takes the boot for a first one.
pub const UNINITIALIZED: &str = "uninitialized";
/// How an initiator's name begins in its file.
pub const IQN_PREFIX: &str = "InitiatorName=";

/// The machine id.
pub const MACHINE_ID: &str = "/etc/machine-id";
pub(super) const HOST_NAME: &str = "/etc/hostname";
/// The name by which iSCSI targets know the machine.
pub const INITIATOR: &str = "/etc/iscsi/initiatorname.iscsi";
const RANDOM_SEED: &str = "/var/lib/systemd/random-seed";
const NVME_ID: &str = "/etc/nvme/hostid";
const NVME_NAME: &str = "/etc/nvme/hostnqn";
/// As large as the kernel's pool was when systemd chose it.
const SEED: usize = 512;

/// What there was before a reset, and is to be there anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Had {
    pub(super) initiator: bool,
    pub(super) nvme: bool,
}

/// The first boot of an image: what was left out of it is made. A host key, above all, since sshd does not start without one.
pub(super) fn complete(node: &Node) -> Result<(), IdentityError> {
    let root = &node.root;
    for item in items::all(root)?.into_iter().filter(|item| item.name == "kubelet-pki") {
        for path in item.telling(root)? {
            // A node that got kilnd while it ran is no clone, and must not lose what it has; a copy of one is for a person to look at.
            node.log
                .warn(format!("the disk belongs to nobody and has `{path}`: if it is a copy, run `kilnd seal --yes`"));
        }
    }
    if root.kind("/etc/ssh")?.is_some() && root.glob("/etc/ssh/ssh_host_*_key")?.is_empty() {
        host_key(root)?;
    }
    Ok(())
}

/// Everything that a clone has of its own.
pub(super) fn make(node: &Node, id: Option<&str>, had: Had) -> Result<(), IdentityError> {
    let root = &node.root;
    let machine_id = format!("{}\n", random::id()?);
    let name = format!("{}\n", host_name(node, id)?);
    let seed = random::bytes::<SEED>()?;
    let initiator = format!("{IQN_PREFIX}iqn.2016-04.com.open-iscsi:{}\n", hex(&random::bytes::<6>()?));
    let uuid = random::uuid()?;
    let (nvme_id, nvme_name) = (format!("{uuid}\n"), format!("nqn.2014-08.org.nvmexpress:uuid:{uuid}\n"));
    let mut files = vec![
        DesiredFile::new(MACHINE_ID, machine_id, 0o444),
        DesiredFile::new(HOST_NAME, &name, 0o644),
        DesiredFile::new(RANDOM_SEED, &seed, 0o600),
    ];
    if had.initiator {
        files.push(DesiredFile::new(INITIATOR, initiator, 0o600));
    }
    if had.nvme {
        files.push(DesiredFile::new(NVME_ID, nvme_id, 0o644));
        files.push(DesiredFile::new(NVME_NAME, nvme_name, 0o644));
    }
    root.write_all(&files, Durability::Later)?;
    // Before DHCP says the name to the network, and before kubelet registers under it.
    root.set_host_name(name.trim())?;
    host_key(root)?;
    Ok(netplan::neutralise(root)?)
}

/// The name that the platform gave, where its medium is there already; else one that no other machine has, until somebody who knows a
/// better one says it.
fn host_name(node: &Node, id: Option<&str>) -> Result<String, crate::os::Error> {
    // A medium that cannot be read now is read, and complained about, by who comes later.
    let medium = crate::sources::ovf_env(&node.endpoints).ok().flatten().filter(|ovf| !ovf.preprovisioned);
    if let Some(name) = medium.and_then(|ovf| ovf.host_name) {
        return Ok(name);
    }
    let digits = match id {
        Some(id) => id.replace('-', ""),
        None => random::id()?,
    };
    // The end of an id is what differs among machines of one place.
    Ok(format!("node-{}", &digits[digits.len().saturating_sub(12)..]))
}

fn host_key(root: &Root) -> Result<(), crate::os::Error> {
    let key = HostKey::random("kiln")?;
    let public = format!("{HOST_KEY}.pub");
    let files =
        [DesiredFile::new(HOST_KEY, key.expose_private(), 0o600), DesiredFile::new(&public, key.public(), 0o644)];
    root.write_all(&files, Durability::Later)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
