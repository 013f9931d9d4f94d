//! The rules of rollouts with an image version.

use kiln_fleet_api::{OnFailure, Replacement, RolloutPhase};
use kiln_rollout::{FreezeObserved, Problem};
use serde_json::json;

use crate::machines::Machines;
use crate::model::{NEW, OLD, policy};

fn pool(size: usize, value: serde_json::Value) -> Machines {
    Machines::new(size, policy(value))
}

#[test]
fn new_machine_is_added_and_ready_before_the_old_node_is_drained_and_removed() {
    let mut pool = pool(3, json!({"budgets": [{"maxUnavailable": 1}]}));
    assert_eq!(pool.turn(), ["grow web to 4"]);
    assert_eq!(pool.waits().1, "1 node in flight; `web-01` is waiting for its new machine");
    assert_eq!(pool.turn(), [""; 0], "the machine exists and boots");
    pool.react();
    pool.react();
    assert_eq!(pool.turn(), [""; 0], "its node is not Ready");
    pool.react();
    assert_eq!(pool.turn(), ["drain web-01"]);
    pool.react();
    assert_eq!(pool.turn(), ["remove web-01"]);
    assert_eq!(pool.turn(), ["remove web-01"], "until its node is gone");
    pool.react();
    assert_eq!(pool.turn(), ["grow web to 4"], "the second wave");
    let acts = pool.settle();
    assert_eq!(acts, ["drain web-02", "remove web-02", "grow web to 4", "drain web-03", "remove web-03"]);
    assert_eq!((pool.status.phase, pool.count(NEW), pool.capacity), (RolloutPhase::Complete, 3, 3));
    assert_eq!((pool.status.updated_text.as_str(), pool.held()), ("3/3", vec![]));
    assert_eq!(pool.status.plan_text, "replace:3");
}

#[test]
fn waves_and_budgets_limit_the_machines_that_are_added() {
    let rules = json!({"waves": {"first": {"nodes": 1}, "then": {"factor": 4, "maxPercent": 100}}, "budgets": [{"maxUnavailable": 2}]});
    let mut pool = pool(5, rules);
    let mut largest = 0;
    let mut order = Vec::new();
    while !pool.status.phase.is_final() {
        order.extend(pool.turn().into_iter().filter(|act| act.starts_with("drain")));
        largest = largest.max(pool.capacity);
        assert!(pool.held().len() <= 2, "{:?}", pool.held());
        pool.react();
        pool.pass(1);
    }
    assert_eq!(largest, 7, "two nodes of the second wave at a time");
    assert_eq!(order.first().map(String::as_str), Some("drain web-01"));
    let sizes: Vec<i64> = pool.status.waves.iter().map(|wave| wave.size).collect();
    assert_eq!((sizes, pool.capacity), (vec![1, 4], 5));
    assert_eq!(pool.status.waves.iter().map(|wave| wave.done).collect::<Vec<_>>(), [1, 4]);
}

#[test]
fn bad_version_is_rejected_after_the_first_node_and_its_machine_is_removed() {
    let mut pool = pool(3, json!({"nodeTimeout": "20m"}));
    pool.is_bad = true;
    pool.turn();
    assert_eq!(pool.status.in_flight, ["web-01"]);
    let acts = pool.settle();
    assert_eq!(acts, ["reject version new on pool web", "drain web-04", "remove web-04"]);
    assert_eq!((pool.status.phase, pool.count(OLD), pool.count(NEW)), (RolloutPhase::RolledBack, 3, 0));
    assert_eq!((pool.capacity, pool.held()), (3, vec![]));
    assert_eq!(pool.status.failures[0].reason, "it is not Ready 20m after its machine was requested");
    assert_eq!(
        (pool.status.failed_nodes.clone(), pool.rejected.clone()),
        (vec!["web-04".to_owned()], vec![NEW.to_owned()])
    );
}

#[test]
fn machine_that_never_joins_is_removed_with_its_version() {
    let mut pool = pool(3, json!({"nodeTimeout": "20m"}));
    pool.turn();
    pool.machine("web-04").boots = 1_000;
    let acts = pool.settle();
    assert_eq!(acts, ["reject version new on pool web", "remove machines of new in web that have not joined"]);
    assert_eq!((pool.status.phase, pool.capacity, pool.all.len()), (RolloutPhase::RolledBack, 3, 3));
    assert_eq!(pool.status.failures[0].reason, "no new machine within 20m: no further node has joined");
}

#[test]
fn halted_rollout_rejects_the_version_and_leaves_the_machines() {
    let mut pool = pool(3, json!({"nodeTimeout": "20m"}));
    (pool.is_bad, pool.spec.on_failure) = (true, OnFailure::Halt);
    assert_eq!(pool.settle(), ["grow web to 4", "reject version new on pool web"]);
    assert_eq!((pool.status.phase, pool.count(OLD), pool.count(NEW)), (RolloutPhase::Halted, 3, 1));
    assert_eq!(pool.held(), [""; 0]);
    let ready = pool.status.conditions.iter().find(|condition| condition.type_ == "Ready").expect("a condition");
    assert!(ready.message.contains("more machines than before"), "{}", ready.message);
}

