//! Whether a machine reaches the API server, by Azure's rules for outbound access.

use serde_json::Value;

use super::World;
use super::resource::Resource;
use crate::arm::id::ResourceId;

impl World {
    /// Why a VM has no outbound access. `None` if it has, or if its network is not part of this world.
    pub(crate) fn missing_outbound(&self, vm: &Resource) -> Option<String> {
        let configurations = self.ip_configurations(vm);
        if configurations.is_empty() || configurations.into_iter().any(|one| self.has_outbound(one)) {
            return None;
        }
        Some(
            "no outbound access: its subnet has none by default, and it has no public address, NAT gateway, route table or \
             load balancer pool with outbound rules"
                .to_owned(),
        )
    }

    /// The IP configurations of a VM: in the model of its scale set, or on its own interfaces.
    fn ip_configurations<'a>(&'a self, vm: &'a Resource) -> Vec<&'a Value> {
        let set = vm.id.parent().and_then(|parent| self.resources.get(&parent.key()));
        let of_model = |set: &'a Resource| {
            set.at("properties.virtualMachineProfile.networkProfile.networkInterfaceConfigurations")
        };
        if let Some(interfaces) = set.and_then(of_model) {
            let each = items(Some(interfaces)).map(|interface| interface.pointer("/properties/ipConfigurations"));
            return each.flat_map(items).filter_map(|one| one.get("properties")).collect();
        }
        let own = items(vm.at("properties.networkProfile.networkInterfaces"));
        let keys = own.filter_map(|one| one.get("id")?.as_str()).map(str::to_ascii_lowercase);
        let interfaces = keys.filter_map(|key| self.resources.get(&key));
        interfaces
            .flat_map(|interface| items(interface.at("properties.ipConfigurations")))
            .filter_map(|one| one.get("properties"))
            .collect()
    }

    fn has_outbound(&self, configuration: &Value) -> bool {
        let has = |name: &str| configuration.get(name).is_some_and(|value| !value.is_null());
        if has("publicIPAddressConfiguration") || has("publicIPAddress") {
            return true;
        }
        let pools: Vec<&str> = items(configuration.get("loadBalancerBackendAddressPools"))
            .filter_map(|pool| pool.get("id")?.as_str())
            .collect();
        if pools.iter().any(|pool| self.pool_has_outbound(pool)) {
            return true;
        }
        let subnet = configuration.pointer("/subnet/id").and_then(Value::as_str);
        let Some(subnet) = subnet.and_then(|id| self.subnet(id)) else { return true };
        let routed = |name: &str| subnet.get(name).is_some_and(|value| !value.is_null());
        let by_default = subnet.get("defaultOutboundAccess") != Some(&Value::Bool(false));
        // A machine behind a standard load balancer has no default outbound access, whatever the load balancer's rules.
        routed("natGateway") || routed("routeTable") || (by_default && pools.is_empty())
    }

    /// Whether a backend pool has outbound rules, or rules that also translate outbound connections.
    fn pool_has_outbound(&self, pool: &str) -> bool {
        let Some((balancer, _)) = split_pool(pool) else { return false };
        let Some(balancer) = self.resources.get(&balancer.to_ascii_lowercase()) else { return true };
        let rules = |name: &str| items(balancer.at(&format!("properties.{name}")));
        let uses = |rule: &&Value| {
            let one = rule.pointer("/properties/backendAddressPool");
            let many = items(rule.pointer("/properties/backendAddressPools"));
            one.into_iter()
                .chain(many)
                .any(|named| named.get("id").and_then(Value::as_str).is_some_and(|id| id.eq_ignore_ascii_case(pool)))
        };
        let is_public =
            rules("frontendIPConfigurations").any(|one| one.pointer("/properties/publicIPAddress").is_some());
        let translates = |rule: &Value| rule.pointer("/properties/disableOutboundSnat") != Some(&Value::Bool(true));
        rules("outboundRules").any(|rule| uses(&rule))
            || (is_public && rules("loadBalancingRules").filter(uses).any(translates))
    }

    /// The properties of a subnet, which is a resource of its own or part of its network's body.
    fn subnet(&self, id: &str) -> Option<&Value> {
        let id = ResourceId::parse(id)?;
        if let Some(subnet) = self.resources.get(&id.key()) {
            return subnet.at("properties");
        }
        let network = self.resources.get(&id.parent()?.key())?;
        let is_named = |subnet: &&Value| {
            subnet.get("name").and_then(Value::as_str).is_some_and(|name| name.eq_ignore_ascii_case(id.name()))
        };
        items(network.at("properties.subnets")).find(is_named)?.get("properties")
    }
}

/// The load balancer and the name of a backend pool.
fn split_pool(id: &str) -> Option<(&str, &str)> {
    const PART: &str = "/backendaddresspools/";
    let at = id.to_ascii_lowercase().find(PART)?;
    Some((id.get(..at)?, id.get(at + PART.len()..)?))
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}
