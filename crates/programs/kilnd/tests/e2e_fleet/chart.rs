//! The objects of the chart: custom resources, roles and the admission policy, without the Deployment of the operator.

use chart_tests::Helm;
use control_plane::{ControlPlane, Identity};
use serde_json::{Value, json};

/// The namespace of the release, as `Helm::render` names it.
pub(crate) const NAMESPACE: &str = "nodes";

/// Kinds that run the operator, which the test does itself.
const PROGRAM: [&str; 3] = ["Deployment", "PodDisruptionBudget", "Service"];

/// Installs the chart. Returns a kubeconfig with the permissions of the operator's service account.
pub(crate) fn install(plane: &ControlPlane) -> std::path::PathBuf {
    let rendered = Helm::new().template(&["--set", "operator.enabled=true"]).expect("the chart");
    let operator = &rendered.one("Deployment")["spec"]["template"]["spec"]["serviceAccountName"];
    let operator = operator.as_str().expect("a service account");
    plane.run_kubectl(&["create", "namespace", NAMESPACE]).expect("a namespace");
    let (definitions, others): (Vec<Value>, Vec<Value>) = rendered
        .objects
        .iter()
        .filter(|object| !PROGRAM.iter().any(|kind| object["kind"] == *kind))
        .cloned()
        .partition(|object| object["kind"] == "CustomResourceDefinition");
    apply(plane, &definitions);
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
    plane.run_kubectl(&wait).expect("established");
    apply(plane, &others);
    plane
        .kubeconfig_for(&Identity::user(format!("system:serviceaccount:{NAMESPACE}:{operator}")))
        .expect("a kubeconfig")
}

fn apply(plane: &ControlPlane, objects: &[Value]) {
    // Definitions are too large for the annotation of a client-side apply.
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let words = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    plane.run_kubectl_as(plane.kubeconfig(), &words, &list).unwrap_or_else(|error| panic!("{error}"));
}
