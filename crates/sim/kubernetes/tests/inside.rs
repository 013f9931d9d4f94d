//! The disk contents of simulated machines, as shown by their nodes and by inspection pods.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kiln_sim_azure::{ContentsSpec, MachineView, Options, Sim, WorldSpec};
use kiln_sim_kubernetes::Server;
use kiln_sim_kubernetes::kubelet::{
    Kubelets, RESULT_ANNOTATION, RESULT_KEY, SECRET_ANNOTATION, SECRET_KEY, TASK_LABEL,
};
use kiln_types::Inspection;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

const RECIPE: &str = "customData: '#!/bin/sh join with hunter2'";

/// An embedded Azure and its cluster, without delays.
struct Fixture {
    sim: Sim,
    client: Client,
    kubelets: Kubelets,
    now: Timestamp,
}

impl Fixture {
    async fn start(pool: &str) -> Self {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let spec = WorldSpec::parse("world", &format!("pools: [{{name: p, {pool}}}]")).unwrap();
        let sim = Sim::new(spec, Options::instant(now)).unwrap();
        let client = Client::new(Server::new(1, Arc::new(move || now)).service(), "default");
        let kubelets = Kubelets::new(client.clone()).with_disks(Arc::new(sim.clone()));
        let mut fixture = Self { sim, client, kubelets, now };
        fixture.turn().await;
        fixture
    }

    async fn turn(&mut self) {
        let problems = self.kubelets.turn(&self.sim.machines(), self.now).await;
        assert!(problems.is_empty(), "{problems:?}");
    }

    fn machine(&self, name: &str) -> MachineView {
        self.sim.machines().into_iter().find(|machine| machine.computer_name == name).unwrap()
    }

    async fn nodes(&self) -> Vec<Value> {
        let api: Api<Node> = Api::all(self.client.clone());
        let all = api.list(&ListParams::default()).await.unwrap().items;
        all.into_iter().map(|node| serde_json::to_value(node).unwrap()).collect()
    }

    async fn node(&self, name: &str) -> Value {
        let all = self.nodes().await;
        all.into_iter().find(|node| node["metadata"]["name"] == name).unwrap_or(Value::Null)
    }

    /// Runs a task pod on a node, and returns its final status.
    async fn task(&mut self, name: &str, node: &str, task: &str, annotations: Value) -> Value {
        let pod = json!({
            "metadata": {"name": name, "labels": {TASK_LABEL: task}, "annotations": annotations},
            "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [{"name": "kilnd", "image": "kilnd:1"}]},
        });
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        self.turn().await;
        serde_json::to_value(api.get(name).await.unwrap()).unwrap()["status"].clone()
    }

    async fn result(&self, name: &str) -> String {
        let api: Api<ConfigMap> = Api::default_namespaced(self.client.clone());
        api.get(name).await.unwrap().data.unwrap()[RESULT_KEY].clone()
    }
}

fn ready(node: &Value) -> (&str, &str) {
    let all = node["status"]["conditions"].as_array().unwrap();
    let one = all.iter().find(|one| one["type"] == "Ready").unwrap();
    (one["status"].as_str().unwrap(), one["message"].as_str().unwrap())
}

