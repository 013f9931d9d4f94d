//! Detection of settings in an embedded Azure and an embedded cluster.

use std::sync::Arc;

use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{Cloud, Identity, Login, ServicePrincipal};
use kiln_azure::wire::InProcess;
use kiln_azure::{Azure, AzureOptions};
use kiln_bootstrap::{Source, SourceKind, SourcePosition, resolve};
use kiln_engine::detect::{AzureJsonFacts, Detected, Sources, settings};
use kiln_kubernetes::{Cluster, ClusterOptions, WallClock};
use kiln_sim_azure::{Options, Sim, WorldSpec};
use kiln_sim_kubernetes::Server;
use kiln_types::Secret;
use kube::Client;

const ENDPOINT: &str = "https://sim.localhost:8443";
const WALL: &str = "2026-11-15T12:00:00Z";
const SCOPE: &str =
    "/subscriptions/c3b5a9e2-7d18-4b6f-a1c4-9e8d7f6a5b02/resourceGroups/kubernetes-westus2-17813/providers";

/// The network security group and identities that AKS creates in the resource group of its pools.
const AKS: &str = "
resources:
- path: Microsoft.Network/networkSecurityGroups/aks-agentpool-46593302-nsg
  body: {location: westus2}
- path: Microsoft.ManagedIdentity/userAssignedIdentities/cluster-agentpool
  body: {location: westus2, properties: {clientId: 0d5f1c0e-0000-4000-8000-000000000001}}
- path: Microsoft.ManagedIdentity/userAssignedIdentities/other
  body: {location: westus2}
pools: []
";

/// A scale set with these identities, as a client would create it.
fn pool(name: &str, identities: &[&str]) -> String {
    let each = identities
        .iter()
        .map(|name| format!("'{SCOPE}/Microsoft.ManagedIdentity/userAssignedIdentities/{name}': {{}}"));
    let subnet = format!("{SCOPE}/Microsoft.Network/virtualNetworks/k8s-vnet/subnets/k8s-subnet");
    format!(
        "- path: Microsoft.Compute/virtualMachineScaleSets/{name}
  body:
    location: westus2
    sku: {{name: Standard_D2s_v3, capacity: 0}}
    identity: {{type: UserAssigned, userAssignedIdentities: {{{}}}}}
    properties:
      upgradePolicy: {{mode: Manual}}
      virtualMachineProfile:
        osProfile: {{computerNamePrefix: {name}, adminUsername: azureuser}}
        storageProfile: {{imageReference: {{publisher: p, offer: o, sku: s, version: latest}}, osDisk: {{createOption: FromImage}}}}
        networkProfile:
          networkInterfaceConfigurations:
          - {{name: n, properties: {{primary: true, ipConfigurations: [{{name: i, properties: {{subnet: {{id: '{subnet}'}}}}}}]}}}}
",
        each.collect::<Vec<_>>().join(", ")
    )
}

fn aks_with(pools: &[String]) -> String {
    AKS.replace("pools: []\n", &format!("{}pools: []\n", pools.concat()))
}

fn azure(world: &str) -> Azure {
    let spec = WorldSpec::parse("world", world).unwrap();
    let sim = Sim::new(spec.clone(), Options::instant(WALL.parse().unwrap())).unwrap();
    let http: Arc<dyn azure_core::http::HttpClient> =
        Arc::new(InProcess::new(move |request| sim.arm(request).answer()));
    let cloud = Cloud::custom("embedded", ENDPOINT, ENDPOINT, ENDPOINT).unwrap();
    let identity = Identity::ServicePrincipal(ServicePrincipal {
        tenant: spec.tenant_id.clone(),
        client_id: spec.clients[0].client_id.clone(),
        secret: Secret::new(spec.clients[0].client_secret.clone()),
    });
    let credential = Login { cloud: cloud.clone(), identity }.credential(&http).unwrap();
    let scope = Scope::new(&spec.subscription_id, &spec.resource_group).unwrap();
    Azure::new(scope, AzureOptions { cloud, credential, http, jitter: Jitter::none(), recorder: None })
}

fn cluster() -> Cluster {
    let server = Server::new(1, Arc::new(|| WALL.parse().unwrap()));
    let options = ClusterOptions { jitter: Jitter::none(), clock: WallClock::new(|| WALL.parse().unwrap()) };
    Cluster::new(Client::new(server.service(), "default"), options)
}

fn facts(found: &Detected) -> Vec<(&str, &str, &str)> {
    found.facts.iter().map(|fact| (fact.field, fact.text.as_str(), fact.call.trim_start_matches("GET "))).collect()
}

