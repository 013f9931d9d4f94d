//! The rules that stop a rollout: pause, freeze, failure limits, rollback, abort, time limits.

use kiln_fleet_api::{Effect, OnFailure, Replacement, RolloutPhase, Verdict};
use kiln_rollout::{FreezeObserved, Policy, PoolObserved};
use serde_json::json;

use crate::model::{Fleet, NEW, Node, OLD, policy};

/// Two nodes at a time, in one wave.
fn pairs() -> Policy {
    policy(json!({"waves": {"first": {"nodes": 100}}, "budgets": [{"maxUnavailable": 2}]}))
}

fn freeze(pool: &str) -> FreezeObserved {
    let pools = if pool.is_empty() { Vec::new() } else { vec![pool.to_owned()] };
    FreezeObserved { name: "incident".to_owned(), reason: "shop is down".to_owned(), pools, until: None }
}

#[test]
fn paused_rollout_finishes_nodes_in_flight_and_starts_no_others() {
    let mut fleet = Fleet::new(4, pairs());
    fleet.turn();
    fleet.spec.paused = true;
    assert_eq!(fleet.settle(), [""; 0]);
    assert_eq!((fleet.status.updated, fleet.waits().0.as_str()), (2, "Paused"));
    fleet.spec.paused = false;
    assert_eq!(fleet.turn().len(), 2);
}

#[test]
fn pause_also_stops_the_drain_of_a_node_that_waits_for_it() {
    let mut fleet = Fleet::new(4, pairs()).effect(Effect::Drain, false);
    fleet.turn();
    fleet.react();
    fleet.spec.paused = true;
    assert_eq!(fleet.settle(), [""; 0]);
    fleet.spec.paused = false;
    assert_eq!(fleet.turn(), ["drain web-01", "drain web-02"]);
    fleet.spec.paused = true;
    fleet.settle();
    assert_eq!(fleet.having(NEW), ["web-01", "web-02"], "drains that began are finished");
    assert_eq!(fleet.waits().0, "Paused");
}

#[test]
fn freeze_stops_its_pools_until_its_end() {
    let mut fleet = Fleet::new(2, pairs());
    fleet.freezes = vec![freeze("db")];
    assert_eq!(fleet.clone().turn().len(), 2, "another pool is frozen");
    for pool in ["", "web"] {
        fleet.freezes = vec![freeze(pool)];
        let mut frozen = fleet.clone();
        assert_eq!(frozen.turn(), [""; 0]);
        assert!(frozen.waits().1.contains("shop is down"), "{:?}", frozen.waits());
    }
    fleet.freezes[0].until = Some(fleet.now + jiff::SignedDuration::from_mins(1));
    let decision = fleet.decide(&fleet.observe());
    assert_eq!((decision.acts.len(), decision.wake), (0, fleet.freezes[0].until));
    fleet.pass(1);
    assert_eq!(fleet.turn().len(), 2);
}

#[test]
fn paused_pool_stops_only_its_own_nodes() {
    let mut fleet = Fleet::new(2, pairs());
    fleet.pools.push(PoolObserved { name: "db".to_owned(), paused: true, ..PoolObserved::default() });
    fleet.nodes.insert("db-1".to_owned(), Node::new("db-1", "db", Some(OLD)));
    assert_eq!(fleet.turn(), ["assign new to web-01 in wave 1", "assign new to web-02 in wave 1"]);
    fleet.settle();
    assert_eq!(fleet.waits().0, "Paused");
}

#[test]
fn newer_rollout_waits_for_the_older_one_and_then_returns_to_its_target() {
    let mut fleet = Fleet::new(2, pairs());
    fleet.older = vec!["winter".to_owned()];
    assert_eq!(fleet.turn(), [""; 0]);
    assert_eq!((fleet.waits().0.as_str(), fleet.status.phase), ("OtherRollout", RolloutPhase::Pending));
    assert!(fleet.status.previous.is_empty(), "the older rollout decides what the previous target is");
    fleet.older.clear();
    assert_eq!(fleet.turn().len(), 2);
    assert_eq!(fleet.status.previous["web"].digest.as_deref(), Some(OLD));
}

