//! A pool of 50 nodes. Azure writes the instance numbers in computer names in upper-case base 36, the kubelet registers them in lower case,
//! so most of its nodes have another spelling than their instances.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kiln_engine::{AutoRequest, PARALLEL, PoolOutcome, RefreshRequest, RunEnd, RunEventKind, auto_update, refresh};
use kiln_prototype::donor::DonorRules;
use kiln_prototype::journal::Outcome;
use kiln_prototype::refresh::Budget;
use kiln_sim_azure::Speed;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::life::Events;
use crate::world::{POOL, WorldBuilder, options, pool_name};

#[tokio::test(start_paused = true)]
async fn nodes_with_letters_in_their_number_become_donors_and_are_drained_before_they_are_replaced() {
    let world = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::large() }.start().await;
    let upper = format!("{POOL}00000B");
    assert!(world.machines().iter().any(|machine| machine.computer_name == upper));
    let nodes: Api<Node> = Api::all(Client::new(world.server.service(), "default"));
    let patched = json!({"metadata": {"annotations": {"patched": "2026-11-14"}}});
    nodes.patch(&upper.to_lowercase(), &PatchParams::default(), &Patch::Merge(patched)).await.unwrap();

    // Only this node is eligible.
    let mut rules = DonorRules::new("reboot", "patched");
    rules.minimum_ready = "0".parse().unwrap();
    let request = AutoRequest {
        pools: Vec::new(),
        rules,
        options: options(),
        dry_run: false,
        max_skipped_nights: 14,
        parallel: PARALLEL,
    };
    let reports = Box::pin(auto_update(&world.quiet(), &request)).await.unwrap();
    let PoolOutcome::Ran(report) = &reports[0].outcome else { panic!("{reports:#?}") };
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    world.state().await.assert_nothing_held();

    // Two nodes are left: one whose number has a letter, and one without.
    let leaving = ["00000b", "000010"].map(|suffix| format!("{POOL}{suffix}"));
    for machine in world.machines() {
        if machine.id.contains(POOL) && !leaving.contains(&machine.node_name()) {
            world.sim.delete_machine(&machine.vm_id).unwrap();
        }
    }
    world.until_ready().await;
    let events = Arc::new(Events::default());
    let request = RefreshRequest {
        pool: Some(pool_name()),
        budget: Budget { surge: 1, max_unavailable: 1, ..Budget::default() },
        grace_seconds: Some(1),
        ..RefreshRequest::default()
    };
    let report = Box::pin(refresh(&world.process(events.clone()), &request)).await.unwrap();
    assert_eq!(report.replaced.len(), 2, "{report:?}");
    for node in &leaving {
        let drained = |kind: &RunEventKind| matches!(kind, RunEventKind::Note(text) if text.starts_with(&format!("draining {node}")));
        events.at(drained);
    }
}
