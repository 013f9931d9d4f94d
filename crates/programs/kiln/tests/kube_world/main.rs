//! The cluster of `kiln sim serve`, with the real `kubectl`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reqwest::{Certificate, Client, Method};
use serde_json::Value;
use test_deps::{Cache, KubePrograms};
use testkit::{Kiln, SimProcess};

fn kiln() -> Kiln {
    Kiln::at(env!("CARGO_BIN_EXE_kiln"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A path as an argument.
fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have names in UTF-8")
}

/// Sends an ARM request as the service principal of the embedded Azure, and returns the status code.
async fn arm(sim: &SimProcess, method: Method, path: &str) -> u16 {
    kiln_tls::install();
    let ca = Certificate::from_pem(&std::fs::read(sim.key("caFile")).expect("the CA's file")).expect("a certificate");
    let client = Client::builder().no_proxy().tls_certs_only([ca]).build().expect("a client");
    let form = format!(
        "grant_type=client_credentials&client_id={}&client_secret={}&scope={}/.default",
        sim.key("clientId"),
        sim.key("clientSecret"),
        sim.key("arm")
    );
    let url = format!("{}/{}/oauth2/v2.0/token", sim.key("authority"), sim.key("tenantId"));
    let form_type = ("content-type", "application/x-www-form-urlencoded");
    let got = client.post(url).header(form_type.0, form_type.1).body(form).send().await.expect("a token");
    let got: Value = serde_json::from_str(&got.text().await.expect("a body")).expect("JSON");
    let token = got["access_token"].as_str().unwrap_or_else(|| panic!("{got}"));
    let request = client.request(method, format!("{}{path}", sim.key("arm"))).bearer_auth(token);
    request.send().await.expect("a response").status().as_u16()
}

/// The output of `kubectl`, or its error message.
fn kubectl(kubeconfig: &str, arguments: &[&str]) -> Result<String, String> {
    let programs = KubePrograms::of_user(Cache::of_user().expect("a cache"));
    let program = programs.find("kubectl").unwrap_or_else(|missing| panic!("{missing}"));
    let cache = folder();
    let output = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .env("KUBECACHEDIR", cache.path())
        .output()
        .expect("kubectl runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Polls until the output matches: kubelets act once per second.
fn until(kubeconfig: &str, arguments: &[&str], matches: impl Fn(&str) -> bool) -> String {
    let mut last = kubectl(kubeconfig, arguments);
    for _ in 0..240 {
        match &last {
            Ok(output) if matches(output) => return output.clone(),
            _ => std::thread::sleep(Duration::from_millis(250)),
        }
        last = kubectl(kubeconfig, arguments);
    }
    panic!("kubectl {arguments:?}: {last:?}");
}

fn ready(output: &str) -> usize {
    output.lines().filter(|line| line.split_whitespace().nth(1) == Some("Ready")).count()
}

#[test]
fn nodes_register_with_the_labels_and_taints_of_their_pool() {
    let here = folder();
    let world = here.path().join("world.yaml");
    std::fs::write(
        &world,
        "pools: [{name: gpu-vmss, nodeLabels: {tier: gpu}, nodeTaints: ['dedicated=gpu:NoSchedule']}]",
    )
    .expect("written");
    let sim = kiln().sim(&["--speed", "instant", "--world", text(&world)]);
    let at = sim.key("kubeconfig");
    until(at, &["get", "nodes", "-l", "tier=gpu", "--no-headers"], |output| ready(output) == 1);
    let taints = kubectl(at, &["get", "node", "gpu-vmss000000", "-o", "jsonpath={.spec.taints}"]).expect("taints");
    assert!(taints.contains(r#""effect":"NoSchedule","key":"dedicated","value":"gpu""#), "{taints}");
}

const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine"},
    "spec": {"containers": [{"name": "main", "image": "pause:3.9"}]}}"#;

#[test]
fn simulated_machines_are_nodes_and_run_pods() {
    let sim = kiln().sim(&["--speed", "instant"]);
    let at = sim.key("kubeconfig");
    until(at, &["get", "nodes", "--no-headers"], |output| ready(output) == 10);
    let nodes: Value =
        serde_json::from_str(&kubectl(at, &["get", "nodes", "-o", "json"]).expect("nodes")).expect("JSON");
    let id = nodes["items"][0]["spec"]["providerID"].as_str().expect("a provider id");
    let group =
        format!("azure:///subscriptions/{}/resourceGroups/{}/", sim.key("subscriptionId"), sim.key("resourceGroup"));
    assert!(id.starts_with(&group), "{id}");
    let here = folder();
    let file = here.path().join("pod.json");
    std::fs::write(&file, POD).expect("written");
    kubectl(at, &["create", "-f", text(&file)]).expect("a pod");
    until(at, &["get", "pod", "mine", "--no-headers"], |output| output.contains("Running"));
    let node = kubectl(at, &["get", "pod", "mine", "-o", "jsonpath={.spec.nodeName}"]).expect("its node");
    let all = ["get", "pods", "-A", "-o", "name", "--field-selector", &format!("spec.nodeName={node}")];
    let on_node = kubectl(at, &all).expect("pods");
    for part in ["pod/mine", "pod/node-agent-", &format!("pod/kube-proxy-{node}")] {
        assert!(on_node.contains(part), "{part}: {on_node}");
    }
    kubectl(at, &["drain", &node, "--ignore-daemonsets", "--force", "--timeout=60s"]).expect("drained");
    assert!(kubectl(at, &["get", "pod", "mine"]).is_err_and(|error| error.contains("NotFound")));
}

#[tokio::test]
async fn nodes_follow_the_power_state_and_deletion_of_their_machines() {
    let here = folder();
    let world = here.path().join("world.yaml");
    std::fs::write(&world, "pools: [{name: pool, capacity: 2}]\n").expect("written");
    let sim = kiln().sim(&["--speed", "instant", "--world", text(&world)]);
    let at = sim.key("kubeconfig");
    let nodes = ["get", "nodes", "--no-headers"];
    until(at, &nodes, |output| ready(output) == 2);
    let set = format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Compute/virtualMachineScaleSets/pool",
        sim.key("subscriptionId"),
        sim.key("resourceGroup")
    );
    for (method, verb, ready_nodes, all_nodes) in
        [(Method::POST, "/powerOff", 1, 2), (Method::POST, "/start", 2, 2), (Method::DELETE, "", 1, 1)]
    {
        let path = format!("{set}/virtualMachines/0{verb}?api-version=2024-07-01");
        assert_eq!(arm(&sim, method, &path).await, 202, "{verb}");
        until(at, &nodes, |output| (ready(output), output.lines().count()) == (ready_nodes, all_nodes));
    }
}

#[test]
fn cluster_in_a_state_folder_is_restored_and_its_kubeconfig_is_removed_in_between() {
    let state = folder();
    let arguments = ["--speed", "instant", "--state", text(state.path())];
    let sim = kiln().sim(&arguments);
    let file = state.path().join("kept.yaml");
    std::fs::write(&file, "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}, data: {a: b}}").expect("written");
    kubectl(sim.key("kubeconfig"), &["create", "-f", text(&file)]).expect("made");
    let at = sim.key("kubeconfig").to_owned();
    assert_eq!(Path::new(&at), state.path().join("kubeconfig"));
    drop(sim);
    assert!(!Path::new(&at).exists());
    let sim = kiln().sim(&arguments);
    let kept = kubectl(sim.key("kubeconfig"), &["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]);
    assert_eq!(kept.as_deref(), Ok("b"));
}

#[test]
fn machines_join_a_real_cluster_with_a_kubeconfig() {
    let plane = control_plane::shared();
    let at = text(plane.kubeconfig());
    let here = folder();
    let (world, pool) = (here.path().join("world.yaml"), control_plane::unique("pool"));
    std::fs::write(&world, format!("pools: [{{name: {pool}, capacity: 2}}]\n")).expect("written");
    let sim = kiln().sim(&["--speed", "instant", "--world", text(&world), "--kubeconfig", at]);
    assert_eq!(sim.key("kubeconfig"), at);
    let mine = |output: &str| output.lines().filter(|line| line.starts_with(&pool)).count();
    let nodes = ["get", "nodes", "--no-headers"];
    until(at, &nodes, |output| output.lines().filter(|line| line.starts_with(&pool) && ready(line) == 1).count() == 2);
    drop(sim);
    let output = kubectl(at, &nodes).expect("nodes");
    assert_eq!(mine(&output), 2, "nodes of a real cluster are not deleted at exit");
    for line in output.lines().filter(|line| line.starts_with(&pool)) {
        let name = line.split_whitespace().next().expect("a name");
        kubectl(at, &["delete", "node", name]).expect("deleted");
    }
}

#[test]
fn invalid_kubeconfig_is_named_and_nothing_starts() {
    let here = folder();
    let file = here.path().join("kubeconfig");
    std::fs::write(&file, "clusters: {").expect("written");
    let finished = kiln().run(&["sim", "serve", "--kubeconfig", text(&file)]);
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.stderr.contains(text(&file)), "{finished:?}");
}