#[test]
fn failed_first_wave_rolls_back_and_rejects_the_digest() {
    let mut fleet = Fleet::new(6, policy(json!({})));
    fleet.node("web-01").fails_on = Some(NEW.to_owned());
    let acts = fleet.settle();
    assert_eq!(acts, ["assign new to web-01 in wave 1", "reject new on pool web", "assign old to web-01 in wave 1"]);
    assert_eq!((fleet.status.phase, fleet.status.failed), (RolloutPhase::RolledBack, 1));
    assert_eq!(fleet.status.failures[0].reason, "gate `kubelet` failed");
    assert_eq!(fleet.having(OLD).len(), 6);
    let mut again = Fleet { status: kiln_fleet_api::RolloutStatus::default(), ..fleet };
    assert_eq!(again.turn(), [""; 0]);
    assert!(again.waits().1.contains("failed on pool `web` before"), "{:?}", again.waits());
}

#[test]
fn halted_rollout_leaves_updated_nodes_alone() {
    let mut fleet = Fleet::new(6, policy(json!({})));
    fleet.spec.on_failure = OnFailure::Halt;
    fleet.node("web-02").fails_on = Some(NEW.to_owned());
    fleet.settle();
    assert_eq!((fleet.status.phase, fleet.having(NEW)), (RolloutPhase::Halted, vec!["web-01"]));
    assert_eq!(fleet.status.waves[1].verdict, Verdict::Failed);
}

#[test]
fn rollback_takes_the_newest_first_and_within_the_budget() {
    let limits =
        json!({"waves": {"first": {"nodes": 2}, "then": {"maxPercent": 100}}, "budgets": [{"maxUnavailable": 2}]});
    let mut fleet = Fleet::new(6, policy(limits));
    fleet.node("web-06").fails_on = Some(NEW.to_owned());
    let acts = fleet.settle();
    let back: Vec<&str> =
        acts.iter().filter_map(|act| act.strip_prefix("assign old to ")).map(|act| &act[..6]).collect();
    assert_eq!(back, ["web-05", "web-06", "web-03", "web-04", "web-01", "web-02"]);
    assert_eq!(fleet.status.phase, RolloutPhase::RolledBack);
    assert_eq!(fleet.having(OLD).len(), 6);
}

#[test]
fn rollback_drains_where_the_previous_document_needs_it() {
    let mut fleet = Fleet::new(3, policy(json!({}))).effect(Effect::Drain, true);
    fleet.node("web-03").fails_on = Some(NEW.to_owned());
    let acts = fleet.settle();
    assert!(acts.contains(&"allow old on web-02".to_owned()), "{acts:?}");
    assert_eq!(fleet.status.phase, RolloutPhase::RolledBack);
    assert!(
        fleet.nodes.values().all(|node| node.document() == OLD && !node.shown.cordoned && node.shown.allow.is_none())
    );
}

#[test]
fn rollback_without_a_previous_target_removes_the_document_and_halts() {
    let mut fleet = Fleet::new(3, policy(json!({})));
    fleet.pools[0].previous = None;
    for node in fleet.nodes.values_mut() {
        node.shown.desired = None;
    }
    fleet.node("web-02").fails_on = Some(NEW.to_owned());
    let acts = fleet.settle();
    assert_eq!(acts[2..], ["reject new on pool web", "unassign web-02", "unassign web-01"]);
    assert_eq!(fleet.status.phase, RolloutPhase::Halted);
}

