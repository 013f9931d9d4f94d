//! Creates the initial resources from the world file, with the same handlers that clients reach.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use crate::arm::call::Call;
use crate::arm::error::ArmError;
use crate::arm::id::{ResourceId, Target};
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::world::pool::PoolSpec;
use crate::world::resource::merge;
use crate::world::roles::Principal;
use crate::world::spec::WorldSpec;
use crate::world::{Group, World};

/// How long before the start the resources were created: long enough for every boot to be finished.
const BEFORE: SignedDuration = SignedDuration::from_hours(24);

const NETWORK: &str = "k8s-vnet";
const SUBNET: &str = "k8s-subnet";
const SECURITY_GROUP: &str = "k8s-nsg";
const LOAD_BALANCER: &str = "k8s-lb";
const BACKEND_POOL: &str = "k8s-nodes";

/// Creates the resources of the world file. Returns the first error that Azure would return.
pub(crate) fn fill(world: &mut World) -> Result<(), String> {
    let spec = world.spec.clone();
    let start = world.now;
    world.now = start - BEFORE;
    let (subscription, group) = (&spec.subscription_id, &spec.resource_group);
    let key = format!("/subscriptions/{subscription}/resourcegroups/{group}").to_ascii_lowercase();
    let body = json!({"location": spec.location}).as_object().cloned().unwrap_or_default();
    world.groups.insert(key, Group { subscription: subscription.clone(), name: group.clone(), body });

    let id = |kind, names: &[&str]| ResourceId::new(subscription, group, kind, names);
    put(
        world,
        &id(ResourceKind::SecurityGroup, &[SECURITY_GROUP]),
        json!({"location": spec.location, "properties": {"securityRules": []}}),
    )?;
    let prefix = json!(spec.address_prefix);
    let network = json!({"location": spec.location, "properties": {
        "addressSpace": {"addressPrefixes": [prefix]},
        "subnets": [{"name": SUBNET, "properties": {"addressPrefix": prefix, "provisioningState": "Succeeded"}}],
    }});
    put(world, &id(ResourceKind::Network, &[NETWORK]), network)?;
    let balancer = id(ResourceKind::LoadBalancer, &[LOAD_BALANCER]);
    let pool =
        json!({"id": format!("{balancer}/backendAddressPools/{BACKEND_POOL}"), "name": BACKEND_POOL, "properties": {}});
    // As in clusters of AKS Engine, the load balancer is the nodes' only way out of their subnet.
    let outbound =
        json!({"name": "k8s-outbound", "properties": {"backendAddressPool": {"id": pool["id"]}, "protocol": "All"}});
    let properties = json!({"backendAddressPools": [pool], "outboundRules": [outbound]});
    put(world, &balancer, json!({"location": spec.location, "properties": properties}))?;
    for resource in &spec.resources {
        let path = format!("/subscriptions/{subscription}/resourceGroups/{group}/providers/{}", resource.path);
        let Some(Target::Resource(id)) = Target::parse(&path) else {
            return Err(format!(
                "resources: `{}` is not a resource type and name such as Microsoft.Network/loadBalancers/lb",
                resource.path
            ));
        };
        put(world, &id, Value::Object(resource.body.clone()))?;
        world.advance(None);
    }
    for pool in &spec.pools {
        put(world, &id(ResourceKind::ScaleSet, &[&pool.name]), scale_set(&spec, pool))?;
        world.advance(None);
        for (number, change) in &pool.instances {
            let key = id(ResourceKind::Instance, &[&pool.name, &number.to_string()]).key();
            world.change_contents(&key, |contents| contents.overlay(change, pool));
        }
    }
    world.now = start;
    Ok(())
}

fn put(world: &mut World, id: &ResourceId, body: Value) -> Result<(), String> {
    let Value::Object(body) = body else { return Err(format!("{id}: the body must be an object")) };
    let caller = Principal { actions: vec!["*".to_owned()], ..Principal::default() };
    let call = Call { method: http::Method::PUT, body, caller, ..Call::default() };
    let refused =
        |error: ArmError| format!("{} `{}`: {} ({})", id.kind.full(), id.names.join("/"), error.message, error.code);
    route::resource(world, &call, id).map(|_| ()).map_err(refused)
}

fn scale_set(spec: &WorldSpec, pool: &PoolSpec) -> Value {
    let extensions: Vec<Value> = pool
        .extensions
        .iter()
        .map(|one| {
            let mut properties = json!({"publisher": one.publisher, "type": one.kind, "typeHandlerVersion": one.version, "autoUpgradeMinorVersion": true, "settings": one.settings});
            if !one.protected_settings.is_empty() {
                properties["protectedSettings"] = json!(one.protected_settings);
            }
            json!({"name": one.name, "properties": properties})
        })
        .collect();
    let scope = format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Network",
        spec.subscription_id, spec.resource_group
    );
    let mut profile = json!({
        "osProfile": {
            "computerNamePrefix": pool.name,
            "adminUsername": "azureuser",
            "linuxConfiguration": {"disablePasswordAuthentication": true, "provisionVMAgent": true},
        },
        "storageProfile": {
            "imageReference": pool.image,
            "osDisk": {"osType": "Linux", "createOption": "FromImage", "caching": "ReadWrite", "managedDisk": {"storageAccountType": "Premium_LRS"}, "diskSizeGB": 30},
        },
        "networkProfile": {"networkInterfaceConfigurations": [{
            "name": pool.name,
            "properties": {
                "primary": true,
                "networkSecurityGroup": {"id": format!("{scope}/networkSecurityGroups/{SECURITY_GROUP}")},
                "ipConfigurations": [{
                    "name": "ipconfig1",
                    "properties": {
                        "primary": true,
                        "subnet": {"id": format!("{scope}/virtualNetworks/{NETWORK}/subnets/{SUBNET}")},
                        "loadBalancerBackendAddressPools": [
                            {"id": format!("{scope}/loadBalancers/{LOAD_BALANCER}/backendAddressPools/{BACKEND_POOL}")},
                        ],
                    },
                }],
            },
        }]},
        "extensionProfile": {"extensions": extensions},
    });
    if let Some(data) = &pool.custom_data {
        profile["osProfile"]["customData"] = json!(STANDARD.encode(data));
    }
    if let Some(data) = &pool.user_data {
        profile["userData"] = json!(STANDARD.encode(data));
    }
    let mut properties: Map<String, Value> = Map::new();
    properties.insert("upgradePolicy".to_owned(), json!({"mode": pool.upgrade_policy}));
    properties.insert("overprovision".to_owned(), json!(false));
    properties.insert("virtualMachineProfile".to_owned(), profile);
    merge(&mut properties, &pool.properties);
    json!({
        "location": spec.location,
        "tags": pool.tags,
        "sku": {"name": pool.size, "tier": "Standard", "capacity": pool.capacity},
        "properties": properties,
    })
}
