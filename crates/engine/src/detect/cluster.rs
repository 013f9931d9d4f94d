//! Detecting settings from the cluster.

use kiln_aks_formats::{from_base64, to_base64};
use kiln_bootstrap::SourcePosition;
use kiln_bootstrap::trust::{self, DetectedCertificates, TrustError};
use kiln_kubernetes::{Cluster, Endpoint, connect};
use kiln_types::Sourced;

use super::network::{self, NetworkInputs};
use super::{Detected, Sources, to_line};

const SYSTEM: &str = "kube-system";
/// The name of the DNS service in every distribution.
const DNS: &str = "kube-dns";
/// The label of nodes whose pods have addresses in an overlay network.
const OVERLAY: (&str, &str) = ("kubernetes.azure.com/podnetwork-type", "overlay");

pub(super) async fn detect<L>(sources: &Sources<'_, L>, found: &mut Detected) {
    let trusted = match sources.endpoint {
        Some(endpoint) => trust(endpoint, sources.pin, found).await,
        None => None,
    };
    if let Some(cluster) = sources.cluster {
        if !version(cluster, found).await {
            return;
        }
        if let Some(endpoint) = sources.endpoint {
            address(endpoint, cluster, found).await;
        }
        dns(cluster, found).await;
        network(cluster, found).await;
    } else if let (Some(endpoint), Some(pem), Some(options)) = (sources.endpoint, trusted, &sources.anonymous) {
        // The version can be read anonymously; the rest needs credentials.
        let client = endpoint.anonymous(&pem).and_then(connect);
        match client {
            Ok(client) => drop(version(&Cluster::new(client, options.clone()), found).await),
            Err(error) => found.miss("kubernetesVersion", to_line(&error)),
        }
    }
}

/// The certificates to trust, as PEM.
async fn trust(endpoint: &Endpoint, pin: Option<&str>, found: &mut Detected) -> Option<String> {
    let mut offered =
        DetectedCertificates { kubeconfig: endpoint.trusted.as_deref().map(to_base64), presented: Vec::new() };
    if pin.is_some() || offered.kubeconfig.is_none() {
        match endpoint.presented_certificates().await {
            Ok(shown) => offered.presented = shown,
            Err(error) => {
                found.miss("caBundle", to_line(&error));
                return None;
            }
        }
    }
    let chosen = match (trust::certificates(&offered, pin), pin) {
        // Most servers present only their own certificate. kubeadm publishes the CA's in a ConfigMap.
        (Err(TrustError::PinMismatch(other)), Some(pin)) => {
            by_pin(endpoint, pin).await.ok_or(TrustError::PinMismatch(other))
        }
        (chosen, _) => chosen,
    };
    match chosen {
        Ok((data, place)) => {
            let call = match place {
                SourcePosition::Call(call) => call,
                other => other.to_string(),
            };
            let pem = from_base64(&data).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            found.fact("caBundle", data, call);
            pem
        }
        Err(error) => {
            found.miss("caBundle", format!("TLS handshake with `{}`: {error}", endpoint.url));
            None
        }
    }
}

/// The certificate with this pin among those that the cluster publishes.
async fn by_pin(endpoint: &Endpoint, pin: &str) -> Option<(String, SourcePosition)> {
    let published = endpoint.published_certificates().await.ok()?;
    let (data, _) =
        trust::certificates(&DetectedCertificates { kubeconfig: None, presented: published.value }, Some(pin)).ok()?;
    Some((data, SourcePosition::Call(format!("{}, pin {pin}", published.call))))
}

/// Detects the version. Returns whether the cluster responds; otherwise every further request would time out.
async fn version(cluster: &Cluster, found: &mut Detected) -> bool {
    let version = cluster.server_version().await;
    let responds = version.as_ref().map_or_else(|error| error.status().is_some(), |_| true);
    found.add("kubernetesVersion", version);
    responds
}

/// Detects the address of the API server for nodes. The service address that pods use does not work for them.
async fn address(endpoint: &Endpoint, cluster: &Cluster, found: &mut Detected) {
    let host = endpoint.url.split("://").nth(1).unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
    let for_pods = "the kubeconfig has an address of the server that only pods can reach";
    if host.split('.').nth(2) == Some("svc") {
        return found.miss("clusterEndpoint", for_pods);
    }
    if host.parse::<std::net::IpAddr>().is_ok() {
        match cluster.service_addresses("default", "kubernetes").await {
            Ok(Sourced { value, .. }) if value.iter().any(|address| address == host) => {
                return found.miss("clusterEndpoint", for_pods);
            }
            _ => {}
        }
    }
    found.fact("clusterEndpoint", &endpoint.url, "kubeconfig server");
}

async fn dns(cluster: &Cluster, found: &mut Detected) {
    match cluster.service_addresses(SYSTEM, DNS).await {
        Ok(Sourced { value, call }) => match value.into_iter().next() {
            Some(address) => found.fact("dnsServiceIp", address, call),
            None => found.miss("dnsServiceIp", format!("{call}: no such service with an address")),
        },
        Err(error) => found.miss("dnsServiceIp", to_line(&error)),
    }
}

async fn network(cluster: &Cluster, found: &mut Detected) {
    let inputs = async {
        let system = cluster.daemon_sets(SYSTEM).await?;
        let has = |name: &str| system.value.iter().any(|set| set == name);
        let calico = if has(network::CALICO) { None } else { Some(cluster.daemon_sets("calico-system").await?) };
        let cilium = if has(network::CILIUM) { Some(cluster.config_map(SYSTEM, "cilium-config").await?) } else { None };
        let overlay =
            if has(network::CNS) { Some(cluster.has_node_labelled(OVERLAY.0, OVERLAY.1).await?) } else { None };
        Ok::<_, kiln_kubernetes::Error>(NetworkInputs { system, calico, cilium, overlay })
    };
    match inputs.await {
        Ok(inputs) => match inputs.facts() {
            Some(facts) => found.facts.extend(facts),
            None => found.miss(
                "networkPlugin",
                format!("{}: none of the DaemonSets is a known network plugin", inputs.system.call),
            ),
        },
        Err(error) => found.miss("networkPlugin", to_line(&error)),
    }
}
