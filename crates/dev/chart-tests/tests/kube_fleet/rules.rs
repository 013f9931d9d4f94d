//! Every rule of the schemas refuses what it should, with its message.

use control_plane::{ControlPlane, Options};
use serde_json::{Value, json};

use crate::session::{FLEET, Session, apply_definitions, object};

/// Objects that the server must refuse, with a part of its message.
fn refused() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let gate = "a gate has exactly one of `nodeReadyFor`, `daemonSetsReady`, `conditionsUnchanged`, `prometheus`";
    let policy = |field: &str, value: Value| ("RolloutPolicy", "rolloutpolicies", json!({ (field): value }));
    let rollout = |more: Value| {
        let mut spec = json!({"pools": ["a"], "target": {"nodeConfig": "web"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("Rollout", "rollouts", spec)
    };
    let window = |from: &str, to: &str| policy("windows", json!([{"from": from, "to": to}]));
    let amount = |amount: Value| policy("budgets", json!([{"maxUnavailable": amount}]));
    let prometheus = json!({"url": "http://p", "query": "up", "fail": "= 1"});
    let too_many: Vec<Value> = (0..21).map(|_| json!({"daemonSetsReady": true})).collect();
    let cases = [
        (rollout(json!({"pools": []})), "`pools` must name at least one Pool"),
        (rollout(json!({"policyRef": "p", "policy": {}})), "set `policyRef` or `policy`, not both"),
        (rollout(json!({"policy": {"gates": [{}]}})), gate),
        (
            rollout(json!({"target": {"nodeConfig": ""}})),
            "spec.target.nodeConfig in body should be at least 1 chars long",
        ),
        (rollout(json!({"target": {}})), "`target` has exactly one of `nodeConfig` and `imageVersion`"),
        (
            rollout(json!({"target": {"nodeConfig": "a", "imageVersion": "b"}})),
            "`target` has exactly one of `nodeConfig` and `imageVersion`",
        ),
        (
            rollout(json!({"target": {"imageVersion": "b"}, "pools": ["a", "b"]})),
            "an image version belongs to one Pool; name only that one in `pools`",
        ),
        (rollout(json!({"onFailure": "Explode"})), "supported values: \"Halt\", \"RollBack\""),
        (rollout(json!({"replacement": "Always"})), "supported values: \"Never\", \"WhenNeeded\""),
        (rollout(json!({"approvedWave": 0})), "spec.approvedWave in body should be greater than or equal to 1"),
        (rollout(json!({"approvedUntil": "soon"})), "spec.approvedUntil in body must be of type date-time"),
        (policy("gates", json!([{"nodeReadyFor": "5m", "daemonSetsReady": true}])), gate),
        (policy("gates", json!([{"prometheus": prometheus}])), "spec.gates[0].prometheus.fail in body should match"),
        (policy("gates", json!(too_many)), "spec.gates: Too many: 21: must have at most 20 items"),
        (
            policy("waves", json!({"first": {"nodes": 0}})),
            "spec.waves.first.nodes in body should be greater than or equal to 1",
        ),
        (
            policy("waves", json!({"then": {"maxPercent": 101}})),
            "spec.waves.then.maxPercent in body should be less than or equal to 100",
        ),
        (policy("failure", json!({"nodes": 0})), "spec.failure.nodes in body should be greater than or equal to 1"),
        (policy("budgets", json!([{}])), "spec.budgets[0].maxUnavailable: Required value"),
        (
            policy("budgets", json!([{"maxUnavailable": 1, "effects": ["explode"]}])),
            "spec.budgets[0].effects[0]: Unsupported value",
        ),
        (amount(json!("101%")), "spec.budgets[0].maxUnavailable in body should match"),
        (amount(json!("ten")), "spec.budgets[0].maxUnavailable in body should match"),
        (amount(json!("")), "spec.budgets[0].maxUnavailable in body should match"),
        (amount(json!(-1)), "spec.budgets[0].maxUnavailable in body should be greater than or equal to 0"),
        (amount(json!(1.5)), "spec.budgets[0].maxUnavailable in body must be of type integer,string"),
        (window("24:00", "05:00"), "spec.windows[0].from in body should match"),
        (window("22:00", "5:00"), "spec.windows[0].to in body should match"),
        (window("22:60", "05:00"), "spec.windows[0].from in body should match"),
        (
            policy("windows", json!([{"from": "22:00", "to": "05:00", "days": ["Monday"]}])),
            "spec.windows[0].days[0] in body should match",
        ),
        (
            ("Pool", "pools", json!({"nodeSelector": {}})),
            "`nodeSelector` must have at least one label, or the pool would contain every node",
        ),
        (("Pool", "pools", json!({})), "spec.nodeSelector: Required value"),
        (("Freeze", "freezes", json!({"reason": ""})), "spec.reason in body should be at least 1 chars long"),
        (
            ("Freeze", "freezes", json!({"reason": "x", "until": "tomorrow"})),
            "spec.until in body must be of type date-time",
        ),
        (
            ("NodeConfig", "nodeconfigs", json!({"document": ""})),
            "spec.document in body should be at least 2 chars long",
        ),
        (("NodeState", "nodestates", json!({"desired": {"nodeConfig": "a"}})), "spec.desired.digest: Required value"),
    ];
    cases.into_iter().map(|((kind, plural, spec), message)| (kind, plural, spec, message)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_refuses_with_its_message() {
    let plane = ControlPlane::start(&Options::bare()).unwrap();
    apply_definitions(&plane);
    let admin = Session::admin(&plane).await;
    for (kind, plural, spec, message) in refused() {
        let reply = admin.post(&format!("{FLEET}/{plural}"), object(kind, "bad", spec.clone())).await;
        assert_eq!(reply.code, 422, "{kind} {spec}: {:#}", reply.body);
        assert!(reply.message().contains(message), "{kind} {spec}\n`{message}` is not in\n{}", reply.message());
    }
    limits_are_accepted(&admin).await;
    targets_never_change(&admin).await;
}

/// Values at the edge of what is allowed.
async fn limits_are_accepted(admin: &Session) {
    let budgets: Vec<Value> = [json!(0), json!(3), json!("0%"), json!("7%"), json!("99%"), json!("100%"), json!("12")]
        .into_iter()
        .map(|amount| json!({ "maxUnavailable": amount }))
        .collect();
    let windows = json!([
        {"from": "00:00", "to": "24:00"},
        {"from": "23:59", "to": "00:00", "days": ["Mon", "Tue-Thu"], "timeZone": "Europe/Berlin", "effects": ["restart"]},
    ]);
    let gates = json!([
        {"nodeReadyFor": "5m"}, {"daemonSetsReady": true}, {"conditionsUnchanged": ["KernelDeadlock"]},
        {"prometheus": {"url": "http://p:9090", "query": "up", "fail": ">= -0.02"}},
    ]);
    let spec = json!({"budgets": budgets, "windows": windows, "gates": gates});
    let policy = admin.post(&format!("{FLEET}/rolloutpolicies"), object("RolloutPolicy", "edge", spec)).await.ok();
    let read: kiln_fleet_api::RolloutPolicy = serde_json::from_value(policy).unwrap();
    assert_eq!(read.spec.budgets.len(), 7, "the types read what the schema allows");
    let freeze = json!({"reason": "x", "until": "2026-11-18T03:00:00+01:00"});
    admin.post(&format!("{FLEET}/freezes"), object("Freeze", "edge", freeze)).await.ok();
}

async fn targets_never_change(admin: &Session) {
    let config = format!("{FLEET}/nodeconfigs");
    admin.post(&config, object("NodeConfig", "web", json!({"document": "{\"a\": 1}"}))).await.ok();
    let rollout = format!("{FLEET}/rollouts");
    let spec = json!({"pools": ["a"], "target": {"nodeConfig": "web"}});
    admin.post(&rollout, object("Rollout", "web", spec)).await.ok();
    for (path, change, message) in [
        (
            &config,
            json!({"document": "{\"a\": 2}"}),
            "a NodeConfig never changes; create a new one for a changed document",
        ),
        (
            &rollout,
            json!({"target": {"nodeConfig": "other"}}),
            "the target of a Rollout never changes; create another Rollout",
        ),
        (
            &rollout,
            json!({"target": {"digest": "ab"}}),
            "the target of a Rollout never changes; create another Rollout",
        ),
        (&rollout, json!({"pools": ["a", "b"]}), "the pools of a Rollout never change; create another Rollout"),
    ] {
        let reply = admin.merge(&format!("{path}/web"), json!({ "spec": change })).await;
        assert_eq!(reply.code, 422, "{change}: {:#}", reply.body);
        assert!(reply.message().contains(message), "{change}: {}", reply.message());
    }
    // What a person may change.
    let change = json!({"paused": true, "approvedWave": 2, "approvedUntil": "2030-01-01T00:00:00Z", "aborted": true, "policyRef": "p"});
    let changed = admin.merge(&format!("{rollout}/web"), json!({ "spec": change })).await.ok();
    assert_eq!(changed["spec"]["approvedWave"], 2);
    admin.merge(&format!("{config}/web"), json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
}
