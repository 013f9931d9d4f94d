//! A release of the chart on a real API server.

use std::thread;
use std::time::Duration;

use chart_tests::{Helm, chart};
use control_plane::{ControlPlane, unique};
use serde_json::{Value, json};
use testkit::Finished;

/// Controllers react within a second; on a machine that compiles on every core they have needed twenty.
const TRIES: u32 = 600;

/// A namespace for releases.
pub(crate) struct TestNamespace<'a> {
    pub(crate) plane: &'a ControlPlane,
    pub(crate) name: String,
    helm: Helm,
}

impl<'a> TestNamespace<'a> {
    /// A namespace that enforces this PodSecurity level.
    pub(crate) fn enforcing(plane: &'a ControlPlane, level: &str) -> Self {
        let namespace = plane.namespace("chart").unwrap();
        let label = format!("pod-security.kubernetes.io/enforce={level}");
        plane.run_kubectl(&["label", "namespace", &namespace, &label]).unwrap();
        Self { plane, name: namespace, helm: Helm::new() }
    }

    /// Runs `helm upgrade --install`.
    pub(crate) fn install(&self, release: &str, values: &[(&str, Value)]) -> Finished {
        let chart = chart().display().to_string();
        let sets: Vec<String> = values.iter().map(|(path, value)| format!("{path}={value}")).collect();
        let mut arguments = vec!["upgrade", "--install", release, &chart, "--namespace", &self.name];
        arguments.extend(sets.iter().flat_map(|set| ["--set-json", set]));
        self.helm.run(Some(self.plane.kubeconfig()), &arguments)
    }

    /// Runs `helm uninstall` and waits until everything is gone.
    pub(crate) fn uninstall(&self, release: &str) {
        let arguments = ["uninstall", release, "--namespace", &self.name, "--wait", "--cascade", "foreground"];
        let _ = self.helm.run(Some(self.plane.kubeconfig()), &arguments).success();
    }

    /// The objects of a release of these kinds.
    pub(crate) fn objects(&self, release: &str, kinds: &str) -> Vec<Value> {
        let selector = format!("app.kubernetes.io/instance={release}");
        let list = self.plane.get(&[kinds, "--namespace", &self.name, "--selector", &selector]).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Waits for the only pod of a release.
    pub(crate) fn pod(&self, release: &str) -> Value {
        eventually("the pod is created", || {
            let mut pods = self.objects(release, "pods");
            assert!(pods.len() <= 1, "{pods:?}");
            pods.pop()
        })
    }

    /// Sets the phase of a pod, as its kubelet would.
    pub(crate) fn phase(&self, pod: &str, phase: &str, ready: &str) {
        let status = json!({ "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": ready }] } });
        let patch = ["patch", "pod", pod, "--namespace", &self.name, "--subresource=status", "--patch"];
        self.plane.run_kubectl(&[&patch[..], &[&status.to_string()]].concat()).unwrap();
    }

    /// Completes the only pod of a release.
    pub(crate) fn end(&self, release: &str) {
        let pod = self.pod(release);
        self.phase(pod["metadata"]["name"].as_str().unwrap(), "Succeeded", "False");
    }

    /// Waits for the event of a Job controller that cannot create a pod.
    pub(crate) fn rejection(&self) -> String {
        eventually("the event of the rejected pod", || {
            let events = self.plane.get(&["events", "--namespace", &self.name]).unwrap();
            let mut events = events["items"].as_array().unwrap().iter();
            events.find(|event| event["reason"] == "FailedCreate").map(|event| event["message"].to_string())
        })
    }
}

/// A unique release name: cluster roles have no namespace.
pub(crate) fn release() -> String {
    unique("kiln")
}

/// Polls until `check` returns a value.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    for _ in 0..TRIES {
        if let Some(value) = check() {
            return value;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("timed out waiting until {what}");
}

/// Creates a schedulable node with these labels and taints.
pub(crate) fn node(plane: &ControlPlane, name: &str, labels: &Value, taints: &Value) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints },
    });
    plane.apply(&node).unwrap();
    let status = json!({ "status": {
        "conditions": [{ "type": "Ready", "status": "True", "reason": "Test", "message": "",
            "lastHeartbeatTime": "2026-11-16T00:00:00Z", "lastTransitionTime": "2026-11-16T00:00:00Z" }],
        "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "50" },
        "capacity": { "cpu": "4", "memory": "8Gi", "pods": "50" },
    }});
    let patch = ["patch", "node", name, "--subresource=status", "--type=merge", "--patch", &status.to_string()];
    plane.run_kubectl(&patch).unwrap();
    eventually("the node is ready", || {
        let node = plane.get(&["node", name]).unwrap();
        let taints = node["spec"]["taints"].to_string();
        (!taints.contains("node.kubernetes.io/")).then_some(())
    });
}
