//! Guarantees of the shared control plane.

use control_plane::{ControlPlane, Error, Identity, shared, unique};
use serde_json::{Value, json};

fn pod(namespace: &str, name: &str, node: Option<&str>, privileged: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "labels": { "app": "test" } },
        "spec": {
            "nodeName": node,
            "containers": [{ "name": "c", "image": "pause", "securityContext": { "privileged": privileged } }],
        },
    })
}

/// The message of a rejected request.
#[track_caller]
fn rejection(result: Result<String, Error>) -> String {
    match result {
        Err(Error::Kubectl { stderr, .. }) => stderr,
        other => panic!("expected a rejection: {other:?}"),
    }
}

#[track_caller]
fn node(plane: &ControlPlane, name: &str) {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    plane.apply(&node).unwrap();
}

#[test]
fn user_without_a_role_may_read_nothing_until_rbac_allows_it() {
    let plane = shared();
    let namespace = plane.namespace("rbac").unwrap();
    let user = unique("reader");
    let kubeconfig = plane.kubeconfig_for(&Identity::user(&user)).unwrap();
    let list = ["get", "configmaps", "-n", &namespace, "-o", "name"];
    let message = rejection(plane.run_kubectl_as(&kubeconfig, &list, ""));
    assert!(message.contains(&format!("User \"{user}\" cannot list resource \"configmaps\"")), "{message}");

    plane.run_kubectl(&["create", "role", "reader", "--verb=list", "--resource=configmaps", "-n", &namespace]).unwrap();
    let binding = ["create", "rolebinding", "reader", "--role=reader", &format!("--user={user}"), "-n", &namespace];
    plane.run_kubectl(&binding).unwrap();
    let seen = plane.run_kubectl_as(&kubeconfig, &list, "").unwrap();
    assert!(seen.contains("configmap/kube-root-ca.crt"), "the controller manager publishes it: {seen}");
}

#[test]
fn certificate_carries_both_groups() {
    let plane = shared();
    let identity = Identity::user("two").in_group("kiln:first").in_group("kiln:second");
    let kubeconfig = plane.kubeconfig_for(&identity).unwrap();
    let review = plane.run_kubectl_as(&kubeconfig, &["auth", "whoami", "-o", "json"], "").unwrap();
    let review: Value = serde_json::from_str(&review).unwrap();
    let groups = &review["status"]["userInfo"]["groups"];
    assert_eq!(*groups, json!(["kiln:first", "kiln:second", "system:authenticated"]));
}

#[test]
fn node_may_change_only_itself_and_never_its_taints() {
    let plane = shared();
    let (own, other) = (unique("own"), unique("other"));
    node(plane, &own);
    node(plane, &other);
    let kubeconfig = plane.kubeconfig_for(&Identity::node(&own)).unwrap();
    let kubectl = |arguments: &[&str]| plane.run_kubectl_as(&kubeconfig, arguments, "");

    kubectl(&["annotate", "node", &own, "kiln.dev/seen=1"]).unwrap();
    let message = rejection(kubectl(&["annotate", "node", &other, "kiln.dev/seen=1"]));
    assert!(message.contains("Forbidden"), "{message}");
    let message = rejection(kubectl(&["taint", "node", &own, "kiln.dev/x=1:NoSchedule"]));
    assert!(message.contains("is not allowed to modify taints"), "{message}");
    let message = rejection(kubectl(&["label", "node", &own, "node-restriction.kubernetes.io/x=1"]));
    assert!(message.contains("is not allowed to modify labels"), "{message}");
}

#[test]
fn node_may_read_only_the_secrets_of_its_own_pods() {
    let plane = shared();
    let namespace = plane.namespace("authoriser").unwrap();
    let (own, other) = (unique("own"), unique("other"));
    node(plane, &own);
    node(plane, &other);
    for (name, node) in [("mine", &own), ("theirs", &other)] {
        plane.run_kubectl(&["create", "secret", "generic", name, "--from-literal=k=v", "-n", &namespace]).unwrap();
        let mut pod = pod(&namespace, name, Some(node), false);
        pod["spec"]["volumes"] = json!([{ "name": "s", "secret": { "secretName": name } }]);
        plane.apply(&pod).unwrap();
    }
    let kubeconfig = plane.kubeconfig_for(&Identity::node(&own)).unwrap();
    let read = |name| plane.run_kubectl_as(&kubeconfig, &["get", "secret", name, "-n", &namespace, "-o", "name"], "");
    // The authorizer learns about the pod through its own watch, which takes a moment.
    let mut secret = read("mine");
    for _ in 0..100 {
        if secret.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        secret = read("mine");
    }
    assert_eq!(secret.unwrap(), "secret/mine\n");
    let message = rejection(read("theirs"));
    assert!(message.contains("no relationship found between node"), "{message}");
}

#[test]
fn privileged_pod_is_rejected_in_a_baseline_namespace() {
    let plane = shared();
    let namespace = plane.namespace("security").unwrap();
    plane.apply(&pod(&namespace, "before", None, true)).unwrap();
    plane.run_kubectl(&["label", "namespace", &namespace, "pod-security.kubernetes.io/enforce=baseline"]).unwrap();
    let message = rejection(plane.apply(&pod(&namespace, "after", None, true)));
    assert!(message.contains("violates PodSecurity \"baseline:latest\""), "{message}");
}

