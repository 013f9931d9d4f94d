//! A node can write the status of its own NodeState and nothing else, whatever request it sends.

use chart_tests::{Helm, Rendered, chart};
use control_plane::{ControlPlane, Identity, Options};
use serde_json::{Value, json};

use crate::matrix::{Grant, NODES, create_objects, deviations};
use crate::session::{FLEET, Session, apply_definitions, eventually};

/// The objects of the chart that decide what nodes may do.
fn rendered() -> Rendered {
    Helm::new().render(&[("operator.enabled", json!(true))]).unwrap_or_else(|error| panic!("{}", error.0))
}

/// Installs the chart with the operator and more values, in the namespace `kiln`.
pub(crate) fn install(plane: &ControlPlane, more: &[&str]) {
    let chart = chart().display().to_string();
    let arguments =
        ["install", "fleet", &chart, "--namespace", "kiln", "--create-namespace", "--set", "operator.enabled=true"];
    let _ = Helm::new().run(Some(plane.kubeconfig()), &[&arguments, more].concat()).success();
    let definitions = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
    plane.run_kubectl(&definitions).unwrap();
}

/// Grants every verb on NodeStates to all nodes.
fn grant_everything(plane: &ControlPlane) {
    let rule =
        json!({"apiGroups": ["node.kiln.dev"], "resources": ["nodestates", "nodestates/status"], "verbs": ["*"]});
    plane.apply(&role(&json!([rule]))).unwrap();
}

fn role(rules: &Value) -> Value {
    let api = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "all-nodes"});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {"apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "all-nodes"},
            "subjects": [{"apiGroup": api, "kind": "Group", "name": "system:nodes"}]},
    ]})
}

/// Waits until the server enforces roles and policy: it loads both a moment after they are written.
pub(crate) async fn until_enforced(plane: &ControlPlane, allowed: &str, refused: &str) {
    let session = Session::of(plane, &Identity::node("a")).await;
    let probe = json!({"metadata": {"labels": {"label": "probe"}}, "status": {"message": "probe"}});
    eventually("the role of nodes is in force", async || {
        session.merge(&format!("{FLEET}/{allowed}"), probe.clone()).await.is_success().then_some(())
    })
    .await;
    eventually("the policy is in force", async || {
        (session.merge(&format!("{FLEET}/{refused}"), probe.clone()).await.code == 403).then_some(())
    })
    .await;
}

/// Everything that no node may change.
async fn untouched(admin: &Session) -> Value {
    let mut parts = Vec::new();
    for plural in ["nodestates", "nodeconfigs", "rollouts", "rolloutpolicies", "pools", "freezes"] {
        for object in admin.get(&format!("{FLEET}/{plural}")).await.ok()["items"].as_array().unwrap() {
            let metadata = &object["metadata"];
            parts.push(json!([
                plural,
                metadata["name"],
                metadata["uid"],
                metadata["labels"],
                metadata["generation"],
                object["spec"]
            ]));
        }
    }
    json!(parts)
}

#[tokio::test(flavor = "multi_thread")]
async fn node_writes_only_the_status_of_its_own_node_state() {
    let plane = ControlPlane::start(&Options::bare()).unwrap();
    install(&plane, &[]);
    let admin = Session::admin(&plane).await;
    create_objects(&admin).await;
    until_enforced(&plane, "nodestates/a/status", "nodestates/b/status").await;

    let before = untouched(&admin).await;
    assert_eq!(deviations(&plane, Grant::Chart).await, [""; 0], "with the role of the chart");
    assert_eq!(untouched(&admin).await, before);

    // A status that also contains a spec and labels changes only the status.
    let node = Session::of(&plane, &Identity::node("a")).await;
    let body = json!({
        "metadata": {"labels": {"label": "after"}, "finalizers": ["a/b"], "ownerReferences": []},
        "spec": {"allow": "after"},
        "status": {"phase": "Reverted"},
    });
    let changed = node.merge(&format!("{FLEET}/nodestates/a/status"), body).await.ok();
    assert_eq!(changed["status"]["phase"], "Reverted");
    assert_eq!(untouched(&admin).await, before);

    grant_everything(&plane);
    eventually("the role is in force", async || {
        node.get(&format!("{FLEET}/nodestates/b/status")).await.is_success().then_some(())
    })
    .await;
    assert_eq!(deviations(&plane, Grant::Everything).await, [""; 0], "by the policy alone");
    assert_eq!(untouched(&admin).await, before);
    for node in NODES {
        let state = admin.get(&format!("{FLEET}/nodestates/{node}")).await.ok();
        assert_eq!(state["status"]["phase"], "Current", "the last write of each node was its own");
    }
    // Others are not affected by the policy.
    admin.merge(&format!("{FLEET}/nodestates/a"), json!({"spec": {"allow": "by the operator"}})).await.ok();
    admin.send("DELETE", &format!("{FLEET}/nodestates/a"), "", &Value::Null).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_that_does_not_match_the_subresource_is_found_by_the_matrix() {
    let plane = ControlPlane::start(&Options::bare()).unwrap();
    apply_definitions(&plane);
    let rendered = rendered();
    let mut policy = rendered.one("ValidatingAdmissionPolicy").clone();
    let resources = &mut policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"];
    assert_eq!(*resources, json!(["nodestates", "nodestates/status"]));
    *resources = json!(["nodestates"]);
    plane.apply(&policy).unwrap();
    plane.apply(rendered.one("ValidatingAdmissionPolicyBinding")).unwrap();
    let node_role =
        rendered.objects.iter().find(|one| one["metadata"]["name"] == "kiln-node" && one["kind"] == "ClusterRole");
    let mut rules = node_role.unwrap()["rules"].clone();
    // Probes whether the policy is in force.
    rules
        .as_array_mut()
        .unwrap()
        .push(json!({"apiGroups": ["node.kiln.dev"], "resources": ["nodestates"], "verbs": ["patch"]}));
    plane.apply(&role(&rules)).unwrap();
    let admin = Session::admin(&plane).await;
    create_objects(&admin).await;
    until_enforced(&plane, "nodestates/a/status", "nodestates/a").await;

    let found = deviations(&plane, Grant::Chart).await;
    let names: Vec<&str> = found.iter().map(|text| text.split(" (").next().unwrap()).collect();
    let requests = ["patch", "patch by operations", "apply"].map(|verb| format!("{verb} other nodestates/status"));
    // Both nodes are others to the user that is no node.
    let expected: Vec<String> = ["a", "b", "mallory", "mallory"]
        .iter()
        .flat_map(|user| requests.iter().map(move |request| format!("{user}: {request}")))
        .collect();
    assert_eq!(names, expected);
}
