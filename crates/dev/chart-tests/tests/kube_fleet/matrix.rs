//! The requests that a node could send, and whether they are allowed.

use control_plane::{ControlPlane, Identity};
use serde_json::{Value, json};

use crate::session::{APPLY, FLEET, JSON, JSON_PATCH, MERGE, Session, object};

/// Permissions of nodes by RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// The role of the chart.
    Chart,
    /// The role of the chart with `operator.perNodeRead`, and those that the operator creates for each node.
    PerNode,
    /// Every verb on NodeStates and their status, so that only the admission policy refuses.
    Everything,
}

/// One request.
pub(crate) struct Row {
    /// The verb and what it is for, such as `patch own nodestates/status`.
    pub(crate) name: String,
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Value,
    pub(crate) allowed: bool,
}

/// Two nodes, and a user that is in their group without being a node.
pub(crate) const NODES: [&str; 2] = ["a", "b"];
pub(crate) const IMPOSTOR: &str = "mallory";

/// Creates the objects that the requests are about.
pub(crate) async fn create_objects(admin: &Session) {
    for node in NODES {
        let mut state = object("NodeState", node, json!({"allow": "before"}));
        state["metadata"]["labels"] = json!({"label": "before"});
        admin.post(&format!("{FLEET}/nodestates"), state).await.ok();
    }
    let target = json!({"pools": ["one"], "target": {"nodeConfig": "one"}});
    for (kind, plural, spec) in [
        ("NodeConfig", "nodeconfigs", json!({"document": "{}"})),
        ("Rollout", "rollouts", target),
        ("RolloutPolicy", "rolloutpolicies", json!({})),
        ("Pool", "pools", json!({"nodeSelector": {"a": "b"}})),
        ("Freeze", "freezes", json!({"reason": "x"})),
    ] {
        admin.post(&format!("{FLEET}/{plural}"), object(kind, "one", spec)).await.ok();
    }
}

