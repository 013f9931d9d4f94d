use std::sync::Arc;

use kiln_fleet_api::{Effect, Freeze, NodeConfig, Pool, RolloutPolicy};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::operator::documents::valid_document;
use crate::operator::index::owner_of;
use crate::operator::store::Snapshot;

/// A process that drains node `a` and knows nothing else.
struct Draining(Option<DrainState>);

impl Local for Draining {
    fn drain(&self, node: &str, _: &Owner) -> Option<DrainState> {
        self.0.clone().filter(|_| node == "a")
    }

    fn daemon_sets_ready(&self, node: &str) -> bool {
        node == "a"
    }

    fn readings(&self, _: &str) -> Vec<Reading> {
        Vec::new()
    }

    fn past(&self) -> Vec<PastTurn> {
        Vec::new()
    }
}

fn objects<K: DeserializeOwned>(values: Vec<Value>) -> Snapshot<K> {
    let named = |value: Value| {
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        (name, Arc::new(serde_json::from_value(value).unwrap_or_else(|error| panic!("{error}"))))
    };
    values.into_iter().map(named).collect()
}

fn config(name: &str, size: &str) -> Value {
    let document = valid_document(name, &json!({"configuration": {"containerLogMaxSize": size}}));
    fleet("NodeConfig", name, json!({"document": document}))
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
fn fleet(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "node.kiln.dev/v1alpha1", "kind": kind, "metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": spec})
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
fn node(name: &str, annotations: Value) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"pool": "web"}, "annotations": annotations},
        "spec": {"unschedulable": true},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-15T11:00:00Z"},
            {"type": "KernelDeadlock", "status": "False"},
        ]},
    })
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
fn rollout(name: &str, spec: Value) -> Rollout {
    let mut all = json!({"pools": ["web"], "target": {"nodeConfig": "new"}});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let mut value = fleet("Rollout", name, all);
    value["metadata"]["creationTimestamp"] = json!("2026-11-15T12:00:00Z");
    serde_json::from_value(value).unwrap()
}

fn view() -> Snapshots {
    Snapshots {
        rollouts: Snapshot::new(),
        policies: objects::<RolloutPolicy>(vec![
            fleet("RolloutPolicy", "slow", json!({"drainTimeout": "1h"})),
            fleet("RolloutPolicy", "bad", json!({"drainTimeout": "soon"})),
        ]),
        freezes: objects::<Freeze>(vec![fleet("Freeze", "f", json!({"reason": "x", "until": "2026-12-01T00:00:00Z"}))]),
        pools: objects::<Pool>(vec![fleet(
            "Pool",
            "web",
            json!({"nodeSelector": {"pool": "web"}, "nodeConfig": "old"}),
        )]),
        configs: objects::<NodeConfig>(vec![config("old", "10Mi"), config("new", "20Mi")]),
        states: Snapshot::new(),
        nodes: objects::<Node>(vec![node("a", json!({})), node("b", json!({}))]),
        prototypes: Snapshot::new(),
        versions: Snapshot::new(),
    }
}

fn observed(rollout: &Rollout, view: &Snapshots, local: &Draining) -> Observed {
    let mut documents = Documents::default();
    documents.update(&view.configs);
    let index = Index::new(&view.pools, &view.nodes);
    let policy = resolve_policy(rollout, view);
    observe(rollout, &owner_of(rollout).unwrap(), &policy, view, &index, &mut documents, local)
}

fn digest(view: &Snapshots, name: &str) -> String {
    let mut documents = Documents::default();
    documents.update(&view.configs);
    documents.get(name).unwrap().unwrap().digest.clone()
}

fn problem(rollout: &Rollout, view: &Snapshots) -> String {
    observed(rollout, view, &Draining(None)).target.unwrap_err().message
}

#[test]
fn node_and_its_state_are_observed_together() {
    let mut view = view();
    let (rollout, old) = (rollout("r", json!({})), digest(&view, "old"));
    let hold = json!({"owner": owner_of(&rollout).unwrap(), "wasCordoned": false}).to_string();
    view.nodes = objects(vec![node("a", json!({"kiln.dev/hold": hold})), node("b", json!({}))]);
    let state = |name: &str, uid: &str| {
        json!({
            "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeState",
            "metadata": {
                "name": name, "generation": 4,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
                "annotations": {CONDITIONS_BEFORE: "{\"KernelDeadlock\":\"True\"}"},
                "managedFields": [{"manager": "kiln-operator", "operation": "Update", "time": "2026-11-15T12:30:00Z"}],
            },
            "spec": {"desired": {"nodeConfig": "new", "digest": "d", "rollout": "r"}, "allow": "d"},
            "status": {"observedGeneration": 4, "phase": "OnTrial", "current": {"digest": old}},
        })
    };
    view.states = objects(vec![state("a", "uid-a"), state("b", "uid of an earlier node")]);
    let seen = observed(&rollout, &view, &Draining(None));
    let [a, b] = &seen.nodes[..] else { panic!("{seen:?}") };
    assert_eq!((a.name.as_str(), a.pool.as_str(), a.ready, a.cordoned, a.held), ("a", "web", true, true, true));
    assert_eq!(a.ready_since, Some("2026-11-15T11:00:00Z".parse().unwrap()));
    assert_eq!(a.written, Some("2026-11-15T12:30:00Z".parse().unwrap()));
    assert_eq!((a.observed, a.allow.as_deref()), (true, Some("d")));
    assert_eq!(
        (a.conditions["KernelDeadlock"].as_str(), a.conditions_before["KernelDeadlock"].as_str()),
        ("False", "True")
    );
    assert_eq!(a.expected_effect, Some(Effect::Restart), "from the document in force to the target");
    assert_eq!(a.drain, DrainState::Done, "another operator drained it, because it is allowed");
    assert_eq!((b.held, &b.desired, b.observed), (false, &None, false), "the state of an earlier node does not count");
    assert!(a.daemon_sets_ready && !b.daemon_sets_ready);
}

