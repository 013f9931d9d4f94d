//! Watches that need progress notifications of etcd. Without them, the server rejects streamed lists, and waits 3 seconds before it rejects
//! a watch without `resourceVersion` if another kind of object was written last.

use std::io::{BufRead as _, BufReader, Lines, Read as _};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

use control_plane::{ControlPlane, shared};
use serde_json::{Value, json};

/// An open watch. Dropping it ends the request.
struct Watch {
    kubectl: Child,
    events: Lines<BufReader<ChildStdout>>,
    errors: ChildStderr,
}

impl Watch {
    fn start(plane: &ControlPlane, path: &str) -> Self {
        let mut kubectl = plane.kubectl().unwrap();
        kubectl.args(["get", "--raw", path]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut kubectl = kubectl.spawn().unwrap();
        let events = BufReader::new(kubectl.stdout.take().unwrap()).lines();
        let errors = kubectl.stderr.take().unwrap();
        Self { kubectl, events, errors }
    }

    /// The next event. Fails when the server rejects or ends the watch.
    #[track_caller]
    fn next(&mut self) -> Value {
        let Some(line) = self.events.next() else {
            let mut errors = String::new();
            self.errors.read_to_string(&mut errors).unwrap();
            panic!("the watch ended: {errors}");
        };
        serde_json::from_str(&line.unwrap()).unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

fn create(plane: &ControlPlane, namespace: &str, kind: &str, name: &str) {
    let metadata = json!({ "name": name, "namespace": namespace });
    plane.apply(&json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata })).unwrap();
}

/// Type and name of an event.
fn summary(event: &Value) -> (&str, &str) {
    (event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap_or_default())
}

#[test]
fn streamed_list_ends_in_a_bookmark() {
    let plane = shared();
    let namespace = plane.namespace("streamed").unwrap();
    create(plane, &namespace, "Secret", "a");
    create(plane, &namespace, "Secret", "b");
    let mut watch = Watch::start(
        plane,
        &format!(
            "/api/v1/namespaces/{namespace}/secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        ),
    );
    assert_eq!(summary(&watch.next()), ("ADDED", "a"));
    assert_eq!(summary(&watch.next()), ("ADDED", "b"));
    let bookmark = watch.next();
    assert_eq!(summary(&bookmark), ("BOOKMARK", ""));
    assert_eq!(bookmark["object"]["metadata"]["annotations"], json!({ "k8s.io/initial-events-end": "true" }));
}

#[test]
fn watch_without_a_resource_version_stays_open() {
    let plane = shared();
    let namespace = plane.namespace("open").unwrap();
    create(plane, &namespace, "Secret", "early");
    // A newer revision that the cache of secrets does not see by itself.
    create(plane, &namespace, "ConfigMap", "other");
    let mut watch = Watch::start(plane, &format!("/api/v1/namespaces/{namespace}/secrets?watch=true"));
    assert_eq!(summary(&watch.next()), ("ADDED", "early"));
    // Twice the time that the server waits for its cache.
    thread::sleep(Duration::from_secs(6));
    create(plane, &namespace, "Secret", "late");
    assert_eq!(summary(&watch.next()), ("ADDED", "late"));
}
