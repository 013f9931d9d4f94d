//! An instance of a scale set, and the few fields of it that kiln writes.

use kiln_types::{Instance, InstanceId, PowerState, Protection, Provisioning, Revision, Tags};
use serde::{Deserialize, Serialize};

use super::image_reference::ImageReference;
use super::{Reference, or_default, strings};
use crate::arm::Scope;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScaleSetVm {
    pub(crate) instance_id: String,
    pub(crate) location: String,
    #[serde(default, deserialize_with = "strings")]
    zones: Vec<String>,
    pub(crate) etag: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: Tags,
    #[serde(default)]
    pub(crate) properties: Properties,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Properties {
    provisioning_state: Option<String>,
    vm_id: Option<String>,
    latest_model_applied: Option<bool>,
    hardware_profile: Option<Hardware>,
    storage_profile: Option<Storage>,
    os_profile: Option<OsProfile>,
    network_profile: Option<Network>,
    pub(crate) protection_policy: Option<ProtectionPolicy>,
    pub(crate) user_data: Option<String>,
    instance_view: Option<InstanceView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hardware {
    vm_size: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Storage {
    image_reference: Option<ImageReference>,
    os_disk: Option<OsDisk>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OsDisk {
    managed_disk: Option<ManagedDisk>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ManagedDisk {
    id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OsProfile {
    computer_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Network {
    #[serde(default, deserialize_with = "or_default")]
    network_interfaces: Vec<Reference>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProtectionPolicy {
    protect_from_scale_in: bool,
    protect_from_scale_set_actions: bool,
}

impl From<Protection> for ProtectionPolicy {
    fn from(protection: Protection) -> Self {
        Self {
            protect_from_scale_in: protection.from_scale_in,
            protect_from_scale_set_actions: protection.from_pool_actions,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InstanceView {
    vm_agent: Option<VmAgent>,
    #[serde(default, deserialize_with = "or_default")]
    statuses: Vec<InstanceStatus>,
}

#[derive(Debug, Clone, Deserialize)]
struct VmAgent {
    #[serde(default, deserialize_with = "or_default")]
    statuses: Vec<InstanceStatus>,
}

#[derive(Debug, Clone, Deserialize)]
struct InstanceStatus {
    code: Option<String>,
}

/// The body of the PUT. Instances have no PATCH, and kiln writes no other fields.
#[derive(Serialize)]
pub(crate) struct ScaleSetVmPut<'a> {
    pub(crate) location: &'a str,
    #[serde(skip_serializing_if = "Tags::is_empty")]
    pub(crate) tags: Tags,
    pub(crate) properties: PutProperties,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PutProperties {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) protection_policy: Option<ProtectionPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_data: Option<String>,
}

impl ScaleSetVm {
    /// Returns whether the instance is only named, as in the list of a Flexible scale set, whose VMs are resources of their own.
    pub(crate) fn is_bare(&self) -> bool {
        self.properties.os_profile.is_none() && self.properties.provisioning_state.is_none()
    }

    /// Returns the id in the machine's firmware.
    pub(crate) fn vm_id(&self) -> Option<&str> {
        self.properties.vm_id.as_deref()
    }

    /// Returns whether Azure is not changing the instance.
    pub(crate) fn is_settled(&self) -> bool {
        Provisioning::from_name(self.properties.provisioning_state.as_deref()) == Provisioning::Succeeded
    }

    /// Converts the response. An error names the missing field.
    pub(crate) fn read(self, scope: &Scope) -> Result<Instance, &'static str> {
        let p = self.properties;
        let id: InstanceId = self.instance_id.parse().map_err(|_| "instanceId")?;
        let (image, disk) = p.storage_profile.map(|s| (s.image_reference, s.os_disk)).unwrap_or_default();
        let policy = p.protection_policy.unwrap_or_default();
        Ok(Instance {
            id,
            // Azure writes the number in upper case, the kubelet registers the node in lower case.
            node_name: p
                .os_profile
                .and_then(|o| o.computer_name)
                .ok_or("properties.osProfile.computerName")?
                .to_ascii_lowercase(),
            vm_id: p.vm_id.unwrap_or_default(),
            power: power_state(p.instance_view.as_ref()),
            agent_ready: is_agent_ready(p.instance_view.as_ref()),
            provisioning: Provisioning::from_name(p.provisioning_state.as_deref()),
            protection: Protection {
                from_scale_in: policy.protect_from_scale_in,
                from_pool_actions: policy.protect_from_scale_set_actions,
            },
            runs: image.unwrap_or_default().exact_source(scope),
            latest_model: p.latest_model_applied.unwrap_or(false),
            os_disk: disk.and_then(|d| d.managed_disk).and_then(|d| d.id),
            revision: self.etag.map(Revision::new),
            zones: self.zones,
            tags: self.tags,
        })
    }

    /// Returns the first field that a write of protection or user data changed unintentionally.
    pub(crate) fn differs_in(&self, after: &Self) -> Option<&'static str> {
        let (a, b) = (&self.properties, &after.properties);
        let name = |p: &Properties| p.os_profile.as_ref().and_then(|o| o.computer_name.clone());
        let image = |p: &Properties| p.storage_profile.as_ref().and_then(|s| s.image_reference.clone());
        let disk = |p: &Properties| {
            p.storage_profile.as_ref().and_then(|s| s.os_disk.as_ref()).and_then(|d| d.managed_disk.clone())
        };
        let checks = [
            ("tags", self.tags == after.tags),
            ("properties.vmId", a.vm_id == b.vm_id),
            ("properties.hardwareProfile", a.hardware_profile == b.hardware_profile),
            ("properties.osProfile.computerName", name(a) == name(b)),
            ("properties.storageProfile.imageReference", image(a) == image(b)),
            ("properties.storageProfile.osDisk", disk(a) == disk(b)),
            ("properties.networkProfile", a.network_profile == b.network_profile),
        ];
        checks.into_iter().find(|(_, same)| !same).map(|(field, _)| field)
    }
}

/// Whether the VM agent reports. Before its first report Azure returns `ProvisioningState/Unavailable`, or no agent at all.
fn is_agent_ready(view: Option<&InstanceView>) -> bool {
    let statuses = view.and_then(|view| view.vm_agent.as_ref()).map_or(&[][..], |agent| &agent.statuses);
    let mut codes = statuses.iter().filter_map(|status| status.code.as_deref());
    codes.any(|code| code.eq_ignore_ascii_case("ProvisioningState/succeeded"))
}

fn power_state(view: Option<&InstanceView>) -> PowerState {
    let codes = view.iter().flat_map(|v| &v.statuses).filter_map(|s| s.code.as_deref());
    let mut words = codes.filter_map(|code| code.strip_prefix("PowerState/"));
    match words.next() {
        Some("starting") => PowerState::Starting,
        Some("running") => PowerState::Running,
        Some("stopping") => PowerState::Stopping,
        Some("stopped") => PowerState::Stopped,
        Some("deallocating") => PowerState::Deallocating,
        Some("deallocated") => PowerState::Deallocated,
        _ => PowerState::Unknown,
    }
}
