//! Properties of the embedded server alone: its clock, its state folder, and unsupported requests.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kiln_sim_azure::{Options, Sim, WorldSpec};
use kiln_sim_kubernetes::kubelet::Kubelets;
use kiln_sim_kubernetes::{Clock, JournalError, Server};
use kube::api::{Api, ListParams, PostParams, WatchParams};
use kube::core::WatchEvent;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

/// A manual clock.
#[derive(Clone)]
struct Time(Arc<Mutex<Timestamp>>);

impl Time {
    fn new() -> Self {
        Self(Arc::new(Mutex::new("2026-01-02T03:04:05Z".parse().unwrap())))
    }

    fn clock(&self) -> Clock {
        let time = self.0.clone();
        Arc::new(move || *time.lock().unwrap())
    }

    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn advance(&self, seconds: i64) {
        *self.0.lock().unwrap() += SignedDuration::from_secs(seconds);
    }
}

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

async fn call(server: &Server, method: &str, path: &str, kind: &str, body: &Value) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let response = server.handle(&request.body(body).unwrap());
    let code = response.status();
    (code, serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap())
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn in_process_client_needs_no_socket_and_no_time() {
    let server = Server::new(1, Time::new().clock());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let made = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let version = made.resource_version().unwrap();
    let mut changes = Box::pin(api.watch(&WatchParams::default(), &version).await.unwrap());
    let waiting = tokio::spawn(async move { changes.next().await.unwrap().unwrap() });
    api.create(&PostParams::default(), &config_map("b")).await.unwrap();
    let WatchEvent::Added(seen) = waiting.await.unwrap() else { panic!("no object arrived") };
    assert_eq!(seen.name_any(), "b");
}

#[tokio::test(start_paused = true)]
async fn same_seed_gives_the_same_cluster() {
    let uid = |seed| async move {
        let api: Api<ConfigMap> = Api::default_namespaced(client(&Server::new(seed, Time::new().clock())));
        api.create(&PostParams::default(), &config_map("a")).await.unwrap().uid().unwrap()
    };
    assert_eq!(uid(1).await, uid(1).await);
    assert_ne!(uid(1).await, uid(2).await);
}

#[tokio::test(start_paused = true)]
async fn watch_receives_bookmarks() {
    let server = Server::new(1, Time::new().clock());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let mut changes = Box::pin(api.watch(&WatchParams::default(), "4").await.unwrap());
    let WatchEvent::Bookmark(bookmark) = changes.next().await.unwrap().unwrap() else { panic!("no bookmark arrived") };
    assert_eq!(bookmark.metadata.resource_version, "4");
}

#[tokio::test(start_paused = true)]
async fn watches_end_when_the_server_closes() {
    let server = Server::new(1, Time::new().clock());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let mut changes = Box::pin(api.watch(&WatchParams::default(), "4").await.unwrap());
    server.close();
    assert!(changes.next().await.is_none());
}

#[tokio::test]
async fn acknowledged_writes_survive_a_restart_and_old_watches_expire() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let server = Server::open(folder.path(), 1, time.clock()).unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let made = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let early = made.resource_version().unwrap();
    let late = api.create(&PostParams::default(), &config_map("b")).await.unwrap();
    api.delete("a", &kube::api::DeleteParams::default()).await.unwrap();
    let busy = Server::open(folder.path(), 1, time.clock());
    assert!(matches!(busy, Err(JournalError::Locked { .. })));
    drop((api, server));
    let server = loop {
        // The client's background task releases the server when it next runs.
        tokio::task::yield_now().await;
        match Server::open(folder.path(), 1, time.clock()) {
            Err(JournalError::Locked { .. }) => {}
            opened => break opened.unwrap(),
        }
    };
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let names: Vec<_> = api.list(&ListParams::default()).await.unwrap().into_iter().map(|one| one.name_any()).collect();
    assert_eq!(names, ["b"]);
    let found = api.get("b").await.unwrap();
    assert_eq!((found.uid(), found.resource_version()), (late.uid(), late.resource_version()));
    let mut changes = Box::pin(api.watch(&WatchParams::default(), &early).await.unwrap());
    let WatchEvent::Error(status) = changes.next().await.unwrap().unwrap() else { panic!("the watch did not expire") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    let next = api.create(&PostParams::default(), &config_map("c")).await.unwrap();
    assert_ne!(next.uid(), made.uid());
}

#[tokio::test]
async fn custom_resources_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let server = Server::open(folder.path(), 1, time.clock()).unwrap();
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}}});
    let definition = json!({
        "metadata": {"name": "widgets.kiln.test"},
        "spec": {
            "group": "kiln.test", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, made) = call(&server, "POST", path, "application/json", &definition).await;
    assert_eq!((code.as_u16(), &made["status"]["conditions"][1]["type"]), (201, &json!("Established")), "{made}");
    let owner = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "name": "widgets.kiln.test", "uid": made["metadata"]["uid"]});
    let widget = json!({"apiVersion": "kiln.test/v1", "kind": "Widget", "spec": {},
        "metadata": {"name": "a", "ownerReferences": [owner]}});
    let (code, made) = call(&server, "POST", "/apis/kiln.test/v1/widgets", "application/json", &widget).await;
    assert_eq!(code.as_u16(), 201, "{made}");
    drop(server);
    let server = Server::open(folder.path(), 1, time.clock()).unwrap();
    let (_, read) = call(&server, "GET", "/apis/kiln.test/v1/widgets/a", "", &Value::Null).await;
    assert_eq!(read, made);
    assert_eq!(read["spec"]["n"], 1);
    // The definition is known again, so its deletion finds the object.
    let path = format!("{path}/widgets.kiln.test");
    assert_eq!(call(&server, "DELETE", &path, "", &Value::Null).await.0.as_u16(), 200);
    let (code, _) = call(&server, "GET", "/apis/kiln.test/v1/widgets/a", "", &Value::Null).await;
    assert_eq!(code.as_u16(), 404);
    assert_eq!(call(&server, "GET", &path, "", &Value::Null).await.0.as_u16(), 404);
}

