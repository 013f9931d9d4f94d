//! Rollouts with random events from many seeds.
//!
//! `KILN_SEED=4711 cargo test -p kiln-rollout --test fleet one_seed -- --nocapture` repeats one and prints its acts.

use std::collections::BTreeMap;

use kiln_fleet_api::{Effect, OnFailure, RolloutPhase, WaitReason};
use kiln_rollout::{Act, Decision, FreezeObserved, NodeObserved, PastTurn};
use serde_json::json;

use crate::dice::Dice;
use crate::model::{Fleet, NEW, policy, text};
use crate::oracle::{self, Rules, Seen};

#[cfg(not(feature = "tier2"))]
const SEEDS: u64 = 400;
#[cfg(feature = "tier2")]
const SEEDS: u64 = 4_000;
/// Random events per seed: 100,000 in all.
const EVENTS: usize = 250;
/// Afterwards, nodes and people are well-behaved, and the rollout has to end within this many steps.
const STEPS_TO_END: usize = 2_000;

struct World {
    fleet: Fleet,
    rules: Rules,
    seen: Seen,
    dice: Dice,
    /// Copies of nodes that the operator's cache still has, with their versions.
    cache: BTreeMap<String, (u64, NodeObserved)>,
    log: Vec<String>,
    acts: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let size = 4 + dice.place(10);
        let limit = 1 + dice.place(3);
        let (per_zone, one_zone) = (dice.chance(3), dice.chance(4));
        let reboots = dice.chance(2).then_some(1);
        let hours = dice.chance(2).then(|| *[(22, 5), (8, 18), (0, 1)].get(dice.place(3)).unwrap_or(&(0, 1)));
        let failures = 1 + dice.place(3);
        let rules = Rules { limit, per_zone, one_zone, reboots, hours, failures };
        let mut budget = json!({"maxUnavailable": limit});
        if per_zone || one_zone {
            budget["topologyKey"] = json!("zone");
            budget["domains"] = json!(if one_zone { "OneAtATime" } else { "All" });
        }
        let mut budgets = vec![budget];
        budgets.extend(reboots.map(|limit| json!({"maxUnavailable": limit, "effects": ["reboot"]})));
        if one_zone && !per_zone {
            // The limit of the check is for all zones.
            budgets.push(json!({"maxUnavailable": limit}));
        }
        let windows: Vec<_> = hours
            .iter()
            .map(|(from, to)| json!({"from": format!("{from:02}:00"), "to": format!("{to:02}:00")}))
            .collect();
        let approve = if dice.chance(4) { "Manual" } else { "Automatic" };
        let mut fleet = Fleet::new(
            size,
            policy(json!({
                "waves": {"first": {"nodes": 1 + dice.below(3), "soak": "5m", "approve": approve}, "then": {"maxPercent": 50}},
                "budgets": budgets,
                "windows": windows,
                "failure": {"nodes": failures, "inFirstWave": failures},
                "drainTimeout": "20m",
                "nodeTimeout": "40m",
            })),
        );
        if dice.chance(3) {
            fleet.spec.on_failure = OnFailure::Halt;
        }
        if dice.chance(5) {
            fleet.pools[0].previous = None;
        }
        fleet.past = vec![PastTurn { effect: Effect::Reboot, took: jiff::SignedDuration::from_mins(8) }];
        let has_bad_document = dice.chance(2);
        for node in fleet.nodes.values_mut() {
            node.effect = [Effect::Restart, Effect::Reload, Effect::Drain, Effect::Reboot][dice.place(4)];
            node.shown.expected_effect = (!dice.chance(3)).then_some(node.effect);
            node.fails_on = (has_bad_document && dice.chance(3)).then(|| NEW.to_owned());
        }
        Self { fleet, rules, seen: Seen::default(), dice, cache: BTreeMap::new(), log: Vec::new(), acts: 0 }
    }

    fn any_node(&mut self) -> Option<String> {
        let index = self.dice.place(self.fleet.nodes.len());
        self.fleet.nodes.keys().nth(index).cloned()
    }

    /// Something happens that is not the operator's doing.
    fn event(&mut self) {
        match self.dice.below(100) {
            number @ 0..74 => self.node_event(number),
            74 if self.fleet.nodes.len() < 16 => {
                let number = 20 + self.dice.place(60);
                self.fleet.add(number);
                self.cache.remove(&format!("web-{number}"));
            }
            75 => self.fleet.spec.paused ^= true,
            76 => self.freeze(),
            77..80 => self.fleet.spec.approved_wave = Some(9),
            80 if self.dice.chance(20) => self.fleet.spec.aborted = true,
            81 if self.dice.chance(4) => {
                let minutes = self.minutes(90);
                self.fleet.pass(-minutes);
            }
            81..84 => self.fleet.pass(300),
            _ => {
                let minutes = self.minutes(12);
                self.fleet.pass(minutes);
            }
        }
    }

    fn node_event(&mut self, number: u64) {
        let Some(name) = self.any_node() else { return };
        let now = self.fleet.now;
        let node = self.fleet.node(&name);
        match number {
            0..55 => node.react(now),
            55..60 => node.set_ready(now, false),
            60..68 => node.set_ready(now, true),
            68..70 if !node.shown.held => {
                node.shown.cordoned ^= true;
                node.version += 1;
            }
            70..72 => node.is_blocked ^= true,
            72 => node.is_mute ^= true,
            73 => {
                self.fleet.nodes.remove(&name);
                self.cache.remove(&name);
            }
            _ => {}
        }
    }

    fn minutes(&mut self, limit: u64) -> i64 {
        i64::try_from(self.dice.below(limit)).expect("a small number")
    }

    fn freeze(&mut self) {
        if self.fleet.freezes.pop().is_none() {
            let until = self.dice.chance(2).then(|| self.fleet.now + jiff::SignedDuration::from_mins(30));
            self.fleet.freezes.push(FreezeObserved {
                name: "incident".to_owned(),
                reason: "shop is down".to_owned(),
                pools: Vec::new(),
                until,
            });
        }
    }

    /// Nodes as the operator's cache shows them: some copies are old.
    fn cached(&mut self, one_in: u64) -> Vec<NodeObserved> {
        for (name, node) in &self.fleet.nodes {
            if !self.cache.contains_key(name) || !self.dice.chance(one_in) {
                self.cache.insert(name.clone(), (node.version, node.shown.clone()));
            }
        }
        self.fleet.nodes.keys().map(|name| self.cache[name].1.clone()).collect()
    }

    /// One life of the operator: it observes, decides, writes the status and does some of the acts. Then it may die.
    fn operate(&mut self, is_careful: bool) {
        let one_in = if is_careful { u64::MAX } else { 6 };
        let nodes = self.cached(one_in);
        let observed = self.fleet.observe_nodes(nodes);
        let decision = self.fleet.decide(&observed);
        self.repeat(&observed, &decision);
        // Writes to an object that has changed since it was read fail.
        let is_current = |act: &&Act| match act {
            Act::Release { .. } | Act::CompletePool { .. } | Act::RejectDigest { .. } => true,
            _ => act.node().is_some_and(|name| self.cache[name].0 == self.fleet.nodes[name].version),
        };
        let mut effective: Vec<&Act> = decision.acts.iter().filter(is_current).collect();
        if !is_careful && self.dice.chance(8) {
            effective.truncate(self.dice.place(effective.len() + 1));
        }
        let wrong = oracle::check(&self.fleet, &self.rules, &mut self.seen, &observed, &decision, &effective);
        let time = self.fleet.now.to_string();
        self.log.extend(effective.iter().map(|act| format!("{time} {}", text(act))));
        self.acts += effective.len();
        assert!(wrong.is_empty(), "{wrong:?}\n{:?}\n{}", self.rules, self.log.join("\n"));
        self.fleet.status = decision.status;
        for act in effective {
            self.fleet.perform(act);
        }
    }

    /// The same observation with the new status gives no other acts.
    fn repeat(&mut self, observed: &kiln_rollout::Observed, decision: &Decision) {
        if decision.status.phase.is_final() || !self.dice.chance(4) {
            return;
        }
        let again = Fleet { status: decision.status.clone(), ..self.fleet.clone() }.decide(observed);
        let log = self.log.join("\n");
        if again.acts == decision.acts {
            assert_eq!(again.status, decision.status, "{log}");
        } else {
            // Two nodes that fit one after the other do not always fit in the opposite order.
            let is_repeated = |act: &Act| decision.acts.contains(act);
            assert!(again.acts.iter().all(is_repeated), "{:?} after {:?}\n{log}", again.acts, decision.acts);
            let intents = |decision: &Decision| (decision.status.in_flight.clone(), decision.status.held.clone());
            assert_eq!(intents(&again), intents(decision), "{log}");
        }
        assert!(again.notices.is_empty(), "{:?}\n{log}", again.notices);
    }

    /// Repairs everything, as people would, and waits for the end.
    fn end(&mut self) {
        let now = self.fleet.now;
        self.fleet.freezes.clear();
        (self.fleet.spec.paused, self.fleet.spec.approved_wave) = (false, Some(99));
        for node in self.fleet.nodes.values_mut() {
            (node.is_blocked, node.is_mute) = (false, false);
            node.shown.cordoned &= node.shown.held;
            node.set_ready(now, true);
        }
        for _ in 0..STEPS_TO_END {
            self.operate(true);
            if self.fleet.status.phase.is_final() {
                break;
            }
            self.fleet.react();
            self.fleet.pass(5);
            // Nothing happens until the window opens.
            let waiting = self.fleet.status.waiting_for.as_ref();
            let opens = waiting.filter(|waiting| waiting.reason == WaitReason::Window);
            if let Some(until) = opens.and_then(|waiting| waiting.until.as_ref()) {
                self.fleet.now = until.parse().expect("a time");
            }
        }
        self.operate(true);
        let wrong = oracle::check_end(&self.fleet);
        let status = serde_json::to_string_pretty(&self.fleet.status).expect("JSON");
        let is_final = self.fleet.status.phase.is_final();
        assert!(is_final && wrong.is_empty(), "{wrong:?}\n{:?}\n{}\n{status}", self.rules, self.log.join("\n"));
    }
}

