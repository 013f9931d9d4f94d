//! Rollouts with an image version and random events from many seeds, with an independent check of every act.
//!
//! `KILN_SEED=4711 cargo test -p kiln-rollout --test fleet one_pool -- --nocapture` repeats one and prints its acts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use kiln_fleet_api::{OnFailure, RolloutPhase, WaitReason};
use kiln_rollout::{Act, DrainState, FreezeObserved};
use serde_json::json;

use crate::dice::Dice;
use crate::machines::Machines;
use crate::model::{NEW, policy, text};

#[cfg(not(feature = "tier2"))]
const SEEDS: u64 = 100;
#[cfg(feature = "tier2")]
const SEEDS: u64 = 1_000;
const EVENTS: usize = 250;
const STEPS_TO_END: usize = 1_000;

struct World {
    pool: Machines,
    limit: usize,
    hours: Option<(i8, i8)>,
    failures: usize,
    failed: BTreeSet<String>,
    dice: Dice,
    log: Vec<String>,
    acts: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let (size, limit, failures) = (3 + dice.place(8), 1 + dice.place(3), 1 + dice.place(3));
        let hours = dice.chance(2).then(|| [(22, 5), (8, 18), (0, 1)][dice.place(3)]);
        let windows: Vec<_> = hours
            .iter()
            .map(|(from, to)| json!({"from": format!("{from:02}:00"), "to": format!("{to:02}:00")}))
            .collect();
        let approve = if dice.chance(4) { "Manual" } else { "Automatic" };
        let mut pool = Machines::new(
            size,
            policy(json!({
                "waves": {"first": {"nodes": 1 + dice.below(3), "soak": "5m", "approve": approve}, "then": {"maxPercent": 50}},
                "budgets": [{"maxUnavailable": limit}],
                "windows": windows,
                "failure": {"nodes": failures, "inFirstWave": failures},
                "drainTimeout": "20m",
                "nodeTimeout": "60m",
            })),
        );
        if dice.chance(3) {
            pool.spec.on_failure = OnFailure::Halt;
        }
        pool.is_bad = dice.chance(3);
        let failed = BTreeSet::new();
        Self { pool, limit, hours, failures, failed, dice, log: Vec::new(), acts: 0 }
    }

    /// Something happens that is not the operator's doing.
    fn event(&mut self) {
        let names: Vec<String> = self.pool.all.keys().cloned().collect();
        let name = names[self.dice.place(names.len())].clone();
        match self.dice.below(100) {
            0..60 => self.pool.react_one(&name),
            60..63 => self.pool.set_ready(&name, false),
            63..68 if self.pool.machine(&name).boots == 0 => self.pool.set_ready(&name, true),
            68 if !self.pool.machine(&name).shown.held => self.pool.machine(&name).shown.cordoned ^= true,
            69..71 => self.pool.machine(&name).is_blocked ^= true,
            71 => self.pool.spec.paused ^= true,
            72 if self.pool.freezes.pop().is_none() => self.pool.freezes.push(FreezeObserved {
                name: "incident".to_owned(),
                reason: "shop is down".to_owned(),
                ..FreezeObserved::default()
            }),
            73..76 => self.pool.spec.approved_wave = Some(9),
            76 if self.dice.chance(20) => self.pool.spec.aborted = true,
            77 if self.dice.chance(4) => self.pool.pass(-30),
            77..80 => self.pool.pass(300),
            _ => {
                let minutes = i64::try_from(self.dice.below(12)).expect("a small number");
                self.pool.pass(minutes);
            }
        }
    }

    /// One life of the operator: it observes, decides, writes the status and does some of the acts. Then it may die.
    fn operate(&mut self, is_careful: bool) {
        let knows_capacity = is_careful || !self.dice.chance(5);
        let observed = self.pool.observe(knows_capacity);
        let decision = self.pool.decide(&observed);
        let again = Machines { status: decision.status.clone(), ..self.pool.clone() }.decide(&observed);
        let log = || self.log.join("\n");
        if !decision.status.phase.is_final() {
            assert!(
                again.acts.iter().all(|act| decision.acts.contains(act) || !is_new_work(&self.pool, act)),
                "{:?} after {:?}\n{}",
                again.acts,
                decision.acts,
                log()
            );
            let is_repeated = again.notices.iter().any(|notice| decision.notices.contains(notice));
            assert!(!is_repeated, "{:?}\n{}", again.notices, log());
        }
        let mut acts: Vec<&Act> = decision.acts.iter().collect();
        if !is_careful && self.dice.chance(8) {
            acts.truncate(self.dice.place(acts.len() + 1));
        }
        self.failed.extend(decision.status.failed_nodes.iter().cloned());
        let is_over = decision.status.phase == RolloutPhase::RollingBack;
        let mut wrong = Vec::new();
        let mut after = self.pool.clone();
        for act in &acts {
            wrong.extend(self.check(&after, act, is_over).map(|what| format!("{what}: {}", text(act))));
            after.perform(act);
        }
        let moves = decision.acts.iter().any(|act| is_new_work(&self.pool, act));
        let answer = decision.status.waiting_for.as_ref().is_some_and(|waiting| !waiting.message.is_empty());
        if !decision.status.phase.is_final() && !moves && !answer {
            wrong.push("waits without a reason".to_owned());
        }
        let time = self.pool.now.to_string();
        self.log.extend(acts.iter().map(|act| format!("{time} {}", text(act))));
        self.acts += acts.len();
        assert!(
            wrong.is_empty(),
            "{wrong:?}\nlimit {} hours {:?} failures {}\n{}",
            self.limit,
            self.hours,
            self.failures,
            self.log.join("\n")
        );
        self.pool = Machines { status: decision.status, ..after };
    }

    /// Checks an act with the true state of the pool.
    fn check(&self, pool: &Machines, act: &Act, is_returning: bool) -> Option<String> {
        let is_stopped = pool.spec.paused || !pool.freezes.is_empty();
        match act {
            Act::Drain { node } => {
                let machine = pool.all.get(node)?;
                if machine.shown.held {
                    return None;
                }
                if is_stopped || pool.spec.aborted {
                    return Some("drains although it is paused, frozen or aborted".to_owned());
                }
                if !is_returning && self.failed.len() >= self.failures {
                    return Some(format!("continues after {} failures", self.failed.len()));
                }
                if let Some((from, to)) = self.hours {
                    let hour = TimeZone::UTC.to_datetime(pool.now).hour();
                    let is_open = if from < to { (from..to).contains(&hour) } else { hour >= from || hour < to };
                    if !is_open {
                        return Some("drains outside the window".to_owned());
                    }
                }
                if (machine.version == NEW) != is_returning {
                    return Some("drains a machine of the right version".to_owned());
                }
                if !machine.shown.is_available() {
                    return None;
                }
                let unavailable = pool.nodes().filter(|machine| !machine.shown.is_available()).count();
                if unavailable + 1 > self.limit {
                    return Some(format!("{} nodes unavailable, limit {}", unavailable + 1, self.limit));
                }
                // Each drained node has a new machine that is available.
                let right = |version: &str| (version == NEW) != is_returning;
                let new = pool.nodes().filter(|one| right(&one.version) && one.shown.is_available()).count();
                let wrong = pool.nodes().filter(|one| !right(&one.version) && !one.shown.held).count();
                let wanted = usize::try_from(pool.status.sizes["web"].wanted).expect("a size");
                (new + wrong < wanted + 1).then(|| format!("leaves {} of {wanted} machines", new + wrong - 1))
            }
            Act::Remove { node } => {
                let machine = pool.all.get(node)?;
                let is_drained = machine.shown.held && machine.shown.drain == DrainState::Done;
                (!is_drained).then(|| "removes a machine that is not drained".to_owned())
            }
            Act::Grow { to, .. } => {
                let in_flight = i64::try_from(self.limit).expect("a limit");
                let failed = pool.nodes().filter(|one| one.version == NEW && self.failed.contains(&one.shown.name));
                let failed = i64::try_from(failed.count()).expect("a count");
                let wanted = pool.status.sizes.get("web").map_or(pool.capacity, |size| size.wanted);
                let largest = wanted + in_flight + failed;
                (*to > largest).then(|| format!("grows beyond {largest}"))
            }
            _ => None,
        }
    }

    /// Repairs everything, as people would, and waits for the end.
    fn end(&mut self) {
        self.pool.freezes.clear();
        (self.pool.spec.paused, self.pool.spec.approved_wave) = (false, Some(99));
        let names: Vec<String> = self.pool.all.keys().cloned().collect();
        for name in &names {
            let machine = self.pool.machine(name);
            machine.is_blocked = false;
            machine.shown.cordoned &= machine.shown.held;
            if machine.boots == 0 {
                self.pool.set_ready(name, true);
            }
        }
        for step in 0..STEPS_TO_END {
            // A machine that is not Ready uses up the budget until a person repairs it.
            self.pool.is_bad &= step < STEPS_TO_END / 4;
            self.operate(true);
            if self.pool.status.phase.is_final() {
                break;
            }
            self.pool.react();
            self.pool.pass(5);
            let waiting = self.pool.status.waiting_for.as_ref();
            let opens = waiting.filter(|waiting| waiting.reason == WaitReason::Window);
            if let Some(until) = opens.and_then(|waiting| waiting.until.as_ref()) {
                self.pool.now = until.parse().expect("a time");
            }
        }
        self.operate(true);
        (0..3).for_each(|_| self.pool.react());
        let phase = self.pool.status.phase;
        let mut wrong: Vec<String> = self.pool.held().iter().map(|name| format!("{name} is held")).collect();
        let (new, old) = (self.pool.count(NEW), self.pool.nodes().count() - self.pool.count(NEW));
        match phase {
            RolloutPhase::Complete if old > self.pool.status.failed_nodes.len() => {
                wrong.push("old nodes are left".to_owned());
            }
            RolloutPhase::RolledBack if new > 0 => wrong.push("new nodes are left".to_owned()),
            RolloutPhase::RolledBack | RolloutPhase::Halted | RolloutPhase::Complete | RolloutPhase::Aborted => {}
            _ => wrong.push("has not ended".to_owned()),
        }
        let is_judged = matches!(phase, RolloutPhase::RolledBack) != self.pool.rejected.is_empty();
        if !is_judged && !matches!(phase, RolloutPhase::Halted | RolloutPhase::Aborted) {
            wrong.push("the version is rejected without a reason, or not rejected".to_owned());
        }
        let status = serde_json::to_string_pretty(&self.pool.status).expect("JSON");
        assert!(wrong.is_empty(), "{wrong:?}\n{}\n{status}", self.log.join("\n"));
    }
}

