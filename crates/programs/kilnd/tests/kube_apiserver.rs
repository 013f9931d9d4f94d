//! A node's client against a real API server with the Node authoriser and `NodeRestriction`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use control_plane::{ControlPlane, Identity, shared, unique};
use kilnd::apiserver::{self, Client, Condition, ConditionStatus, Event, Severity, Target};
use serde_json::json;

/// A Node object, and a client with a certificate that the cluster's authority gave to that node.
struct Joined {
    plane: &'static ControlPlane,
    name: String,
    folder: tempfile::TempDir,
    client: Client,
}

impl Joined {
    fn new(prefix: &str) -> Self {
        let plane = shared();
        let name = unique(prefix);
        plane.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).expect("a node");
        let folder = tempfile::tempdir().expect("a folder");
        let certificate = folder.path().join("kubelet-client-current.pem");
        give(plane, &certificate, &Identity::node(&name));
        let client = Client::new(
            Target {
                server: plane.server(),
                authority: plane.authority().to_owned(),
                certificates: vec![certificate],
                proxy: None,
            },
            &name,
        );
        Self { plane, name, folder, client }
    }

    fn object(&self) -> serde_json::Value {
        self.plane.get(&["node", &self.name]).expect("the node")
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = self.plane.run_kubectl(&["delete", "node", &self.name, "--wait=false"]);
    }
}

fn give(plane: &ControlPlane, path: &Path, identity: &Identity) {
    let credential = plane.issue(identity).expect("a certificate");
    // As the kubelet does: another file, then a rename.
    let new = path.with_extension("new");
    fs::write(&new, credential.certificate + &credential.key).expect("written");
    fs::rename(&new, path).expect("renamed");
}

/// A time as Kubernetes writes it.
const NOW: &str = "2027-01-15T08:00:00Z";

fn set(key: &str, value: &str) -> BTreeMap<String, Option<String>> {
    BTreeMap::from([(key.to_owned(), Some(value.to_owned()))])
}

#[test]
fn a_node_gives_itself_the_labels_it_may_and_the_server_refuses_the_others() {
    let node = Joined::new("labels");
    for label in ["example.com/team", "node.kubernetes.io/x", "kubelet.kubernetes.io/y", "topology.kubernetes.io/zone"]
    {
        node.client.patch_labels(&set(label, "a")).expect(label);
        assert_eq!(node.object()["metadata"]["labels"][label], "a", "{label}");
    }
    let gone = BTreeMap::from([("example.com/team".to_owned(), None)]);
    assert!(!node.client.patch_labels(&gone).expect("taken away").labels.contains_key("example.com/team"));
    for label in ["node-role.kubernetes.io/worker", "node-restriction.kubernetes.io/a", "kubernetes.io/role"] {
        let error = node.client.patch_labels(&set(label, "a")).expect_err(label);
        assert!(error.is_forbidden(), "{label}: {error}");
        assert!(node.object()["metadata"]["labels"][label].is_null(), "{label}");
    }
}

#[test]
fn annotations_conditions_and_events_are_the_nodes_own() {
    let node = Joined::new("tells");
    node.client.patch_annotations(&set("kiln.dev/pending-taints", "a=b:NoSchedule")).expect("annotated");
    assert_eq!(node.object()["metadata"]["annotations"]["kiln.dev/pending-taints"], "a=b:NoSchedule");

    let ready =
        json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}).to_string();
    node.plane
        .run_kubectl(&["patch", "node", &node.name, "--subresource=status", "--type=strategic", "-p", &ready])
        .expect("the kubelet's own condition");
    let before = node.client.node().expect("read");
    assert!(before.is_ready());
    let good = Condition::new("KilnConfigured", ConditionStatus::True, "Confirmed", "generation 7 is in force");
    let after = node.client.set_condition(&good, &before, NOW).expect("told");
    assert!(good.is_set_on(&after) && after.is_ready(), "the kubelet's own condition stays");
    let conditions = node.object()["status"]["conditions"].clone();
    let told = conditions
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["type"] == "KilnConfigured")
        .expect("ours")
        .clone();
    assert_eq!((told["status"].as_str(), told["lastTransitionTime"].as_str()), (Some("True"), Some(NOW)));

    let message = "generation 8 came back: the kubelet did not answer".to_owned();
    let event = Event { severity: Severity::Warning, reason: "KilnCameBack".to_owned(), message: message.clone() };
    node.client.post_event(&event, NOW).expect("told");
    // Controllers tell of nodes too.
    let selector = format!("involvedObject.kind=Node,involvedObject.name={},reason=KilnCameBack", node.name);
    let events = node.plane.get(&["events", "-n", "default", "--field-selector", &selector]).expect("events");
    assert_eq!(events["items"][0]["message"], message.as_str());
    assert_eq!(events["items"][0]["type"], "Warning");
}

