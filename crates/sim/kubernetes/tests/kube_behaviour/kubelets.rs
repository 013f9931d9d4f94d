//! Simulated kubelets.

use jiff::{SignedDuration, Timestamp};
use kiln_sim_azure::{MachineView, PowerView};
use kiln_sim_kubernetes::kubelet::Kubelets;
use serde_json::{Value, json};

use crate::test_server::{MERGE, TestServer};

crate::both!(
    running_machine_registers_its_node,
    stopping_machine_reports_it_and_recovers,
    pods_start_and_stop_within_their_grace_period,
    pods_are_restarted_after_a_boot,
    node_and_pods_of_a_deleted_machine_are_removed,
    node_runs_its_mirror_pod_and_daemon,
);

/// A running machine.
fn machine(name: &str) -> MachineView {
    MachineView {
        id: format!(
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/{name}/virtualMachines/0"
        ),
        name: format!("{name}_0"),
        computer_name: name.to_uppercase(),
        vm_id: "6f1c5c43-0f4e-4f5e-9a39-b5b0c5d6e7f8".to_owned(),
        address: [10, 1, 0, 4].into(),
        location: "westeurope".to_owned(),
        size: "Standard_D2s_v3".to_owned(),
        image: Some("an image".to_owned()),
        tags: [("poolName".to_owned(), "agents".to_owned())].into(),
        node_labels: [("only".to_owned(), name.to_owned())].into(),
        node_taints: vec!["kiln.dev/test=x:PreferNoSchedule".parse().expect("a taint")],
        power: PowerView::On,
        boots: 1,
        boot: None,
        up: true,
        deleting: false,
        contents: std::sync::Arc::default(),
        custom_data: None,
        cannot_join: None,
        never_ready: None,
    }
}

/// One machine and its kubelet.
struct Fixture {
    machine: MachineView,
    kubelets: Kubelets,
    node: String,
    now: Timestamp,
}

impl Fixture {
    async fn start(g: &TestServer) -> Self {
        let node = TestServer::unique("machine");
        let kubelets = Kubelets::new(g.client.clone());
        #[expect(clippy::disallowed_methods, reason = "the servers under test use the real time")]
        let mut fixture = Self { machine: machine(&node), kubelets, node, now: Timestamp::now() };
        fixture.turn().await;
        fixture
    }

    async fn turn(&mut self) {
        let problems = self.kubelets.turn(std::slice::from_ref(&self.machine), self.now).await;
        assert!(problems.is_empty(), "{problems:?}");
    }

    async fn later(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        self.turn().await;
    }