/// Whether an act begins something that is not begun.
fn is_new_work(pool: &Machines, act: &Act) -> bool {
    match act {
        Act::Drain { node } => pool.all.get(node).is_some_and(|machine| !machine.shown.held),
        Act::Grow { .. } => true,
        _ => false,
    }
}

fn play(seed: u64) -> (Vec<RolloutPhase>, usize, Vec<String>) {
    let (mut ends, mut acts, mut log) = (Vec::new(), 0, Vec::new());
    let mut finish = |mut world: World| {
        world.end();
        ends.push(world.pool.status.phase);
        acts += world.acts;
        log.append(&mut world.log);
    };
    let mut world = World::new(seed * 1_000);
    for number in 1..=EVENTS as u64 {
        world.event();
        world.operate(false);
        if world.pool.status.phase.is_final() {
            finish(std::mem::replace(&mut world, World::new(seed * 1_000 + number)));
        }
    }
    finish(world);
    (ends, acts, log)
}

#[test]
fn no_interleaving_of_events_exceeds_a_budget_or_removes_a_node_without_a_new_one() {
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut acts, mut broken) = (0, Vec::new());
    for seed in 0..SEEDS {
        let Ok((phases, count, _)) = std::panic::catch_unwind(|| play(seed)) else {
            broken.push(seed);
            assert!(broken.len() < 5, "seeds {broken:?} and perhaps others failed: KILN_SEED={seed} runs one alone");
            continue;
        };
        for phase in phases {
            *ends.entry(phase.as_str()).or_default() += 1;
        }
        acts += count;
    }
    assert!(broken.is_empty(), "seeds {broken:?} failed: KILN_SEED runs one alone");
    println!("{acts} acts in rollouts that ended as {ends:?}");
    for phase in [RolloutPhase::Complete, RolloutPhase::Halted, RolloutPhase::RolledBack, RolloutPhase::Aborted] {
        assert!(ends.get(phase.as_str()).is_some_and(|count| *count >= 3), "{ends:?}");
    }
    assert!(acts > 1_000, "only {acts} acts");
}

#[test]
fn one_pool_is_reproducible() {
    let seed = std::env::var("KILN_SEED").ok().map_or(17, |text| text.parse().expect("KILN_SEED is a number"));
    let (_, _, log) = play(seed);
    assert_eq!(log, play(seed).2);
    for line in &log {
        println!("{line}");
    }
}