#[test]
fn a_node_may_not_touch_its_taints_or_another_node() {
    let (one, other) = (Joined::new("mine"), Joined::new("yours"));
    // The client has no call for taints; kubectl with the same certificate shows what the server would say.
    let kubeconfig = one.plane.kubeconfig_for(&Identity::node(&one.name)).expect("a kubeconfig");
    let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}).to_string();
    let refused =
        one.plane.run_kubectl_as(&kubeconfig, &["patch", "node", &one.name, "--type=merge", "-p", &taint], "");
    assert!(refused.expect_err("refused").to_string().contains("is not allowed to modify taints"));

    let certificate = one.folder.path().join("kubelet-client-current.pem");
    let place = Target {
        server: one.plane.server(),
        authority: one.plane.authority().to_owned(),
        certificates: vec![certificate],
        proxy: None,
    };
    let error = Client::new(place, &other.name).patch_annotations(&set("a", "b")).expect_err("refused");
    assert!(error.is_forbidden(), "{error}");
}

#[test]
fn a_certificate_that_the_kubelet_renewed_is_used_from_the_next_question_on() {
    let node = Joined::new("rotates");
    let certificate = node.folder.path().join("kubelet-client-current.pem");
    give(node.plane, &certificate, &Identity::user("nobody"));
    assert!(node.client.node().expect_err("nobody may").is_forbidden());
    give(node.plane, &certificate, &Identity::node(&node.name));
    node.client.node().expect("read again");
    fs::remove_file(&certificate).expect("removed");
    let error = node.client.node().expect_err("no certificate");
    assert!(error.is_unreachable() && error.to_string().contains("kubelet-client-current.pem"), "{error}");
}

#[test]
fn a_server_that_the_clusters_authority_does_not_vouch_for_is_not_believed() {
    let node = Joined::new("trust");
    let stranger = {
        let own = node.plane.issue(&Identity::user("stranger")).expect("a certificate");
        own.certificate
    };
    let certificate = node.folder.path().join("kubelet-client-current.pem");
    let place =
        Target { server: node.plane.server(), authority: stranger, certificates: vec![certificate], proxy: None };
    let error = Client::new(place, &node.name).node().expect_err("not believed");
    assert!(matches!(error, apiserver::Error::Unreachable { .. }), "{error}");
    assert!(
        Client::new(
            Target {
                server: "https://127.0.0.1:1".to_owned(),
                authority: node.plane.authority().to_owned(),
                certificates: vec![node.folder.path().join("kubelet-client-current.pem")],
                proxy: None
            },
            &node.name
        )
        .node()
        .expect_err("nobody there")
        .is_unreachable()
    );
}

#[test]
fn a_kubelet_that_renews_its_lease_is_seen_to() {
    let node = Joined::new("lease");
    assert_eq!(node.client.lease_renewed_at().expect("no lease yet"), None);
    let lease = |time: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node.name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": node.name, "leaseDurationSeconds": 40, "renewTime": time}})
    };
    for time in ["2027-01-15T08:00:00.000000Z", "2027-01-15T08:00:10.000000Z"] {
        node.plane.apply(&lease(time)).expect("renewed");
        assert_eq!(node.client.lease_renewed_at().expect("read").as_deref(), Some(time));
    }
}

/// A proxy that takes `CONNECT` and counts.
fn proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    thread::spawn(move || {
        for mut near in listener.incoming().flatten() {
            let mut lines = BufReader::new(near.try_clone().expect("a copy")).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            let target =
                first.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap_or_default().to_owned();
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            let Ok(mut far) = TcpStream::connect(&target) else { continue };
            counter.fetch_add(1, Ordering::SeqCst);
            let _ = near.write_all(b"HTTP/1.1 200 Connected\r\n\r\n");
            let (mut back, mut forth) = (far.try_clone().expect("a copy"), near.try_clone().expect("a copy"));
            thread::spawn(move || std::io::copy(&mut back, &mut near));
            thread::spawn(move || std::io::copy(&mut forth, &mut far));
        }
    });
    (url, count)
}

#[test]
fn a_proxy_on_the_way_carries_everything_and_sees_nothing() {
    let node = Joined::new("proxy");
    let (url, count) = proxy();
    let certificates = vec![node.folder.path().join("kubelet-client-current.pem")];
    let place = Target {
        server: node.plane.server(),
        authority: node.plane.authority().to_owned(),
        certificates,
        proxy: Some(url),
    };
    Client::new(place, &node.name).patch_annotations(&set("example.com/way", "around")).expect("through the proxy");
    assert_eq!(node.object()["metadata"]["annotations"]["example.com/way"], "around");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_node_that_is_not_there_is_told_from_a_server_that_is_not() {
    let node = Joined::new("gone");
    node.plane.run_kubectl(&["delete", "node", &node.name]).expect("deleted");
    assert!(node.client.node().expect_err("gone").is_missing());
}
