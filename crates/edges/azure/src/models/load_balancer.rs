//! The rules of a load balancer, as far as they decide what a backend pool is for.

use serde::Deserialize;

use super::{Reference, or_default};

#[derive(Deserialize)]
pub(crate) struct LoadBalancer {
    properties: Properties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    #[serde(default, deserialize_with = "or_default")]
    outbound_rules: Vec<Rule>,
    #[serde(default, deserialize_with = "or_default")]
    load_balancing_rules: Vec<Rule>,
    #[serde(default, deserialize_with = "or_default")]
    inbound_nat_rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    #[serde(default, deserialize_with = "or_default")]
    properties: RuleProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuleProperties {
    backend_address_pool: Option<Reference>,
    #[serde(deserialize_with = "or_default")]
    backend_address_pools: Vec<Reference>,
}

impl LoadBalancer {
    /// Whether a backend pool has outbound rules and nothing else: its members reach the Internet and receive no connections.
    pub(crate) fn is_outbound_only(&self, pool: &str) -> bool {
        let Properties { outbound_rules, load_balancing_rules, inbound_nat_rules } = &self.properties;
        let mut inbound = load_balancing_rules.iter().chain(inbound_nat_rules);
        outbound_rules.iter().any(|rule| rule.uses(pool)) && !inbound.any(|rule| rule.uses(pool))
    }
}

impl Rule {
    fn uses(&self, pool: &str) -> bool {
        let RuleProperties { backend_address_pool, backend_address_pools } = &self.properties;
        backend_address_pool
            .iter()
            .chain(backend_address_pools)
            .any(|named| named.id.as_deref().is_some_and(|id| id.eq_ignore_ascii_case(pool)))
    }
}

/// The id of the load balancer that a backend pool belongs to.
pub(crate) fn balancer_of(pool: &str) -> Option<&str> {
    pool.get(..pool.to_ascii_lowercase().find("/backendaddresspools/")?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pool_with_outbound_rules_and_no_inbound_ones_is_outbound_only() {
        let rule = |pool: &str| json!([{"properties": {"backendAddressPool": {"id": pool}}}]);
        let balancer: LoadBalancer = serde_json::from_value(json!({"properties": {
            "outboundRules": [rule("/lb/out")[0], rule("/lb/both")[0], rule("/lb/nat")[0]],
            "loadBalancingRules": [{"properties": {"backendAddressPools": [{"id": "/LB/both"}, {"id": "/lb/in"}]}}],
            "inboundNatRules": rule("/lb/nat"),
        }}))
        .unwrap();
        let all = ["/lb/Out", "/lb/both", "/lb/nat", "/lb/in", "/lb/unused"];
        assert_eq!(all.map(|pool| balancer.is_outbound_only(pool)), [true, false, false, false, false]);
        let empty: LoadBalancer = serde_json::from_value(json!({"properties": {"outboundRules": null}})).unwrap();
        assert!(!empty.is_outbound_only("/lb/out"));
    }

    #[test]
    fn load_balancer_is_the_parent_of_its_pool() {
        let pool =
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/lb/BackendAddressPools/p";
        assert_eq!(
            balancer_of(pool),
            Some("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/lb")
        );
        assert_eq!(balancer_of("/subnets/s"), None);
    }
}
