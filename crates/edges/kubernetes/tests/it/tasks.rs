//! Pods that inspect or prepare a node, and their cleanup.

use std::collections::BTreeMap;
use std::time::Duration;

use kiln_kubernetes::{
    Error, Inspector, Owner, PodInspector, RESULT_ANNOTATION, RESULT_KEY, SECRET_RESULT_ANNOTATION, SECRET_RESULT_KEY,
    SIMULATED_ANNOTATION,
};
use serde_json::{Value, json};

use crate::fake::{Fake, Fault, SentRequest};

const POD: &str = "pods/kiln-system/kiln-inspect-node-1";
const LOG: &str = "log of pods/kiln-system/kiln-inspect-node-1";
const MAP: &str = "configmaps/kiln-system/kiln-inspect-node-1";
const SECRET: &str = "secrets/kiln-system/kiln-inspect-node-1";

fn run() -> Owner {
    "run-1".parse().unwrap()
}

fn findings(kernel: &str) -> Value {
    json!({
        "hostName": "node-1", "vmId": "v", "osRelease": "Ubuntu", "kernel": kernel, "kubeletVersion": "v1.33.0",
        "runtimeVersion": "containerd://2", "packages": {"bash": "5"}, "disk": {"sizeBytes": 10, "usedBytes": 3}, "fstab": [],
        "joinCredential": serde_json::to_value(kiln_types::JoinCredential::StaticClientCertificate { path: "/c".to_owned() }).unwrap(),
        // sha256 of `abc`.
        "customData": {"present": true, "size": 3, "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    })
}

async fn node(fake: &Fake, annotations: Value) -> kiln_types::Node {
    fake.put("nodes", json!({"metadata": {"name": "node-1", "annotations": annotations}, "spec": {}}));
    fake.cluster().node(&"node-1".parse().unwrap()).await.unwrap()
}

async fn simulated(fake: &Fake) -> kiln_types::Node {
    node(fake, json!({(SIMULATED_ANNOTATION): "true"})).await
}

fn inspector(fake: &Fake) -> PodInspector {
    PodInspector::new(&fake.cluster(), &"kiln-system".parse().unwrap(), "kilnd:1").within(Duration::from_mins(1))
}

/// A kubelet that ends every new task pod with `phase` and stores findings in the objects that the pod names.
fn play(fake: &Fake, phase: &'static str, secret: Option<&'static str>) {
    let mut revision = 1000;
    fake.after(move |objects: &mut BTreeMap<String, Value>, request: &SentRequest| {
        if request.method != "POST" || !request.path.contains("/pods") {
            return;
        }
        let (key, pod) = objects.iter_mut().find(|(key, _)| key.starts_with("pods/kiln-system/")).unwrap();
        assert!(key.contains("node-1"), "{key}");
        pod["status"] = json!({"phase": phase, "message": "the disk cannot be read"});
        revision += 1;
        pod["metadata"]["resourceVersion"] = json!(revision.to_string());
        let name = |annotation: &str| pod["metadata"]["annotations"][annotation].as_str().map(str::to_owned);
        let (result, hidden) = (name(RESULT_ANNOTATION), name(SECRET_RESULT_ANNOTATION));
        let object = |name: &str, data: Value| json!({"metadata": {"name": name, "uid": format!("of-{name}"), "resourceVersion": "1"}, "data": data});
        if let (Some(result), "Succeeded") = (result, phase) {
            let text = findings("5.4").to_string();
            objects.insert(format!("configmaps/kiln-system/{result}"), object(&result, json!({(RESULT_KEY): text})));
        }
        if let (Some(hidden), Some(base64)) = (hidden, secret) {
            objects.insert(format!("secrets/kiln-system/{hidden}"), object(&hidden, json!({(SECRET_RESULT_KEY): base64})));
        }
    });
}

fn assert_nothing_remains(fake: &Fake) {
    let others = ["install-first-boot", "freeze", "thaw"].map(|task| format!("pods/kiln-system/kiln-{task}-node-1"));
    for key in [POD, MAP, SECRET].into_iter().chain(others.iter().map(String::as_str)) {
        assert_eq!(fake.get(key), None, "{key} remains");
    }
}

#[tokio::test(start_paused = true)]
async fn inspection_pod_is_announced_and_removed() {
    let fake = Fake::new();
    let node = simulated(&fake).await;
    // `YWJj` is `abc`.
    play(&fake, "Succeeded", Some("YWJj"));
    let found = inspector(&fake).inspect(&node, &run()).await.unwrap();
    assert_eq!((found.kernel.as_str(), found.disk.used_bytes), ("5.4", 3));
    assert_eq!(found.custom_data.bytes().unwrap().expose(), b"abc");
    assert_nothing_remains(&fake);
    let (events, made) = (fake.requests("/events"), fake.requests("POST /api/v1/namespaces/kiln-system/pods"));
    assert!(events[0].at < made[0].at, "the event comes first");
    assert!(events[0].body["note"].as_str().unwrap().contains("changes nothing"), "{}", events[0].body["note"]);
    assert_eq!(made[0].body["spec"]["nodeName"], "node-1");
}

#[tokio::test(start_paused = true)]
async fn custom_data_with_another_hash_is_ignored() {
    let fake = Fake::new();
    let node = simulated(&fake).await;
    play(&fake, "Succeeded", Some("b3RoZXI="));
    let found = inspector(&fake).inspect(&node, &run()).await.unwrap();
    assert!(found.custom_data.present() && found.custom_data.bytes().is_none());
    assert_nothing_remains(&fake);
}

/// A kubelet of a real node: the log of its pod contains the findings of kilnd, with the custom data encrypted to the pod's key.
fn real_kubelet(fake: &Fake, custom_data: Option<&'static [u8]>) {
    fake.after(move |objects, request| {
        if request.method != "POST" || !request.path.contains("/pods") {
            return;
        }
        objects.get_mut(POD).unwrap()["status"] = json!({"phase": "Succeeded"});
        let arguments = request.body["spec"]["containers"][0]["args"].as_array().unwrap();
        let key =
            arguments.iter().skip_while(|argument| **argument != "--custom-data-for").nth(1).unwrap().as_str().unwrap();
        let mut findings = json!({"inspection": findings("5.4")});
        if let Some(bytes) = custom_data {
            findings["sealedCustomData"] = json!(kiln_tls::seal(&kiln_tls::SystemRandom::new(), key, bytes).unwrap());
        }
        objects.insert(LOG.to_owned(), json!(format!("kilnd: another line\n{findings}\n")));
    });
}

#[tokio::test(start_paused = true)]
async fn real_node_is_inspected_through_the_log_of_its_pod() {
    for annotations in [json!({}), json!({(SIMULATED_ANNOTATION): "false"})] {
        let fake = Fake::new();
        let node = node(&fake, annotations).await;
        real_kubelet(&fake, Some(b"abc"));
        let found = inspector(&fake).inspect(&node, &run()).await.unwrap();
        assert_eq!((found.kernel.as_str(), found.custom_data.bytes().unwrap().expose()), ("5.4", &b"abc"[..]));
        let read = &fake.requests("/log")[0];
        assert!(read.path.contains("container=inspect") && read.path.contains("limitBytes="), "{}", read.path);
        assert_nothing_remains(&fake);
    }
}

#[tokio::test(start_paused = true)]
async fn missing_or_different_custom_data_of_a_real_node_is_ignored() {
    for bytes in [None, Some(&b"other"[..])] {
        let fake = Fake::new();
        let node = node(&fake, json!({})).await;
        real_kubelet(&fake, bytes);
        let found = inspector(&fake).inspect(&node, &run()).await.unwrap();
        assert!(found.custom_data.present() && found.custom_data.bytes().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn unusable_logs_are_errors_and_leave_nothing_behind() {
    let key = kiln_tls::Reader::new(&kiln_tls::SystemRandom::new()).unwrap().key();
    let for_another = json!({"inspection": findings("5.4"), "sealedCustomData": kiln_tls::seal(&kiln_tls::SystemRandom::new(), &key, b"abc").unwrap()});
    let (for_another, oversized) = (for_another.to_string(), "x".repeat(5 << 20));
    let cases = [
        ("", "its log contains no findings"),
        ("{\"inspection\":{}}\n", "missing field"),
        (for_another.as_str(), "made for another reader"),
        (oversized.as_str(), "longer than 4 MiB"),
    ];
    for (text, expected) in cases {
        let fake = Fake::new();
        let node = node(&fake, json!({})).await;
        let log = json!(text);
        fake.after(move |objects, request| {
            if request.method == "POST" && request.path.contains("/pods") {
                objects.get_mut(POD).unwrap()["status"] = json!({"phase": "Succeeded"});
                objects.insert(LOG.to_owned(), log.clone());
            }
        });
        let error = inspector(&fake).inspect(&node, &run()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert_nothing_remains(&fake);
    }
}

#[tokio::test(start_paused = true)]
async fn error_of_kilnd_is_reported() {
    let fake = Fake::new();
    let node = node(&fake, json!({})).await;
    fake.after(|objects, request| {
        if request.method == "POST" && request.path.contains("/pods") {
            let ended = json!({"exitCode": 1, "reason": "Error", "message": "install: cannot determine the VM id"});
            let statuses = json!([{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": ended}}]);
            let pod = objects.iter_mut().find(|(key, _)| key.starts_with("pods/")).unwrap().1;
            pod["status"] = json!({"phase": "Failed", "containerStatuses": statuses});
        }
    });
    let error = inspector(&fake).install_first_boot(&node, &run()).await.unwrap_err();
    assert!(error.to_string().contains("Error: install: cannot determine the VM id"), "{error}");
    assert_nothing_remains(&fake);
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_killed_run_are_removed_and_not_used() {
    let fake = Fake::new();
    let node = simulated(&fake).await;
    let meta = json!({"name": "kiln-inspect-node-1", "namespace": "kiln-system"});
    fake.put("pods", json!({"metadata": meta, "spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}}));
    fake.put("configmaps", json!({"metadata": meta, "data": {(RESULT_KEY): findings("older").to_string()}}));
    play(&fake, "Succeeded", None);
    let found = inspector(&fake).inspect(&node, &run()).await.unwrap();
    assert_eq!(found.kernel, "5.4");
    assert_nothing_remains(&fake);
}

#[tokio::test(start_paused = true)]
async fn failed_or_hanging_pod_is_named_and_removed() {
    for (phase, expected) in
        [("Failed", "it failed: the disk cannot be read"), ("Pending", "it has not ended after 60 s")]
    {
        let fake = Fake::new();
        let node = simulated(&fake).await;
        play(&fake, phase, None);
        let error = inspector(&fake).inspect(&node, &run()).await.unwrap_err();
        assert!(matches!(error, Error::TaskFailed { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(expected) && text.contains("kiln-system/kiln-inspect-node-1"), "{text}");
        assert_nothing_remains(&fake);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_inspection_is_cleaned_up() {
    let fake = Fake::new();
    let node = simulated(&fake).await;
    play(&fake, "Running", None);
    let inspector = inspector(&fake);
    let dropped = tokio::time::timeout(Duration::from_secs(5), inspector.inspect(&node, &run())).await;
    assert!(dropped.is_err());
    assert!(fake.get(POD).is_some());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_nothing_remains(&fake);
}

#[tokio::test(start_paused = true)]
async fn pod_with_a_lost_response_is_recreated() {
    let fake = Fake::new();
    let node = simulated(&fake).await;
    fake.fault("POST /api/v1/namespaces/kiln-system/pods", [Fault::LoseResponse]);
    play(&fake, "Succeeded", None);
    inspector(&fake).inspect(&node, &run()).await.unwrap();
    assert_eq!(
        fake.requests("POST /api/v1/namespaces/kiln-system/pods").len(),
        3,
        "response lost, name taken, created"
    );
    assert_nothing_remains(&fake);
}

#[tokio::test(start_paused = true)]
async fn installation_pod_is_announced_and_has_no_result_objects() {
    let fake = Fake::new();
    let node = simulated(&fake).await;
    play(&fake, "Succeeded", None);
    inspector(&fake).install_first_boot(&node, &run()).await.unwrap();
    let made = &fake.requests("POST /api/v1/namespaces/kiln-system/pods")[0].body;
    assert_eq!(made["metadata"]["labels"]["kiln.dev/task"], "install-first-boot");
    assert!(made["metadata"]["annotations"][RESULT_ANNOTATION].is_null());
    let event = &fake.requests("/events")[0].body;
    assert!(event["note"].as_str().unwrap().contains("removes nothing"), "{event}");
    assert_nothing_remains(&fake);
}

#[tokio::test(start_paused = true)]
async fn invalid_findings_are_an_error_and_leave_nothing_behind() {
    let fake = Fake::new();
    let node = simulated(&fake).await;
    fake.after(|objects, request| {
        if request.method == "POST" && request.path.contains("/pods") {
            objects.get_mut(POD).unwrap()["status"] = json!({"phase": "Succeeded"});
            let meta = json!({"name": "kiln-inspect-node-1", "uid": "u", "resourceVersion": "1"});
            objects.insert(MAP.to_owned(), json!({"metadata": meta, "data": {(RESULT_KEY): "{}"}}));
        }
    });
    let error = inspector(&fake).inspect(&node, &run()).await.unwrap_err();
    assert!(matches!(error, Error::BadContent { .. }), "{error}");
    assert_nothing_remains(&fake);
}

#[tokio::test(start_paused = true)]
async fn findings_of_an_earlier_pod_are_not_used() {
    let fake = Fake::new();
    let node = simulated(&fake).await;
    let meta = json!({"name": "kiln-inspect-node-1", "namespace": "kiln-system"});
    fake.put("configmaps", json!({"metadata": meta, "data": {(RESULT_KEY): findings("older").to_string()}}));
    fake.after(|objects, request| {
        if request.method == "POST" && request.path.contains("/pods") {
            objects.get_mut(POD).unwrap()["status"] = json!({"phase": "Succeeded"});
        }
    });
    let error = inspector(&fake).inspect(&node, &run()).await.unwrap_err();
    assert!(error.to_string().contains("it left no `inspection.json`"), "{error}");
    assert_nothing_remains(&fake);
}

const FREEZE_POD: &str = "pods/kiln-system/kiln-freeze-node-1";
const THAW_LOG: &str = "log of pods/kiln-system/kiln-thaw-node-1";

fn freeze_report(end: &str) -> Value {
    json!({"run": "run-1", "fileSystems": ["/"], "frozenMs": 2300, "end": end})
}

/// A real node: its freeze pod becomes Ready, and its thaw pod reports this freeze.
fn freezing_kubelet(fake: &Fake, report: &Value) {
    let report = json!({"thawed": [], "freeze": report}).to_string();
    fake.after(move |objects, request| {
        if request.method != "POST" || !request.path.contains("/pods") {
            return;
        }
        if let Some(pod) = objects.get_mut(FREEZE_POD) {
            pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        }
        if let Some(pod) = objects.get_mut("pods/kiln-system/kiln-thaw-node-1") {
            pod["status"] = json!({"phase": "Succeeded"});
            objects.insert(THAW_LOG.to_owned(), json!(format!("{report}\n")));
        }
    });
}

#[tokio::test(start_paused = true)]
async fn work_is_done_while_the_node_is_frozen_and_the_pod_may_thaw_before_it_is_gone() {
    let fake = Fake::new();
    let node = node(&fake, json!({})).await;
    freezing_kubelet(&fake, &freeze_report("requested"));
    let mut done = false;
    let work = Box::pin(async {
        assert!(fake.get(FREEZE_POD).is_some());
        done = true;
    });
    let report = inspector(&fake).while_frozen(&node, &run(), work).await.unwrap();
    assert!(done);
    assert_eq!(report.frozen_until_requested(), Some(Duration::from_millis(2300)));
    assert_eq!(fake.get(FREEZE_POD), None);
    let deleted = fake.requests("DELETE /api/v1/namespaces/kiln-system/pods/kiln-freeze-node-1");
    assert!(deleted[0].body["gracePeriodSeconds"].is_null(), "kilnd needs time to thaw: {}", deleted[0].body);
    let events: Vec<Value> = fake.requests("/events").iter().map(|event| event.body["note"].clone()).collect();
    assert!(
        events[0].as_str().unwrap().contains("freezes the file systems of this node for 9 s at most"),
        "{events:?}"
    );
    assert_nothing_remains(&fake);
}

#[tokio::test(start_paused = true)]
async fn freeze_that_someone_else_ended_or_that_lasted_too_long_proves_nothing() {
    for (end, removes_pod) in [("windowOver", false), ("thawedElsewhere", false), ("requested", true)] {
        let fake = Fake::new();
        let node = node(&fake, json!({})).await;
        freezing_kubelet(&fake, &freeze_report(end));
        let work = Box::pin(async {
            if removes_pod {
                fake.remove(FREEZE_POD);
            }
        });
        let report = inspector(&fake).while_frozen(&node, &run(), work).await.unwrap();
        assert_eq!(report.frozen_until_requested(), None, "{end}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_outlasts_the_window_is_dropped() {
    let fake = Fake::new();
    let node = node(&fake, json!({})).await;
    freezing_kubelet(&fake, &freeze_report("windowOver"));
    let began = tokio::time::Instant::now();
    let work = Box::pin(std::future::pending());
    inspector(&fake).while_frozen(&node, &run(), work).await.unwrap();
    assert!(began.elapsed() < kiln_types::FREEZE_WINDOW * 2, "{:?}", began.elapsed());
    assert_nothing_remains(&fake);
}

#[tokio::test(start_paused = true)]
async fn node_that_cannot_be_frozen_is_an_error_and_the_work_is_not_done() {
    let fake = Fake::new();
    let node = node(&fake, json!({})).await;
    fake.after(|objects, request| {
        if request.method == "POST" && request.path.contains("/pods") {
            let ended = json!({"exitCode": 1, "reason": "Error", "message": "a root file system of type `overlay` cannot be frozen"});
            let statuses = json!([{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": ended}}]);
            if let Some(pod) = objects.get_mut(FREEZE_POD) {
                pod["status"] = json!({"phase": "Failed", "containerStatuses": statuses});
            }
            if let Some(pod) = objects.get_mut("pods/kiln-system/kiln-thaw-node-1") {
                pod["status"] = json!({"phase": "Succeeded"});
                objects.insert(THAW_LOG.to_owned(), json!("{\"thawed\":[],\"freeze\":null}\n"));
            }
        }
    });
    let work = Box::pin(async { panic!("the node is not frozen") });
    let error = inspector(&fake).while_frozen(&node, &run(), work).await.unwrap_err();
    assert!(error.to_string().contains("type `overlay` cannot be frozen"), "{error}");
    assert_nothing_remains(&fake);
}

#[tokio::test(start_paused = true)]
async fn freeze_pod_of_a_dropped_run_is_removed() {
    let fake = Fake::new();
    let node = node(&fake, json!({})).await;
    freezing_kubelet(&fake, &freeze_report("requested"));
    let inspector = inspector(&fake);
    let work = Box::pin(std::future::pending());
    let dropped = tokio::time::timeout(Duration::from_secs(2), inspector.while_frozen(&node, &run(), work)).await;
    assert!(dropped.is_err() && fake.get(FREEZE_POD).is_some());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fake.get(FREEZE_POD), None);
}