#[test]
fn each_failure_limit_stops_the_rollout() {
    let run = |limits: serde_json::Value, bad: &[&str]| {
        let rules = json!({"waves": {"first": {"nodes": 3}, "then": {"maxPercent": 100}}, "budgets": [{"maxUnavailable": 9}], "failure": limits});
        let mut fleet = Fleet::new(10, policy(rules));
        fleet.spec.on_failure = OnFailure::Halt;
        for name in bad {
            fleet.node(name).fails_on = Some(NEW.to_owned());
        }
        fleet.settle();
        (fleet.status.phase, fleet.status.failed)
    };
    let many = json!({"nodes": 9, "inFirstWave": 9});
    assert_eq!(run(many, &["web-01", "web-05"]), (RolloutPhase::Complete, 2));
    assert_eq!(run(json!({"nodes": 2, "inFirstWave": 9}), &["web-01", "web-05"]), (RolloutPhase::Halted, 2));
    assert_eq!(run(json!({"nodes": 9, "inFirstWave": 2}), &["web-01", "web-02"]), (RolloutPhase::Halted, 2));
    assert_eq!(run(json!({"nodes": 9, "inFirstWave": 2}), &["web-01", "web-09"]), (RolloutPhase::Complete, 2));
    let percent = json!({"nodes": 9, "inFirstWave": 9, "percent": 20});
    assert_eq!(run(percent.clone(), &["web-01", "web-09"]), (RolloutPhase::Halted, 2));
    assert_eq!(run(percent, &["web-01"]), (RolloutPhase::Complete, 1));
}

#[test]
fn failed_node_that_is_deleted_still_counts() {
    let mut fleet = Fleet::new(6, policy(json!({"failure": {"nodes": 2, "inFirstWave": 2}})));
    fleet.spec.on_failure = OnFailure::Halt;
    for name in ["web-01", "web-02"] {
        fleet.node(name).fails_on = Some(NEW.to_owned());
    }
    while fleet.status.failed == 0 {
        fleet.turn();
        fleet.react();
    }
    fleet.nodes.remove("web-01");
    fleet.settle();
    assert_eq!((fleet.status.phase, fleet.status.failed), (RolloutPhase::Halted, 2));
}

#[test]
fn blocked_drain_skips_the_node_uncordons_it_and_does_not_blame_the_document() {
    let rules = json!({"drainTimeout": "10m", "failure": {"nodes": 2, "inFirstWave": 2}});
    let mut fleet = Fleet::new(3, policy(rules)).effect(Effect::Drain, true);
    fleet.node("web-01").is_blocked = true;
    let acts = fleet.settle();
    assert_eq!(
        acts[..4],
        ["assign new to web-01 in wave 1", "drain web-01", "release web-01", "assign new to web-02 in wave 2"]
    );
    assert!(!fleet.node("web-01").shown.cordoned);
    assert_eq!(fleet.status.failures[0].reason, "drain failed: not finished within 10m");
    assert_eq!((fleet.status.phase, fleet.having(NEW).len()), (RolloutPhase::Complete, 2));
    let mut strict = Fleet::new(3, policy(json!({}))).effect(Effect::Drain, true);
    strict.node("web-01").is_blocked = true;
    while !strict.status.phase.is_final() {
        assert!(!strict.settle().iter().any(|act| act.starts_with("reject")));
    }
    assert_eq!(strict.status.phase, RolloutPhase::RolledBack);
}

#[test]
fn mute_node_fails_after_the_node_timeout_but_waiting_for_the_operator_does_not_count() {
    let mut fleet = Fleet::new(2, policy(json!({"nodeTimeout": "20m"})));
    fleet.node("web-01").is_mute = true;
    fleet.turn();
    fleet.pass(19);
    let decision = fleet.decide(&fleet.observe());
    assert_eq!((decision.status.failed, decision.wake), (0, Some(fleet.now + jiff::SignedDuration::from_mins(1))));
    fleet.pass(1);
    fleet.turn();
    assert_eq!(fleet.status.failures[0].reason, "kilnd did not answer within 20m");
    let mut waiting = Fleet::new(2, policy(json!({"nodeTimeout": "20m"}))).effect(Effect::Drain, false);
    waiting.turn();
    waiting.react();
    waiting.spec.paused = true;
    waiting.pass(600);
    waiting.turn();
    assert_eq!(waiting.status.failed, 0);
    waiting.spec.paused = false;
    waiting.settle();
    assert_eq!(waiting.status.phase, RolloutPhase::Complete);
}

