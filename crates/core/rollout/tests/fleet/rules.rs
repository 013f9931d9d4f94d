//! The rules of a rollout that moves forward: waves, approval, budgets, gates.

use kiln_fleet_api::{Effect, RolloutPhase};
use kiln_rollout::{Reading, ResolvedTarget};
use serde_json::json;

use crate::model::{Fleet, NEW, OLD, policy};

/// All nodes in one wave, and budgets that do not matter.
fn at_once(mut value: serde_json::Value) -> kiln_rollout::Policy {
    value["waves"] = json!({"first": {"nodes": 100}});
    if value["budgets"].is_null() {
        value["budgets"] = json!([{"maxUnavailable": 100}]);
    }
    policy(value)
}

#[test]
fn waves_start_one_after_the_other_and_the_pool_gets_the_target_at_the_end() {
    let mut fleet =
        Fleet::new(5, policy(json!({"waves": {"then": {"maxPercent": 60}}, "budgets": [{"maxUnavailable": 9}]})));
    assert_eq!(fleet.turn(), ["assign new to web-01 in wave 1"]);
    assert_eq!(fleet.turn(), [""; 0], "the node is in flight");
    assert_eq!(fleet.waits().0, "Nodes");
    fleet.react();
    fleet.react();
    let wave = ["assign new to web-02 in wave 2", "assign new to web-03 in wave 2", "assign new to web-04 in wave 2"];
    assert_eq!(fleet.turn(), wave);
    assert_eq!(fleet.settle(), ["assign new to web-05 in wave 3", "complete pool web with new"]);
    assert_eq!(fleet.status.phase, RolloutPhase::Complete);
    assert_eq!(fleet.having(NEW).len(), 5);
}

#[test]
fn preferred_nodes_come_first() {
    let rules = json!({"waves": {"first": {"nodes": 2, "prefer": ["canary=true", "disk=ssd"]}}, "budgets": [{"maxUnavailable": 9}]});
    let mut fleet = Fleet::new(5, policy(rules));
    fleet.node("web-04").shown.labels.insert("disk".to_owned(), "ssd".to_owned());
    for (key, value) in [("disk", "ssd"), ("canary", "true")] {
        fleet.node("web-05").shown.labels.insert(key.to_owned(), value.to_owned());
    }
    assert_eq!(fleet.turn(), ["assign new to web-05 in wave 1", "assign new to web-04 in wave 1"]);
}

#[test]
fn next_wave_waits_for_the_soak_time() {
    let mut fleet = Fleet::new(3, policy(json!({"waves": {"first": {"soak": "30m"}}})));
    fleet.settle();
    assert_eq!(fleet.waits().0, "Soak");
    let until = fleet.status.waiting_for.clone().and_then(|waiting| waiting.until).expect("a time");
    fleet.now = until.parse().expect("a time");
    fleet.now -= jiff::SignedDuration::from_secs(1);
    assert_eq!(fleet.turn(), [""; 0]);
    fleet.now += jiff::SignedDuration::from_secs(1);
    assert_eq!(fleet.turn(), ["assign new to web-02 in wave 2"]);
}

#[test]
fn wave_after_a_manual_one_waits_for_its_approval() {
    let mut fleet = Fleet::new(9, policy(json!({"waves": {"first": {"approve": "Manual"}}})));
    fleet.settle();
    assert_eq!(fleet.waits().0, "Approval");
    fleet.spec.approved_wave = Some(1);
    assert_eq!(fleet.turn(), [""; 0], "the approval is for an earlier wave");
    fleet.spec.approved_wave = Some(2);
    fleet.spec.approved_until = Some("2026-03-02T12:00:00Z".to_owned());
    assert_eq!(fleet.turn(), [""; 0], "the approval has expired");
    assert!(fleet.waits().1.contains("ended at 2026-03-02T12:00:00Z"), "{:?}", fleet.waits());
    fleet.spec.approved_until = Some("soon".to_owned());
    assert_eq!(fleet.turn(), [""; 0], "the time is unreadable");
    fleet.spec.approved_until = Some("2026-03-03T12:00:00Z".to_owned());
    assert_eq!(fleet.turn(), ["assign new to web-02 in wave 2"]);
    fleet.pass(48 * 60);
    fleet.node("web-02").shown.written = Some(fleet.now);
    assert_eq!(
        fleet.settle().first().map(String::as_str),
        Some("assign new to web-03 in wave 2"),
        "a wave that started continues"
    );
}

