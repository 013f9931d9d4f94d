//! Cost of one decision for fleets of different size, as a ratio to the smallest one.
//!
//! Linear growth is a ratio of 10 from 500 to 5,000 nodes. The benchmark fails above a ratio that only quadratic growth reaches.

use std::hint::black_box;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kiln_fleet_api::{Current, Desired, Effect, Phase, RolloutPolicySpec, RolloutSpec, RolloutStatus, Target};
use kiln_rollout::{Decision, NodeObserved, Observed, Policy, PoolObserved, ResolvedTarget, Rollout, next};

const SIZES: [usize; 4] = [500, 1_000, 2_500, 5_000];
/// The fastest run counts; slower ones were disturbed by other processes.
const TRIES: usize = 15;
/// From 500 to 5,000 nodes, linear growth is 10 and quadratic growth 100.
const LIMIT: f64 = 30.0;

fn node(number: usize) -> NodeObserved {
    let mut node = NodeObserved {
        name: format!("node-{number:05}"),
        pool: format!("pool-{}", number % 20),
        ready: true,
        observed: true,
        daemon_sets_ready: true,
        expected_effect: Some(if number.is_multiple_of(7) { Effect::Reboot } else { Effect::Restart }),
        ..NodeObserved::default()
    };
    node.labels.insert("zone".to_owned(), format!("zone-{}", number % 3));
    node.desired = Some(Desired { node_config: "old".to_owned(), digest: "old".to_owned(), ..Desired::default() });
    node.status.phase = Phase::Current;
    node.status.current = Some(Current { digest: "old".to_owned(), committed: true, ..Current::default() });
    node
}

fn fleet(size: usize) -> Observed {
    let old = ResolvedTarget { node_config: "old".to_owned(), digest: "old".to_owned() };
    let pool = |number| PoolObserved {
        name: format!("pool-{number}"),
        previous: Some(old.clone()),
        ..PoolObserved::default()
    };
    Observed {
        target: Ok(ResolvedTarget { node_config: "new".to_owned(), digest: "new".to_owned() }),
        pools: (0..20).map(pool).collect(),
        nodes: (0..size).map(node).collect(),
        freezes: Vec::new(),
        older_rollouts: Vec::new(),
        prometheus: Vec::new(),
        past: Vec::new(),
    }
}

/// Half of the fleet is updated, and a wave is under way.
fn advance(observed: &mut Observed, decision: &Decision) {
    let half = observed.nodes.len() / 2;
    for (index, node) in observed.nodes.iter_mut().enumerate().take(half) {
        let desired = Desired {
            node_config: "new".to_owned(),
            digest: "new".to_owned(),
            rollout: "r".to_owned(),
            wave: 1,
            since: "2026-03-02T12:00:00Z".to_owned(),
        };
        node.desired = Some(desired);
        node.status.current = Some(Current { digest: "new".to_owned(), committed: true, ..Current::default() });
        node.observed = index % 50 != 0 || decision.status.in_flight.is_empty();
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn fastest(mut work: impl FnMut()) -> Duration {
    let times = (0..TRIES).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed()
    });
    times.min().unwrap_or_default()
}

fn main() {
    let spec: RolloutPolicySpec = serde_json::from_value(serde_json::json!({
        "waves": {"first": {"nodes": 4}},
        "budgets": [{"maxUnavailable": "10%"}, {"maxUnavailable": "5%", "topologyKey": "zone"}, {"maxUnavailable": 3, "effects": ["reboot"]}],
        "windows": [{"from": "22:00", "to": "05:00", "timeZone": "Europe/Berlin"}],
    }))
    .expect("a policy");
    let policy = Policy::parse(&spec).expect("a valid policy");
    let spec = RolloutSpec {
        pools: (0..20).map(|number| format!("pool-{number}")).collect(),
        target: Target::document("new", None),
        ..RolloutSpec::default()
    };
    let now: Timestamp = "2026-03-02T12:30:00Z".parse().expect("a time");
    let decide = |status: &RolloutStatus, observed: &Observed| {
        next(&Rollout { name: "r", generation: Some(1), spec: &spec, status, policy: &policy }, observed, now)
    };
    println!("nodes   first decision   ratio   later decision   ratio");
    let mut base: Option<[f64; 2]> = None;
    for size in SIZES {
        let mut observed = fleet(size);
        let first = fastest(|| drop(black_box(decide(&RolloutStatus::default(), &observed))));
        let decision = decide(&RolloutStatus::default(), &observed);
        assert!(!decision.acts.is_empty(), "the fleet starts");
        advance(&mut observed, &decision);
        let later = fastest(|| drop(black_box(decide(&decision.status, &observed))));
        let times = [first, later].map(|time| time.as_secs_f64());
        let base = *base.get_or_insert(times);
        let ratios = [times[0] / base[0], times[1] / base[1]];
        println!(
            "{size:>5} {:>13.2} ms {:>7.1} {:>13.2} ms {:>7.1}",
            times[0] * 1e3,
            ratios[0],
            times[1] * 1e3,
            ratios[1]
        );
        assert!(ratios.iter().all(|ratio| *ratio < LIMIT), "the cost grows faster than the fleet");
    }
}
