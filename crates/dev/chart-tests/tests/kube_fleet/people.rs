//! The roles for people.

use control_plane::{ControlPlane, Identity, unique};
use serde_json::{Value, json};

use crate::session::{Session, eventually};

const WRITES: [&str; 4] = ["create", "update", "patch", "delete"];

/// Whether a user with this role may do it.
fn expected(role: &str, verb: &str, resource: &str) -> bool {
    let is_write = WRITES.contains(&verb);
    match role {
        "kiln-viewer" | "view" => !is_write,
        "kiln-freezer" => resource == "freezes",
        "kiln-rollout-editor" => !is_write || !["freezes", "nodestates"].contains(&resource),
        other => panic!("{other}"),
    }
}

/// Binds each role to a user of its own and compares what the user may do.
pub(crate) async fn roles_grant_what_they_are_for(plane: &ControlPlane) {
    for role in ["kiln-viewer", "view", "kiln-freezer", "kiln-rollout-editor"] {
        let user = unique("person");
        let bind = ["create", "clusterrolebinding", &user, "--clusterrole", role, "--user", &user];
        plane.run_kubectl(&bind).unwrap();
        let session = Session::of(plane, &Identity::user(&user)).await;
        eventually("the role is in force", async || may(&session, "list", "freezes").await.then_some(())).await;
        for resource in ["freezes", "nodeconfigs", "nodestates", "pools", "rolloutpolicies", "rollouts"] {
            for verb in ["get", "list", "watch"].into_iter().chain(WRITES) {
                let allowed = may(&session, verb, resource).await;
                assert_eq!(allowed, expected(role, verb, resource), "{role}: {verb} {resource}");
            }
            assert!(!may(&session, "patch", &format!("{resource}/status")).await, "{role}: status of {resource}");
        }
    }
}

/// The answer of the server to `kubectl auth can-i`.
async fn may(session: &Session, verb: &str, resource: &str) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes: Value =
        json!({"group": "node.kiln.dev", "resource": resource, "subresource": subresource, "verb": verb});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": attributes },
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    session.post(path, review).await.ok()["status"]["allowed"] == true
}
