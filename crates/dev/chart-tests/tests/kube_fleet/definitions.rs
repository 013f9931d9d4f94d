//! The server accepts the definitions, serves them as they are, and shows the columns and names that they have.

use std::collections::BTreeMap;

use chart_tests::chart;
use control_plane::{ControlPlane, Options};
use serde_json::{Map, Value, json};

use crate::session::{FLEET, JSON, Session, apply_definitions, object};

/// Removes what the server adds, so that only what the definition says remains.
fn without_defaults(found: &Value, expected: &Value) -> Value {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let common = expected
                .iter()
                .filter_map(|(key, value)| found.get(key).map(|found| (key.clone(), without_defaults(found, value))));
            Value::Object(common.collect::<Map<_, _>>())
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            found.iter().zip(expected).map(|(found, expected)| without_defaults(found, expected)).collect()
        }
        (Value::Number(found), Value::Number(expected)) if found.as_f64() == expected.as_f64() => {
            Value::Number(expected.clone())
        }
        (found, _) => found.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_accepts_the_definitions_without_warnings_and_keeps_every_field() {
    let plane = ControlPlane::start(&Options::bare()).unwrap();
    let admin = Session::admin(&plane).await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for definition in kiln_fleet_api::definitions() {
        let expected = serde_json::to_value(&definition).unwrap();
        let created = admin.send("POST", &format!("{path}?fieldValidation=Strict"), JSON, &expected).await;
        assert_eq!(created.warnings, [""; 0], "{}", definition.spec.names.kind);
        assert_eq!(without_defaults(&created.ok(), &expected), expected);
    }
    // The same by kubectl: the file of the chart changes nothing.
    let file = chart().join("files/fleet-crds.yaml").display().to_string();
    let difference = plane.run_kubectl(&["diff", "--server-side", "--force-conflicts", "-f", &file]).unwrap();
    let changed: Vec<&str> = difference.lines().filter(|line| line.starts_with(['+', '-'])).collect();
    assert_eq!(changed, [""; 0]);
    apply_definitions(&plane);
    for (short, kind) in [
        ("kfz", "freezes"),
        ("knc", "nodeconfigs"),
        ("kns", "nodestates"),
        ("kpool", "pools"),
        ("krp", "rolloutpolicies"),
        ("kro", "rollouts"),
    ] {
        let by_short_name = plane.get(&[short]).unwrap();
        let by_name = plane.get(&[&format!("{kind}.node.kiln.dev")]).unwrap();
        assert_eq!(by_short_name, by_name, "{short}");
    }
    defaults_are_written(&admin).await;
    status_is_separate(&admin).await;
    columns_are_shown(&plane, &admin).await;
    fields_are_explained(&plane);
}

async fn defaults_are_written(admin: &Session) {
    let spec =
        json!({"pools": ["web"], "target": {"nodeConfig": "web"}, "policy": {"budgets": [{"maxUnavailable": "10%"}]}});
    let rollout = admin.post(&format!("{FLEET}/rollouts"), object("Rollout", "defaults", spec)).await.ok();
    let expected = json!({
        "pools": ["web"],
        "target": {"nodeConfig": "web"},
        "replacement": "WhenNeeded",
        "onFailure": "RollBack",
        "policy": {
            "budgets": [{"maxUnavailable": "10%", "domains": "All"}],
            "waves": {
                "first": {"nodes": 1, "approve": "Automatic"},
                "then": {"factor": 3, "maxPercent": 30, "approve": "Automatic"},
            },
            "failure": {"nodes": 1, "inFirstWave": 1},
        },
    });
    assert_eq!(rollout["spec"], expected);
    let read: kiln_fleet_api::Rollout = serde_json::from_value(rollout).unwrap();
    assert_eq!(serde_json::to_value(&read.spec).unwrap(), expected, "the types agree with the schema");
    let policy =
        admin.post(&format!("{FLEET}/rolloutpolicies"), object("RolloutPolicy", "defaults", json!({}))).await.ok();
    let read: kiln_fleet_api::RolloutPolicy = serde_json::from_value(policy.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read.spec).unwrap(), policy["spec"]);
    assert_eq!(read.spec, kiln_fleet_api::RolloutPolicySpec::default());
}

async fn status_is_separate(admin: &Session) {
    let path = format!("{FLEET}/nodestates/one");
    let mut new = object("NodeState", "one", json!({}));
    new["status"] = json!({"phase": "Current"});
    let created = admin.post(&format!("{FLEET}/nodestates"), new).await.ok();
    assert_eq!(created["status"], Value::Null, "a new object has no status");
    let changed = admin.merge(&path, json!({"spec": {"allow": "ab"}, "status": {"phase": "Current"}})).await.ok();
    assert_eq!((&changed["status"], &changed["metadata"]["generation"]), (&Value::Null, &json!(2)));
    let status = json!({"phase": "OnTrial", "conditions": [{"type": "Ready", "status": "False"}]});
    let both = json!({"spec": {"allow": "other"}, "metadata": {"labels": {"a": "b"}}, "status": status});
    let changed = admin.merge(&format!("{path}/status"), both).await.ok();
    assert_eq!(changed["spec"]["allow"], "ab", "a write of the status changes nothing else");
    assert_eq!(changed["metadata"]["labels"], Value::Null);
    assert_eq!(changed["metadata"]["generation"], 2, "kstatus compares it with observedGeneration");
    let bad = admin.merge(&format!("{path}/status"), json!({"status": {"phase": "Unknown"}})).await;
    assert!(bad.code == 422 && bad.message().contains("supported values"), "{}", bad.message());
}