#[test]
fn updated_node_that_breaks_while_its_wave_is_watched_fails() {
    let mut fleet = Fleet::new(3, policy(json!({"waves": {"first": {"soak": "1h"}}})));
    fleet.settle();
    let now = fleet.now;
    fleet.node("web-01").set_ready(now, false);
    fleet.pass(4);
    fleet.turn();
    assert_eq!(fleet.status.failed, 0);
    fleet.pass(1);
    fleet.turn();
    assert_eq!(fleet.status.phase, RolloutPhase::RollingBack);
}

#[test]
fn replacement_never_refuses_before_the_first_node_or_when_a_node_reports_a_drain() {
    let mut fleet = Fleet::new(3, pairs());
    fleet.spec.replacement = Replacement::Never;
    let mut known = fleet.clone();
    known.node("web-03").shown.expected_effect = Some(Effect::Drain);
    assert_eq!(known.turn(), [""; 0]);
    assert_eq!(known.waits().0, "Replacement");
    assert_eq!(known.status.waiting_for.map(|waiting| waiting.objects), Some(vec!["web-03".to_owned()]));
    let mut unknown = fleet.clone().effect(Effect::Drain, false);
    let acts = unknown.settle();
    assert!(!acts.iter().any(|act| act.starts_with("drain")), "{acts:?}");
    assert!(unknown.status.failures[0].reason.contains("`replacement: Never` forbids"));
    let mut machines = Fleet::new(3, pairs()).effect(Effect::Replace, true);
    assert_eq!((machines.turn().len(), machines.waits().0.as_str()), (0, "Replacement"));
}

#[test]
fn abort_finishes_cordoned_nodes_and_withdraws_the_others() {
    let rules = json!({"waves": {"first": {"nodes": 9}}, "budgets": [{"maxUnavailable": 3}, {"effects": ["drain"], "maxUnavailable": 1}]});
    let mut fleet = Fleet::new(4, policy(rules)).effect(Effect::Drain, false);
    fleet.turn();
    fleet.react();
    assert_eq!(fleet.turn(), ["drain web-01"]);
    fleet.spec.aborted = true;
    let acts = fleet.settle();
    assert_eq!(acts[..2], ["assign old to web-02 in wave 1", "assign old to web-03 in wave 1"]);
    assert_eq!((fleet.status.phase, fleet.having(NEW)), (RolloutPhase::Aborted, vec!["web-01"]));
    assert!(fleet.nodes.values().all(|node| !node.shown.held && node.shown.observed));
}

#[test]
fn failure_cancels_the_drain_of_another_node() {
    let mut fleet = Fleet::new(4, pairs()).effect(Effect::Drain, true);
    fleet.node("web-02").effect = Effect::Restart;
    fleet.node("web-02").fails_on = Some(NEW.to_owned());
    fleet.node("web-01").is_blocked = true;
    fleet.turn();
    fleet.react();
    fleet.turn();
    fleet.react();
    assert_eq!(fleet.turn(), ["reject new on pool web", "release web-01", "assign old to web-02 in wave 1"]);
    assert_eq!(fleet.turn(), ["assign old to web-01 in wave 1"]);
    fleet.settle();
    assert_eq!((fleet.status.phase, fleet.having(OLD).len()), (RolloutPhase::RolledBack, 4));
}

#[test]
fn ended_rollout_releases_what_is_left_and_does_nothing_else() {
    let mut fleet = Fleet::new(2, pairs());
    fleet.settle();
    assert_eq!(fleet.status.phase, RolloutPhase::Complete);
    fleet.node("web-01").shown.held = true;
    fleet.pools[0].previous = None;
    assert_eq!(fleet.turn(), ["release web-01"]);
    assert_eq!(fleet.turn(), [""; 0], "a later rollout may have changed the pool");
}
