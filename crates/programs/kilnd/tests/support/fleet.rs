//! The custom resources of the fleet on a real API server, with the permissions of nodes.

use std::path::Path;

use control_plane::ControlPlane;
use serde_json::json;

/// The custom resources that the chart installs.
const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../charts/kiln/files/fleet-crds.yaml");

/// Installs the custom resources, and lets nodes read them and report.
pub(crate) fn install(plane: &ControlPlane) {
    install_with(plane, true);
}

/// The same, where nodes may read all NodeStates or, by this role, none.
pub(crate) fn install_with(plane: &ControlPlane, reads_all: bool) {
    assert!(Path::new(DEFINITIONS).is_file());
    plane.run_kubectl(&["apply", "--server-side", "--force-conflicts", "-f", DEFINITIONS]).expect("definitions");
    let names = ["nodestates", "nodeconfigs"].map(|name| format!("crd/{name}.node.kiln.dev"));
    plane
        .run_kubectl(&["wait", "--for=condition=Established", "--timeout=60s", &names[0], &names[1]])
        .expect("established");
    let (api, group) = ("rbac.authorization.k8s.io", "node.kiln.dev");
    let rule = |resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let mut rules = vec![rule("nodestates/status", &["patch"]), rule("nodeconfigs", &["get"])];
    if reads_all {
        rules.push(rule("nodestates", &["get", "list", "watch"]));
    }
    plane
        .apply(&json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": {"name": "kiln-test-nodes"},
            "rules": rules,
        }))
        .expect("a role");
    plane
        .apply(&json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "kiln-test-nodes"},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "kiln-test-nodes"},
            "subjects": [{"apiGroup": api, "kind": "Group", "name": "system:nodes"}],
        }))
        .expect("a binding");
}
