//! The scale set of a canary, derived from the readable part of a pool's model.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_types::{CANARY_TAG, Canary, Extension, NO_OP_CUSTOM_DATA, SavedExtension, Secret, Tags};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::extension::ExtensionPut;
use super::image_reference::ImageReference;
use super::{Reference, or_default, strings};

/// The part of a pool's model that its canary copies. Inbound load balancer pools, public addresses, spare capacity and automatic policies
/// are left out on purpose. Outbound pools are kept, see [`Template::keep_backend_pools`].
#[derive(Deserialize)]
pub(crate) struct Template {
    location: String,
    #[serde(default, deserialize_with = "strings")]
    zones: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    tags: Tags,
    #[serde(default, deserialize_with = "or_default")]
    sku: Sku,
    plan: Option<Value>,
    identity: Option<Identity>,
    properties: Properties,
}

#[derive(Default, Serialize, Deserialize)]
struct Sku {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    capacity: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    user_assigned_identities: BTreeMap<String, Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    single_placement_group: Option<bool>,
    platform_fault_domain_count: Option<u32>,
    #[serde(default)]
    virtual_machine_profile: Profile,
}

/// Every field is optional in Azure's answers. Azure itself names what a PUT lacks.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Profile {
    os_profile: OsProfile,
    storage_profile: Storage,
    network_profile: Network,
    security_profile: Option<Value>,
    /// In base64. Azure returns it only with `$expand=userData`.
    user_data: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OsProfile {
    #[serde(default, skip_deserializing)]
    computer_name_prefix: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin_username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    linux_configuration: Option<Value>,
    #[serde(default, skip_deserializing)]
    custom_data: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Storage {
    os_disk: Option<Value>,
    #[serde(default, deserialize_with = "or_default")]
    data_disks: Vec<Value>,
    disk_controller_type: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Network {
    #[serde(default, deserialize_with = "or_default")]
    network_interface_configurations: Vec<Interface>,
}

#[derive(Serialize, Deserialize)]
struct Interface {
    name: String,
    properties: InterfaceProperties,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InterfaceProperties {
    #[serde(skip_serializing_if = "Option::is_none")]
    primary: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_accelerated_networking: Option<bool>,
    #[serde(rename = "enableIPForwarding", skip_serializing_if = "Option::is_none")]
    enable_ip_forwarding: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_security_group: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns_settings: Option<Value>,
    #[serde(default, deserialize_with = "or_default")]
    ip_configurations: Vec<Address>,
}

#[derive(Serialize, Deserialize)]
struct Address {
    name: String,
    properties: AddressProperties,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddressProperties {
    #[serde(skip_serializing_if = "Option::is_none")]
    primary: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subnet: Option<Reference>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    application_security_groups: Vec<Reference>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    load_balancer_backend_address_pools: Vec<Reference>,
    #[serde(rename = "privateIPAddressVersion", skip_serializing_if = "Option::is_none")]
    private_ip_address_version: Option<String>,
}

/// The only scale set body that kiln PUTs. The request carries `If-None-Match: *`.
#[derive(Serialize)]
pub(crate) struct CanaryPut {
    location: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    zones: Vec<String>,
    tags: Tags,
    sku: Sku,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
    properties: PutProperties,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PutProperties {
    orchestration_mode: &'static str,
    overprovision: bool,
    upgrade_policy: UpgradePolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    single_placement_group: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform_fault_domain_count: Option<u32>,
    virtual_machine_profile: PutProfile,
}

#[derive(Serialize)]
struct UpgradePolicy {
    mode: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PutProfile {
    os_profile: OsProfile,
    storage_profile: PutStorage,
    network_profile: Network,
    #[serde(skip_serializing_if = "Option::is_none")]
    security_profile: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extension_profile: Option<PutExtensions>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PutStorage {
    image_reference: ImageReference,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_disk: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data_disks: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_controller_type: Option<String>,
}

#[derive(Serialize)]
struct PutExtensions {
    extensions: Vec<ExtensionPut>,
}

impl Template {
    /// The backend pools of all interfaces, by id.
    pub(crate) fn backend_pools(&self) -> impl Iterator<Item = &str> {
        let interfaces = &self.properties.virtual_machine_profile.network_profile.network_interface_configurations;
        let addresses = interfaces.iter().flat_map(|interface| &interface.properties.ip_configurations);
        addresses
            .flat_map(|one| &one.properties.load_balancer_backend_address_pools)
            .filter_map(|pool| pool.id.as_deref())
    }

    /// Removes the canary from all other backend pools, so that it receives no traffic. In many clusters the outbound pools are a
    /// machine's only way out of its subnet.
    pub(crate) fn keep_backend_pools(&mut self, is_kept: impl Fn(&str) -> bool) {
        let network = &mut self.properties.virtual_machine_profile.network_profile;
        for interface in &mut network.network_interface_configurations {
            for address in &mut interface.properties.ip_configurations {
                address
                    .properties
                    .load_balancer_backend_address_pools
                    .retain(|pool| pool.id.as_deref().is_some_and(&is_kept));
            }
        }
    }
}

/// Azure's limit of tags per resource.
const MAX_TAGS: usize = 50;

/// The canary's own tags, and the pool's as far as they fit: policies may require them. Tags by which kiln, AKS or the cluster autoscaler
/// recognises a pool are left out, because the canary is not one.
fn tags(canary: &Canary, pool: Tags) -> Tags {
    const OF_POOLS: [&str; 3] = ["kiln-", "aks-managed-", "cluster-autoscaler-"];
    let mut tags = canary.tags.clone();
    tags.insert(CANARY_TAG.to_owned(), canary.pool.as_str().to_owned());
    for (name, value) in pool {
        let lower = name.to_ascii_lowercase();
        let is_copied = !OF_POOLS.iter().any(|prefix| lower.starts_with(prefix))
            && !lower.starts_with("k8s.io_cluster-autoscaler")
            && !["min", "max"].contains(&lower.as_str());
        if is_copied && tags.len() < MAX_TAGS && !tags.keys().any(|own| own.eq_ignore_ascii_case(&name)) {
            tags.insert(name, value);
        }
    }
    tags
}

impl CanaryPut {
    /// The body of a canary's scale set. An error names the field that is not valid JSON.
    pub(crate) fn new(
        canary: &Canary,
        image: ImageReference,
        template: Template,
        extensions: &[Extension],
    ) -> Result<Self, &'static str> {
        let tags = tags(canary, template.tags);
        let Properties { single_placement_group, platform_fault_domain_count, virtual_machine_profile: profile } =
            template.properties;
        let mut copied: Vec<ExtensionPut> =
            extensions.iter().filter(|e| is_copyable(e)).map(ExtensionPut::for_canary).collect();
        let bootstrap = canary.bootstrap.as_ref().and_then(|bootstrap| bootstrap.custom_data.as_ref());
        let custom_data = canary.custom_data.as_ref().or(bootstrap);
        if let Some(bootstrap) = &canary.bootstrap {
            for script in extensions.iter().filter(|extension| extension.is_custom_script()) {
                // Without an order, as the other extensions of a canary.
                let extension = Extension { after: Vec::new(), ..script.clone() };
                let protected_settings = bootstrap.protected_settings.clone();
                copied.push(ExtensionPut::from_saved(&SavedExtension { extension, protected_settings })?);
            }
        }
        Ok(Self {
            location: template.location,
            zones: canary.zone.clone().map_or(template.zones, |zone| vec![zone]),
            tags,
            sku: Sku { capacity: 1, name: canary.size.clone().or(template.sku.name), tier: template.sku.tier },
            plan: template.plan,
            identity: template.identity.map(Identity::without_read_only_fields),
            properties: PutProperties {
                orchestration_mode: "Uniform",
                overprovision: false,
                upgrade_policy: UpgradePolicy { mode: "Manual" },
                single_placement_group,
                // The fault domains of a regional scale set do not exist in a zone.
                platform_fault_domain_count: platform_fault_domain_count.filter(|_| canary.zone.is_none()),
                virtual_machine_profile: PutProfile {
                    os_profile: OsProfile {
                        // With the pool's own prefix the canary would get the name of the pool's first node, and thereby its Node object.
                        computer_name_prefix: canary.name.to_string(),
                        custom_data: STANDARD.encode(custom_data.map_or(NO_OP_CUSTOM_DATA, Secret::expose)),
                        ..profile.os_profile
                    },
                    storage_profile: PutStorage {
                        image_reference: image,
                        os_disk: profile.storage_profile.os_disk,
                        data_disks: profile.storage_profile.data_disks,
                        disk_controller_type: profile.storage_profile.disk_controller_type,
                    },
                    network_profile: profile.network_profile,
                    security_profile: profile.security_profile,
                    user_data: profile.user_data,
                    extension_profile: (!copied.is_empty()).then_some(PutExtensions { extensions: copied }),
                },
            },
        })
    }
}

impl Identity {
    /// Drops the read-only fields of assigned identities. Only the keys are needed to assign them.
    fn without_read_only_fields(mut self) -> Self {
        self.user_assigned_identities.values_mut().for_each(Map::clear);
        self
    }
}

/// Returns whether the canary may have this extension: not the pool's script, which only a canary with a bootstrap runs, and none with
/// protected settings, since those cannot be read.
fn is_copyable(extension: &Extension) -> bool {
    !extension.is_custom_script() && !extension.may_have_hidden_settings
}

#[cfg(test)]
mod tests {
    use kiln_types::CanaryBootstrap;
    use serde_json::json;

    use super::*;

    fn extension(name: &str, publisher: &str, kind: &str, hidden: bool) -> Extension {
        Extension {
            name: name.into(),
            publisher: publisher.into(),
            kind: kind.into(),
            handler_version: Some("1.0".into()),
            auto_upgrade_minor: true,
            settings: Some(r#"{"port":80}"#.into()),
            may_have_hidden_settings: hidden,
            ..Extension::default()
        }
    }

    fn put() -> Value {
        put_with(None)
    }

    fn put_with(bootstrap: Option<CanaryBootstrap>) -> Value {
        let mut template: Template = serde_json::from_value(json!({
            "location": "westus2", "zones": ["1"],
            "tags": {"team": "ml", "KILN-RUN": "", "kiln-recipe": "image", "cluster-autoscaler-enabled": "true", "min": "1"},
            "sku": {"name": "Standard_D2s_v3", "tier": "Standard", "capacity": 10},
            "identity": {"type": "UserAssigned", "userAssignedIdentities": {"/subscriptions/s/i": {"principalId": "p", "clientId": "c"}}},
            "properties": {
                "upgradePolicy": {"mode": "Automatic"}, "overprovision": true, "singlePlacementGroup": false,
                "automaticRepairsPolicy": {"enabled": true}, "provisioningState": "Succeeded", "uniqueId": "u",
                "virtualMachineProfile": {
                    "osProfile": {"computerNamePrefix": "k8s-pool", "adminUsername": "azureuser", "linuxConfiguration": {"disablePasswordAuthentication": true}},
                    "storageProfile": {"imageReference": {"id": "/old"}, "osDisk": {"createOption": "FromImage", "osType": "Linux"}, "dataDisks": [{"lun": 0, "createOption": "Empty", "diskSizeGB": 64}]},
                    "networkProfile": {"networkInterfaceConfigurations": [{"name": "nic", "properties": {
                        "primary": true, "enableIPForwarding": true, "dnsSettings": {"dnsServers": ["10.0.0.4"]},
                        "ipConfigurations": [{"name": "ip", "properties": {
                            "subnet": {"id": "/subnet"}, "applicationSecurityGroups": [{"id": "/asg"}],
                            "loadBalancerBackendAddressPools": [{"id": "/lb/in"}, {"id": "/lb/out"}],
                            "publicIPAddressConfiguration": {"name": "public"}
                        }}]
                    }}]},
                    "userData": "e30=",
                    "priority": "Spot"
                }
            }
        }))
        .unwrap();
        let canary = Canary {
            name: kiln_types::CanaryName::from_run("r1").unwrap(),
            pool: "pool".parse().unwrap(),
            definition: kiln_types::DefinitionName { gallery: "g".parse().unwrap(), definition: "d".into() },
            number: "2026.11.15".parse().unwrap(),

            size: None,
            zone: None,
            custom_data: None,
            tags: Tags::from([("kiln-run".to_owned(), "r1".to_owned())]),
            bootstrap,
        };
        assert_eq!(template.backend_pools().collect::<Vec<_>>(), ["/lb/in", "/lb/out"]);
        template.keep_backend_pools(|pool| pool == "/lb/out");
        let extensions = [
            extension("cse", "Microsoft.Azure.Extensions", "CustomScript", false),
            extension("vault", "Microsoft.Azure.KeyVault", "KeyVaultForLinux", true),
            extension("health", "Microsoft.ManagedServices", "ApplicationHealthLinux", false),
        ];
        let put = CanaryPut::new(&canary, ImageReference::by_id("/exact"), template, &extensions).unwrap();
        serde_json::to_value(put).unwrap()
    }

    #[test]
    fn canary_has_one_instance_of_the_exact_version_and_receives_no_traffic() {
        let put = put();
        assert_eq!(put["sku"]["capacity"], 1);
        assert_eq!(put["tags"], json!({"kiln-run": "r1", "kiln-canary-of": "pool", "team": "ml"}));
        let profile = &put["properties"]["virtualMachineProfile"];
        assert_eq!(profile["storageProfile"]["imageReference"], json!({"id": "/exact"}));
        assert_eq!(profile["osProfile"]["customData"], "I2Nsb3VkLWNvbmZpZwo=");
        assert_eq!(
            profile["osProfile"]["computerNamePrefix"], "kiln-canary-r1",
            "otherwise its node would have the name of a pool node"
        );
        let text = put.to_string();
        for absent in [
            "/lb/in",
            "public",
            "Spot",
            "Automatic",
            "automaticRepairsPolicy",
            "uniqueId",
            "principalId",
            "provisioningState",
        ] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
    }

    #[test]
    fn canary_keeps_what_a_node_needs_to_boot_and_join() {
        let put = put();
        let profile = &put["properties"]["virtualMachineProfile"];
        assert_eq!(profile["storageProfile"]["dataDisks"][0]["diskSizeGB"], 64, "fstab may name it");
        let interface = &profile["networkProfile"]["networkInterfaceConfigurations"][0]["properties"];
        assert_eq!(interface["enableIPForwarding"], true);
        assert_eq!(profile["userData"], "e30=", "its NodeConfig may be there");
        assert_eq!(interface["dnsSettings"]["dnsServers"][0], "10.0.0.4");
        let address = &interface["ipConfigurations"][0]["properties"];
        assert_eq!(
            (&address["subnet"]["id"], &address["applicationSecurityGroups"][0]["id"]),
            (&json!("/subnet"), &json!("/asg"))
        );
        assert_eq!(address["loadBalancerBackendAddressPools"], json!([{"id": "/lb/out"}]), "often the only way out");
    }

    #[test]
    fn canary_has_no_script_extension_and_none_with_hidden_settings() {
        let put = put();
        let extensions =
            put["properties"]["virtualMachineProfile"]["extensionProfile"]["extensions"].as_array().unwrap();
        let names: Vec<_> = extensions.iter().map(|e| e["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["health"]);
        assert_eq!(extensions[0]["properties"]["settings"], json!({"port": 80}));
    }

    #[test]
    fn canary_that_joins_by_the_recipe_has_its_custom_data_and_script() {
        let put = put_with(Some(CanaryBootstrap {
            custom_data: Some(Secret::new("#!/bin/sh\njoin\n")),
            protected_settings: Some(Secret::new(r#"{"commandToExecute":"join"}"#)),
        }));
        let profile = &put["properties"]["virtualMachineProfile"];
        assert_eq!(profile["osProfile"]["customData"], "IyEvYmluL3NoCmpvaW4K");
        let extensions = profile["extensionProfile"]["extensions"].as_array().unwrap();
        let names: Vec<_> = extensions.iter().map(|e| e["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["health", "cse"]);
        assert_eq!(extensions[1]["properties"]["protectedSettings"], json!({"commandToExecute": "join"}));
    }
}
