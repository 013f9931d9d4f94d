//! Sources for tests.

use kiln_bootstrap::{Field, Resolved, Source, SourceKind, SourcePosition, resolve};
use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "abcdef.0123456789abcdef";
pub(crate) const SUBNET: &str = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/MC_rg_test_eastus/providers/\
                          Microsoft.Network/virtualNetworks/aks-vnet-46593302/subnets/aks-subnet";

/// A minimal PEM certificate in base64.
pub(crate) fn ca() -> String {
    kiln_aks_formats::to_base64("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n")
}

/// Required values of a node.
pub(crate) fn required() -> Vec<(&'static str, Value)> {
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

/// Position of a field's value in tests.
pub(crate) fn position(kind: SourceKind, name: &str) -> SourcePosition {
    SourcePosition::Object { object: format!("{kind}"), path: name.to_owned() }
}

/// A source that sets one field.
pub(crate) fn source(kind: SourceKind, name: &str, value: Value) -> Source {
    let mut source = Source::new(kind);
    source.set(name, value, position(kind, name)).unwrap_or_else(|error| panic!("{error}"));
    source
}

/// A source of the highest kind that may set a field, which sets it.
pub(crate) fn highest(name: &str, value: Value) -> Source {
    source(Field::named(name).unwrap().highest_kind().unwrap(), name, value)
}

/// Resolves the required values, overridden by `more`.
pub(crate) fn inputs(more: &[(&'static str, Value)]) -> Resolved {
    let all = required()
        .into_iter()
        .filter(|(name, _)| !more.iter().any(|(other, _)| other == name))
        .chain(more.iter().cloned());
    resolve(&all.map(|(name, value)| highest(name, value)).collect::<Vec<_>>())
}
