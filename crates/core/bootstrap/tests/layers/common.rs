//! Layers for tests.

use kiln_bootstrap::{Field, Kind, Layer, Place, Resolved, resolve};
use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "abcdef.0123456789abcdef";
pub(crate) const SUBNET: &str = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/MC_rg_test_eastus/providers/\
                          Microsoft.Network/virtualNetworks/aks-vnet-46593302/subnets/aks-subnet";

/// base64 of a PEM certificate that holds nothing.
pub(crate) fn ca() -> String {
    kiln_aks_formats::to_base64("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n")
}

/// The least that makes a node, each value from the strongest kind that may set it.
pub(crate) fn least() -> Vec<(&'static str, Value)> {
    vec![
        ("tenantId", json!("11111111-1111-1111-1111-111111111111")),
        ("subscriptionId", json!("22222222-2222-2222-2222-222222222222")),
        ("resourceGroup", json!("MC_rg_test_eastus")),
        ("location", json!("eastus")),
        ("clusterName", json!("test-cluster")),
        ("clusterEndpoint", json!("https://test-cluster.hcp.eastus.azmk8s.io:443")),
        ("kubernetesVersion", json!("1.33.7")),
        ("caBundle", json!(ca())),
        ("bootstrapToken", json!(TOKEN)),
        ("vnetSubnetId", json!(SUBNET)),
        ("sshPublicKey", json!("ssh-ed25519 AAAA me")),
        ("vmSize", json!("standard_d2_v2")),
        ("imageId", json!("/CommunityGalleries/g/images/d/versions/1.0.0")),
    ]
}

/// The place of a field's value in tests.
pub(crate) fn place(kind: Kind, name: &str) -> Place {
    Place::Object { object: format!("{kind}"), path: name.to_owned() }
}

/// A layer that sets one field.
pub(crate) fn layer(kind: Kind, name: &str, value: Value) -> Layer {
    let mut layer = Layer::new(kind);
    layer.set(name, value, place(kind, name)).unwrap_or_else(|error| panic!("{error}"));
    layer
}

/// A layer that sets one field by the strongest kind.
pub(crate) fn strongest(name: &str, value: Value) -> Layer {
    layer(Field::named(name).unwrap().strongest().unwrap(), name, value)
}

/// Values over the least.
pub(crate) fn inputs(more: &[(&'static str, Value)]) -> Resolved {
    let all = least()
        .into_iter()
        .filter(|(name, _)| !more.iter().any(|(other, _)| other == name))
        .chain(more.iter().cloned());
    resolve(&all.map(|(name, value)| strongest(name, value)).collect::<Vec<_>>())
}