#[test]
fn budget_limits_nodes_in_flight_and_counts_nodes_that_are_unavailable_for_other_reasons() {
    let mut fleet = Fleet::new(9, at_once(json!({"budgets": [{"maxUnavailable": 3}]})));
    let now = fleet.now;
    fleet.node("web-09").set_ready(now, false);
    fleet.node("web-08").shown.cordoned = true;
    assert_eq!(fleet.turn(), ["assign new to web-01 in wave 1"]);
    fleet.nodes.remove("web-01");
    assert_eq!(fleet.turn(), ["assign new to web-02 in wave 1"], "a node that disappears frees its place");
    fleet.node("web-07").set_ready(now, false);
    fleet.react();
    fleet.react();
    assert_eq!(fleet.turn(), [""; 0]);
    let waiting = fleet.status.waiting_for.clone().expect("an answer");
    assert_eq!(waiting.objects, ["web-07", "web-08", "web-09"], "{}", waiting.message);
}

#[test]
fn budget_with_effects_limits_only_those_at_the_moment_of_the_drain() {
    let budgets = json!([{"maxUnavailable": 5}, {"effects": ["reboot"], "maxUnavailable": 1}]);
    let mut fleet = Fleet::new(5, at_once(json!({ "budgets": budgets }))).effect(Effect::Reboot, false);
    fleet.node("web-02").effect = Effect::Restart;
    assert_eq!(fleet.turn().len(), 5, "the effects are unknown, so only the first budget applies");
    fleet.react();
    assert_eq!(fleet.turn(), ["drain web-01"]);
    fleet.react();
    assert_eq!(fleet.turn(), ["allow new on web-01"]);
    fleet.react();
    assert_eq!(fleet.turn(), ["reboot web-01"]);
    let rest = fleet.settle();
    let drains: Vec<&String> =
        rest.iter().filter(|act| act.starts_with("drain") || act.starts_with("release")).collect();
    let expected = [
        "release web-01",
        "drain web-03",
        "release web-03",
        "drain web-04",
        "release web-04",
        "drain web-05",
        "release web-05",
    ];
    assert_eq!(drains, expected.iter().collect::<Vec<_>>());
    assert_eq!(fleet.status.phase, RolloutPhase::Complete);
}

#[test]
fn percentage_applies_to_each_domain_and_domains_are_done_one_at_a_time() {
    let budgets = json!([{"maxUnavailable": "50%", "topologyKey": "zone", "domains": "OneAtATime"}]);
    let mut fleet = Fleet::new(9, at_once(json!({ "budgets": budgets })));
    let wave = |numbers: &[u32]| -> Vec<String> {
        numbers.iter().map(|number| format!("assign new to web-{number:02} in wave 1")).collect()
    };
    assert_eq!(fleet.turn(), wave(&[1, 3]), "half of zone a");
    fleet.react();
    fleet.react();
    assert_eq!(fleet.turn(), wave(&[2, 4]), "zone a is finished, and half of zone b is next");
    assert_eq!(fleet.settle().len(), 6);
    assert_eq!(fleet.status.phase, RolloutPhase::Complete);
}

#[test]
fn node_is_updated_when_its_gates_are_open() {
    let gates = json!([{"nodeReadyFor": "5m"}, {"daemonSetsReady": true}, {"conditionsUnchanged": ["KernelDeadlock"]}]);
    let mut fleet = Fleet::new(2, policy(json!({ "gates": gates })));
    fleet.turn();
    fleet.react();
    fleet.react();
    let now = fleet.now;
    fleet.node("web-01").shown.ready_since = Some(now);
    assert_eq!(fleet.turn(), [""; 0]);
    assert_eq!(fleet.waits().0, "Gate");
    fleet.pass(5);
    fleet.node("web-01").shown.conditions.insert("KernelDeadlock".to_owned(), "True".to_owned());
    assert_eq!(fleet.turn(), [""; 0]);
    assert!(fleet.waits().1.contains("KernelDeadlock"), "{:?}", fleet.waits());
    fleet.node("web-01").shown.conditions.clear();
    assert_eq!(fleet.turn(), ["assign new to web-02 in wave 2"]);
}

#[test]
fn query_fails_passes_or_is_inconclusive_after_the_soak_time() {
    let query = json!({"url": "http://prometheus:9090", "query": "errors", "fail": "> 0.02"});
    let mut fleet =
        Fleet::new(2, policy(json!({"waves": {"first": {"soak": "10m"}}, "gates": [{"prometheus": query}]})));
    fleet.settle();
    fleet.pass(10);
    let reading = |fleet: &Fleet, value| Reading { query: 0, at: fleet.now, value };
    let early = Reading { at: fleet.now - jiff::SignedDuration::from_hours(1), ..reading(&fleet, Ok(0.5)) };
    fleet.readings = vec![early];
    assert_eq!(fleet.decide(&fleet.observe()).queries, [0], "a reading before the end of the soak time does not count");
    fleet.readings = vec![reading(&fleet, Err("no samples".to_owned()))];
    let decision = fleet.decide(&fleet.observe());
    assert_eq!((decision.acts.len(), decision.queries.len()), (0, 0));
    assert_eq!(decision.wake, Some(fleet.now + jiff::SignedDuration::from_mins(1)), "it asks again a minute later");
    let waiting = decision.status.waiting_for.expect("an answer");
    assert!(waiting.message.contains("inconclusive: no samples"), "{}", waiting.message);
    let mut bad = fleet.clone();
    bad.readings = vec![reading(&bad, Ok(0.03))];
    assert_eq!(bad.turn(), ["reject new on pool web", "assign old to web-01 in wave 1"]);
    assert_eq!(bad.status.phase, RolloutPhase::RollingBack);
    fleet.readings = vec![reading(&fleet, Ok(0.02))];
    assert_eq!(fleet.turn(), ["assign new to web-02 in wave 2"]);
}

