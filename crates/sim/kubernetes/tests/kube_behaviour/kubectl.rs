//! The real `kubectl`.

use serde_json::json;

use crate::test_server::TestServer;

crate::both!(
    kubectl_gets_and_describes_nodes_and_pods,
    kubectl_cordons_and_uncordons,
    kubectl_annotates_and_labels,
    kubectl_creates_a_pod_and_deletes_it,
    kubectl_rejects_unknown_fields,
    kubectl_drains_a_node,
    kubectl_drain_is_blocked_by_a_budget,
    kubectl_taints_applies_and_patches,
    kubectl_waits_and_watches,
);

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: made, labels: {app: web}}
spec: {containers: [{name: main, image: 'pause:3.9'}]}
";

async fn kubectl_gets_and_describes_nodes_and_pods(g: TestServer) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    g.set_running("a", true).await;
    let nodes = g.kubectl_ok(&["get", "node", &node]).await;
    let (head, row) = nodes.split_once('\n').unwrap();
    assert_eq!(head.split_whitespace().collect::<Vec<_>>(), ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
    assert_eq!(row.split_whitespace().take(3).collect::<Vec<_>>(), [node.as_str(), "Ready", "<none>"]);
    let pods = g.kubectl_ok(&["get", "pods", "-o", "wide"]).await;
    assert!(pods.lines().nth(1).unwrap().contains(&node), "{pods}");
    assert_eq!(g.kubectl_ok(&["get", "pods", "-o", "name"]).await, "pod/a\n");
    assert_eq!(g.kubectl_ok(&["get", "pod", "a", "-o", "jsonpath={.spec.nodeName}"]).await, node);
    let described = g.kubectl_ok(&["describe", "node", &node]).await;
    for part in [&format!("Name:               {node}"), "KubeletReady", "Non-terminated Pods:", "Events:"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    assert!(
        described.lines().any(|line| line.split_whitespace().take(2).eq([g.namespace.as_str(), "a"])),
        "{described}"
    );
    let described = g.kubectl_ok(&["describe", "pod", "a"]).await;
    for part in ["Status:           Running", "QoS Class:"] {
        assert!(
            described.replace("Status:       Running", "Status:           Running").contains(part),
            "{part}: {described}"
        );
    }
    for kind in ["namespaces", "configmaps", "secrets", "events", "leases", "pdb", "ds", "rs"] {
        g.kubectl_ok(&["get", kind]).await;
    }
    let (done, _, stderr) = g.kubectl(&["get", "pod", "none"], "").await;
    assert!(!done);
    assert_eq!(stderr, "Error from server (NotFound): pods \"none\" not found\n");
}

async fn kubectl_cordons_and_uncordons(g: TestServer) {
    let node = g.node().await;
    assert_eq!(g.kubectl_ok(&["cordon", &node]).await, format!("node/{node} cordoned\n"));
    assert_eq!(g.kubectl_ok(&["cordon", &node]).await, format!("node/{node} already cordoned\n"));
    assert!(g.kubectl_ok(&["get", "node", &node]).await.contains("Ready,SchedulingDisabled"));
    assert_eq!(g.kubectl_ok(&["uncordon", &node]).await, format!("node/{node} uncordoned\n"));
    let read = g.get(&format!("/api/v1/nodes/{node}")).await.ok();
    assert!(read["spec"].get("unschedulable").is_none(), "{read:#}");
}

async fn kubectl_annotates_and_labels(g: TestServer) {
    let node = g.node().await;
    g.kubectl_ok(&["annotate", "node", &node, "kiln.dev/x=1"]).await;
    let (done, _, stderr) = g.kubectl(&["annotate", "node", &node, "kiln.dev/x=2"], "").await;
    assert!(!done && stderr.contains("--overwrite is false"), "{stderr}");
    g.kubectl_ok(&["annotate", "--overwrite", "node", &node, "kiln.dev/x=2"]).await;
    g.kubectl_ok(&["label", "node", &node, "pool=a"]).await;
    let read = g.get(&format!("/api/v1/nodes/{node}")).await.ok();
    assert_eq!(read["metadata"]["annotations"]["kiln.dev/x"], "2");
    assert_eq!(
        g.kubectl_ok(&[
            "get",
            "node",
            "-l",
            "pool=a",
            "-o",
            "name",
            "--field-selector",
            &format!("metadata.name={node}")
        ])
        .await,
        format!("node/{node}\n")
    );
    g.kubectl_ok(&["annotate", "node", &node, "kiln.dev/x-"]).await;
    g.kubectl_ok(&["label", "node", &node, "pool-"]).await;
    let read = g.get(&format!("/api/v1/nodes/{node}")).await.ok();
    assert!(read["metadata"]["labels"].get("pool").is_none(), "{read:#}");
}

async fn kubectl_creates_a_pod_and_deletes_it(g: TestServer) {
    let (done, stdout, stderr) = g.kubectl(&["create", "-f", "-"], POD).await;
    assert!(done, "{stderr}");
    assert_eq!(stdout, "pod/made created\n");
    let (done, _, stderr) = g.kubectl(&["create", "-f", "-"], POD).await;
    assert!(!done && stderr.contains("(AlreadyExists)"), "{stderr}");
    let (done, _, stderr) = g.kubectl(&["create", "--dry-run=server", "-f", "-"], &POD.replace("made", "tried")).await;
    assert!(done, "{stderr}");
    assert_eq!(g.get(&g.path("pods/tried")).await.code, 404);
    g.kubectl_ok(&["delete", "pod", "made", "--timeout=60s"]).await;
    assert_eq!(g.get(&g.path("pods/made")).await.code, 404);
}

async fn kubectl_rejects_unknown_fields(g: TestServer) {
    let (done, _, stderr) = g.kubectl(&["create", "-f", "-"], &POD.replace("image:", "imagee:")).await;
    assert!(!done);
    assert!(stderr.contains("strict decoding error: unknown field \"spec.containers[0].imagee\""), "{stderr}");
}

/// Removes terminating pods of a node, as its kubelet would.
async fn end_pods(g: &TestServer, node: &str) {
    loop {
        let list = g.get(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")).await.ok();
        for pod in list["items"].as_array().unwrap() {
            if pod["metadata"]["deletionTimestamp"].is_string() {
                let name = pod["metadata"]["name"].as_str().unwrap();
                g.delete(&g.path(&format!("pods/{name}")), json!({"gracePeriodSeconds": 0})).await;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

async fn kubectl_drains_a_node(g: TestServer) {
    let node = g.node().await;
    g.kubectl_ok(&["label", "node", &node, &format!("only={node}")]).await;
    let set = json!({"metadata": {"name": "daemon"}, "spec": {"selector": {"matchLabels": {"app": "daemon"}},
        "template": {"metadata": {"labels": {"app": "daemon"}}, "spec": {
            "nodeSelector": {"only": node}, "containers": [{"name": "a", "image": "b"}]}}}});
    g.post(&g.group_path("apps", "daemonsets"), set).await.ok();
    let daemons = g.path("pods?labelSelector=app%3Ddaemon");
    let made = g.until(&daemons, |reply| reply.body["items"].as_array().unwrap().len() == 1).await.body;
    let daemon = made["items"][0]["metadata"]["name"].as_str().unwrap();
    if made["items"][0]["spec"].get("nodeName").is_none() {
        // The real cluster has no scheduler here.
        let binding = json!({"metadata": {"name": daemon}, "target": {"kind": "Node", "name": node}});
        g.post(&g.path(&format!("pods/{daemon}/binding")), binding).await.ok();
    }
    g.set_running(daemon, true).await;
    g.pod("plain", Some(&node), json!({})).await;
    g.set_running("plain", true).await;
    let (done, _, stderr) = g.kubectl(&["drain", &node], "").await;
    assert!(!done);
    assert!(stderr.contains("cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"), "{stderr}");
    assert!(stderr.contains("cannot delete Pods that declare no controller (use --force to override)"), "{stderr}");
    let arguments = ["drain", &node, "--ignore-daemonsets", "--force", "--timeout=60s"];
    let (done, stdout, stderr) = tokio::select! {
        () = end_pods(&g, &node) => unreachable!("it never ends"),
        reply = g.kubectl(&arguments, "") => reply,
    };
    assert!(done, "{stderr}");
    assert!(stdout.contains(&format!("node/{node} drained")), "{stdout}");
    assert_eq!(g.get(&g.path("pods/plain")).await.code, 404);
    let left = g.get(&g.path(&format!("pods/{daemon}"))).await.ok();
    assert!(left["metadata"].get("deletionTimestamp").is_none(), "{left:#}");
    let read = g.get(&format!("/api/v1/nodes/{node}")).await.ok();
    assert_eq!(read["spec"]["unschedulable"], true);
}

async fn kubectl_drain_is_blocked_by_a_budget(g: TestServer) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    g.set_running("a", true).await;
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    g.post(&g.group_path("policy", "poddisruptionbudgets"), budget).await.ok();
    let path = g.group_path("policy", "poddisruptionbudgets/b");
    g.until(&path, |reply| reply.body["status"]["currentHealthy"] == 1).await;
    let (done, _, stderr) = g.kubectl(&["drain", &node, "--force", "--timeout=3s"], "").await;
    assert!(!done);
    assert!(stderr.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{stderr}");
    let pod = g.get(&g.path("pods/a")).await.ok();
    assert!(pod["metadata"].get("deletionTimestamp").is_none(), "{pod:#}");
}

async fn kubectl_taints_applies_and_patches(g: TestServer) {
    let node = g.node().await;
    g.kubectl_ok(&["taint", "node", &node, "dedicated=x:NoSchedule"]).await;
    let read = g.get(&format!("/api/v1/nodes/{node}")).await.ok();
    assert!(read["spec"]["taints"].as_array().unwrap().iter().any(|taint| taint["key"] == "dedicated"));
    g.kubectl_ok(&["taint", "node", &node, "dedicated-"]).await;
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {a: '1', b: '2'}}";
    let (done, _, stderr) = g.kubectl(&["apply", "-f", "-"], map).await;
    assert!(done, "{stderr}");
    let (done, _, stderr) = g.kubectl(&["apply", "-f", "-"], &map.replace(", b: '2'", "")).await;
    assert!(done, "{stderr}");
    assert_eq!(g.get(&g.path("configmaps/m")).await.ok()["data"], json!({"a": "1"}));
    g.kubectl_ok(&["patch", "configmap", "m", "--type=merge", "-p", r#"{"data":{"c":"3"}}"#]).await;
    assert_eq!(g.get(&g.path("configmaps/m")).await.ok()["data"], json!({"a": "1", "c": "3"}));
}

async fn kubectl_waits_and_watches(g: TestServer) {
    let node = g.node().await;
    g.kubectl_ok(&["wait", "--for=condition=Ready", &format!("node/{node}"), "--timeout=60s"]).await;
    g.pod("a", None, json!({})).await;
    let (waited, _) = tokio::join!(g.kubectl(&["wait", "--for=delete", "pod/a", "--timeout=60s"], ""), async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        g.delete(&g.path("pods/a"), json!({})).await.ok()
    });
    assert!(waited.0, "{}", waited.2);
}