#[tokio::test]
async fn unsupported_requests_are_rejected_with_a_status() {
    let server = Server::new(1, Time::new().clock());
    let at = "/api/v1/namespaces/default/configmaps/a";
    for (method, path, kind, code, reason) in [
        ("PATCH", at, "application/apply-patch+yaml", 415, "UnsupportedMediaType"),
        (
            "POST",
            "/api/v1/namespaces/default/configmaps",
            "application/vnd.kubernetes.protobuf",
            415,
            "UnsupportedMediaType",
        ),
        ("GET", "/api/v1/endpoints", "", 404, "NotFound"),
        ("GET", "/apis/batch/v1/jobs", "", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/pods/a/log", "", 404, "NotFound"),
        ("POST", "/api/v1/namespaces/default/pods/a/exec", "", 404, "NotFound"),
        ("PUT", "/api/v1/nodes", "", 405, "MethodNotAllowed"),
        ("DELETE", "/version", "", 405, "MethodNotAllowed"),
        ("GET", "/openapi/v2", "", 406, "NotAcceptable"),
        ("GET", "/metrics", "", 404, "NotFound"),
    ] {
        let (got, status) = call(&server, method, path, kind, &json!({})).await;
        assert_eq!((got.as_u16(), &status["reason"]), (code, &json!(reason)), "{method} {path}: {status}");
        assert_eq!(status["kind"], "Status");
    }
}

#[tokio::test]
async fn access_review_allows_only_served_resources() {
    let server = Server::new(1, Time::new().clock());
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for (group, resource, allowed) in
        [("", "pods", true), ("policy", "poddisruptionbudgets", true), ("batch", "jobs", false)]
    {
        let review = json!({"spec": {"resourceAttributes": {"group": group, "resource": resource, "verb": "get"}}});
        let (code, reviewed) = call(&server, "POST", path, "application/json", &review).await;
        assert_eq!((code.as_u16(), &reviewed["status"]["allowed"]), (201, &json!(allowed)), "{resource}");
    }
}

#[tokio::test]
async fn node_without_heartbeats_becomes_unknown_and_recovers() {
    let time = Time::new();
    let server = Server::new(1, time.clock());
    let spec = WorldSpec::default();
    let sim = Sim::new(spec, Options::instant(time.now())).unwrap();
    let mut kubelets = Kubelets::new(client(&server));
    assert!(kubelets.turn(&sim.machines(), time.now()).await.is_empty());
    let nodes: Api<Node> = Api::all(client(&server));
    let name = nodes.list(&ListParams::default()).await.unwrap().items[0].name_any();
    let ready = || async {
        let node = serde_json::to_value(nodes.get(&name).await.unwrap()).unwrap();
        let list = node["status"]["conditions"].as_array().unwrap().clone();
        let keys: Vec<Value> =
            node["spec"]["taints"].as_array().into_iter().flatten().map(|taint| taint["key"].clone()).collect();
        (list.iter().find(|one| one["type"] == "Ready").unwrap()["status"].clone(), keys)
    };
    time.advance(50);
    assert_eq!(ready().await, (json!("True"), vec![]));
    time.advance(1);
    let (status, taints) = ready().await;
    assert_eq!(status, "Unknown");
    assert!(taints.contains(&json!("node.kubernetes.io/unreachable")), "{taints:?}");
    time.advance(300);
    assert!(kubelets.turn(&sim.machines(), time.now()).await.is_empty());
    assert_eq!(ready().await, (json!("True"), vec![]));
}

#[tokio::test]
async fn machines_become_nodes_and_run_their_pods() {
    let time = Time::new();
    let server = Server::new(1, time.clock());
    let mut spec = WorldSpec::default();
    spec.pools[0].capacity = 50;
    let sim = Sim::new(spec, Options::instant(time.now())).unwrap();
    let machines = sim.machines();
    assert_eq!(machines.len(), 50);
    let mut kubelets = Kubelets::new(client(&server));
    let problems = kubelets.turn(&machines, time.now()).await;
    assert!(problems.is_empty(), "{problems:?}");
    let nodes: Api<Node> = Api::all(client(&server));
    let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
    let mut ids: Vec<_> = nodes.iter().filter_map(|node| node.spec.as_ref()?.provider_id.clone()).collect();
    let mut wanted: Vec<_> = machines.iter().map(kiln_sim_azure::MachineView::provider_id).collect();
    ids.sort();
    wanted.sort();
    assert_eq!(ids, wanted);
    assert!(ids[0].starts_with("azure:///subscriptions/"), "{}", ids[0]);
    // Azure names the computer in upper case, the kubelet registers it in lower case.
    assert!(machines.iter().any(|machine| machine.computer_name.ends_with("00000B")));
    let node = nodes.iter().find(|node| node.name_any().ends_with("00000b")).unwrap();
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
    assert!(id.is_some_and(|id| id.ends_with("/virtualMachines/11")), "{id:?}");
    assert_eq!(node.labels()["kubernetes.io/hostname"], node.name_any());
    assert!(kubelets.turn(&machines, time.now()).await.is_empty());
    let pods: Api<Pod> = Api::namespaced(client(&server), "kube-system");
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(pods.len(), 50);
    for pod in pods {
        assert_eq!(
            pod.status.as_ref().and_then(|status| status.phase.as_deref()),
            Some("Running"),
            "{}",
            pod.name_any()
        );
    }
}
