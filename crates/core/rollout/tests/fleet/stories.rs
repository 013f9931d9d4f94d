//! Golden logs of whole rollouts: one line per time, act and reason. `KILN_BLESS=1` rewrites them.

use std::fmt::Write as _;
use std::path::Path;

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use kiln_fleet_api::{Effect, WaitReason};
use kiln_rollout::{FreezeObserved, Policy};
use serde_json::json;

use crate::dice::Dice;
use crate::model::{Fleet, NEW, at, policy, text};

/// Minute, name and change of the fleet.
type Event = (i64, &'static str, fn(&mut Fleet));

/// A rollout with a script: what happens at which minute.
struct Story {
    fleet: Fleet,
    script: Vec<Event>,
    /// With dice, each node takes its steps late at random, and the operator sees the nodes in random order.
    dice: Option<Dice>,
}

impl Story {
    fn new(size: usize, policy: Policy) -> Self {
        let mut fleet = Fleet::new(size, policy);
        fleet.now = at("2026-03-02T20:00:00Z");
        Self { fleet, script: Vec::new(), dice: None }
    }

    /// Something that a person or a machine does, `minute` minutes after the begin.
    fn then(mut self, minute: i64, what: &'static str, happens: fn(&mut Fleet)) -> Self {
        self.script.push((minute, what, happens));
        self
    }

    /// Plays minute by minute until the end, and returns the log.
    fn play(&mut self) -> String {
        let begin = self.fleet.now;
        let mut log = String::new();
        let mut waited = None;
        for minute in 0..5_000 {
            self.fleet.now = begin + SignedDuration::from_mins(minute);
            let time = TimeZone::UTC.to_datetime(self.fleet.now).strftime("%a %H:%M");
            for (_, what, happens) in self.script.iter().filter(|(at, ..)| *at == minute) {
                let _ = writeln!(log, "{time}  * {what}");
                happens(&mut self.fleet);
            }
            let mut observed = self.fleet.observe();
            if let Some(dice) = &mut self.dice {
                (0..observed.nodes.len()).for_each(|index| {
                    let other = dice.place(index + 1);
                    observed.nodes.swap(index, other);
                });
            }
            let decision = self.fleet.decide(&observed);
            for notice in decision.notices.iter().filter(|notice| notice.reason != "Waiting") {
                let _ = writeln!(log, "{time}  {}: {}", notice.reason, notice.message);
            }
            for act in &decision.acts {
                let _ = writeln!(log, "{time}    {}", text(act));
                self.fleet.perform(act);
            }
            let waiting = decision.status.waiting_for.clone();
            let waiting = waiting.filter(|waiting| waiting.reason != WaitReason::Nodes || decision.acts.is_empty());
            if let Some(waiting) = waiting.filter(|waiting| waited.as_ref() != Some(waiting)) {
                let _ = writeln!(log, "{time}    waits for {:?}: {}", waiting.reason, waiting.message);
                waited = Some(waiting);
            }
            self.fleet.status = decision.status;
            if self.fleet.status.phase.is_final() {
                let status = &self.fleet.status;
                let (phase, updated, failed) = (status.phase.as_str(), &status.updated_text, status.failed);
                let _ = writeln!(log, "{time}  end: {phase}, {updated} updated, {failed} failed");
                return log;
            }
            let now = self.fleet.now;
            for node in self.fleet.nodes.values_mut() {
                if self.dice.as_mut().is_none_or(|dice| dice.chance(3)) {
                    node.react(now);
                }
            }
        }
        panic!("no end:\n{log}");
    }

    /// Compares the log with its golden file, also with the nodes in another order.
    fn expect(mut self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.log"));
        let log = self.play();
        if std::env::var_os("KILN_BLESS").is_some() {
            std::fs::write(&path, &log).expect("the golden file is writable");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(log == golden, "{} differs; KILN_BLESS=1 rewrites it:\n{log}", path.display());
    }

    fn shuffled(mut self, seed: u64) -> Self {
        self.dice = Some(Dice::new(seed));
        self
    }
}

/// A canary with approval, then growing waves; reboots only at night in Berlin.
fn careful() -> Policy {
    policy(json!({
        "waves": {"first": {"prefer": ["canary=true"], "soak": "30m", "approve": "Manual"}, "then": {"maxPercent": 50, "soak": "10m"}},
        "budgets": [{"maxUnavailable": 3}, {"effects": ["reboot"], "maxUnavailable": 1}],
        "windows": [{"days": ["Mon-Thu"], "from": "22:00", "to": "05:00", "timeZone": "Europe/Berlin"}],
        "gates": [{"nodeReadyFor": "3m"}],
        "drainTimeout": "15m",
        "failure": {"nodes": 2, "inFirstWave": 1},
    }))
}

fn good() -> Story {
    let mut story =
        Story::new(8, careful()).then(55, "a person approves wave 2", |fleet| fleet.spec.approved_wave = Some(2));
    for name in ["web-02", "web-05", "web-06"] {
        let node = story.fleet.node(name);
        (node.effect, node.shown.expected_effect) = (Effect::Reboot, Some(Effect::Reboot));
    }
    // Its document in force is unknown, so the effect is a surprise.
    story.fleet.node("web-06").shown.expected_effect = None;
    story.fleet.node("web-04").shown.labels.insert("canary".to_owned(), "true".to_owned());
    story
}

fn bad() -> Story {
    let rules = json!({
        "waves": {"first": {"nodes": 1, "soak": "5m"}, "then": {"maxPercent": 50}},
        "budgets": [{"maxUnavailable": 2}],
        "failure": {"nodes": 2, "inFirstWave": 1},
    });
    let mut story = Story::new(9, policy(rules));
    for name in ["web-06", "web-07"] {
        story.fleet.node(name).fails_on = Some(NEW.to_owned());
    }
    story
}

fn eventful() -> Story {
    let mut story =
        Story::new(6, policy(json!({"budgets": [{"maxUnavailable": 2}], "failure": {"nodes": 2, "inFirstWave": 2}})));
    for node in story.fleet.nodes.values_mut() {
        (node.effect, node.shown.expected_effect) = (Effect::Drain, Some(Effect::Drain));
    }
    story.fleet.node("web-02").is_blocked = true;
    story
        .then(4, "the person on call freezes everything", |fleet| {
            let [name, reason] = ["incident", "the shop is down"].map(ToOwned::to_owned);
            fleet.freezes.push(FreezeObserved { name, reason, pools: Vec::new(), until: None });
        })
        .then(12, "the freeze is deleted", |fleet| fleet.freezes.clear())
        .then(30, "node web-03 is deleted", |fleet| drop(fleet.nodes.remove("web-03")))
        .then(33, "a person pauses the rollout", |fleet| fleet.spec.paused = true)
        .then(40, "and resumes it", |fleet| fleet.spec.paused = false)
}

#[test]
fn good_rollout_waits_for_approval_and_the_night() {
    good().expect("good");
}

#[test]
fn good_rollout_with_nodes_at_random_speed() {
    good().shuffled(1).expect("good-shuffled");
}

#[test]
fn bad_document_is_rolled_back_newest_first() {
    bad().expect("bad");
}

#[test]
fn bad_document_with_nodes_at_random_speed() {
    bad().shuffled(2).expect("bad-shuffled");
}

#[test]
fn freeze_blocked_drain_deleted_node_and_pause() {
    eventful().expect("eventful");
}

#[test]
fn eventful_rollout_with_nodes_at_random_speed() {
    eventful().shuffled(3).expect("eventful-shuffled");
}