    fn path(&self) -> String {
        format!("/api/v1/nodes/{}", self.node)
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let list = object["status"]["conditions"].as_array().unwrap();
    list.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

async fn running_machine_registers_its_node(g: TestServer) {
    let mut fixture = Fixture::start(&g).await;
    let node = g.get(&fixture.path()).await.ok();
    assert_eq!(node["spec"]["providerID"], json!(format!("azure://{}", fixture.machine.id)));
    for (label, value) in [
        ("kubernetes.io/hostname", fixture.node.as_str()),
        ("node.kubernetes.io/instance-type", "Standard_D2s_v3"),
        ("topology.kubernetes.io/region", "westeurope"),
        ("agentpool", "agents"),
    ] {
        assert_eq!(node["metadata"]["labels"][label], value, "{label}");
    }
    assert!(node["spec"]["taints"].as_array().unwrap().iter().any(|taint| taint["key"] == "kiln.dev/test"));
    assert_eq!(
        node["status"]["addresses"],
        json!([{"type": "InternalIP", "address": "10.1.0.4"}, {"type": "Hostname", "address": fixture.node}])
    );
    assert_eq!(condition(&node, "Ready")["reason"], "KubeletReady");
    assert_eq!(condition(&node, "DiskPressure")["status"], "False");
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", fixture.node);
    let lease = g.get(&path).await.ok();
    assert_eq!(lease["spec"]["holderIdentity"], json!(fixture.node));
    fixture.later(5).await;
    assert_eq!(
        g.get(&path).await.ok()["spec"]["renewTime"],
        lease["spec"]["renewTime"],
        "the lease was renewed too early"
    );
    fixture.later(5).await;
    assert_ne!(g.get(&path).await.ok()["spec"]["renewTime"], lease["spec"]["renewTime"]);
    let before = condition(&node, "Ready")["lastHeartbeatTime"].clone();
    fixture.later(300).await;
    let node = g.get(&fixture.path()).await.ok();
    assert_ne!(condition(&node, "Ready")["lastHeartbeatTime"], before);
}

async fn stopping_machine_reports_it_and_recovers(g: TestServer) {
    let mut fixture = Fixture::start(&g).await;
    let uid = g.get(&fixture.path()).await.ok()["metadata"]["uid"].clone();
    (fixture.machine.power, fixture.machine.up) = (PowerView::Stopping, false);
    fixture.later(1).await;
    let node = g.get(&fixture.path()).await.ok();
    assert_eq!(condition(&node, "Ready")["status"], "False");
    assert_eq!(condition(&node, "Ready")["message"], "node is shutting down");
    g.until(&fixture.path(), |reply| {
        let taints = reply.body["spec"]["taints"].as_array().unwrap();
        taints.iter().any(|taint| taint["key"] == "node.kubernetes.io/not-ready")
    })
    .await;
    (fixture.machine.power, fixture.machine.boots) = (PowerView::On, 2);
    fixture.later(1).await;
    assert_eq!(condition(&g.get(&fixture.path()).await.ok(), "Ready")["status"], "False", "the machine is booting");
    fixture.machine.up = true;
    fixture.later(1).await;
    let node = g.get(&fixture.path()).await.ok();
    assert_eq!(condition(&node, "Ready")["status"], "True");
    assert_eq!(node["metadata"]["uid"], uid);
    assert!(node["status"]["nodeInfo"]["bootID"].as_str().unwrap().ends_with("-2"));
}

async fn pods_start_and_stop_within_their_grace_period(g: TestServer) {
    let mut fixture = Fixture::start(&g).await;
    let slow = json!({"metadata": {"annotations": {"sim.kiln.dev/stops-after-seconds": "10"}}});
    g.pod("slow", Some(&fixture.node), slow).await;
    g.pod("quick", Some(&fixture.node), json!({})).await;
    fixture.turn().await;
    let pod = g.get(&g.path("pods/slow")).await.ok();
    assert_eq!((&pod["status"]["phase"], &condition(&pod, "Ready")["status"]), (&json!("Running"), &json!("True")));
    assert_eq!(pod["status"]["hostIP"], "10.1.0.4");
    assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
    for name in ["slow", "quick"] {
        g.delete(&g.path(&format!("pods/{name}")), json!({})).await.ok();
    }
    // The server's second may start slightly later than ours.
    fixture.later(2).await;
    assert_eq!(g.get(&g.path("pods/quick")).await.code, 404);
    assert_eq!(g.get(&g.path("pods/slow")).await.code, 200);
    fixture.later(60).await;
    assert_eq!(g.get(&g.path("pods/slow")).await.code, 404);
}

async fn pods_are_restarted_after_a_boot(g: TestServer) {
    let mut fixture = Fixture::start(&g).await;
    g.pod("a", Some(&fixture.node), json!({})).await;
    fixture.turn().await;
    (fixture.machine.power, fixture.machine.up) = (PowerView::Off, false);
    fixture.later(1).await;
    g.delete(&g.path("pods/a"), json!({})).await.ok();
    fixture.later(60).await;
    assert_eq!(g.get(&g.path("pods/a")).await.code, 200, "no kubelet is running to stop it");
    g.pod("b", Some(&fixture.node), json!({})).await;
    g.patch(&g.path("pods/b/status"), MERGE, json!({"status": {"containerStatuses": [{
        "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 4, "state": {}, "lastState": {},
    }]}}))
    .await
    .ok();
    (fixture.machine.power, fixture.machine.up, fixture.machine.boots) = (PowerView::On, true, 2);
    fixture.later(1).await;
    assert_eq!(g.get(&g.path("pods/a")).await.code, 404);
    let pod = g.get(&g.path("pods/b")).await.ok();
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 5);
    assert_eq!(condition(&pod, "Ready")["status"], "True");
}

async fn node_and_pods_of_a_deleted_machine_are_removed(g: TestServer) {
    let mut fixture = Fixture::start(&g).await;
    g.pod("a", Some(&fixture.node), json!({})).await;
    fixture.turn().await;
    let problems = fixture.kubelets.turn(&[], fixture.now).await;
    assert!(problems.is_empty(), "{problems:?}");
    g.until_gone(&fixture.path()).await;
    g.until_gone(&g.path("pods/a")).await;
    g.until_gone(&format!("/api/v1/namespaces/kube-system/pods/kube-proxy-{}", fixture.node)).await;
}

async fn node_runs_its_mirror_pod_and_daemon(g: TestServer) {
    let mut fixture = Fixture::start(&g).await;
    let set = json!({"metadata": {"name": "daemon"}, "spec": {"selector": {"matchLabels": {"app": "daemon"}},
        "template": {"metadata": {"labels": {"app": "daemon"}}, "spec": {
            "nodeSelector": {"only": fixture.node}, "containers": [{"name": "a", "image": "b"}]}}}});
    g.post(&g.group_path("apps", "daemonsets"), set).await.ok();
    let daemons = g.path("pods?labelSelector=app%3Ddaemon");
    let made = g.until(&daemons, |reply| reply.body["items"].as_array().unwrap().len() == 1).await.body;
    let daemon = made["items"][0]["metadata"]["name"].as_str().unwrap();
    if made["items"][0]["spec"].get("nodeName").is_none() {
        // The real cluster has no scheduler here.
        let binding = json!({"metadata": {"name": daemon}, "target": {"kind": "Node", "name": fixture.node}});
        g.post(&g.path(&format!("pods/{daemon}/binding")), binding).await.ok();
    }
    fixture.turn().await;
    let pod = g.get(&g.path(&format!("pods/{daemon}"))).await.ok();
    assert_eq!(condition(&pod, "Ready")["status"], "True");
    let path = g.group_path("apps", "daemonsets/daemon");
    g.until(&path, |reply| reply.body["status"]["numberReady"] == 1).await;
    let mirror = g.get(&format!("/api/v1/namespaces/kube-system/pods/kube-proxy-{}", fixture.node)).await.ok();
    assert!(mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string());
    assert_eq!(mirror["metadata"]["ownerReferences"][0]["kind"], "Node");
    assert_eq!(mirror["status"]["phase"], "Running");
    assert_eq!(mirror["status"]["podIP"], "10.1.0.4", "it uses the host's network");
}
