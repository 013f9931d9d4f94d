//! Creates a new identity.

use crate::os::ssh::{HOST_KEY, HostKey};
use crate::os::{Durability, Root, random};
use kiln_node_config::canonical::hex;
use kiln_node_plan::DesiredFile;

use super::{IdentityError, items};
use crate::node::Node;

/// The content of `/etc/machine-id` in an image: systemd generates an id and treats the boot as a first boot.
pub const UNINITIALIZED: &str = "uninitialized";
/// The prefix of the initiator name in its file.
pub const IQN_PREFIX: &str = "InitiatorName=";

pub const MACHINE_ID: &str = "/etc/machine-id";
pub(super) const HOST_NAME: &str = "/etc/hostname";
/// The iSCSI initiator name.
pub const INITIATOR: &str = "/etc/iscsi/initiatorname.iscsi";
const RANDOM_SEED: &str = "/var/lib/systemd/random-seed";
const NVME_ID: &str = "/etc/nvme/hostid";
const NVME_NAME: &str = "/etc/nvme/hostnqn";
/// The seed size of systemd.
const SEED: usize = 512;

/// Optional items that existed before a reset and have to be recreated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Existing {
    pub(super) initiator: bool,
    pub(super) nvme: bool,
}

/// Creates what an image lacks at its first boot: a host key, without which sshd does not start.
pub(super) fn complete(node: &Node) -> Result<(), IdentityError> {
    let root = &node.root;
    for item in items::all(root)?.into_iter().filter(|item| item.name == "kubelet-pki") {
        for path in item.paths_with_identity(root)? {
            // The node may have got kilnd while it was running. It must keep its identity, so only warn.
            node.log.warn(format!(
                "the disk has no recorded owner but contains `{}`; if it is a clone, run `kilnd seal --yes`",
                path.display()
            ));
        }
    }
    if root.kind("/etc/ssh")?.is_some() && root.glob("/etc/ssh/ssh_host_*_key")?.is_empty() {
        host_key(root)?;
    }
    Ok(())
}

/// Creates the identity of a clone.
pub(super) fn make(node: &Node, id: Option<&str>, existing: Existing) -> Result<(), IdentityError> {
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
        DesiredFile::new(RANDOM_SEED, seed, 0o600),
    ];
    if existing.initiator {
        files.push(DesiredFile::new(INITIATOR, initiator, 0o600));
    }
    if existing.nvme {
        files.push(DesiredFile::new(NVME_ID, nvme_id, 0o644));
        files.push(DesiredFile::new(NVME_NAME, nvme_name, 0o644));
    }
    root.write_all(&files, Durability::Later)?;
    // Before DHCP sends the name and before the kubelet registers with it.
    root.set_host_name(name.trim())?;
    Ok(host_key(root)?)
}

/// The host name from the provisioning media, else a unique temporary one.
fn host_name(node: &Node, id: Option<&str>) -> Result<String, crate::os::Error> {
    // If the media cannot be read now, `kilnd boot` reports the error.
    let media = crate::sources::ovf_env(&node.endpoints).ok().flatten().filter(|ovf| !ovf.preprovisioned);
    if let Some(name) = media.and_then(|ovf| ovf.host_name) {
        return Ok(name);
    }
    let digits = match id {
        Some(id) => id.replace('-', ""),
        None => random::id()?,
    };
    // The last digits differ between machines of the same region.
    Ok(format!("node-{}", &digits[digits.len().saturating_sub(12)..]))
}

fn host_key(root: &Root) -> Result<(), crate::os::Error> {
    let key = HostKey::random("kiln")?;
    let public = format!("{HOST_KEY}.pub");
    let files =
        [DesiredFile::new(HOST_KEY, key.expose_private(), 0o600), DesiredFile::new(&public, key.public(), 0o644)];
    root.write_all(&files, Durability::Later)
}
