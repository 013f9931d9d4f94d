//! What stops a rollout between two nodes: a Freeze, and a window that closes.

use std::thread;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Unit};
use kiln_fleet_api::{Freeze, RolloutPhase, RolloutPolicy, WaitReason};
use serde_json::{Value, json};

use super::documents::Target;
use super::fleet::Fleet;

/// The operator looks again within a tenth of a second after a change; this is enough for several looks.
const SEVERAL_LOOKS: Duration = Duration::from_secs(2);

/// A window that closes sooner could close before the first node has started.
const SHORTEST_WINDOW: SignedDuration = SignedDuration::from_secs(10);

#[expect(clippy::disallowed_methods, reason = "windows of the operator are in real time")]
fn time() -> Timestamp {
    Timestamp::now()
}

/// Starts a rollout over two nodes, one after the other, whose first node does not answer.
#[track_caller]
fn start(fleet: &mut Fleet, name: &str, pool: &str, first: &str, policy: &Value) -> Target {
    let target = fleet.documents.restarting();
    fleet.store(&target);
    fleet.node(first).freeze_kilnd();
    fleet.create("RolloutPolicy", name, policy);
    fleet.create("Rollout", name, &json!({"pools": [pool], "target": {"nodeConfig": target.name}, "policyRef": name}));
    fleet.wait_assigned(first, name);
    target
}

/// Lets the first node answer, and asserts that it is finished and that the second one is not started.
#[track_caller]
fn finish_first(
    fleet: &mut Fleet,
    name: &str,
    [first, second]: [&str; 2],
    reason: WaitReason,
    target: &Target,
) -> String {
    assert!(!fleet.is_assigned(second, name), "one node at a time");
    let before = fleet.node(second).counts();
    fleet.node(first).thaw_kilnd();
    let message = fleet.wait(&format!("{first} is updated, and the rollout waits"), |fleet| {
        let status = fleet.rollout(name)?;
        let waiting = status.waiting_for.filter(|waiting| waiting.reason == reason)?;
        (status.updated == 1 && status.in_flight.is_empty()).then_some(waiting.message)
    });
    thread::sleep(SEVERAL_LOOKS);
    fleet.assert_in_force(first, target);
    assert!(!fleet.is_assigned(second, name), "{second} was started");
    assert_eq!(fleet.node(second).counts(), before);
    message
}

#[track_caller]
fn finish(fleet: &mut Fleet, name: &str, second: &str, target: &Target) {
    let status = fleet.wait_phase(name, RolloutPhase::Complete);
    assert_eq!((status.updated, status.failed), (2, 0), "{status:?}");
    fleet.assert_in_force(second, target);
    fleet.assert_released();
}

fn one_by_one(first: &str) -> Value {
    json!({
        "waves": {"first": {"prefer": [format!("kubernetes.io/hostname={first}")]}, "then": {"maxPercent": 100}},
        "budgets": [{"maxUnavailable": 1}],
    })
}

fn freeze(fleet: &mut Fleet) {
    let target = start(fleet, "frozen", "left", "node-3", &one_by_one("node-3"));
    fleet.create("Freeze", "incident", &json!({"reason": "incident 7", "pools": ["left"]}));
    fleet
        .wait("the operator has seen the freeze", |fleet| fleet.get::<Freeze>("incident")?.status?.observed_generation);
    let message = finish_first(fleet, "frozen", ["node-3", "node-1"], WaitReason::Freeze, &target);
    assert!(message.contains("`incident`") && message.contains("incident 7"), "{message}");
    fleet.plane.run_kubectl(&["delete", "freeze", "incident"]).expect("deleted");
    finish(fleet, "frozen", "node-1", &target);
}

/// Both at once on different pools, because the window closes at a full minute.
pub(crate) fn freeze_and_window(fleet: &mut Fleet) {
    let end = (time() + SHORTEST_WINDOW).to_zoned(TimeZone::UTC);
    let end = end.round(jiff::ZonedRound::new().smallest(Unit::Minute).mode(jiff::RoundMode::Ceil)).expect("a time");
    let from = (end.timestamp() - SignedDuration::from_hours(2)).to_zoned(TimeZone::UTC);
    let mut policy = one_by_one("node-4");
    let text = |at: &jiff::Zoned| at.strftime("%H:%M").to_string();
    policy["windows"] = json!([{"from": text(&from), "to": text(&end), "effects": ["restart", "drain"]}]);
    let target = start(fleet, "window", "right", "node-4", &policy);
    assert!(time() < end.timestamp(), "the window closed before the first node started");
    freeze(fleet);
    fleet.wait("the window has closed", |_| (time() > end.timestamp()).then_some(()));
    let message = finish_first(fleet, "window", ["node-4", "node-2"], WaitReason::Window, &target);
    assert!(message.contains("opens at"), "{message}");
    policy["windows"][0]["to"] = json!("24:00");
    policy["windows"][0]["from"] = json!("00:00");
    fleet.create("RolloutPolicy", "window", &policy);
    assert!(fleet.get::<RolloutPolicy>("window").is_some());
    finish(fleet, "window", "node-2", &target);
}
