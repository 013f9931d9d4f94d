//! What the platform says of a machine, where the document does not: its name, and who may log in first. By the medium where there is
//! one, else by the metadata service.

use crate::os::{Durability, clock};
use crate::sources::{self, FoundDocument, Imds, Instance, Rules, Source, VmId, Wait};
use kiln_node_config::NodeConfig;
use kiln_node_plan::Account;
use kiln_node_plan::DesiredFile;

use crate::identity::ancestry;
use crate::log::error_chain;
use crate::node::Node;

/// What the platform says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Platform {
    host_name: Option<String>,
    user_name: Option<String>,
    ssh_keys: Vec<String>,
    image_version: Option<String>,
    /// The metadata service was not asked yet, and there is one: only Azure gives machines a medium.
    unasked: bool,
}

impl Platform {
    /// What it says of this machine.
    ///
    /// Only who got its document from the metadata service asks there: a medium has said it all, and a machine with a credential may
    /// have no such service. A wrong name is registered for good, so that it is worth the same patience as the document; an account
    /// is not. It is waited for over the network that led to the document: what was put on for that may end before the name is there.
    pub fn query(node: &Node, found: &FoundDocument, config: &NodeConfig, network: &dyn Wait, chance: u64) -> Self {
        if let Some(ovf) = &found.ovf {
            return Self {
                host_name: ovf.host_name.clone(),
                user_name: ovf.user_name.clone(),
                ssh_keys: ovf.ssh_keys.clone(),
                image_version: None,
                unasked: true,
            };
        }
        if found.source != Source::UserData {
            return Self::default();
        }
        let named = !config.spec.platform.host_name.is_empty();
        let rules = if named { Rules::IMDS.once() } else { Rules::IMDS };
        let ask = || Imds::new(&node.endpoints.imds, chance).instance(rules, network);
        match node.log.step("ask what the platform says of the machine", ask) {
            Ok(instance) => instance.into(),
            Err(error) => {
                node.log.warn(unheard(node, named, &error));
                Self::default()
            }
        }
    }

    /// Names the machine and sets up the first account, as far as the document leaves that open.
    pub fn apply(&self, node: &Node, config: &NodeConfig) -> Result<(), crate::os::Error> {
        let asked = &config.spec.platform;
        if let Some(name) = self.host_name.as_ref().filter(|_| asked.host_name.is_empty())
            && *name != node.root.host_name()?
        {
            node.log.step(&format!("name the machine {name}"), || {
                let line = format!("{name}\n");
                node.root.write_all(&[DesiredFile::new("/etc/hostname", line, 0o644)], Durability::Later)?;
                node.root.set_host_name(name)
            })?;
        }
        if let Some(name) = &self.user_name
            && !self.ssh_keys.is_empty()
            && !asked.users.iter().any(|user| user.name == *name)
        {
            let account =
                Account { name: name.clone(), ssh_keys: self.ssh_keys.clone(), sudo: true, ..Account::default() };
            let made = node
                .log
                .step(&format!("set up the account {name}"), || node.root.set_account(&account, Durability::Later));
            // Nobody can log in then; the node runs all the same.
            if let Err(error) = made {
                node.log.warn(format!("the account {name} was not set up: {error}"));
            }
        }
        Ok(())
    }

    /// Writes down which image the machine was made of. Nothing depends on it here: whoever makes an image of this machine wants to know.
    /// So it is asked for once at most, and not before the kubelet starts.
    pub fn note_image(&self, node: &Node, id: Option<&VmId>) {
        let Some(id) = id else { return };
        let ask = || Imds::new(&node.endpoints.imds, id.number()).instance(Rules::IMDS.once(), &node.wait).ok();
        let asked = || if self.unasked { ask()?.image_version } else { None };
        let Some(version) = self.image_version.clone().or_else(asked) else { return };
        if let Err(error) = ancestry::note_version(&node.root, id.as_str(), &version, clock::wall()) {
            node.log.warn(format!("which image this machine was made of is not written down: {error}"));
        }
    }
}

impl From<Instance> for Platform {
    fn from(instance: Instance) -> Self {
        Self {
            host_name: instance.host_name,
            user_name: instance.user_name,
            ssh_keys: instance.ssh_keys,
            image_version: instance.image_version,
            unasked: false,
        }
    }
}

fn unheard(node: &Node, named: bool, error: &sources::Error) -> String {
    let why = error_chain(error).join(": ");
    if named {
        return format!("the platform's first account is not set up: {why}");
    }
    let name = node.root.host_name().unwrap_or_default();
    format!("the machine keeps the name `{name}`, and the platform's first account is not set up: {why}")
}