#[test]
fn controller_manager_computes_budgets() {
    let plane = shared();
    let namespace = plane.namespace("budget").unwrap();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": namespace },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "test" } },
            "template": {
                "metadata": { "labels": { "app": "test" } },
                "spec": { "containers": [{ "name": "c", "image": "pause" }] },
            },
        },
    });
    plane.apply(&deployment).unwrap();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "web", "namespace": namespace },
        "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "test" } } },
    });
    plane.apply(&budget).unwrap();
    let wait = |condition: &str| {
        let arguments = ["wait", "pdb/web", "-n", &namespace, "--timeout=60s", &format!("--for=jsonpath={condition}")];
        plane.run_kubectl(&arguments).unwrap();
    };
    wait("{.status.expectedPods}=3");
    wait("{.status.disruptionsAllowed}=0");
    let pods = plane.get(&["pods", "-n", &namespace]).unwrap();
    let names: Vec<&str> =
        pods["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    let evict = |name: &str| {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name, "namespace": namespace },
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        plane.run_kubectl_as(plane.kubeconfig(), &["create", "--raw", &path, "-f", "-"], &eviction.to_string())
    };
    for name in &names {
        let ready = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
        let patch = ["patch", "pod", name, "-n", &namespace, "--subresource=status", "--type=merge", "-p", ready];
        plane.run_kubectl(&patch).unwrap();
    }
    wait("{.status.disruptionsAllowed}=1");
    evict(names[0]).unwrap();
    let message = rejection(evict(names[1]));
    assert!(message.contains("disruption budget"), "{message}");
}

#[test]
fn real_server_accepts_karpenters_own_crds() {
    let plane = shared();
    plane.apply_karpenter_crds().unwrap();
    let name = unique("pool");
    let class = json!({
        "apiVersion": "karpenter.azure.com/v1beta1", "kind": "AKSNodeClass", "metadata": { "name": name },
        "spec": { "imageFamily": "Ubuntu2204", "osDiskSizeGB": 64 },
    });
    let template = json!({
        "nodeClassRef": { "group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": name },
        "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }],
    });
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": name },
        "spec": { "template": { "spec": template } },
    });
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": name }, "spec": template,
    });
    for object in [&class, &pool, &claim] {
        plane.apply(object).unwrap();
    }
    let stored = plane.get(&["nodepool", &name]).unwrap();
    assert_eq!(
        stored["spec"]["disruption"]["consolidationPolicy"], "WhenEmptyOrUnderutilized",
        "a default of the schema"
    );
    let class = plane.get(&["aksnodeclass", &name]).unwrap();
    assert_eq!(class["spec"]["osDiskSizeGB"], 64);

    let mut wrong = pool.clone();
    wrong["metadata"]["name"] = json!(unique("wrong"));
    wrong["spec"]["template"]["spec"]["requirements"][0]["operator"] = json!("Like");
    let message = rejection(plane.apply(&wrong));
    assert!(message.contains("supported values"), "{message}");
}

fn node_class(version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("karpenter.azure.com/{version}"), "kind": "AKSNodeClass",
        "metadata": { "name": unique("class") }, "spec": spec,
    })
}

#[test]
fn node_class_gets_the_defaults_of_karpenters_azure_provider() {
    let plane = shared();
    plane.apply_karpenter_crds().unwrap();
    let subnet = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/s";
    let kubelet =
        json!({ "cpuManagerPolicy": "static", "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80 });
    for spec in [
        json!({}),
        json!({ "imageFamily": "AzureLinux", "fipsMode": "FIPS", "maxPods": 250, "tags": { "team": "a b" } }),
        json!({ "vnetSubnetID": subnet, "osDiskSizeGB": 2048, "kubelet": kubelet }),
    ] {
        for version in ["v1alpha2", "v1beta1"] {
            let class = node_class(version, &spec);
            plane.apply(&class).unwrap_or_else(|error| panic!("{version} {spec}: {error}"));
            let stored = plane.get(&["aksnodeclass", class["metadata"]["name"].as_str().unwrap()]).unwrap();
            assert_eq!(stored["apiVersion"], "karpenter.azure.com/v1beta1", "the version that is served first");
            let given = |field: &str, default: Value| spec.get(field).cloned().unwrap_or(default);
            assert_eq!(stored["spec"]["imageFamily"], given("imageFamily", json!("Ubuntu")));
            assert_eq!(stored["spec"]["osDiskSizeGB"], given("osDiskSizeGB", json!(128)));
        }
    }
}

#[test]
fn invalid_node_class_is_rejected() {
    let plane = shared();
    plane.apply_karpenter_crds().unwrap();
    for (spec, expected) in [
        (json!({ "imageFamily": "Windows2022" }), "Unsupported value"),
        (json!({ "osDiskSizeGB": 29 }), "greater than or equal to 30"),
        (json!({ "osDiskSizeGB": 2049 }), "less than or equal to 2048"),
        (json!({ "osDiskSizeGB": "128" }), "must be of type integer"),
        (json!({ "maxPods": 9 }), "greater than or equal to 10"),
        (json!({ "maxPods": 251 }), "less than or equal to 250"),
        (json!({ "fipsMode": "FIPS", "imageFamily": "Ubuntu2204" }), "FIPS"),
        (json!({ "vnetSubnetID": "/subscriptions/s/subnets/x" }), "should match"),
        (json!({ "tags": { "a<b": "c" } }), "tags keys"),
        (json!({ "tags": { "a": "c".repeat(257) } }), "tags values"),
        (json!({ "kubelet": { "cpuManagerPolicy": "dynamic" } }), "Unsupported value"),
        (json!({ "kubelet": { "containerLogMaxFiles": 1 } }), "greater than or equal to 2"),
        (
            json!({ "kubelet": { "imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 60 } }),
            "imageGCHighThresholdPercent must be greater",
        ),
        (json!({ "localDNS": { "mode": "Preferred" } }), "Required value"),
    ] {
        let message = rejection(plane.apply(&node_class("v1beta1", &spec)));
        assert!(message.contains(expected), "{spec}: {message}");
    }
}