#[test]
fn machines_of_a_version_that_fails_later_return_to_the_version_before() {
    let mut pool = pool(4, json!({"waves": {"first": {"nodes": 2, "soak": "1h"}}, "budgets": [{"maxUnavailable": 2}]}));
    while pool.waits().0 != "Soak" {
        pool.turn();
        pool.react();
        pool.pass(1);
    }
    assert_eq!((pool.count(NEW), pool.count(OLD)), (2, 2));
    let broken = pool.nodes().find(|machine| machine.version == NEW).expect("a new node").shown.name.clone();
    pool.set_ready(&broken, false);
    pool.pass(6);
    let acts = pool.settle();
    assert_eq!(acts[0], "reject version new on pool web", "{acts:?}");
    assert_eq!((pool.status.phase, pool.count(OLD), pool.capacity), (RolloutPhase::RolledBack, 4, 4), "{acts:?}");
    assert!(pool.status.failures[0].reason.contains("not Ready for 5m with the new image"));
    assert_eq!(pool.held(), [""; 0]);
}

#[test]
fn blocked_drain_halts_without_rejecting_the_version() {
    let mut pool = pool(3, json!({"drainTimeout": "10m"}));
    pool.machine("web-01").is_blocked = true;
    assert_eq!(pool.settle(), ["grow web to 4", "drain web-01", "release web-01"]);
    assert_eq!((pool.status.phase, pool.rejected.len()), (RolloutPhase::Halted, 0));
    assert!(pool.status.failures[0].reason.starts_with("drain failed: not finished within 10m"));
}

#[test]
fn freeze_and_pause_start_nothing() {
    let mut pool = pool(3, json!({}));
    pool.freezes.push(FreezeObserved { name: "f".to_owned(), reason: "sale".to_owned(), ..FreezeObserved::default() });
    assert_eq!(pool.settle(), [""; 0]);
    assert_eq!(pool.waits().0, "Freeze");
    pool.freezes.clear();
    assert_eq!(pool.turn(), ["grow web to 4"]);
    pool.spec.paused = true;
    (0..4).for_each(|_| pool.react());
    assert_eq!(pool.turn(), [""; 0], "the machine is there, and the old node is not drained");
    pool.spec.paused = false;
    assert_eq!(pool.turn(), ["drain web-01"]);
}

#[test]
fn window_for_replacements_is_respected() {
    let mut pool = pool(2, json!({"windows": [{"from": "22:00", "to": "23:00", "effects": ["replace"]}]}));
    assert_eq!(pool.turn(), [""; 0]);
    assert_eq!(pool.waits().1, "the window for changes with the effect `replace` opens at 2026-03-02T22:00:00Z");
    pool.pass(600);
    assert_eq!(pool.turn(), ["grow web to 3"]);
}

#[test]
fn replacement_never_and_problems_of_the_version_are_refused() {
    let mut pool = pool(2, json!({}));
    pool.spec.replacement = Replacement::Never;
    assert_eq!(pool.turn(), [""; 0]);
    assert!(
        pool.waits()
            .1
            .starts_with("an image version needs a new machine for 2 nodes, which `replacement: Never` forbids")
    );
    pool.spec.replacement = Replacement::WhenNeeded;
    let message = "ImageVersion `web-new` is not proven".to_owned();
    pool.target = Err(Problem { message: message.clone(), objects: Vec::new() });
    assert_eq!(pool.turn(), [""; 0]);
    assert_eq!(pool.waits(), ("Reference".to_owned(), message));
}

#[test]
fn protected_and_unknown_machines_stay() {
    let mut pool = pool(3, json!({}));
    pool.machine("web-01").shown.stays = Some("it is protected".to_owned());
    pool.machine("web-02").shown.image = None;
    let acts = pool.settle();
    assert!(acts.iter().all(|act| !act.contains("web-01") && !act.contains("web-02")), "{acts:?}");
    assert_eq!((pool.status.phase, pool.count(NEW)), (RolloutPhase::Complete, 1));
}

#[test]
fn change_of_the_capacity_by_others_is_kept() {
    let mut pool = pool(4, json!({"waves": {"first": {"approve": "Manual"}}}));
    pool.settle();
    assert_eq!((pool.waits().0.as_str(), pool.capacity, pool.count(NEW)), ("Approval", 4, 1));
    let all: Vec<String> = pool.all.keys().cloned().collect();
    // The autoscaler removes two nodes.
    for name in &all[..2] {
        pool.all.remove(name);
        pool.capacity -= 1;
    }
    pool.spec.approved_wave = Some(9);
    pool.settle();
    assert_eq!((pool.status.phase, pool.capacity, pool.count(OLD)), (RolloutPhase::Complete, 2, 0));
}

#[test]
fn abort_finishes_a_cordoned_node_and_starts_no_other() {
    let mut pool = pool(3, json!({}));
    pool.turn();
    (0..3).for_each(|_| pool.react());
    assert_eq!(pool.turn(), ["drain web-01"]);
    pool.spec.aborted = true;
    assert_eq!(pool.settle(), ["remove web-01"]);
    assert_eq!((pool.status.phase, pool.count(OLD), pool.held()), (RolloutPhase::Aborted, 2, vec![]));
}