#[test]
fn drain_of_this_process_counts_before_what_the_hold_shows() {
    let (view, rollout) = (view(), rollout("r", json!({})));
    let running = DrainState::Running { since: "2026-11-15T12:00:00Z".parse().unwrap() };
    let seen = observed(&rollout, &view, &Draining(Some(running.clone())));
    assert_eq!([&seen.nodes[0].drain, &seen.nodes[1].drain], [&running, &DrainState::None]);
}

#[test]
fn references_that_do_not_resolve_are_problems_with_advice() {
    let mut view = view();
    assert_eq!(
        problem(&rollout("r", json!({"pools": ["web", "db"]})), &view),
        "Pool `db` does not exist; create it, or delete this Rollout and create another one"
    );
    let target = |name: &str| json!({"target": {"nodeConfig": name}});
    assert_eq!(problem(&rollout("r", target("none")), &view), "NodeConfig `none` does not exist; create it");
    assert!(
        problem(&rollout("r", json!({"target": {"nodeConfig": "new", "digest": "0"}})), &view)
            .contains("`spec.target.digest` is `0`")
    );
    assert!(
        problem(&rollout("r", json!({"policyRef": "none"})), &view).starts_with("RolloutPolicy `none` does not exist")
    );
    assert!(
        problem(&rollout("r", json!({"policyRef": "bad"})), &view)
            .contains("RolloutPolicy `bad` is invalid: `drainTimeout`")
    );
    assert!(
        problem(&rollout("r", json!({"policy": {"drainTimeout": "soon"}})), &view)
            .starts_with("`spec.policy` is invalid")
    );
    let mut started = rollout("r", json!({}));
    started.status = serde_json::from_value(json!({"phase": "Progressing", "digest": "before"})).unwrap();
    assert!(problem(&started, &view).contains("was replaced"));
    view.configs = objects(vec![fleet("NodeConfig", "new", json!({"document": "{}"}))]);
    assert!(problem(&rollout("r", json!({})), &view).contains("NodeConfig `new` is invalid"));
}

#[test]
fn policy_is_that_of_the_rollout_then_that_of_a_pool_then_the_default() {
    let mut view = view();
    let limit = |spec: Value, view: &Snapshots| resolve_policy(&rollout("r", spec), view).drain_timeout().as_mins();
    assert_eq!(limit(json!({}), &view), 15);
    assert_eq!(limit(json!({"policyRef": "slow"}), &view), 60);
    assert_eq!(limit(json!({"policy": {"drainTimeout": "2m"}}), &view), 2);
    view.pools = objects(vec![fleet("Pool", "web", json!({"nodeSelector": {"pool": "web"}, "policyRef": "slow"}))]);
    assert_eq!(limit(json!({}), &view), 60);
}

#[test]
fn only_older_open_rollouts_of_the_same_pool_come_first() {
    let mut view = view();
    let mut done = rollout("a-done", json!({}));
    done.status = serde_json::from_value(json!({"phase": "Complete"})).unwrap();
    let mut later = rollout("a-later", json!({}));
    later.metadata.creation_timestamp = serde_json::from_value(json!("2026-11-15T12:00:01Z")).unwrap();
    let others = [
        done,
        later,
        rollout("a-same-second", json!({})),
        rollout("z", json!({})),
        rollout("a-other", json!({"pools": ["db"]})),
    ];
    view.rollouts =
        others.into_iter().map(|rollout| (rollout.metadata.name.clone().unwrap(), Arc::new(rollout))).collect();
    let seen = observed(&rollout("r", json!({})), &view, &Draining(None));
    assert_eq!(seen.older_rollouts, ["a-same-second"]);
}

#[test]
fn previous_target_is_the_last_complete_one_or_the_document_of_the_pool() {
    let mut view = view();
    let previous = |name: &str, view: &Snapshots| {
        let seen = observed(&rollout("r", json!({"target": {"nodeConfig": name}})), view, &Draining(None));
        seen.pools[0].previous.as_ref().map(|target| target.node_config.clone())
    };
    assert_eq!(previous("new", &view).as_deref(), Some("old"));
    assert_eq!(previous("old", &view), None, "this rollout completes the pool for the first time");
    let mut pool = fleet("Pool", "web", json!({"nodeSelector": {"pool": "web"}, "nodeConfig": "old"}));
    pool["status"] = json!({"target": {"nodeConfig": "complete", "digest": "c"}});
    view.pools = objects(vec![pool]);
    assert_eq!(previous("new", &view).as_deref(), Some("complete"));
}
