//! Detection of settings from a real API server.

use control_plane::{ControlPlane, Identity};
use kiln_aks_formats::to_base64;
use kiln_azure::Azure;
use kiln_bootstrap::trust::{fingerprint, key_fingerprint};
use kiln_bootstrap::{Source, SourceKind, SourcePosition, resolve};
use kiln_engine::detect::{Detected, Sources, settings};
use kiln_kubernetes::{Cluster, Endpoint, connect};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::plane::{admin, options, plane};

type From<'a> = Sources<'a, Azure>;

fn fact<'a>(found: &'a Detected, field: &str) -> Option<(&'a str, &'a str)> {
    found.facts.iter().find(|fact| fact.field == field).map(|fact| (fact.text.as_str(), fact.call.as_str()))
}

fn miss(found: &Detected, field: &str) -> String {
    found.misses.iter().find(|miss| miss.field == field).map(ToString::to_string).unwrap_or_default()
}

fn daemon_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "example.invalid/c"}]},
            },
        },
    })
}

/// Creates the objects of an AKS cluster with Azure CNI Overlay and Cilium.
fn create_objects(plane: &ControlPlane) {
    let dns = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"selector": {"k8s-app": "kube-dns"}, "ports": [{"port": 53, "protocol": "UDP"}]},
    });
    let cilium = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-config", "namespace": "kube-system"},
        "data": {"ipam": "delegated-plugin", "enable-policy": "default"},
    });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": {"kubernetes.azure.com/podnetwork-type": "overlay"}},
    });
    for object in [&dns, &daemon_set("azure-cns"), &daemon_set("cilium"), &cilium, &node] {
        plane.apply(object).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[tokio::test]
async fn each_fact_has_its_request_and_is_overridden_by_a_setting() {
    let plane = plane();
    let (cluster, endpoint) = admin(plane).await;

    let bare = settings(&From { cluster: Some(&cluster), endpoint: Some(&endpoint), ..From::default() }).await;
    assert!(miss(&bare, "dnsServiceIp").contains("services/kube-dns: no such service with an address"), "{bare:?}");
    assert!(miss(&bare, "networkPlugin").contains("daemonsets: none of the DaemonSets"), "{bare:?}");

    create_objects(plane);
    let found = settings(&From { cluster: Some(&cluster), endpoint: Some(&endpoint), ..From::default() }).await;
    assert_eq!(found.misses, []);
    let version: Value = serde_json::from_str(&plane.run_kubectl(&["get", "--raw", "/version"]).unwrap()).unwrap();
    let version = version["gitVersion"].as_str().unwrap().trim_start_matches('v');
    assert_eq!(fact(&found, "kubernetesVersion"), Some((version, "GET /version")));
    assert_eq!(fact(&found, "clusterEndpoint"), Some((plane.server().as_str(), "kubeconfig server")));
    let bundle = to_base64(plane.authority());
    assert_eq!(fact(&found, "caBundle"), Some((bundle.as_str(), "kubeconfig certificate-authority-data")));
    let service = plane.get(&["service", "-n", "kube-system", "kube-dns"]).unwrap();
    let address = service["spec"]["clusterIP"].as_str().unwrap();
    let dns = "GET /api/v1/namespaces/kube-system/services/kube-dns";
    assert_eq!(fact(&found, "dnsServiceIp"), Some((address, dns)));
    let sets = "GET /apis/apps/v1/namespaces/kube-system/daemonsets";
    assert_eq!(fact(&found, "networkPlugin"), Some(("azure", sets)));
    let nodes = "GET /api/v1/nodes?labelSelector=kubernetes.azure.com/podnetwork-type=overlay&limit=1";
    assert_eq!(fact(&found, "networkPluginMode"), Some(("overlay", nodes)));
    let map = "GET /api/v1/namespaces/kube-system/configmaps/cilium-config";
    assert_eq!(fact(&found, "networkDataplane"), Some(("cilium", map)));
    assert_eq!(fact(&found, "networkPolicy"), Some(("cilium", map)));

    let mut said = Source::new(SourceKind::Settings);
    said.set("kubernetesVersion", "1.33.7".into(), SourcePosition::Argument("--set kubernetesVersion".to_owned()))
        .unwrap();
    let explained = resolve(&[said, found.to_source().unwrap()]).explain();
    let line = |name: &str| explained.iter().find(|line| line.field == name).unwrap();
    assert_eq!((line("dnsServiceIp").kind.as_str(), line("dnsServiceIp").position.as_str()), ("detected", dns));
    let version = line("kubernetesVersion");
    assert_eq!((&version.value, version.overrode[0].position.as_str()), (&json!("1.33.7"), "GET /version"));
}

#[tokio::test]
async fn forbidden_requests_are_reported_with_the_setting_to_use() {
    let plane = plane();
    let path = plane.kubeconfig_for(&Identity::user("unprivileged")).unwrap();
    let read = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    let cluster = Cluster::new(connect(config).unwrap(), options());
    let found = settings(&From { cluster: Some(&cluster), ..From::default() }).await;
    assert!(fact(&found, "kubernetesVersion").is_some(), "every user may read the version: {found:?}");
    let dns = miss(&found, "dnsServiceIp");
    assert!(dns.contains("services/kube-dns: 403") && dns.contains("$DNS_SERVICE_IP"), "{dns}");
    let network = miss(&found, "networkPlugin");
    assert!(network.contains("daemonsets: 403") && network.contains("$NETWORK_PLUGIN"), "{network}");
}

#[tokio::test]
async fn presented_certificate_is_trusted_only_by_its_pin() {
    let plane = plane();
    let address = Endpoint::untrusted(plane.server());
    let ask = |pin: Option<String>| async move {
        let address = Endpoint::untrusted(plane.server());
        settings(&From { endpoint: Some(&address), anonymous: Some(options()), pin: pin.as_deref(), ..From::default() })
            .await
    };
    let unpinned = ask(None).await;
    assert!(miss(&unpinned, "caBundle").contains("is not trusted; pass its pin"), "{unpinned:?}");
    assert_eq!(unpinned.facts, []);
    let wrong = ask(Some(format!("sha256:{}", "0".repeat(64)))).await;
    assert!(miss(&wrong, "caBundle").contains("matches the pin `sha256:000"), "{wrong:?}");
    assert_eq!(wrong.facts, []);

    let shown = address.presented_certificates().await.unwrap();
    let pin = format!("sha256:{}", fingerprint(&shown[0]).unwrap());
    let pinned = ask(Some(pin.clone())).await;
    let call = format!("TLS handshake, pin {pin}");
    assert_eq!(fact(&pinned, "caBundle"), Some((to_base64(&shown[0]).as_str(), call.as_str())));

    // Like kubeadm's, this server does not present the certificate of its CA. kubeadm publishes it in a ConfigMap that anonymous
    // users may read.
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "", "cluster": {"server": plane.server(), "certificate-authority-data": to_base64(plane.authority())}}],
    });
    let info = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": "kube-public"},
        "data": {"kubeconfig": kubeconfig.to_string()},
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "info", "namespace": "kube-public"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "info", "namespace": "kube-public"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "info"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}],
    });
    for object in [info, role, binding] {
        plane.apply(&object).unwrap_or_else(|error| panic!("{error}"));
    }
    let pin = format!("sha256:{}", key_fingerprint(plane.authority()).unwrap());
    let by_key = ask(Some(pin.clone())).await;
    let call = format!("GET /api/v1/namespaces/kube-public/configmaps/cluster-info, pin {pin}");
    assert_eq!(fact(&by_key, "caBundle"), Some((to_base64(plane.authority()).as_str(), call.as_str())));
    assert_eq!(fact(&by_key, "kubernetesVersion").map(|(_, call)| call), Some("GET /version"), "{by_key:?}");
    let wrong = ask(Some(format!("sha256:{}", "0".repeat(64)))).await;
    assert_eq!(wrong.facts, []);
}