/// The requests of one identity about the NodeState of a node.
fn state_rows(grant: Grant, is_own: bool, node: &str) -> Vec<Row> {
    let all = format!("{FLEET}/nodestates");
    let (one, status) = (format!("{all}/{node}"), format!("{all}/{node}/status"));
    let spec = || json!({"spec": {"allow": "after"}});
    let report = || json!({"status": {"phase": "Current"}});
    let typed = |more: Value| {
        let mut body = object("NodeState", node, json!({}));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let whose = if is_own { "own" } else { "other" };
    let everything = grant == Grant::Everything;
    let is_limited = grant == Grant::PerNode;
    let row = |verb: &str, resource: &str, method, path: &str, content_type, body, allowed| Row {
        name: format!("{verb} {whose} {resource}"),
        method,
        path: path.to_owned(),
        content_type,
        body,
        allowed,
    };
    let (object_name, part_name) = ("nodestates", "nodestates/status");
    let forced = |path: &str| format!("{path}?fieldManager=matrix&force=true");
    let replace = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let own_by_patch = is_own;
    // The chart grants only `patch` on the status; the policy alone would allow `update` too.
    let own_by_update = is_own && everything;
    vec![
        // kilnd selects its object from the list instead.
        row("get", object_name, "GET", &one, "", Value::Null, !is_limited),
        row(
            "list by name",
            object_name,
            "GET",
            &format!("{all}?fieldSelector=metadata.name%3D{node}"),
            "",
            Value::Null,
            is_own || !is_limited,
        ),
        row(
            "watch by name",
            object_name,
            "GET",
            &format!("{all}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D{node}"),
            "",
            Value::Null,
            is_own || !is_limited,
        ),
        row("create", object_name, "POST", &all, JSON, object("NodeState", &format!("{node}-new"), json!({})), false),
        row("create again", object_name, "POST", &all, JSON, typed(json!({})), false),
        row("update", object_name, "PUT", &one, JSON, typed(spec()), false),
        row("patch spec", object_name, "PATCH", &one, MERGE, spec(), false),
        row(
            "patch labels",
            object_name,
            "PATCH",
            &one,
            MERGE,
            json!({"metadata": {"labels": {"label": "after"}}}),
            false,
        ),
        row("patch finalizers", object_name, "PATCH", &one, MERGE, json!({"metadata": {"finalizers": ["a/b"]}}), false),
        row(
            "patch owner",
            object_name,
            "PATCH",
            &one,
            JSON_PATCH,
            replace("/metadata/ownerReferences", json!([])),
            false,
        ),
        row("apply", object_name, "PATCH", &forced(&one), APPLY, typed(spec()), false),
        row(
            "apply new",
            object_name,
            "PATCH",
            &forced(&format!("{one}-new")),
            APPLY,
            object("NodeState", &format!("{node}-new"), json!({})),
            false,
        ),
        row("delete", object_name, "DELETE", &one, JSON, Value::Null, false),
        row("get", part_name, "GET", &status, "", Value::Null, everything),
        row("patch", part_name, "PATCH", &status, MERGE, report(), own_by_patch),
        row(
            "patch by operations",
            part_name,
            "PATCH",
            &status,
            JSON_PATCH,
            replace("/status", json!({"phase": "Current"})),
            own_by_patch,
        ),
        row("apply", part_name, "PATCH", &forced(&status), APPLY, typed(report()), own_by_patch),
        row("update", part_name, "PUT", &status, JSON, typed(report()), own_by_update),
        row("create", part_name, "POST", &status, JSON, typed(report()), false),
        row("delete", part_name, "DELETE", &status, JSON, Value::Null, false),
    ]
}

/// The requests about all NodeStates.
fn collection_rows(grant: Grant) -> Vec<Row> {
    let is_limited = grant == Grant::PerNode;
    let all = format!("{FLEET}/nodestates");
    let generated = json!({"apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeState", "metadata": {"generateName": "a"}, "spec": {}});
    let row = |name: &str, method, path: String, body, allowed| Row {
        name: format!("{name} nodestates"),
        method,
        path,
        content_type: JSON,
        body,
        allowed,
    };
    vec![
        row("list", "GET", all.clone(), Value::Null, !is_limited),
        row("watch", "GET", format!("{all}?watch=1&timeoutSeconds=1"), Value::Null, !is_limited),
        row("create with generateName", "POST", all.clone(), generated, false),
        row("deletecollection of", "DELETE", all.clone(), Value::Null, false),
        row(
            "deletecollection by name of",
            "DELETE",
            format!("{all}?fieldSelector=metadata.name%3Da"),
            Value::Null,
            false,
        ),
    ]
}

/// The requests about the other kinds. A node reads only NodeConfigs, one at a time.
fn other_rows() -> Vec<Row> {
    let target = json!({"pools": ["one"], "target": {"nodeConfig": "one"}});
    let kinds = [
        ("NodeConfig", "nodeconfigs", json!({"document": "{}"})),
        ("Rollout", "rollouts", target),
        ("RolloutPolicy", "rolloutpolicies", json!({})),
        ("Pool", "pools", json!({"nodeSelector": {"a": "b"}})),
        ("Freeze", "freezes", json!({"reason": "x"})),
    ];
    let mut rows = Vec::new();
    for (kind, plural, spec) in kinds {
        let all = format!("{FLEET}/{plural}");
        let one = format!("{all}/one");
        let labels = || json!({"metadata": {"labels": {"label": "after"}}});
        let reads = plural == "nodeconfigs";
        let new = object(kind, "two", spec);
        for (verb, method, path, content_type, body, allowed) in [
            ("get", "GET", one.clone(), "", Value::Null, reads),
            ("list", "GET", all.clone(), "", Value::Null, false),
            ("watch", "GET", format!("{all}?watch=1&timeoutSeconds=1"), "", Value::Null, false),
            ("create", "POST", all.clone(), JSON, new.clone(), false),
            ("update", "PUT", one.clone(), JSON, new.clone(), false),
            ("patch", "PATCH", one.clone(), MERGE, labels(), false),
            ("apply", "PATCH", format!("{one}?fieldManager=matrix"), APPLY, new, false),
            ("patch status of", "PATCH", format!("{one}/status"), MERGE, json!({"status": {}}), false),
            ("delete", "DELETE", one.clone(), JSON, Value::Null, false),
            ("deletecollection of", "DELETE", all.clone(), JSON, Value::Null, false),
        ] {
            rows.push(Row { name: format!("{verb} {plural}"), method, path, content_type, body, allowed });
        }
    }
    rows
}

/// The names of the requests whose outcome is not the expected one, each with the identity and the response.
pub(crate) async fn deviations(plane: &ControlPlane, grant: Grant) -> Vec<String> {
    let admin = Session::admin(plane).await;
    let mut found = Vec::new();
    let mut sent = 0;
    for user in [NODES[0], NODES[1], IMPOSTOR] {
        let identity =
            if user == IMPOSTOR { Identity::user(user).in_group("system:nodes") } else { Identity::node(user) };
        let session = Session::of(plane, &identity).await;
        let states = NODES.iter().flat_map(|node| state_rows(grant, user == *node, node));
        for mut row in states.chain(collection_rows(grant)).chain(other_rows()) {
            if row.method == "PUT" {
                // Without the revision an update is invalid before the policy sees it.
                let stored = admin.get(row.path.trim_end_matches("/status")).await.ok();
                row.body["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
            }
            let reply = session.send(row.method, &row.path, row.content_type, &row.body).await;
            sent += 1;
            if reply.is_success() != row.allowed {
                found.push(format!("{user}: {} ({} {})", row.name, reply.code, reply.message()));
            } else if !row.allowed {
                // A request may also be refused because its path has no such method.
                assert!([403, 405].contains(&reply.code), "{user}: {}: {:#}", row.name, reply.body);
            }
        }
    }
    assert_eq!(sent, 3 * (2 * 20 + 5 + 50));
    found
}
