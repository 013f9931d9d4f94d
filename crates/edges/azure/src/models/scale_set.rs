//! The response body of a scale set.

use kiln_types::{
    OperatingSystem, Orchestration, Plan, Pool, PoolName, Provisioning, Recipe, Revision, SecurityType, Tags,
    UpgradeMode,
};
use serde::Deserialize;
use serde_json::Value;

use super::extension::ExtensionModel;
use super::image_reference::ImageReference;
use super::{or_default, strings};
use crate::arm::Scope;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScaleSet {
    pub(crate) name: String,
    pub(crate) location: String,
    #[serde(default, deserialize_with = "strings")]
    zones: Vec<String>,
    sku: Option<Sku>,
    #[serde(default)]
    pub(crate) etag: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: Tags,
    plan: Option<PlanModel>,
    properties: Properties,
}

#[derive(Deserialize)]
struct Sku {
    name: Option<String>,
    capacity: Option<u32>,
}

#[derive(Deserialize)]
struct PlanModel {
    name: Option<String>,
    publisher: Option<String>,
    product: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    provisioning_state: Option<String>,
    upgrade_policy: Option<UpgradePolicy>,
    automatic_repairs_policy: Option<Switch>,
    orchestration_mode: Option<String>,
    virtual_machine_profile: Option<Profile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpgradePolicy {
    mode: Option<String>,
    #[serde(rename = "automaticOSUpgradePolicy")]
    automatic_os_upgrade: Option<OsUpgrade>,
}

#[derive(Deserialize)]
struct OsUpgrade {
    #[serde(rename = "enableAutomaticOSUpgrade")]
    enabled: Option<bool>,
}

#[derive(Deserialize)]
struct Switch {
    enabled: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Profile {
    storage_profile: Option<Storage>,
    os_profile: Option<OsProfile>,
    security_profile: Option<Security>,
    extension_profile: Option<Extensions>,
    /// In base64. Azure returns it only with `$expand=userData`.
    user_data: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Storage {
    image_reference: Option<ImageReference>,
    os_disk: Option<OsDisk>,
    disk_controller_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OsDisk {
    os_type: Option<String>,
    diff_disk_settings: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OsProfile {
    windows_configuration: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Security {
    security_type: Option<String>,
}

#[derive(Deserialize)]
struct Extensions {
    #[serde(default, deserialize_with = "or_default")]
    extensions: Vec<ExtensionModel>,
}

impl ScaleSet {
    /// Takes the user data of the model, in base64.
    pub(crate) fn take_user_data(&mut self) -> Option<String> {
        self.properties.virtual_machine_profile.as_mut()?.user_data.take()
    }

    /// Converts the response. An error names the missing field.
    pub(crate) fn read(self, scope: &Scope) -> Result<Pool, &'static str> {
        let name: PoolName = self.name.parse().map_err(|_| "name")?;
        let p = self.properties;
        let profile = p.virtual_machine_profile.unwrap_or_default();
        let (image, disk, controller) =
            profile.storage_profile.map(|s| (s.image_reference, s.os_disk, s.disk_controller_type)).unwrap_or_default();
        let windows =
            disk.as_ref().and_then(|d| d.os_type.as_deref()).is_some_and(|t| t.eq_ignore_ascii_case("windows"))
                || profile.os_profile.and_then(|o| o.windows_configuration).is_some_and(|w| !w.is_null());
        let upgrade = p.upgrade_policy;
        let flexible = p.orchestration_mode.is_some_and(|m| m.eq_ignore_ascii_case("flexible"));
        Ok(Pool {
            name,
            location: self.location,
            zones: self.zones,
            size: self.sku.as_ref().and_then(|s| s.name.clone()).unwrap_or_default(),
            capacity: self.sku.and_then(|s| s.capacity).unwrap_or_default(),
            revision: self.etag.map(Revision::new),
            provisioning: Provisioning::from_name(p.provisioning_state.as_deref()),
            tags: self.tags,
            automatic_os_upgrade: upgrade
                .as_ref()
                .and_then(|u| u.automatic_os_upgrade.as_ref())
                .and_then(|o| o.enabled)
                .unwrap_or(false),
            upgrade_mode: upgrade_mode(upgrade.and_then(|u| u.mode).as_deref()),
            automatic_repairs: p.automatic_repairs_policy.and_then(|r| r.enabled).unwrap_or(false),
            orchestration: if flexible { Orchestration::Flexible } else { Orchestration::Uniform },
            operating_system: if windows { OperatingSystem::Windows } else { OperatingSystem::Linux },
            ephemeral_os_disk: disk.and_then(|d| d.diff_disk_settings).is_some_and(|d| !d.is_null()),
            plan: self.plan.map(|plan| Plan {
                name: plan.name.unwrap_or_default(),
                publisher: plan.publisher.unwrap_or_default(),
                product: plan.product.unwrap_or_default(),
            }),
            security_type: security_type(profile.security_profile.and_then(|s| s.security_type).as_deref()),
            nvme: controller.map(|name| name.eq_ignore_ascii_case("NVMe")),
            recipe: Recipe {
                image: image.unwrap_or_default().source(scope),
                extensions: profile
                    .extension_profile
                    .map(|e| e.extensions)
                    .unwrap_or_default()
                    .into_iter()
                    .map(ExtensionModel::read)
                    .collect(),
            },
        })
    }
}

fn upgrade_mode(word: Option<&str>) -> UpgradeMode {
    match word {
        // Azure's default.
        None | Some("Manual") => UpgradeMode::Manual,
        Some("Automatic") => UpgradeMode::Automatic,
        Some("Rolling") => UpgradeMode::Rolling,
        Some(other) => UpgradeMode::Other(other.to_owned()),
    }
}

pub(crate) fn security_type(word: Option<&str>) -> SecurityType {
    match word {
        None | Some("" | "Standard" | "None") => SecurityType::Standard,
        Some("TrustedLaunch") => SecurityType::TrustedLaunch,
        Some("ConfidentialVM") => SecurityType::Confidential,
        Some(other) => SecurityType::Other(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_set_is_read_with_all_fields_of_the_preflight_checks() {
        let json = serde_json::json!({
            "name": "pool", "location": "westus2", "zones": ["1"], "etag": "\"7\"", "tags": null,
            "sku": {"name": "Standard_D2s_v3", "capacity": 10},
            "properties": {
                "provisioningState": "Updating", "orchestrationMode": "Uniform",
                "upgradePolicy": {"mode": "Rolling", "automaticOSUpgradePolicy": {"enableAutomaticOSUpgrade": true}},
                "automaticRepairsPolicy": {"enabled": true},
                "virtualMachineProfile": {
                    "storageProfile": {
                        "imageReference": {"publisher": "p", "offer": "o", "sku": "s", "version": "latest"},
                        "osDisk": {"osType": "Linux", "diffDiskSettings": {"option": "Local"}}, "diskControllerType": "NVMe"
                    },
                    "securityProfile": {"securityType": "TrustedLaunch"},
                    "extensionProfile": {"extensions": [
                        {"name": "cse", "properties": {"publisher": "Microsoft.Azure.Extensions", "type": "CustomScript"}},
                        {"name": "bill", "properties": {"publisher": "Microsoft.AKS", "type": "Compute.AKS.Linux.Billing"}}
                    ]}
                }
            }
        });
        let pool = serde_json::from_value::<ScaleSet>(json).unwrap().read(&Scope::new("s", "g").unwrap()).unwrap();
        assert_eq!(pool.capacity, 10);
        assert_eq!(pool.revision, Some(Revision::new("\"7\"")));
        assert_eq!(pool.provisioning, Provisioning::InProgress("Updating".into()));
        assert_eq!(pool.upgrade_mode, UpgradeMode::Rolling);
        assert!(pool.automatic_os_upgrade && pool.automatic_repairs && pool.ephemeral_os_disk);
        assert_eq!((pool.security_type, pool.nvme), (SecurityType::TrustedLaunch, Some(true)));
        assert!(pool.recipe.extensions[0].may_have_hidden_settings);
        assert!(!pool.recipe.extensions[1].may_have_hidden_settings);
    }
}
