//! Azure resource names and IDs with structure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Resource ID of a subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SubnetId {
    pub subscription: String,
    /// Resource group of the virtual network.
    pub resource_group: String,
    pub network: String,
    pub subnet: String,
}

/// A text that is not the resource ID of a subnet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid subnet ID `{0}`; expected \
    `/subscriptions/S/resourceGroups/G/providers/Microsoft.Network/virtualNetworks/N/subnets/S`"
)]
pub struct BadSubnetId(pub String);

impl fmt::Display for SubnetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subscription, resource_group, network, subnet } = self;
        write!(
            f,
            "/subscriptions/{subscription}/resourceGroups/{resource_group}/providers/Microsoft.Network/virtualNetworks/{network}\
             /subnets/{subnet}"
        )
    }
}

impl FromStr for SubnetId {
    type Err = BadSubnetId;

    fn from_str(text: &str) -> Result<Self, BadSubnetId> {
        let segments: Vec<&str> = text.split('/').collect();
        let [_, _, subscription, _, resource_group, _, _, _, network, _, subnet] = segments[..] else {
            return Err(BadSubnetId(text.to_owned()));
        };
        let own = |text: &str| text.to_owned();
        let id = Self {
            subscription: own(subscription),
            resource_group: own(resource_group),
            network: own(network),
            subnet: own(subnet),
        };
        let named = ![subscription, resource_group, network, subnet].contains(&"");
        if named && id.to_string().eq_ignore_ascii_case(text) { Ok(id) } else { Err(BadSubnetId(text.to_owned())) }
    }
}

impl TryFrom<String> for SubnetId {
    type Error = BadSubnetId;

    fn try_from(text: String) -> Result<Self, BadSubnetId> {
        text.parse()
    }
}

impl From<SubnetId> for String {
    fn from(id: SubnetId) -> Self {
        id.to_string()
    }
}

/// Converts a resource group name to a label value: parentheses become dashes, at most 63 characters, ending in a letter or digit.
pub fn resource_group_label(resource_group: &str) -> String {
    let mut label: String =
        resource_group.chars().map(|c| if matches!(c, '(' | ')') { '-' } else { c }).take(63).collect();
    if label.ends_with(['-', '_', '.']) {
        if label.chars().count() > 62 {
            label.pop();
        }
        label.push('z');
    }
    label
}

/// Returns the name of a cluster's route table.
pub fn route_table(cluster_id: &str) -> String {
    format!("aks-agentpool-{cluster_id}-routetable")
}

/// Returns the name of a cluster's network security group.
pub fn security_group(cluster_id: &str) -> String {
    format!("aks-agentpool-{cluster_id}-nsg")
}

/// Converts a key to a valid tag name: Azure does not allow `/`.
pub fn tag_key(key: &str) -> String {
    key.replace('/', "_")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/sub";

    #[test]
    fn subnet_id_is_parsed_case_insensitively() {
        let id: SubnetId = ID.to_ascii_uppercase().parse().unwrap();
        assert_eq!((id.network.as_str(), id.subnet.as_str(), id.resource_group.as_str()), ("N", "SUB", "G"));
        assert_eq!(ID.parse::<SubnetId>().unwrap().to_string(), ID);
    }

    #[test]
    fn invalid_subnet_id_is_rejected_with_its_text() {
        let longer = format!("{ID}/x");
        let other = ID.replace("subnets", "routes");
        let unnamed = ID.replace("/sub", "/");
        for text in ["", "subnet-id", &longer, &other, &unnamed, "//////////"] {
            assert_eq!(text.parse::<SubnetId>(), Err(BadSubnetId(text.to_owned())));
        }
    }

    #[test]
    fn resource_group_becomes_a_valid_label() {
        assert_eq!(resource_group_label("MC_my(group)"), "MC_my-group-z");
        assert_eq!(resource_group_label(&"a".repeat(70)), "a".repeat(63));
        let cut = format!("{}-b", "a".repeat(62));
        assert_eq!(resource_group_label(&cut), format!("{}z", "a".repeat(62)));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[/a-zA-Z.]{0,80}") {
            if let Ok(id) = text.parse::<SubnetId>() {
                prop_assert!(id.to_string().eq_ignore_ascii_case(&text));
            }
        }

        #[test]
        fn resource_group_label_is_always_valid(name in "[a-zA-Z0-9_().-]{1,90}") {
            let label = resource_group_label(&name);
            prop_assert!(label.len() <= 63 && !label.ends_with(['-', '_', '.', '(', ')']));
        }
    }
}
