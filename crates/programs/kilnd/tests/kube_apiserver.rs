//! kilnd's API client against a real API server with the Node authorizer and `NodeRestriction`.

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

/// A Node object, and a client with a certificate that the cluster issued to that node.
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
        issue_certificate(plane, &certificate, &Identity::node(&name));
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

fn issue_certificate(plane: &ControlPlane, path: &Path, identity: &Identity) {
    let credential = plane.issue(identity).expect("a certificate");
    // The kubelet also replaces the file by a rename.
    let new = path.with_extension("new");
    fs::write(&new, credential.certificate + &credential.key).expect("written");
    fs::rename(&new, path).expect("renamed");
}

const NOW: &str = "2027-01-15T08:00:00Z";

fn change(key: &str, value: &str) -> BTreeMap<String, Option<String>> {
    BTreeMap::from([(key.to_owned(), Some(value.to_owned()))])
}

#[test]
fn node_sets_allowed_labels_and_the_server_rejects_others() {
    let node = Joined::new("labels");
    for label in ["example.com/team", "node.kubernetes.io/x", "kubelet.kubernetes.io/y", "topology.kubernetes.io/zone"]
    {
        node.client.patch_labels(&change(label, "a")).expect(label);
        assert_eq!(node.object()["metadata"]["labels"][label], "a", "{label}");
    }
    let gone = BTreeMap::from([("example.com/team".to_owned(), None)]);
    assert!(!node.client.patch_labels(&gone).expect("removed").labels.contains_key("example.com/team"));
    for label in ["node-role.kubernetes.io/worker", "node-restriction.kubernetes.io/a", "kubernetes.io/role"] {
        let error = node.client.patch_labels(&change(label, "a")).expect_err(label);
        assert!(error.is_forbidden(), "{label}: {error}");
        assert!(node.object()["metadata"]["labels"][label].is_null(), "{label}");
    }
}

#[test]
fn node_may_set_its_annotations_conditions_and_events() {
    let node = Joined::new("reports");
    node.client.patch_annotations(&change("kiln.dev/pending-taints", "a=b:NoSchedule")).expect("annotated");
    assert_eq!(node.object()["metadata"]["annotations"]["kiln.dev/pending-taints"], "a=b:NoSchedule");

    let ready =
        json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}).to_string();
    node.plane
        .run_kubectl(&["patch", "node", &node.name, "--subresource=status", "--type=strategic", "-p", &ready])
        .expect("the kubelet's own condition");
    let before = node.client.node().expect("read");
    assert!(before.is_ready());
    let good = Condition::new("KilnConfigured", ConditionStatus::True, "Committed", "generation 7 is in force");
    let after = node.client.set_condition(&good, &before, NOW).expect("set");
    assert!(good.is_set_on(&after) && after.is_ready(), "the kubelet's own condition stays");
    let conditions = node.object()["status"]["conditions"].clone();
    let condition = conditions
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["type"] == "KilnConfigured")
        .expect("kiln's condition")
        .clone();
    assert_eq!((condition["status"].as_str(), condition["lastTransitionTime"].as_str()), (Some("True"), Some(NOW)));

    let message = "generation 8 was reverted: the kubelet did not answer".to_owned();
    let event = Event { severity: Severity::Warning, reason: "KilnReverted".to_owned(), message: message.clone() };
    node.client.post_event(&event, NOW).expect("set");
    // The selector includes the reason, because controllers post events about nodes too.
    let selector = format!("involvedObject.kind=Node,involvedObject.name={},reason=KilnReverted", node.name);
    let events = node.plane.get(&["events", "-n", "default", "--field-selector", &selector]).expect("events");
    assert_eq!(events["items"][0]["message"], message.as_str());
    assert_eq!(events["items"][0]["type"], "Warning");
}

#[test]
fn node_may_not_change_its_taints_or_another_node() {
    let (one, other) = (Joined::new("mine"), Joined::new("yours"));
    // The client cannot set taints, so kubectl with the same identity tests the server's response.
    let kubeconfig = one.plane.kubeconfig_for(&Identity::node(&one.name)).expect("a kubeconfig");
    let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}).to_string();
    let refused =
        one.plane.run_kubectl_as(&kubeconfig, &["patch", "node", &one.name, "--type=merge", "-p", &taint], "");
    assert!(refused.expect_err("refused").to_string().contains("is not allowed to modify taints"));

    let certificate = one.folder.path().join("kubelet-client-current.pem");
    let target = Target {
        server: one.plane.server(),
        authority: one.plane.authority().to_owned(),
        certificates: vec![certificate],
        proxy: None,
    };
    let error = Client::new(target, &other.name).patch_annotations(&change("a", "b")).expect_err("refused");
    assert!(error.is_forbidden(), "{error}");
}

#[test]
fn rotated_certificate_is_used_by_the_next_request() {
    let node = Joined::new("rotates");
    let certificate = node.folder.path().join("kubelet-client-current.pem");
    issue_certificate(node.plane, &certificate, &Identity::user("outsider"));
    assert!(node.client.node().expect_err("forbidden").is_forbidden());
    issue_certificate(node.plane, &certificate, &Identity::node(&node.name));
    node.client.node().expect("read again");
    fs::remove_file(&certificate).expect("removed");
    let error = node.client.node().expect_err("no certificate");
    assert!(!error.is_outage() && error.to_string().contains("kubelet-client-current.pem"), "{error}");
}

#[test]
fn server_with_an_untrusted_certificate_is_rejected() {
    let node = Joined::new("trust");
    let other_authority = {
        let own = node.plane.issue(&Identity::user("stranger")).expect("a certificate");
        own.certificate
    };
    let certificate = node.folder.path().join("kubelet-client-current.pem");
    let target = Target {
        server: node.plane.server(),
        authority: other_authority,
        certificates: vec![certificate],
        proxy: None,
    };
    let error = Client::new(target, &node.name).node().expect_err("untrusted");
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
        .expect_err("connection refused")
        .is_outage()
    );
}

#[test]
fn lease_renewal_time_is_read() {
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

/// An HTTP proxy that counts its `CONNECT` requests.
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
fn requests_go_through_the_configured_proxy() {
    let node = Joined::new("proxy");
    let (url, count) = proxy();
    let certificates = vec![node.folder.path().join("kubelet-client-current.pem")];
    let target = Target {
        server: node.plane.server(),
        authority: node.plane.authority().to_owned(),
        certificates,
        proxy: Some(url),
    };
    Client::new(target, &node.name).patch_annotations(&change("example.com/via", "proxy")).expect("through the proxy");
    assert_eq!(node.object()["metadata"]["annotations"]["example.com/via"], "proxy");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn deleted_node_is_distinguished_from_an_unreachable_server() {
    let node = Joined::new("gone");
    node.plane.run_kubectl(&["delete", "node", &node.name]).expect("deleted");
    assert!(node.client.node().expect_err("gone").is_missing());
}
