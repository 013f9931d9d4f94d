//! Names and ids of Azure's that hold more than themselves.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The resource id of a subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SubnetId {
    pub subscription: String,
    /// The resource group of the network.
    pub resource_group: String,
    pub network: String,
    pub subnet: String,
}

/// A text that is no id of a subnet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no id of a subnet: \
     /subscriptions/S/resourceGroups/G/providers/Microsoft.Network/virtualNetworks/N/subnets/S"
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

/// A resource group's name as the value of a label: brackets become dashes, at most 63 characters, and a letter at the end.
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

/// The route table of a cluster.
pub fn route_table(cluster_id: &str) -> String {
    format!("aks-agentpool-{cluster_id}-routetable")
}

/// The security group of a cluster.
pub fn security_group(cluster_id: &str) -> String {
    format!("aks-agentpool-{cluster_id}-nsg")
}

/// A tag's key as Azure takes it: `/` is not allowed there.
pub fn tag_key(key: &str) -> String {
    key.replace('/', "_")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/sub";

    #[test]
    fn a_subnets_id_is_read_whatever_the_case_of_its_fixed_words() {
        let id: SubnetId = ID.to_ascii_uppercase().parse().unwrap();
        assert_eq!((id.network.as_str(), id.subnet.as_str(), id.resource_group.as_str()), ("N", "SUB", "G"));
        assert_eq!(ID.parse::<SubnetId>().unwrap().to_string(), ID);
    }

    #[test]
    fn another_resources_id_is_refused_with_its_text() {
        let longer = format!("{ID}/x");
        let other = ID.replace("subnets", "routes");
        let unnamed = ID.replace("/sub", "/");
        for text in ["", "subnet-id", &longer, &other, &unnamed, "//////////"] {
            assert_eq!(text.parse::<SubnetId>(), Err(BadSubnetId(text.to_owned())));
        }
    }

    #[test]
    fn a_resource_group_becomes_a_label() {
        assert_eq!(resource_group_label("MC_my(group)"), "MC_my-group-z");
        assert_eq!(resource_group_label(&"a".repeat(70)), "a".repeat(63));
        let cut = format!("{}-b", "a".repeat(62));
        assert_eq!(resource_group_label(&cut), format!("{}z", "a".repeat(62)));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[/a-zA-Z.]{0,80}") {
            if let Ok(id) = text.parse::<SubnetId>() {
                prop_assert!(id.to_string().eq_ignore_ascii_case(&text));
            }
        }

        #[test]
        fn a_resource_groups_label_is_never_too_long_and_ends_well(name in "[a-zA-Z0-9_().-]{1,90}") {
            let label = resource_group_label(&name);
            prop_assert!(label.len() <= 63 && !label.ends_with(['-', '_', '.', '(', ')']));
        }
    }
}
