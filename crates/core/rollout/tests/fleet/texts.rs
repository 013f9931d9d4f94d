//! The status as people and tools read it, and decisions that repeat.

use kiln_fleet_api::{Condition, Effect, RolloutPhase};
use kiln_rollout::{Decision, Problem, Severity};
use serde_json::json;

use crate::model::{Fleet, NEW, policy, text};

fn conditions(fleet: &Fleet) -> String {
    let is = |name: &'static str| if Condition::is_true(&fleet.status.conditions, name) { name } else { "-" };
    ["Ready", "Reconciling", "Stalled"].map(is).join(" ")
}

#[test]
fn conditions_follow_the_rules_of_kstatus() {
    let mut fleet = Fleet::new(2, policy(json!({})));
    let good = fleet.target.clone();
    fleet.target =
        Err(Problem { message: "NodeConfig `x` does not exist; create it".to_owned(), objects: vec!["x".to_owned()] });
    fleet.turn();
    assert_eq!(conditions(&fleet), "- - Stalled");
    fleet.target = good;
    fleet.turn();
    assert_eq!(conditions(&fleet), "- Reconciling -");
    let mut bad = fleet.clone();
    bad.node("web-01").fails_on = Some(NEW.to_owned());
    bad.settle();
    assert_eq!((bad.status.phase, conditions(&bad).as_str()), (RolloutPhase::RolledBack, "- - Stalled"));
    let stalled = bad.status.conditions.iter().find(|condition| condition.type_ == "Stalled").expect("a condition");
    assert_eq!(stalled.message, "1 node failed; the limit is 1; node `web-01`: gate `kubelet` failed");
    fleet.settle();
    assert_eq!((fleet.status.phase, conditions(&fleet).as_str()), (RolloutPhase::Complete, "Ready - -"));
}

#[test]
fn printer_columns_show_plan_wave_and_progress() {
    let mut fleet =
        Fleet::new(8, policy(json!({"waves": {"then": {"maxPercent": 100}}, "budgets": [{"maxUnavailable": 9}]})));
    fleet.node("web-07").shown.expected_effect = Some(Effect::Drain);
    fleet.node("web-08").shown.expected_effect = None;
    fleet.turn();
    let columns = |fleet: &Fleet| {
        let status = &fleet.status;
        format!("{} | {} | {}", status.plan_text, status.wave_text, status.updated_text)
    };
    assert_eq!(columns(&fleet), "restart:6,drain:1,unknown:1 | 1/3 | 0/8");
    fleet.react();
    fleet.react();
    fleet.turn();
    assert_eq!(columns(&fleet), "restart:6,drain:1,unknown:1 | 2/3 | 1/8");
    assert_eq!((fleet.status.plan.in_place, fleet.status.plan.drain, fleet.status.plan.unknown), (6, 1, 1));
}

#[test]
fn expected_end_follows_the_waves_that_passed() {
    let mut fleet =
        Fleet::new(6, policy(json!({"waves": {"first": {"soak": "20m"}, "then": {"factor": 1, "soak": "20m"}}})));
    fleet.turn();
    assert_eq!(fleet.status.eta, None, "no wave has ended");
    fleet.pass(10);
    fleet.react();
    fleet.react();
    fleet.turn();
    fleet.pass(20);
    fleet.turn();
    assert_eq!(fleet.status.eta.as_deref(), Some("2026-03-02T15:00:00Z"), "five more waves of 30 minutes");
}

#[test]
fn notices_are_published_once() {
    let mut fleet = Fleet::new(2, policy(json!({})));
    let notices = |decision: &Decision| decision.notices.iter().map(|notice| notice.reason).collect::<Vec<_>>();
    let observed = fleet.observe();
    let first = fleet.decide(&observed);
    assert_eq!(notices(&first), ["Planned", "WaveStarted"]);
    fleet.status = first.status.clone();
    let second = fleet.decide(&observed);
    assert!(second.notices.is_empty(), "{:?}", second.notices);
    assert_eq!((second.acts, second.status), (first.acts, first.status));
    fleet.turn();
    fleet.nodes.remove("web-01");
    let gone = fleet.decide(&fleet.observe());
    assert_eq!(gone.notices[0].node.as_deref(), Some("web-01"));
    assert_eq!((gone.notices[0].severity, gone.notices[0].reason), (Severity::Normal, "NodeGone"));
}

#[test]
fn status_does_not_change_while_nothing_happens() {
    let mut fleet = Fleet::new(3, policy(json!({"waves": {"first": {"soak": "1h"}}})));
    fleet.settle();
    let before = fleet.status.clone();
    fleet.pass(7);
    fleet.turn();
    assert_eq!(fleet.status, before, "a status that changes by itself would wake the operator for ever");
}

#[test]
fn order_of_the_observed_nodes_does_not_matter() {
    let fleet = Fleet::new(9, policy(json!({"waves": {"first": {"nodes": 4}}, "budgets": [{"maxUnavailable": 3}]})));
    let mut observed = fleet.observe();
    let decision = fleet.decide(&observed);
    observed.nodes.reverse();
    assert_eq!(fleet.decide(&observed), decision);
}

#[test]
fn intent_that_was_not_carried_out_is_repeated_and_counts() {
    let mut fleet =
        Fleet::new(9, policy(json!({"waves": {"first": {"nodes": 9}}, "budgets": [{"maxUnavailable": 2}]})));
    fleet.status = fleet.decide(&fleet.observe()).status;
    let now = fleet.now;
    assert_eq!(fleet.status.in_flight, ["web-01", "web-02"]);
    fleet.node("web-09").set_ready(now, false);
    assert_eq!(
        fleet.decide(&fleet.observe()).acts,
        [],
        "the budget has only one place, and two nodes may be in flight"
    );
    fleet.node("web-09").set_ready(now, true);
    assert_eq!(fleet.turn(), ["assign new to web-01 in wave 1", "assign new to web-02 in wave 1"]);
}

#[test]
fn drain_counts_although_the_operator_sees_an_old_copy_of_the_node() {
    let rules = json!({"waves": {"first": {"nodes": 2}}, "budgets": [{"maxUnavailable": 2}, {"effects": ["reboot"], "maxUnavailable": 1}]});
    let mut fleet = Fleet::new(2, policy(rules)).effect(Effect::Reboot, false);
    fleet.turn();
    let now = fleet.now;
    fleet.node("web-02").react(now);
    let old = fleet.node("web-02").shown.clone();
    assert_eq!(fleet.turn(), ["drain web-02"]);
    assert_eq!(fleet.status.held, ["web-02"]);
    fleet.node("web-01").react(now);
    let observed = fleet.observe_nodes(vec![fleet.nodes["web-01"].shown.clone(), old]);
    let acts: Vec<String> = fleet.decide(&observed).acts.iter().map(text).collect();
    assert_eq!(acts, ["drain web-02"], "it may repeat the drain, but not start the other node");
}

#[test]
fn pool_without_nodes_is_named() {
    let mut fleet = Fleet::new(0, policy(json!({})));
    fleet.turn();
    assert_eq!(fleet.waits().0, "NoNodes");
    fleet.spec.aborted = true;
    fleet.turn();
    assert_eq!(fleet.status.phase, RolloutPhase::Aborted);
}
