//! Launch template: the inputs of a machine's creation.

use std::collections::BTreeMap;

use kiln_aks_formats::{from_base64, names};
use kiln_types::{MachineDisk, MachineName, MachineSpec, Priority, Secret, SecurityType};

use crate::bootstrapper::{Bootstrapper, RenderError};
use crate::provenance::SourceKind;
use crate::resolve::Resolved;

pub use kiln_types::OWNER_TAG;

/// Custom data, image and tags that machines are created with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// In base64.
    pub custom_data: Secret,
    pub image_id: String,
    /// Tags of the machine, its disk and its network interface.
    pub tags: BTreeMap<String, String>,
}

/// A machine cannot be specified from these inputs.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error("required field `{0}` is not set")]
    Missing(&'static str),
    /// Azure compares tag names case-insensitively.
    #[error("tags `{0}` and `{1}` differ only in case")]
    TagsCollide(String, String),
    #[error("invalid tag `{0}`: a key may have up to 512 characters except `<>%&\\?/`, a value up to 256 characters")]
    InvalidTag(String),
}

/// Creates the template. The same inputs give the same bytes.
pub fn template(inputs: &Resolved, bootstrapper: &dyn Bootstrapper) -> Result<Template, LaunchError> {
    template_with_image(inputs, bootstrapper, inputs.text("imageId"))
}

/// Creates the template for an image that was looked up in a gallery.
pub fn template_with_image(
    inputs: &Resolved,
    bootstrapper: &dyn Bootstrapper,
    image_id: &str,
) -> Result<Template, LaunchError> {
    if image_id.is_empty() {
        return Err(LaunchError::Missing("imageId"));
    }
    Ok(Template { custom_data: bootstrapper.custom_data(inputs)?, image_id: image_id.to_owned(), tags: tags(inputs)? })
}

/// Merges the tags of the cluster, those of the class, and those that identify machines to kiln and Karpenter; later ones override
/// earlier ones.
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
            return Err(LaunchError::InvalidTag(key));
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

/// Returns the specification of a machine.
pub fn machine(inputs: &Resolved, template: &Template, name: MachineName) -> Result<MachineSpec, LaunchError> {
    let needed = |field: &'static str| {
        Some(inputs.text(field).to_owned()).filter(|text| !text.is_empty()).ok_or(LaunchError::Missing(field))
    };
    let optional = |field: &str| Some(inputs.text(field).to_owned()).filter(|text| !text.is_empty());
    let decoded = from_base64(template.custom_data.expose()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(MachineSpec {
        name,
        location: needed("location")?,
        // Karpenter writes a zone as region and number, `westeurope-1`; Azure expects the number.
        zone: optional("zone").map(|zone| zone.rsplit('-').next().unwrap_or_default().to_owned()),
        size: needed("vmSize")?,
        image: template.image_id.clone(),
        subnet: needed("vnetSubnetId")?,
        security_group: security_group(inputs),
        custom_data: Secret::new(decoded.unwrap_or_default()),
        admin_user: needed("adminUsername")?,
        ssh_public_key: needed("sshPublicKey")?,
        priority: if inputs.text("capacityType") == "spot" { Priority::Spot } else { Priority::Regular },
        identities: inputs.list("nodeIdentities"),
        disk: MachineDisk {
            kind: disk_kind(inputs.text("vmSize")).to_owned(),
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

/// Returns the security group of the network interface if it was set or detected. A computed name is not used: that group is attached to
/// the subnet already, if it exists at all.
fn security_group(inputs: &Resolved) -> Option<String> {
    let value = inputs.get("securityGroup").filter(|value| value.kind != SourceKind::Computed)?;
    let name = value.value.as_str().filter(|name| !name.is_empty())?;
    let (subscription, group) = (inputs.text("subscriptionId"), inputs.text("resourceGroup"));
    Some(format!(
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network/networkSecurityGroups/{name}"
    ))
}

/// Returns the OS disk type. Azure rejects premium disks on VM sizes without an `s` in their name (`D2s_v3`, `DS2_v2`).
fn disk_kind(size: &str) -> &'static str {
    let name = size.split('_').nth(1).unwrap_or_default();
    if name.contains(['s', 'S']) { "Premium_LRS" } else { "StandardSSD_LRS" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_without_premium_storage_get_standard_disks() {
        for (size, kind) in [
            ("Standard_D2s_v3", "Premium_LRS"),
            ("Standard_DS2_v2", "Premium_LRS"),
            ("Standard_NC24ads_A100_v4", "Premium_LRS"),
            ("Standard_D2_v2", "StandardSSD_LRS"),
            ("standard_d4a_v4", "StandardSSD_LRS"),
        ] {
            assert_eq!(disk_kind(size), kind, "{size}");
        }
    }
}