#[test]
fn nodes_that_are_up_to_date_are_not_started() {
    let mut fleet = Fleet::new(2, policy(json!({})));
    fleet.nodes.insert("web-01".to_owned(), crate::model::Node::new("web-01", "web", Some(NEW)));
    assert_eq!(fleet.turn(), ["assign new to web-02 in wave 1"]);
    assert_eq!((fleet.status.updated_text.as_str(), fleet.status.plan.none), ("1/2", 1));
}

#[test]
fn rollout_without_work_completes_the_pools() {
    let mut fleet = Fleet::new(1, policy(json!({})));
    fleet.nodes.insert("web-01".to_owned(), crate::model::Node::new("web-01", "web", Some(NEW)));
    assert_eq!(fleet.turn(), ["complete pool web with new"]);
    assert_eq!(fleet.turn(), [""; 0]);
    assert_eq!(fleet.status.phase, RolloutPhase::Complete);
}

#[test]
fn unavailable_nodes_are_left_for_the_end_and_then_named() {
    let mut fleet = Fleet::new(3, policy(json!({"budgets": [{"maxUnavailable": 2}]})));
    fleet.node("web-01").shown.cordoned = true;
    fleet.settle();
    assert_eq!(fleet.having(NEW), ["web-02", "web-03"]);
    assert_eq!(fleet.status.waiting_for.clone().map(|waiting| waiting.objects), Some(vec!["web-01".to_owned()]));
    fleet.node("web-01").shown.cordoned = false;
    fleet.settle();
    assert_eq!(fleet.status.phase, RolloutPhase::Complete);
}

#[test]
fn nodes_that_appear_get_the_last_complete_target_first_and_a_later_wave() {
    let mut fleet = Fleet::new(2, policy(json!({"budgets": [{"maxUnavailable": 9}]})));
    fleet.turn();
    fleet.nodes.insert("web-00".to_owned(), crate::model::Node::new("web-00", "web", None));
    assert!(!fleet.settle().iter().any(|act| act.contains("web-00")));
    assert!(fleet.waits().1.contains("last complete target"), "{:?}", fleet.waits());
    fleet.nodes.insert("web-00".to_owned(), crate::model::Node::new("web-00", "web", Some(OLD)));
    assert_eq!(fleet.settle(), ["assign new to web-00 in wave 3", "complete pool web with new"]);
    assert_eq!(fleet.status.total, 3);
}

#[test]
fn wave_whose_nodes_all_disappear_while_it_is_watched_is_run_again() {
    let mut fleet = Fleet::new(4, policy(json!({"waves": {"first": {"soak": "1h"}}})));
    fleet.settle();
    assert_eq!(fleet.waits().0, "Soak");
    fleet.nodes.remove("web-01");
    assert_eq!(fleet.turn(), ["assign new to web-02 in wave 1"]);
}

#[test]
fn hold_that_a_person_removed_is_taken_again_before_the_reboot() {
    let mut fleet = Fleet::new(1, policy(json!({}))).effect(Effect::Reboot, true);
    for _ in 0..3 {
        fleet.turn();
        fleet.react();
    }
    let node = fleet.node("web-01");
    assert_eq!(node.shown.status.requests.digest, NEW);
    (node.shown.held, node.shown.cordoned, node.shown.drain) = (false, false, kiln_rollout::DrainState::None);
    assert_eq!(fleet.turn(), ["drain web-01"]);
}

#[test]
fn target_with_another_digest_starts_nothing() {
    let mut fleet = Fleet::new(2, policy(json!({})));
    fleet.spec.target.digest = Some("other".to_owned());
    assert_eq!(fleet.turn(), [""; 0]);
    assert_eq!((fleet.waits().0.as_str(), fleet.status.phase), ("Reference", RolloutPhase::Pending));
    fleet.spec.target.digest = None;
    fleet.turn();
    fleet.target = Ok(ResolvedTarget { node_config: "config-new".to_owned(), digest: "changed".to_owned() });
    fleet.settle();
    assert_eq!(fleet.waits().0, "Reference");
    assert_eq!(fleet.status.updated, 1, "the node in flight was finished");
}
