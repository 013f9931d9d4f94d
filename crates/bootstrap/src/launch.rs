//! The launch template: what a machine is made from.

use std::collections::BTreeMap;

use kiln_cloud::{MachineDisk, MachineName, MachineSpec, Priority, SecretText, SecurityType};
use kiln_contracts::{Secret, from_base64, names};

use crate::bootstrapper::{Bootstrapper, RenderError};
use crate::resolve::Resolved;

/// The tag by which everything that kiln made for a cluster is found again.
pub const OWNER_TAG: &str = "kiln.dev_owner";

/// What machines of one kind are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// What the machine reads at its first boot, base64.
    pub custom_data: Secret,
    /// The id of the image.
    pub image_id: String,
    /// Tags of the machine and its parts.
    pub tags: BTreeMap<String, String>,
}

/// A machine that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// It has no custom data.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Nobody named an image, a size or a subnet.
    #[error("nobody set `{0}`")]
    Missing(&'static str),
    /// Two tags differ only in case, and Azure takes one of them.
    #[error("tags `{0}` and `{1}` differ only in case")]
    TagsCollide(String, String),
    /// A tag is longer than Azure takes, or has a character that it does not.
    #[error("tag `{0}`: a key has at most 512 characters without <>%&\\?/, a value at most 256")]
    BadTag(String),
}

/// Makes the template. The same inputs give the same bytes.
pub fn template(inputs: &Resolved, bootstrapper: &dyn Bootstrapper) -> Result<Template, LaunchError> {
    let image_id = inputs.text("imageId");
    if image_id.is_empty() {
        return Err(LaunchError::Missing("imageId"));
    }
    Ok(Template { custom_data: bootstrapper.custom_data(inputs)?, image_id: image_id.to_owned(), tags: tags(inputs)? })
}

/// Tags: the cluster's, the class's over them, and over both those that kiln and Karpenter find machines by.
pub fn tags(inputs: &Resolved) -> Result<BTreeMap<String, String>, LaunchError> {
    let own = [
        ("karpenter.azure.com/cluster", inputs.text("clusterName")),
        ("compute.aks.billing", "linux"),
        ("karpenter.sh/nodepool", inputs.text("nodePoolName")),
        (OWNER_TAG, inputs.text("clusterName")),
    ];
    let own =
        own.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key.to_owned(), value.to_owned()));
    let all = inputs.map("additionalTags").into_iter().chain(inputs.map("tags")).chain(own);
    let mut tags = BTreeMap::new();
    let mut spelled: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in all {
        let key = names::tag_key(&key);
        let bad = key.is_empty()
            || key.chars().count() > 512
            || key.contains(['<', '>', '%', '&', '\\', '?'])
            || value.chars().count() > 256;
        if bad {
            return Err(LaunchError::BadTag(key));
        }
        if let Some(other) = spelled.insert(key.to_lowercase(), key.clone())
            && other != key
        {
            return Err(LaunchError::TagsCollide(other, key));
        }
        tags.insert(key, value);
    }
    Ok(tags)
}

/// The machine that a template makes.
pub fn machine(inputs: &Resolved, template: &Template, name: MachineName) -> Result<MachineSpec, LaunchError> {
    let needed = |field: &'static str| {
        Some(inputs.text(field).to_owned()).filter(|text| !text.is_empty()).ok_or(LaunchError::Missing(field))
    };
    let optional = |field: &str| Some(inputs.text(field).to_owned()).filter(|text| !text.is_empty());
    let decoded = from_base64(template.custom_data.expose()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(MachineSpec {
        name,
        location: needed("location")?,
        // A claim's zone is the region and a number; Azure wants the number.
        zone: optional("zone").map(|zone| zone.rsplit('-').next().unwrap_or_default().to_owned()),
        size: needed("vmSize")?,
        image: template.image_id.clone(),
        subnet: needed("vnetSubnetId")?,
        security_group: None,
        custom_data: SecretText::new(decoded.unwrap_or_default()),
        admin_user: needed("adminUsername")?,
        ssh_public_key: needed("sshPublicKey")?,
        priority: if inputs.text("capacityType") == "spot" { Priority::Spot } else { Priority::Regular },
        identities: inputs.list("nodeIdentities"),
        disk: MachineDisk {
            kind: "Premium_LRS".to_owned(),
            size_gib: u32::try_from(inputs.number("osDiskSizeGb")).ok().filter(|size| *size > 0),
            encryption_set: optional("diskEncryptionSetId"),
        },
        security_type: if inputs.is_true("trustedLaunch") {
            SecurityType::TrustedLaunch
        } else {
            SecurityType::Standard
        },
        encryption_at_host: inputs.is_true("encryptionAtHost"),
        tags: template.tags.clone().into_iter().collect(),
    })
}