fn misses(found: &Detected) -> Vec<String> {
    found.misses.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn aks_resource_group_yields_cluster_id_security_group_subnet_network_and_identities() {
    let azure =
        azure(&aks_with(&[pool("a", &["cluster-agentpool", "other"]), pool("b", &["other", "cluster-agentpool"])]));
    let found = settings(&Sources { azure: Some(&azure), ..Sources::default() }).await;
    assert_eq!(misses(&found), Vec::<String>::new());
    let groups = format!("{SCOPE}/Microsoft.Network/networkSecurityGroups");
    let pools = format!("{SCOPE}/Microsoft.Compute/virtualMachineScaleSets");
    let network = format!("{SCOPE}/Microsoft.Network/virtualNetworks/k8s-vnet");
    let subnet = format!("{network}/subnets/k8s-subnet");
    let identity = |name: &str| format!("{SCOPE}/Microsoft.ManagedIdentity/userAssignedIdentities/{name}");
    let both_identities = format!("{},{}", identity("cluster-agentpool"), identity("other"));
    let kubelet_identity = identity("cluster-agentpool");
    let guid = found.facts.iter().find(|fact| fact.field == "vnetGuid").map(|fact| fact.text.clone()).unwrap();
    assert_eq!(guid.len(), 36, "{guid}");
    assert_eq!(
        facts(&found),
        [
            ("clusterId", "46593302", groups.as_str()),
            ("securityGroup", "aks-agentpool-46593302-nsg", groups.as_str()),
            ("vnetSubnetId", subnet.as_str(), pools.as_str()),
            ("vnetGuid", guid.as_str(), network.as_str()),
            ("nodeIdentities", both_identities.as_str(), pools.as_str()),
            ("kubeletIdentityClientId", "0d5f1c0e-0000-4000-8000-000000000001", kubelet_identity.as_str()),
        ]
    );
}

#[tokio::test]
async fn detected_cluster_id_overrides_the_computed_one_and_a_setting_overrides_both() {
    let azure = azure(AKS);
    let found = settings(&Sources { azure: Some(&azure), ..Sources::default() }).await;
    let mut endpoint = Source::new(SourceKind::Settings);
    let name = "https://karpenter-000000000000.hcp.westus2.staging.azmk8s.io:443";
    endpoint.set("clusterEndpoint", name.into(), SourcePosition::Program).unwrap();
    let alone = resolve(std::slice::from_ref(&endpoint));
    assert_eq!((alone.text("clusterId"), alone.text("securityGroup")), ("34455734", "aks-agentpool-34455734-nsg"));
    let seen = resolve(&[endpoint.clone(), found.to_source().unwrap()]);
    assert_eq!((seen.text("clusterId"), seen.text("securityGroup")), ("46593302", "aks-agentpool-46593302-nsg"));
    let mut said = Source::new(SourceKind::Settings);
    said.set("clusterId", "11111111".into(), SourcePosition::Program).unwrap();
    let resolved = resolve(&[endpoint, found.to_source().unwrap(), said]);
    assert_eq!(resolved.text("clusterId"), "11111111");
    assert!(resolved.get("clusterId").unwrap().overrode.iter().any(|(kind, _)| *kind == SourceKind::Detected));
}

#[tokio::test]
async fn pools_with_different_identities_are_reported_with_the_setting_to_use() {
    let azure = azure(&aks_with(&[pool("a", &["cluster-agentpool"]), pool("b", &["other"])]));
    let found = settings(&Sources { azure: Some(&azure), ..Sources::default() }).await;
    let misses = misses(&found);
    assert!(misses[0].starts_with("`nodeIdentities` was not found: GET /subscriptions/"), "{misses:?}");
    assert!(
        misses[0].ends_with(
            "the pools have different identities; set it in environment or settings (`nodeIdentities`, or $NODE_IDENTITIES)"
        ),
        "{misses:?}"
    );
    assert!(misses[1].starts_with("`kubeletIdentityClientId` was not found"), "{misses:?}");
    assert_eq!(misses.len(), 2);
}

#[tokio::test]
async fn azure_json_of_a_node_overrides_the_resource_group() {
    let azure = azure(&aks_with(&[pool("a", &["other"])]));
    let text = r#"{"securityGroupName": "mine", "userAssignedIdentityID": "me"}"#;
    let file = AzureJsonFacts::read("azure.json", text).unwrap();
    let found = settings(&Sources { azure: Some(&azure), azure_json: Some(&file), ..Sources::default() }).await;
    let facts_for = |field: &str| found.facts.iter().filter(|fact| fact.field == field).collect::<Vec<_>>();
    assert_eq!((facts_for("securityGroup").len(), facts_for("securityGroup")[0].text.as_str()), (1, "mine"));
    let identity = facts_for("kubeletIdentityClientId");
    assert_eq!((identity.len(), identity[0].text.as_str()), (1, "me"));
    assert!(facts_for("clusterId").is_empty(), "{found:?}");
}

#[tokio::test]
async fn every_setting_that_an_empty_cluster_lacks_is_reported_with_its_request() {
    let cluster = cluster();
    let found = settings(&Sources::<Azure> { cluster: Some(&cluster), ..Sources::default() }).await;
    assert_eq!(
        facts(&found).iter().map(|fact| (fact.0, fact.2)).collect::<Vec<_>>(),
        [("kubernetesVersion", "/version")]
    );
    let misses = misses(&found);
    assert!(misses[0].contains("GET /api/v1/namespaces/kube-system/services/kube-dns"), "{misses:?}");
    assert!(misses[1].contains("GET /apis/apps/v1/namespaces/kube-system/daemonsets"), "{misses:?}");
}