/// The cells of `kubectl get`, by the column's title.
fn row(table: &str) -> BTreeMap<String, String> {
    let lines: Vec<&str> = table.lines().collect();
    let [head, line] = lines[..] else { panic!("expected one row:\n{table}") };
    let starts: Vec<usize> = head
        .char_indices()
        .filter(|(at, c)| !c.is_whitespace() && (*at == 0 || head[..*at].ends_with("   ")))
        .map(|(at, _)| at)
        .collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let cell =
        |text: &str, from: usize, to: usize| text.get(from..to.min(text.len())).unwrap_or_default().trim().to_owned();
    starts.iter().zip(ends).map(|(from, to)| (cell(head, *from, to), cell(line, *from, to))).collect()
}

async fn columns_are_shown(plane: &ControlPlane, admin: &Session) {
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    let cases = [
        (
            "Freeze",
            "freezes",
            json!({"reason": "incident 7", "until": "2030-01-01T00:00:00Z"}),
            json!({}),
            json!({"REASON": "incident 7", "UNTIL": "2030-01-01T00:00:00Z"}),
        ),
        (
            "NodeConfig",
            "nodeconfigs",
            json!({"document": "{}"}),
            json!({"digest": "3f2a", "documentGeneration": 4, "conditions": conditions}),
            json!({"DIGEST": "3f2a", "GENERATION": "4", "READY": "True"}),
        ),
        (
            "NodeState",
            "nodestates",
            json!({"desired": {"nodeConfig": "web", "digest": "3f2a", "rollout": "r1"}}),
            json!({"phase": "Pending", "effect": "drain", "current": {"digest": "77aa"}}),
            json!({"PHASE": "Pending", "DIGEST": "77aa", "EFFECT": "drain", "ROLLOUT": "r1"}),
        ),
        (
            "Pool",
            "pools",
            json!({"nodeSelector": {"a": "b"}, "paused": true}),
            json!({"nodes": 9, "upToDate": 8, "unavailable": 1, "target": {"nodeConfig": "web"}, "image": {"version": "2026.11.18"}}),
            json!({"NODES": "9", "UPTODATE": "8", "UNAVAILABLE": "1", "TARGET": "web", "IMAGE": "2026.11.18", "PAUSED": "true"}),
        ),
        (
            "Prototype",
            "prototypes",
            json!({"pool": "web", "donor": {"lastPatchAnnotation": "a", "pendingRebootAnnotation": "b"}, "paused": true}),
            json!({"lastRun": {"started": "2030-01-01T00:00:00Z", "outcome": "Completed", "imageVersion": "2026.11.18", "message": "m"}, "nextRun": "2030-01-02T00:00:00Z"}),
            json!({"POOL": "web", "LAST-RUN": "Completed", "VERSION": "2026.11.18", "NEXT-RUN": "2030-01-02T00:00:00Z", "PAUSED": "true"}),
        ),
        (
            "ImageVersion",
            "imageversions",
            json!({"pool": "web", "definition": "g/d", "version": "2026.11.18", "donor": "n1"}),
            json!({"replicated": true, "proven": true, "included": false, "rejected": {"why": "canary"}, "nodes": 3}),
            json!({"POOL": "web", "VERSION": "2026.11.18", "DONOR": "n1", "PROVEN": "true", "INCLUDED": "false", "REJECTED": "canary", "NODES": "3"}),
        ),
        (
            "RolloutPolicy",
            "rolloutpolicies",
            json!({}),
            json!({"usedBy": [], "conditions": conditions}),
            json!({"READY": "True"}),
        ),
        (
            "Rollout",
            "rollouts",
            json!({"pools": ["a"], "target": {"nodeConfig": "web"}}),
            json!({"phase": "Progressing", "planText": "restart:38,drain:2", "waveText": "2/4", "updatedText": "11/40", "failed": 0, "waitingFor": {"reason": "Soak", "message": "m"}}),
            json!({"TARGET": "web", "IMAGE": "", "PHASE": "Progressing", "PLAN": "restart:38,drain:2", "WAVE": "2/4", "UPDATED": "11/40", "FAILED": "0", "WAITING-FOR": "Soak"}),
        ),
    ];
    for (kind, plural, spec, status, columns) in cases {
        admin.post(&format!("{FLEET}/{plural}"), object(kind, "shown", spec)).await.ok();
        admin.merge(&format!("{FLEET}/{plural}/shown/status"), json!({ "status": status })).await.ok();
        let table = plane.run_kubectl(&["get", &format!("{plural}.node.kiln.dev"), "shown"]).unwrap();
        let mut found = row(&table);
        assert_eq!(found.remove("NAME").as_deref(), Some("shown"), "{table}");
        assert!(found.remove("AGE").is_some_and(|age| !age.is_empty()), "{table}");
        assert_eq!(json!(found), columns, "{table}");
    }
}

fn fields_are_explained(plane: &ControlPlane) {
    for (field, words) in [
        ("rollout.spec.policy.budgets.maxUnavailable", "percentage"),
        ("freeze", "While a Freeze exists"),
        ("nodestate.status.requests.taints", "Taints to set"),
        ("pool.spec.nodeSelector", "Labels of its nodes"),
    ] {
        let text = plane.run_kubectl(&["explain", "--api-version=node.kiln.dev/v1alpha1", field]).unwrap();
        assert!(text.contains(words), "{field}: {text}");
    }
}
