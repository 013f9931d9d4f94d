//! How rollouts end: complete, stopped by a bad document, and complete after an outage of the API server.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use control_plane::Component;
use kiln_fleet_api::{Phase, RolloutPhase};
use serde_json::json;

use super::fleet::{Fleet, ZONE};
use super::latency::Latency;
use super::node::Counts;
use super::recording::Recording;

/// The time limit of a trial by the clock of `kilnd watch`, which runs ten times as fast here: 30 s.
const TRIAL_SECONDS: u32 = 300;
/// Longer than a trial may take.
const OUTAGE: Duration = Duration::from_secs(35);

pub(crate) fn good(fleet: &mut Fleet) {
    let target = fleet.documents.restarting();
    fleet.store(&target);
    let before = fleet.counts();
    let recording = {
        let _runtime = fleet.runtime.enter();
        Recording::start(&fleet.client)
    };
    let policy = json!({
        "waves": {"first": {"nodes": 1, "prefer": ["kubernetes.io/hostname=node-2"]}, "then": {"factor": 3, "maxPercent": 100}},
        "budgets": [{"maxUnavailable": 2, "topologyKey": ZONE, "domains": "OneAtATime"}],
    });
    fleet.create(
        "Rollout",
        "good",
        &json!({"pools": ["left", "right"], "target": {"nodeConfig": target.name}, "policy": policy}),
    );
    let mut latency = Latency::default();
    let status = fleet.wait("the rollout ends", |fleet| {
        latency.sample(fleet);
        fleet.rollout("good").filter(|status| status.phase.is_final())
    });
    assert_eq!(
        (status.phase, status.total, status.updated, status.failed),
        (RolloutPhase::Complete, 4, 4, 0),
        "{status:?}"
    );
    let sizes: Vec<i64> = status.waves.iter().map(|wave| wave.size).collect();
    assert_eq!(sizes, [1, 3], "{status:?}");

    let order = recording.order(&target.digest);
    assert_eq!((order.len(), order.first()), (4, Some(&("node-2".to_owned(), 1))), "{order:?}");
    assert!(order[1..].iter().all(|(_, wave)| *wave == 2), "{order:?}");
    for set in recording.in_flight(&target.digest) {
        let zones: BTreeSet<&str> = set.iter().map(|node| fleet.node(node).zone).collect();
        assert!(set.len() <= 2 && zones.len() <= 1, "{set:?} in {zones:?}");
    }
    assert!(recording.cordoned().iter().all(BTreeSet::is_empty), "a restart of the kubelet needs no cordon");
    for name in ["node-1", "node-2", "node-3", "node-4"] {
        fleet.assert_in_force(name, &target);
    }
    let happened: Vec<Counts> = fleet.counts().iter().zip(before).map(|(now, before)| now.since(before)).collect();
    assert_eq!(happened, [Counts { kubelet_starts: 1, boots: 0 }; 4], "one restart of each kubelet");
    fleet.assert_released();
    let memory =
        fleet.node("node-1").machine.shell("grep VmRSS /proc/$(systemctl show --value -p MainPID kiln-watch)/status");
    let (median, longest) = latency.figures();
    eprintln!("kilnd answered within {median} ms (median) and {longest} ms (longest); {}", memory.stdout.trim());
}

pub(crate) fn bad(fleet: &mut Fleet) {
    let (previous, target) = (fleet.rollout("good").expect("the rollout before").digest, fleet.documents.broken());
    fleet.store(&target);
    let (before, pods) = (fleet.counts(), fleet.node_pods());
    let policy = json!({"waves": {"first": {"nodes": 1, "prefer": ["kubernetes.io/hostname=node-1"]}}});
    fleet.create(
        "Rollout",
        "bad",
        &json!({"pools": ["left", "right"], "target": {"nodeConfig": target.name}, "policy": policy}),
    );
    let status = fleet.wait("the rollout ends", |fleet| fleet.rollout("bad").filter(|status| status.phase.is_final()));
    assert_eq!((status.phase, status.updated, status.failed), (RolloutPhase::RolledBack, 0, 1), "{status:?}");
    assert_eq!(status.failed_nodes, ["node-1"], "{status:?}");
    assert_eq!(fleet.rejected("left"), [target.digest.as_str()]);
    assert_eq!(fleet.rejected("right"), [""; 0], "none of its nodes has tried the document");
    // The node reverted by itself, and the operator assigned the document that it returned to.
    assert_eq!(fleet.node("node-1").rejected(), 1);
    let state = fleet.wait("node-1 reports the previous document", |fleet| {
        let state = fleet.state("node-1")?;
        (state.status.as_ref()?.phase == Phase::Current).then_some(state)
    });
    assert_eq!(state.status.expect("a status").current.expect("a document").digest, previous);
    let mut happened = fleet.counts().into_iter().zip(before).map(|(now, before)| now.since(before));
    assert!(happened.next().is_some_and(|first| first.kubelet_starts >= 2 && first.boots == 0), "node-1 tried it");
    assert!(happened.all(|other| other == Counts { kubelet_starts: 0, boots: 0 }), "the others were not touched");
    for name in ["node-2", "node-3", "node-4"] {
        assert!(!fleet.is_assigned(name, "bad"), "{name}");
    }
    assert_eq!(fleet.node_pods(), pods);
    fleet.assert_released();
}

pub(crate) fn outage(fleet: &mut Fleet) {
    let target = fleet.documents.restarting_within(TRIAL_SECONDS);
    fleet.store(&target);
    let (before, rejected) = (fleet.counts(), fleet.rejections());
    let policy = json!({"waves": {"then": {"factor": 3, "maxPercent": 100}}, "budgets": [{"maxUnavailable": 4}]});
    fleet.create(
        "Rollout",
        "outage",
        &json!({"pools": ["left", "right"], "target": {"nodeConfig": target.name}, "policy": policy}),
    );
    // Some nodes of the wave have not reached the API server since the change.
    fleet.wait("a node of the second wave is on trial", |fleet| {
        let on_trial = fleet.states().into_iter().any(|state| {
            let is_second = state.spec.desired.is_some_and(|desired| desired.rollout == "outage" && desired.wave == 2);
            is_second && state.status.is_some_and(|status| status.phase == Phase::OnTrial)
        });
        on_trial.then_some(())
    });
    fleet.plane.kill(Component::ApiServer).expect("killed");
    thread::sleep(OUTAGE);
    assert_eq!(fleet.rejections(), rejected, "no node reverts without an API server");
    fleet.plane.restart(Component::ApiServer).expect("restarted");
    fleet.plane.wait_until_ready().expect("ready");
    let status = fleet.wait_phase("outage", RolloutPhase::Complete);
    assert_eq!((status.updated, status.failed), (4, 0), "{status:?}");
    for name in ["node-1", "node-2", "node-3", "node-4"] {
        fleet.assert_in_force(name, &target);
    }
    assert_eq!(fleet.rejections(), rejected);
    let happened: Vec<Counts> = fleet.counts().iter().zip(before).map(|(now, before)| now.since(before)).collect();
    assert_eq!(happened, [Counts { kubelet_starts: 1, boots: 0 }; 4], "one restart of each kubelet");
    fleet.assert_released();
}
