//! Host name and first account from the platform, if the document does not set them. They come from the provisioning media, else from the
//! metadata service.

use crate::os::{Durability, clock};
use crate::sources::{self, FoundDocument, Imds, Instance, Rules, Source, VmId, Wait};
use kiln_node_config::NodeConfig;
use kiln_node_plan::Account;
use kiln_node_plan::DesiredFile;

use crate::identity::ancestry;
use crate::log::error_line;
use crate::node::Node;

/// Values from the platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Platform {
    host_name: Option<String>,
    user_name: Option<String>,
    ssh_keys: Vec<String>,
    image_version: Option<String>,
    /// The metadata service was not queried yet but exists, because only Azure has provisioning media.
    can_query: bool,
}

impl Platform {
    /// Reads the values. The metadata service is only queried if the document came from there: provisioning media contain everything, and a
    /// machine with a system credential may have no metadata service.
    ///
    /// The kubelet registers with the host name, so a wrong one is permanent: kilnd waits for it as long as for the document, but not for
    /// the account alone. `network` is the network over which the document was found, because the early network must stay until the name is known.
    pub fn query(node: &Node, found: &FoundDocument, config: &NodeConfig, network: &dyn Wait, seed: u64) -> Self {
        if let Some(ovf) = &found.ovf {
            return Self {
                host_name: ovf.host_name.clone(),
                user_name: ovf.user_name.clone(),
                ssh_keys: ovf.ssh_keys.clone(),
                image_version: None,
                can_query: true,
            };
        }
        if found.source != Source::UserData {
            return Self::default();
        }
        let has_name = !config.spec.platform.host_name.is_empty();
        let rules = if has_name { Rules::IMDS.once() } else { Rules::IMDS };
        let query = || Imds::new(&node.endpoints.imds, seed).instance(rules, network);
        match node.log.step("query the metadata service", query) {
            Ok(instance) => instance.into(),
            Err(error) => {
                node.log.warn(query_warning(node, has_name, &error));
                Self::default()
            }
        }
    }

    /// Sets the host name and creates the first account, unless the document sets them.
    pub fn apply(&self, node: &Node, config: &NodeConfig) -> Result<(), crate::os::Error> {
        let spec = &config.spec.platform;
        if let Some(name) = self.host_name.as_ref().filter(|_| spec.host_name.is_empty())
            && *name != node.root.host_name()?
        {
            node.log.step(&format!("set the host name to {name}"), || {
                let line = format!("{name}\n");
                node.root.write_all(&[DesiredFile::new("/etc/hostname", line, 0o644)], Durability::Later)?;
                node.root.set_host_name(name)
            })?;
        }
        if let Some(name) = &self.user_name
            && !self.ssh_keys.is_empty()
            && !spec.users.iter().any(|user| user.name == *name)
        {
            let account =
                Account { name: name.clone(), ssh_keys: self.ssh_keys.clone(), sudo: true, ..Account::default() };
            let created = node
                .log
                .step(&format!("create the account {name}"), || node.root.set_account(&account, Durability::Later));
            // The node works without the account.
            if let Err(error) = created {
                node.log.warn(format!("cannot create the account {name}: {error}"));
            }
        }
        Ok(())
    }

    /// Records the image version of the machine, which is only needed if an image is made from it later. So it is queried at most once, after the
    /// kubelet has started.
    pub fn note_image(&self, node: &Node, id: Option<&VmId>) {
        let Some(id) = id else { return };
        let query = || Imds::new(&node.endpoints.imds, id.number()).instance(Rules::IMDS.once(), &node.wait).ok();
        let queried = || if self.can_query { query()?.image_version } else { None };
        let Some(version) = self.image_version.clone().or_else(queried) else { return };
        if let Err(error) = ancestry::note_version(&node.root, id.as_str(), &version, clock::wall()) {
            node.log.warn(format!("cannot record the image version: {error}"));
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
            can_query: false,
        }
    }
}

fn query_warning(node: &Node, has_name: bool, error: &sources::Error) -> String {
    let cause = error_line(error);
    if has_name {
        return format!("cannot create the first account: {cause}");
    }
    let name = node.root.host_name().unwrap_or_default();
    format!("the host name stays `{name}` and the first account is not created: {cause}")
}