/// The rollouts of one seed: when one ends, the next begins with another fleet.
struct Played {
    ends: Vec<RolloutPhase>,
    log: Vec<String>,
    acts: usize,
}

fn play(seed: u64) -> Played {
    let mut played = Played { ends: Vec::new(), log: Vec::new(), acts: 0 };
    let mut finish = |mut world: World| {
        world.end();
        played.ends.push(world.fleet.status.phase);
        played.acts += world.acts;
        played.log.append(&mut world.log);
    };
    let mut world = World::new(seed * 1_000);
    for number in 1..=EVENTS as u64 {
        world.event();
        world.operate(false);
        if world.fleet.status.phase.is_final() {
            finish(std::mem::replace(&mut world, World::new(seed * 1_000 + number)));
        }
    }
    finish(world);
    played
}

#[test]
fn no_interleaving_of_events_breaks_a_rule_or_leaves_a_hold() {
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut acts, mut broken) = (0, Vec::new());
    for seed in 0..SEEDS {
        let Ok(played) = std::panic::catch_unwind(|| play(seed)) else {
            broken.push(seed);
            assert!(broken.len() < 5, "seeds {broken:?} and perhaps others failed: KILN_SEED={seed} runs one alone");
            continue;
        };
        for phase in played.ends {
            *ends.entry(phase.as_str()).or_default() += 1;
        }
        acts += played.acts;
    }
    assert!(broken.is_empty(), "seeds {broken:?} failed: KILN_SEED runs one alone");
    println!("{acts} acts in rollouts that ended as {ends:?}");
    // The test is only meaningful if all outcomes occur.
    let enough = u32::try_from(SEEDS / 40).expect("a small number");
    let all = [RolloutPhase::Complete, RolloutPhase::Halted, RolloutPhase::RolledBack, RolloutPhase::Aborted];
    for phase in all.map(RolloutPhase::as_str) {
        assert!(ends.get(phase).is_some_and(|count| *count >= enough), "{ends:?}");
    }
    assert!(acts > 20 * EVENTS, "only {acts} acts");
}

#[test]
fn one_seed_is_reproducible() {
    let seed = std::env::var("KILN_SEED").ok().map_or(4_711, |text| text.parse().expect("KILN_SEED is a number"));
    let played = play(seed);
    assert_eq!(played.log, play(seed).log);
    played.log.iter().for_each(|line| println!("{line}"));
}