/// Creates a snapshot, an image version, and a model that uses it, without a network.
fn clone(fixture: &Fixture, capacity: u32) {
    let spec = fixture.sim.spec();
    let group = format!("/subscriptions/{}/resourceGroups/{}", spec.subscription_id, spec.resource_group);
    let compute = format!("{group}/providers/Microsoft.Compute");
    let form = format!(
        "grant_type=client_credentials&client_id={}&client_secret={}&scope=https://sim.localhost/.default",
        spec.clients[0].client_id, spec.clients[0].client_secret
    );
    let send = |method: &str, path: &str, token: &str, body: String| -> Value {
        let request = http::Request::builder().method(method).uri(format!("https://sim.localhost{path}"));
        let request = request.header("authorization", format!("Bearer {token}")).body(body.into()).unwrap();
        let response = fixture.sim.arm(request).answer().unwrap();
        assert!(response.status().is_success(), "{method} {path}: {:?}", response.body());
        serde_json::from_slice(response.body()).unwrap_or_default()
    };
    let token = send("POST", &format!("/{}/oauth2/v2.0/token", spec.tenant_id), "", form);
    let token = token["access_token"].as_str().unwrap();
    let instance = format!("{compute}/virtualMachineScaleSets/p/virtualMachines/0?api-version=2024-03-01");
    let disk =
        &send("GET", &instance, token, String::new())["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"];
    for (path, version, body) in [
        ("snapshots/s", "2023-10-02", json!({"creationData": {"createOption": "Copy", "sourceResourceId": disk}})),
        ("galleries/g", "2023-07-03", json!({})),
        (
            "galleries/g/images/d",
            "2023-07-03",
            json!({"osType": "Linux", "osState": "Generalized", "identifier": {"publisher": "p", "offer": "o", "sku": "s"}}),
        ),
        (
            "galleries/g/images/d/versions/1.0.0",
            "2023-07-03",
            json!({"storageProfile": {"osDiskImage": {"source": {"id": format!("{compute}/snapshots/s")}}}}),
        ),
    ] {
        let body = json!({"location": "westus2", "properties": body}).to_string();
        send("PUT", &format!("{compute}/{path}?api-version={version}"), token, body);
    }
    let profile = json!({
        "storageProfile": {"imageReference": {"id": format!("{compute}/galleries/g/images/d")}},
        "osProfile": {"customData": "I2Nsb3VkLWNvbmZpZwo="},
    });
    fixture.sim.change_scale_set("p", &json!({"properties": {"virtualMachineProfile": profile}})).unwrap();
    fixture.sim.scale("p", capacity).unwrap();
}

#[tokio::test]
async fn node_reports_its_disk_contents_and_is_marked_as_simulated() {
    let contents = "{osRelease: Test OS 1, kernel: 6.8-test, kubeletVersion: v1.32.1, runtimeVersion: 'containerd://2.0.0', cachedImages: [a:1, b:2]}";
    let fixture = Fixture::start(&format!("{RECIPE}, contents: {contents}")).await;
    let (node, machine) = (fixture.node("p000000").await, fixture.machine("p000000"));
    let info = &node["status"]["nodeInfo"];
    for (key, value) in [
        ("osImage", "Test OS 1"),
        ("kernelVersion", "6.8-test"),
        ("kubeletVersion", "v1.32.1"),
        ("containerRuntimeVersion", "containerd://2.0.0"),
        ("machineID", machine.contents.identity["machine-id"].as_str()),
        ("systemUUID", machine.vm_id.as_str()),
    ] {
        assert_eq!(info[key], value, "{key}");
    }
    assert_eq!(node["status"]["images"], json!([{"names": ["a:1"]}, {"names": ["b:2"]}]));
    assert_eq!(node["metadata"]["annotations"]["kiln.dev/simulated"], "true");
}

#[tokio::test]
async fn inspection_is_written_to_a_config_map_and_custom_data_only_to_a_secret() {
    let mut fixture = Fixture::start(RECIPE).await;
    let status = fixture.task("inspect-1", "p000000", "inspect", json!({RESULT_ANNOTATION: "found"})).await;
    assert_eq!(
        (&status["phase"], &status["containerStatuses"][0]["state"]["terminated"]["exitCode"]),
        (&json!("Succeeded"), &json!(0))
    );
    let text = fixture.result("found").await;
    assert!(!text.contains("hunter2") && !text.contains(&STANDARD.encode("join with hunter2")), "{text}");
    let found: Inspection = serde_json::from_str(&text).unwrap();
    let expected = fixture.machine("p000000").inspection();
    assert!(found.custom_data.present() && found.custom_data.bytes().is_none());
    assert_eq!(Inspection { custom_data: expected.custom_data.clone(), ..found }, expected);
    let secrets: Api<Secret> = Api::default_namespaced(fixture.client.clone());
    assert!(secrets.list(&ListParams::default()).await.unwrap().items.is_empty(), "no secret was requested");

    // Again, replacing the result, and with a Secret for the custom data.
    let kernel = ContentsSpec { kernel: Some("7.0".to_owned()), ..ContentsSpec::default() };
    fixture.sim.alter_machine("p000000", &kernel).unwrap();
    let annotations = json!({RESULT_ANNOTATION: "found", SECRET_ANNOTATION: "recipe"});
    assert_eq!(fixture.task("inspect-2", "p000000", "inspect", annotations).await["phase"], "Succeeded");
    let text = fixture.result("found").await;
    assert!(text.contains("\"kernel\": \"7.0\"") && !text.contains("hunter2"), "{text}");
    let secret = secrets.get("recipe").await.unwrap().data.unwrap();
    assert_eq!(secret[SECRET_KEY].0, b"#!/bin/sh join with hunter2");
}

