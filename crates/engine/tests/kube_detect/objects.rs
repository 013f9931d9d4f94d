//! Karpenter's objects, with the defaults that the API server adds according to Karpenter's CRDs.

use kiln_aks_formats::karpenter::{AksNodeClass, node_class_hash};
use kiln_bootstrap::sources::{node_claim, node_class, node_pool};
use kiln_bootstrap::{Document, Resolved, Source, SourceKind, SourcePosition, resolve};
use kiln_engine::detect::{KarpenterNames, karpenter};
use serde_json::{Value, json};

use crate::plane::{admin, plane};

const SUBNET: &str = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/s";

fn class() -> Value {
    json!({
        "apiVersion": "karpenter.azure.com/v1beta1", "kind": "AKSNodeClass",
        "metadata": {"name": "default", "annotations": {"bootstrap.kiln.dev/DisableSSH": "true"}},
        "spec": {
            "vnetSubnetID": SUBNET,
            "maxPods": 100,
            "tags": {"team": "a"},
            "kubelet": {
                "cpuManagerPolicy": "static", "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80,
                "topologyManagerPolicy": "none", "allowedUnsafeSysctls": ["net.core.somaxconn"],
            },
        },
    })
}

fn spec(zone: &str) -> Value {
    json!({
        "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"},
        "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
        "requirements": [
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_D2s_v3"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
        ],
    })
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
        "spec": {"template": {"metadata": {"labels": {"tier": "web"}}, "spec": spec("westus2-1")}},
    })
}

fn claim() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "general-x7k2p", "labels": {"karpenter.sh/nodepool": "general", "tier": "web"}},
        "spec": spec("westus2-2"),
    })
}

/// The settings that no object contains.
fn rest() -> Source {
    let mut layer = Source::new(SourceKind::Settings);
    for (field, value) in [
        ("tenantId", "t"),
        ("subscriptionId", "22222222-2222-2222-2222-222222222222"),
        ("resourceGroup", "g"),
        ("location", "westus2"),
        ("clusterEndpoint", "https://test-cluster.hcp.westus2.azmk8s.io:443"),
        ("kubernetesVersion", "1.33.7"),
        ("caBundle", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="),
        ("bootstrapToken", "abcdef.0123456789abcdef"),
    ] {
        layer.set(field, value.into(), SourcePosition::Program).unwrap();
    }
    layer
}

fn resolved(class: &Document, pool: &Document, claim: &Document) -> Resolved {
    let mut layers = vec![rest(), node_pool(pool).unwrap(), node_claim(claim).unwrap()];
    layers.extend(node_class(class, "amd64").unwrap());
    resolve(&layers)
}

fn file(name: &str, value: &Value) -> Document {
    Document::read(name, &value.to_string()).unwrap()
}

#[tokio::test]
async fn objects_from_the_server_and_from_files_configure_the_same_node() {
    let plane = plane();
    plane.apply_karpenter_crds().unwrap_or_else(|error| panic!("{error}"));
    for object in [class(), pool(), claim()] {
        plane.apply(&object).unwrap_or_else(|error| panic!("{error}"));
    }
    let (cluster, _) = admin(plane).await;
    // Only the NodeClaim is named; it refers to the others.
    let names = KarpenterNames { node_claim: Some("general-x7k2p".to_owned()), ..KarpenterNames::default() };
    let objects = karpenter(&cluster, &names).await.unwrap();
    let (server_class, server_pool) = (objects.node_class.unwrap(), objects.node_pool.unwrap());
    assert_eq!(
        server_class.value()["spec"]["osDiskSizeGB"],
        128,
        "the server adds the default: {:?}",
        server_class.value()
    );

    let from_server = resolved(&server_class, &server_pool, &objects.node_claim.unwrap());
    let from_files = resolved(&file("class", &class()), &file("pool", &pool()), &file("claim", &claim()));
    assert_eq!(from_server.text("zone"), "westus2-2");
    let (server, files) =
        (from_server.variables().unwrap().environment(), from_files.variables().unwrap().environment());
    for (name, value) in &files {
        assert_eq!(server.get(name), Some(value), "{name}");
    }
    let explained = from_server.explain();
    let stands = |field: &str| explained.iter().find(|line| line.field == field).unwrap().position.clone();
    assert_eq!(stands("maxPods"), "AKSNodeClass/default spec.maxPods");
    assert_eq!(stands("DisableSSH"), "AKSNodeClass/default metadata.annotations.bootstrap.kiln.dev/DisableSSH");

    let server: AksNodeClass = server_class.parse().unwrap();
    let written: AksNodeClass = file("class", &class()).parse().unwrap();
    assert_eq!(node_class_hash(&server.spec), node_class_hash(&written.spec.clone().with_defaults()));
    assert_eq!(server.spec, written.spec.with_defaults(), "kiln's defaults are those of the CRD");
}

#[tokio::test]
async fn missing_object_is_reported_with_its_request() {
    let plane = plane();
    plane.apply_karpenter_crds().unwrap_or_else(|error| panic!("{error}"));
    let (cluster, _) = admin(plane).await;
    let names = KarpenterNames { node_class: Some("missing".to_owned()), ..KarpenterNames::default() };
    let error = karpenter(&cluster, &names).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "AKSNodeClass `missing` does not exist (GET /apis/karpenter.azure.com/v1beta1/aksnodeclasses/missing)"
    );
}
