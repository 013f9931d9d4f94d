//! A single machine and its network interface.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_types::{MachineSpec, Priority, SecurityType, Tags};
use serde::{Deserialize, Serialize};

use super::image_reference::ImageReference;
use super::{Reference, or_default};

/// The common fields of a VM, network interface or disk.
#[derive(Deserialize)]
pub(crate) struct Part {
    pub(crate) id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: Tags,
    #[serde(default)]
    pub(crate) properties: PartProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PartProperties {
    pub(crate) provisioning_state: Option<String>,
    pub(crate) vm_id: Option<String>,
    storage_profile: Option<PartStorage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartStorage {
    os_disk: Option<PartDisk>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartDisk {
    managed_disk: Option<PartManagedDisk>,
}

#[derive(Deserialize)]
struct PartManagedDisk {
    id: Option<String>,
}

impl Part {
    /// Returns the id of the OS disk that a VM reports.
    pub(crate) fn os_disk(&self) -> Option<&str> {
        self.properties.storage_profile.as_ref()?.os_disk.as_ref()?.managed_disk.as_ref()?.id.as_deref()
    }
}

#[derive(Serialize)]
pub(crate) struct InterfacePut<'a> {
    location: &'a str,
    tags: &'a Tags,
    properties: InterfaceProperties<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InterfaceProperties<'a> {
    ip_configurations: [Address<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    network_security_group: Option<Reference>,
}

#[derive(Serialize)]
struct Address<'a> {
    name: &'static str,
    properties: AddressProperties<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AddressProperties<'a> {
    primary: bool,
    #[serde(rename = "privateIPAllocationMethod")]
    private_ip_allocation_method: &'static str,
    subnet: ReferenceTo<'a>,
}

#[derive(Serialize)]
struct ReferenceTo<'a> {
    id: &'a str,
}

impl<'a> InterfacePut<'a> {
    pub(crate) fn new(spec: &'a MachineSpec, tags: &'a Tags) -> Self {
        Self {
            location: &spec.location,
            tags,
            properties: InterfaceProperties {
                ip_configurations: [Address {
                    name: "primary",
                    properties: AddressProperties {
                        primary: true,
                        private_ip_allocation_method: "Dynamic",
                        subnet: ReferenceTo { id: &spec.subnet },
                    },
                }],
                network_security_group: spec.security_group.clone().map(|id| Reference { id: Some(id) }),
            },
        }
    }
}

#[derive(Serialize)]
pub(crate) struct MachinePut<'a> {
    location: &'a str,
    tags: &'a Tags,
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: Option<[&'a str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Identity<'a>>,
    properties: MachineProperties<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::zero_sized_map_values, reason = "Azure expects empty objects as values")]
struct Identity<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    user_assigned_identities: BTreeMap<&'a str, Assigned>,
}

#[derive(Serialize)]
struct Assigned {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MachineProperties<'a> {
    hardware_profile: Hardware<'a>,
    storage_profile: Storage<'a>,
    os_profile: OsProfile<'a>,
    network_profile: Network<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    security_profile: Option<Security<'a>>,
    priority: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    eviction_policy: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hardware<'a> {
    vm_size: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Storage<'a> {
    image_reference: ImageReference,
    os_disk: OsDisk<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OsDisk<'a> {
    name: &'a str,
    create_option: &'static str,
    delete_option: &'static str,
    #[serde(rename = "diskSizeGB", skip_serializing_if = "Option::is_none")]
    disk_size: Option<u32>,
    managed_disk: ManagedDisk<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagedDisk<'a> {
    storage_account_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_encryption_set: Option<ReferenceTo<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OsProfile<'a> {
    computer_name: &'a str,
    admin_username: &'a str,
    custom_data: String,
    linux_configuration: Linux<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Linux<'a> {
    disable_password_authentication: bool,
    ssh: Ssh<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ssh<'a> {
    public_keys: [PublicKey<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PublicKey<'a> {
    path: String,
    key_data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Network<'a> {
    network_interfaces: [Attached<'a>; 1],
}

#[derive(Serialize)]
struct Attached<'a> {
    id: &'a str,
    properties: AttachedProperties,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AttachedProperties {
    primary: bool,
    delete_option: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Security<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    security_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption_at_host: Option<bool>,
}

impl<'a> MachinePut<'a> {
    pub(crate) fn new(spec: &'a MachineSpec, tags: &'a Tags, interface: &'a str, disk: &'a str) -> Self {
        let spot = spec.priority == Priority::Spot;
        Self {
            location: &spec.location,
            tags,
            zones: spec.zone.as_deref().map(|zone| [zone]),
            identity: (!spec.identities.is_empty()).then(|| Identity {
                kind: "UserAssigned",
                user_assigned_identities: spec.identities.iter().map(|id| (id.as_str(), Assigned {})).collect(),
            }),
            properties: MachineProperties {
                hardware_profile: Hardware { vm_size: &spec.size },
                storage_profile: Storage {
                    image_reference: ImageReference::from_any_id(&spec.image),
                    os_disk: OsDisk {
                        name: disk,
                        create_option: "FromImage",
                        // Azure deletes disk and interface with the VM, so an interrupted deletion leaves less behind.
                        delete_option: "Delete",
                        disk_size: spec.disk.size_gib,
                        managed_disk: ManagedDisk {
                            storage_account_type: &spec.disk.kind,
                            disk_encryption_set: spec.disk.encryption_set.as_deref().map(|id| ReferenceTo { id }),
                        },
                    },
                },
                os_profile: OsProfile {
                    computer_name: spec.name.as_str(),
                    admin_username: &spec.admin_user,
                    custom_data: STANDARD.encode(spec.custom_data.expose()),
                    linux_configuration: Linux {
                        disable_password_authentication: true,
                        ssh: Ssh {
                            public_keys: [PublicKey {
                                path: format!("/home/{}/.ssh/authorized_keys", spec.admin_user),
                                key_data: &spec.ssh_public_key,
                            }],
                        },
                    },
                },
                network_profile: Network {
                    network_interfaces: [Attached {
                        id: interface,
                        properties: AttachedProperties { primary: true, delete_option: "Delete" },
                    }],
                },
                security_profile: security(spec),
                priority: if spot { "Spot" } else { "Regular" },
                eviction_policy: spot.then_some("Delete"),
            },
        }
    }
}

fn security(spec: &MachineSpec) -> Option<Security<'_>> {
    let security_type = match &spec.security_type {
        SecurityType::Standard => None,
        SecurityType::TrustedLaunch => Some("TrustedLaunch"),
        SecurityType::Confidential => Some("ConfidentialVM"),
        SecurityType::Other(word) => Some(word.as_str()),
    };
    let encryption_at_host = spec.encryption_at_host.then_some(true);
    (security_type.is_some() || encryption_at_host.is_some()).then_some(Security { security_type, encryption_at_host })
}