#[tokio::test]
async fn installation_pod_installs_the_unit_and_changes_nothing_else() {
    let mut fixture = Fixture::start(RECIPE).await;
    let before = fixture.machine("p000000");
    assert_eq!(fixture.task("install", "p000000", "install-first-boot", json!({})).await["phase"], "Succeeded");
    let after = fixture.machine("p000000");
    assert_eq!(after.contents.first_boot_unit.as_ref().unwrap().recorded_vm_id, before.vm_id);
    let mut same = (*after.contents).clone();
    same.first_boot_unit = None;
    assert_eq!(same, *before.contents);
    clone(&fixture, 2);
    fixture.turn().await;
    assert_eq!(ready(&fixture.node("p000001").await).0, "True");
    assert_ne!(fixture.machine("p000001").contents.identity["machine-id"], before.contents.identity["machine-id"]);
}

#[tokio::test]
async fn impossible_task_fails_with_a_reason() {
    let mut fixture = Fixture::start(RECIPE).await;
    for (name, task, expected) in [("a", "inspect", RESULT_ANNOTATION), ("b", "dance", "`dance`")] {
        let status = fixture.task(name, "p000000", task, json!({})).await;
        assert_eq!(status["phase"], "Failed");
        assert!(status["message"].as_str().unwrap().contains(expected), "{status}");
    }
    fixture.kubelets = Kubelets::new(fixture.client.clone());
    let status = fixture.task("c", "p000000", "install-first-boot", json!({})).await;
    assert_eq!(status["phase"], "Failed");
    assert_eq!(fixture.machine("p000000").contents.first_boot_unit, None);
}

#[tokio::test]
async fn machine_that_cannot_join_has_no_node_and_a_broken_clone_never_becomes_ready() {
    let mut fixture = Fixture::start(RECIPE).await;
    let no_op = json!({"properties": {"virtualMachineProfile": {"osProfile": {"customData": "I2Nsb3VkLWNvbmZpZwo="}}}});
    fixture.sim.change_scale_set("p", &no_op).unwrap();
    fixture.sim.scale("p", 2).unwrap();
    fixture.turn().await;
    assert_eq!(fixture.nodes().await.len(), 1);
    assert!(fixture.machine("p000001").cannot_join.is_some());

    let mut fixture = Fixture::start(&format!(
        "{RECIPE}, contents: {{firstBootUnit: '1'}}, instances: {{0: {{defects: [cloneNeverReady]}}}}"
    ))
    .await;
    clone(&fixture, 2);
    fixture.turn().await;
    assert_eq!(ready(&fixture.node("p000000").await).0, "True");
    for _ in 0..2 {
        let node = fixture.node("p000001").await;
        let (status, message) = ready(&node);
        assert!(status == "False" && message.contains("defect"), "{status}: {message}");
        fixture.now += jiff::SignedDuration::from_mins(10);
        fixture.turn().await;
    }
}

#[tokio::test]
async fn clone_without_the_unit_takes_over_the_node_of_its_donor_until_it_is_deleted() {
    let mut fixture = Fixture::start(RECIPE).await;
    let donor = fixture.machine("p000000");
    clone(&fixture, 2);
    fixture.turn().await;
    let impostor = fixture.machine("p000001");
    let nodes = fixture.nodes().await;
    assert_eq!(nodes.len(), 1, "two machines and one node");
    assert_eq!(nodes[0]["spec"]["providerID"], donor.provider_id());
    assert_eq!(nodes[0]["status"]["nodeInfo"]["systemUUID"], impostor.vm_id);
    assert_eq!(nodes[0]["status"]["addresses"][0]["address"], impostor.address.to_string());

    fixture.sim.delete_machine(&impostor.vm_id).unwrap();
    fixture.now += jiff::SignedDuration::from_mins(10);
    fixture.turn().await;
    let node = fixture.node("p000000").await;
    assert_eq!(node["status"]["nodeInfo"]["systemUUID"], donor.vm_id);
    fixture.sim.delete_machine(&donor.vm_id).unwrap();
    fixture.turn().await;
    assert!(fixture.nodes().await.is_empty());
}
