//! Networks, identities, and the placement of a scale set's machines.

use std::collections::BTreeMap;

use kiln_types::{Network, Placement};
use serde::Deserialize;

use super::Reference;

#[derive(Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
}

#[derive(Deserialize)]
pub(crate) struct NetworkModel {
    id: String,
    #[serde(default)]
    properties: NetworkProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NetworkProperties {
    resource_guid: Option<String>,
    subnets: Vec<SubnetModel>,
}

#[derive(Deserialize)]
struct SubnetModel {
    id: Option<String>,
    name: Option<String>,
}

impl From<NetworkModel> for Network {
    fn from(model: NetworkModel) -> Self {
        let id = model.id;
        let subnet = |subnet: SubnetModel| subnet.id.or_else(|| subnet.name.map(|name| format!("{id}/subnets/{name}")));
        let subnets = model.properties.subnets.into_iter().filter_map(subnet).collect();
        let guid = model.properties.resource_guid.filter(|guid| !guid.is_empty());
        Self { id, guid, subnets }
    }
}

#[derive(Deserialize)]
pub(crate) struct IdentityModel {
    #[serde(default)]
    properties: IdentityProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IdentityProperties {
    client_id: Option<String>,
}

impl IdentityModel {
    pub(crate) fn client_id(self) -> Option<String> {
        self.properties.client_id.filter(|id| !id.is_empty())
    }
}

#[derive(Deserialize)]
pub(crate) struct PlacedScaleSet {
    name: String,
    identity: Option<PoolIdentity>,
    #[serde(default)]
    properties: PlacedProperties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PoolIdentity {
    user_assigned_identities: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PlacedProperties {
    virtual_machine_profile: PlacedProfile,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PlacedProfile {
    network_profile: PlacedNetwork,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PlacedNetwork {
    network_interface_configurations: Vec<PlacedInterface>,
}

#[derive(Deserialize)]
struct PlacedInterface {
    #[serde(default)]
    properties: PlacedInterfaceProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PlacedInterfaceProperties {
    primary: Option<bool>,
    network_security_group: Option<Reference>,
    ip_configurations: Vec<PlacedAddress>,
}

#[derive(Deserialize)]
struct PlacedAddress {
    #[serde(default)]
    properties: PlacedAddressProperties,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PlacedAddressProperties {
    primary: Option<bool>,
    subnet: Option<Reference>,
}

impl From<PlacedScaleSet> for Placement {
    fn from(set: PlacedScaleSet) -> Self {
        let interfaces = set.properties.virtual_machine_profile.network_profile.network_interface_configurations;
        let mut subnets = Vec::new();
        let mut security_groups = Vec::new();
        // `primary` may be missing if there is a single interface or a single address.
        for interface in interfaces.into_iter().map(|one| one.properties).filter(|one| one.primary != Some(false)) {
            security_groups.extend(interface.network_security_group.and_then(|group| group.id));
            let addresses = interface.ip_configurations.into_iter().map(|one| one.properties);
            subnets.extend(addresses.filter(|one| one.primary != Some(false)).filter_map(|one| one.subnet?.id));
        }
        let identities = set.identity.and_then(|identity| identity.user_assigned_identities).unwrap_or_default();
        Self { pool: set.name, subnets, security_groups, identities: identities.into_keys().collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placement_has_network_and_identity_of_the_scale_set() {
        let set: PlacedScaleSet = serde_json::from_value(json!({
            "name": "pool",
            "identity": {"type": "UserAssigned", "userAssignedIdentities": {"/i": {"clientId": "c"}}},
            "properties": {"virtualMachineProfile": {"networkProfile": {"networkInterfaceConfigurations": [
                {"name": "a", "properties": {"primary": true, "networkSecurityGroup": {"id": "/g"}, "ipConfigurations": [
                    {"name": "x", "properties": {"primary": true, "subnet": {"id": "/s"}}},
                    {"name": "y", "properties": {"primary": false, "subnet": {"id": "/pods"}}},
                ]}},
                {"name": "b", "properties": {"primary": false, "ipConfigurations": [
                    {"name": "x", "properties": {"subnet": {"id": "/other"}}},
                ]}},
            ]}}},
        }))
        .unwrap();
        let placement = Placement::from(set);
        assert_eq!(placement.subnets, ["/s"]);
        assert_eq!(placement.security_groups, ["/g"]);
        assert_eq!(placement.identities, ["/i"]);
    }

    #[test]
    fn missing_subnet_id_is_derived_from_the_network() {
        let network: NetworkModel = serde_json::from_value(json!({
            "id": "/n", "properties": {"resourceGuid": "", "subnets": [{"name": "a"}, {"id": "/n/subnets/b"}]},
        }))
        .unwrap();
        let expected =
            Network { id: "/n".into(), guid: None, subnets: vec!["/n/subnets/a".into(), "/n/subnets/b".into()] };
        assert_eq!(Network::from(network), expected);
    }
}
