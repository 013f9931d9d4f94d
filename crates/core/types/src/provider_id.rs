//! The provider ID of a node that is an instance of a scale set.

use std::fmt;
use std::str::FromStr;

use crate::name::{InstanceId, PoolName};
use crate::node::Node;

/// A text that is not the provider ID of a scale set instance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid provider id `{0}`; expected `azure:///subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachineScaleSets/POOL/virtualMachines/N`"
)]
pub struct BadProviderId(pub String);

/// The machine of a node. Azure and the writers of the ID disagree about case, so comparisons ignore it.
#[derive(Debug, Clone)]
pub struct ProviderId {
    pub subscription: String,
    pub resource_group: String,
    pub pool: PoolName,
    pub instance: InstanceId,
}

const SCHEME: &str = "azure://";
/// The keywords at the even positions of the path.
const KEYWORDS: [&str; 5] =
    ["subscriptions", "resourceGroups", "providers", "virtualMachineScaleSets", "virtualMachines"];

impl FromStr for ProviderId {
    type Err = BadProviderId;

    fn from_str(text: &str) -> Result<Self, BadProviderId> {
        let bad = || BadProviderId(text.to_owned());
        let (scheme, path) = text.split_at_checked(SCHEME.len()).ok_or_else(bad)?;
        let parts: Vec<&str> = path.strip_prefix('/').ok_or_else(bad)?.split('/').collect();
        let [w0, subscription, w1, group, w2, provider, w3, pool, w4, instance] = parts[..] else { return Err(bad()) };
        let fits = scheme.eq_ignore_ascii_case(SCHEME)
            && provider.eq_ignore_ascii_case("Microsoft.Compute")
            && KEYWORDS
                .iter()
                .zip([w0, w1, w2, w3, w4])
                .all(|(keyword, segment)| keyword.eq_ignore_ascii_case(segment))
            && !subscription.is_empty()
            && !group.is_empty();
        if !fits {
            return Err(bad());
        }
        Ok(Self {
            subscription: subscription.to_owned(),
            resource_group: group.to_owned(),
            pool: pool.parse().map_err(|_| bad())?,
            instance: instance.parse().map_err(|_| bad())?,
        })
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subscription, resource_group, pool, instance } = self;
        write!(
            f,
            "{SCHEME}/subscriptions/{subscription}/resourceGroups/{resource_group}/providers/Microsoft.Compute\
             /virtualMachineScaleSets/{pool}/virtualMachines/{instance}"
        )
    }
}

impl PartialEq for ProviderId {
    fn eq(&self, other: &Self) -> bool {
        self.to_string().eq_ignore_ascii_case(&other.to_string())
    }
}

impl Eq for ProviderId {}

impl ProviderId {
    /// The instance that a node runs on, if it is an instance of a scale set.
    pub fn from_node(node: &Node) -> Option<Self> {
        node.provider_id.as_deref()?.parse().ok()
    }

    /// Whether the machine belongs to this pool.
    pub fn is_of(&self, pool: &PoolName) -> bool {
        self.pool.as_str().eq_ignore_ascii_case(pool.as_str())
    }

    /// Whether the machine is this instance of this pool.
    pub fn is_instance(&self, pool: &PoolName, instance: &InstanceId) -> bool {
        self.is_of(pool) && self.instance.as_str().eq_ignore_ascii_case(instance.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "azure:///subscriptions/5f0c/resourceGroups/my-group/providers/Microsoft.Compute/virtualMachineScaleSets/k8s-pool-1-vmss/virtualMachines/12";

    #[test]
    fn provider_id_round_trips() {
        let id: ProviderId = ID.parse().unwrap();
        assert_eq!((id.pool.as_str(), id.instance.as_str()), ("k8s-pool-1-vmss", "12"));
        assert_eq!(id.to_string(), ID);
    }

    #[test]
    fn provider_ids_are_compared_case_insensitively() {
        let id: ProviderId = ID.parse().unwrap();
        assert_eq!(id, ID.to_ascii_lowercase().parse().unwrap());
        assert_eq!(id, ID.replace("my-group", "MY-GROUP").parse().unwrap());
        assert_ne!(id, ID.replace("/12", "/13").parse().unwrap());
        assert!(id.is_of(&"K8S-pool-1-VMSS".parse().unwrap()));
    }

    #[test]
    fn provider_ids_outside_scale_sets_are_rejected() {
        let machine = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm-1";
        for text in
            ["", "azure://", "aws:///eu-west-1a/i-0123", machine, &ID.replace("/12", "/1/2"), &ID.replace("5f0c", "")]
        {
            assert_eq!(text.parse::<ProviderId>(), Err(BadProviderId(text.to_owned())), "{text}");
        }
    }
}
