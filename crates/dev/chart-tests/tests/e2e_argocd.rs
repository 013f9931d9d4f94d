//! The health script for Argo CD, run by a real Lua.

use std::process::Command;
use std::time::Duration;

use chart_tests::text;
use kiln_fleet_api::definitions;
use serde_json::{Value, json};
use testkit::{TestDep, require, run};

/// A value as Lua writes it. Argo CD leaves null out.
fn lua(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Array(items) => format!("{{{}}}", items.iter().map(lua).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("[{}] = {}", Value::from(key.as_str()), lua(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// Health and message of an object.
fn health(object: &Value) -> (String, String) {
    let script = text("files/argocd-health.lua");
    let program = format!(
        "obj = {}\nlocal function health()\n{script}\nend\nlocal hs = health()\nprint(hs.status .. '|' .. hs.message)",
        lua(object)
    );
    let mut command = Command::new(require(TestDep::Lua));
    command.args(["-e", &program]);
    let finished = run(command, Duration::from_mins(1)).success();
    let (health, message) = finished.stdout.trim_end().split_once('|').unwrap();
    (health.to_owned(), message.to_owned())
}

fn object(kind: &str, spec: Value, status: Value) -> Value {
    let mut object = json!({"kind": kind, "metadata": {"name": "one", "generation": 3}});
    (object["spec"], object["status"]) = (spec, status);
    object
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "Test", "message": format!("{kind} is {status}")})
}

/// The values of `status.phase` in the schema of a kind.
fn phases(kind: &str) -> Vec<String> {
    let definition = definitions().into_iter().find(|one| one.spec.names.kind == kind).unwrap();
    let schema = serde_json::to_value(definition).unwrap();
    let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/phase/enum";
    let values = schema.pointer(pointer).unwrap().as_array().unwrap();
    values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_phase_of_a_rollout_and_of_a_node_has_its_health() {
    let expected = [
        (
            "Rollout",
            vec![
                ("Pending", "Progressing"),
                ("Progressing", "Progressing"),
                ("Complete", "Healthy"),
                ("Halted", "Degraded"),
                ("RollingBack", "Degraded"),
                ("RolledBack", "Degraded"),
                ("Aborted", "Degraded"),
            ],
        ),
        (
            "NodeState",
            vec![
                ("Idle", "Healthy"),
                ("Accepted", "Progressing"),
                ("Pending", "Progressing"),
                ("OnTrial", "Progressing"),
                ("Current", "Healthy"),
                ("Reverted", "Degraded"),
            ],
        ),
    ];
    for (kind, expected) in expected {
        let names: Vec<&str> = expected.iter().map(|(phase, _)| *phase).collect();
        assert_eq!(phases(kind), names, "the phases of {kind}");
        for (phase, expected) in expected {
            let object = object(kind, json!({}), json!({"phase": phase, "observedGeneration": 3}));
            assert_eq!(health(&object).0, expected, "{kind} {phase}");
        }
    }
}

#[test]
fn rollout_that_waits_for_a_person_is_suspended_with_its_reason() {
    for (reason, expected) in
        [("Approval", "Suspended"), ("Paused", "Suspended"), ("Freeze", "Suspended"), ("Soak", "Progressing")]
    {
        let waiting = json!({"reason": reason, "message": "a \"sentence\" about it"});
        let status = json!({"phase": "Progressing", "waitingFor": waiting});
        let found = health(&object("Rollout", json!({}), status));
        assert_eq!(found, (expected.to_owned(), "a \"sentence\" about it".to_owned()), "{reason}");
    }
}

#[test]
fn conditions_decide_for_the_other_kinds() {
    let conditions = |all: &[Value]| json!({"observedGeneration": 3, "conditions": all});
    let selector = || json!({"nodeSelector": {"a": "b"}});
    let paused = json!({"nodeSelector": {"a": "b"}, "paused": true});
    let mut deleted = object("Pool", selector(), json!({}));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-18T00:00:00Z");
    for (object, expected, message) in [
        (object("NodeConfig", json!({}), conditions(&[condition("Ready", "True")])), "Healthy", "Ready is True"),
        (object("NodeConfig", json!({}), conditions(&[condition("Ready", "False")])), "Degraded", "Ready is False"),
        (
            object("Pool", selector(), conditions(&[condition("Ready", "False"), condition("Reconciling", "True")])),
            "Progressing",
            "waits for the operator",
        ),
        (
            object("Rollout", json!({}), conditions(&[condition("Ready", "False"), condition("Stalled", "True")])),
            "Degraded",
            "Stalled is True",
        ),
        (object("Pool", paused, conditions(&[condition("Ready", "True")])), "Suspended", "the pool is paused"),
        (object("RolloutPolicy", json!({}), Value::Null), "Progressing", "waits for the operator"),
        (object("NodeConfig", json!({}), json!({"observedGeneration": 2})), "Progressing", "waits for the operator"),
        (object("Freeze", json!({"reason": "incident 7"}), Value::Null), "Suspended", "incident 7"),
        (deleted, "Progressing", "is being deleted"),
    ] {
        assert_eq!(health(&object), (expected.to_owned(), message.to_owned()), "{object}");
    }
}
