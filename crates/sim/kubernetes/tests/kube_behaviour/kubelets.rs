//! The kubelets that the world plays.

use jiff::{SignedDuration, Timestamp};
use kiln_sim_azure::{MachineView, PowerView};
use kiln_sim_kubernetes::kubelet::Kubelets;
use serde_json::{Value, json};

use crate::ground::{Ground, MERGE};

crate::both!(
    a_machine_that_is_up_registers_its_node,
    a_machine_that_stops_says_so_and_comes_back,
    pods_start_and_stop_with_grace,
    pods_start_again_after_a_boot,
    a_machine_that_is_gone_takes_its_node_and_pods_along,
    a_node_has_its_mirror_pod_and_its_daemon,
);

/// A machine as the world shows it, up and running.
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

/// A world of one machine, and its kubelet.
struct Play {
    machine: MachineView,
    kubelets: Kubelets,
    node: String,
    now: Timestamp,
}

impl Play {
    async fn start(g: &Ground) -> Self {
        let node = Ground::unique("world");
        let kubelets = Kubelets::new(g.client.clone());
        #[expect(clippy::disallowed_methods, reason = "the servers under test have the time of the day")]
        let mut play = Self { machine: machine(&node), kubelets, node, now: Timestamp::now() };
        play.turn().await;
        play
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

async fn a_machine_that_is_up_registers_its_node(g: Ground) {
    let mut play = Play::start(&g).await;
    let node = g.get(&play.path()).await.ok();
    assert_eq!(node["spec"]["providerID"], json!(format!("azure://{}", play.machine.id)));
    for (label, value) in [
        ("kubernetes.io/hostname", play.node.as_str()),
        ("node.kubernetes.io/instance-type", "Standard_D2s_v3"),
        ("topology.kubernetes.io/region", "westeurope"),
        ("agentpool", "agents"),
    ] {
        assert_eq!(node["metadata"]["labels"][label], value, "{label}");
    }
    assert!(node["spec"]["taints"].as_array().unwrap().iter().any(|taint| taint["key"] == "kiln.dev/test"));
    assert_eq!(
        node["status"]["addresses"],
        json!([{"type": "InternalIP", "address": "10.1.0.4"}, {"type": "Hostname", "address": play.node}])
    );
    assert_eq!(condition(&node, "Ready")["reason"], "KubeletReady");
    assert_eq!(condition(&node, "DiskPressure")["status"], "False");
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", play.node);
    let lease = g.get(&path).await.ok();
    assert_eq!(lease["spec"]["holderIdentity"], json!(play.node));
    play.later(5).await;
    assert_eq!(g.get(&path).await.ok()["spec"]["renewTime"], lease["spec"]["renewTime"], "not so soon");
    play.later(5).await;
    assert_ne!(g.get(&path).await.ok()["spec"]["renewTime"], lease["spec"]["renewTime"]);
    let before = condition(&node, "Ready")["lastHeartbeatTime"].clone();
    play.later(300).await;
    let node = g.get(&play.path()).await.ok();
    assert_ne!(condition(&node, "Ready")["lastHeartbeatTime"], before);
}

async fn a_machine_that_stops_says_so_and_comes_back(g: Ground) {
    let mut play = Play::start(&g).await;
    let uid = g.get(&play.path()).await.ok()["metadata"]["uid"].clone();
    (play.machine.power, play.machine.up) = (PowerView::Stopping, false);
    play.later(1).await;
    let node = g.get(&play.path()).await.ok();
    assert_eq!(condition(&node, "Ready")["status"], "False");
    assert_eq!(condition(&node, "Ready")["message"], "node is shutting down");
    g.until(&play.path(), |said| {
        let taints = said.body["spec"]["taints"].as_array().unwrap();
        taints.iter().any(|taint| taint["key"] == "node.kubernetes.io/not-ready")
    })
    .await;
    (play.machine.power, play.machine.boots) = (PowerView::On, 2);
    play.later(1).await;
    assert_eq!(condition(&g.get(&play.path()).await.ok(), "Ready")["status"], "False", "it boots");
    play.machine.up = true;
    play.later(1).await;
    let node = g.get(&play.path()).await.ok();
    assert_eq!(condition(&node, "Ready")["status"], "True");
    assert_eq!(node["metadata"]["uid"], uid);
    assert!(node["status"]["nodeInfo"]["bootID"].as_str().unwrap().ends_with("-2"));
}

async fn pods_start_and_stop_with_grace(g: Ground) {
    let mut play = Play::start(&g).await;
    let slow = json!({"metadata": {"annotations": {"sim.kiln.dev/stops-after-seconds": "10"}}});
    g.pod("slow", Some(&play.node), slow).await;
    g.pod("quick", Some(&play.node), json!({})).await;
    play.turn().await;
    let pod = g.get(&g.path("pods/slow")).await.ok();
    assert_eq!((&pod["status"]["phase"], &condition(&pod, "Ready")["status"]), (&json!("Running"), &json!("True")));
    assert_eq!(pod["status"]["hostIP"], "10.1.0.4");
    assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
    for name in ["slow", "quick"] {
        g.delete(&g.path(&format!("pods/{name}")), json!({})).await.ok();
    }
    // The server's second may have begun a little later than ours.
    play.later(2).await;
    assert_eq!(g.get(&g.path("pods/quick")).await.code, 404);
    assert_eq!(g.get(&g.path("pods/slow")).await.code, 200);
    play.later(60).await;
    assert_eq!(g.get(&g.path("pods/slow")).await.code, 404);
}

async fn pods_start_again_after_a_boot(g: Ground) {
    let mut play = Play::start(&g).await;
    g.pod("a", Some(&play.node), json!({})).await;
    play.turn().await;
    (play.machine.power, play.machine.up) = (PowerView::Off, false);
    play.later(1).await;
    g.delete(&g.path("pods/a"), json!({})).await.ok();
    play.later(60).await;
    assert_eq!(g.get(&g.path("pods/a")).await.code, 200, "nobody is there to end it");
    g.pod("b", Some(&play.node), json!({})).await;
    g.patch(&g.path("pods/b/status"), MERGE, json!({"status": {"containerStatuses": [{
        "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 4, "state": {}, "lastState": {},
    }]}}))
    .await
    .ok();
    (play.machine.power, play.machine.up, play.machine.boots) = (PowerView::On, true, 2);
    play.later(1).await;
    assert_eq!(g.get(&g.path("pods/a")).await.code, 404);
    let pod = g.get(&g.path("pods/b")).await.ok();
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 5);
    assert_eq!(condition(&pod, "Ready")["status"], "True");
}

async fn a_machine_that_is_gone_takes_its_node_and_pods_along(g: Ground) {
    let mut play = Play::start(&g).await;
    g.pod("a", Some(&play.node), json!({})).await;
    play.turn().await;
    let problems = play.kubelets.turn(&[], play.now).await;
    assert!(problems.is_empty(), "{problems:?}");
    g.until_gone(&play.path()).await;
    g.until_gone(&g.path("pods/a")).await;
    g.until_gone(&format!("/api/v1/namespaces/kube-system/pods/kube-proxy-{}", play.node)).await;
}

async fn a_node_has_its_mirror_pod_and_its_daemon(g: Ground) {
    let mut play = Play::start(&g).await;
    let set = json!({"metadata": {"name": "daemon"}, "spec": {"selector": {"matchLabels": {"app": "daemon"}},
        "template": {"metadata": {"labels": {"app": "daemon"}}, "spec": {
            "nodeSelector": {"only": play.node}, "containers": [{"name": "a", "image": "b"}]}}}});
    g.post(&g.group_path("apps", "daemonsets"), set).await.ok();
    let daemons = g.path("pods?labelSelector=app%3Ddaemon");
    let made = g.until(&daemons, |said| said.body["items"].as_array().unwrap().len() == 1).await.body;
    let daemon = made["items"][0]["metadata"]["name"].as_str().unwrap();
    if made["items"][0]["spec"].get("nodeName").is_none() {
        // The real cluster has no scheduler here.
        let binding = json!({"metadata": {"name": daemon}, "target": {"kind": "Node", "name": play.node}});
        g.post(&g.path(&format!("pods/{daemon}/binding")), binding).await.ok();
    }
    play.turn().await;
    let pod = g.get(&g.path(&format!("pods/{daemon}"))).await.ok();
    assert_eq!(condition(&pod, "Ready")["status"], "True");
    let path = g.group_path("apps", "daemonsets/daemon");
    g.until(&path, |said| said.body["status"]["numberReady"] == 1).await;
    let mirror = g.get(&format!("/api/v1/namespaces/kube-system/pods/kube-proxy-{}", play.node)).await.ok();
    assert!(mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string());
    assert_eq!(mirror["metadata"]["ownerReferences"][0]["kind"], "Node");
    assert_eq!(mirror["status"]["phase"], "Running");
    assert_eq!(mirror["status"]["podIP"], "10.1.0.4", "it is on the host's network");
}
