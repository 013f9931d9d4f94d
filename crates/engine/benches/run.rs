//! Costs of a run: against an instant Azure, for several pools at once, and the donor's absence. Simulated time is virtual, so that only the
//! first figure depends on the machine.

#[path = "../tests/e2e_edges/wire.rs"]
#[expect(dead_code, reason = "the bench counts requests and needs no writes")]
mod wire;
#[path = "../tests/e2e_edges/world.rs"]
#[expect(dead_code, reason = "the bench needs fewer helpers than the tests")]
mod world;

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kiln_engine::{AutoRequest, EventSink, PARALLEL, RunEvent, RunEventKind, auto_update, update};
use kiln_prototype::donor::DonorRules;
use kiln_prototype::journal::Event;
use kiln_prototype::run::RunOptions;
use kiln_prototype::step::Step;
use kiln_sim_azure::Speed;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;
use world::{WorldBuilder, request};

fn main() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    runtime().block_on(instant());
    runtime().block_on(absence());
    let times: Vec<f64> = [1, 2, 4, 8].into_iter().map(|pools| runtime().block_on(pools_at_once(pools))).collect();
    println!("\npools at once   simulated time relative to one pool");
    for (pools, time) in [1, 2, 4, 8].into_iter().zip(&times) {
        println!("{pools:>13}   {:.2}", time / times[0]);
    }
}

/// A first and a second run against an instant Azure, on a pool of 10. The virtual time is what is spent in pauses.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
async fn instant() {
    let builder = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.pool(|pool| pool.capacity = 10);
    let world = builder.start().await;
    println!("runs against an instant Azure   requests to ARM   journal writes   paused (virtual s)   CPU (s)");
    for (number, name) in [(1, "first"), (2, "second")] {
        let began = std::time::Instant::now();
        let cost = world.measure(&request(number)).await;
        let (requests, writes) = (cost.requests.len(), cost.journal_writes);
        let (paused, spent) = (cost.time.as_secs_f64(), began.elapsed().as_secs_f64());
        println!("{name:>29}   {requests:>15}   {writes:>14}   {paused:>18.2}   {spent:>7.2}");
        world.days_later(1).await;
    }
}

/// When the donor was stopped and when it was Ready again.
#[derive(Default)]
struct Away(Mutex<(Option<Instant>, Option<Instant>)>);

impl EventSink for Away {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        let mut times = self.0.lock().expect("one thread");
        match event.kind {
            RunEventKind::Starting { step: Step::PowerOff, .. } => times.0 = Some(Instant::now()),
            RunEventKind::Recorded(Event::Succeeded { step: Step::AwaitReady, .. }) => times.1 = Some(Instant::now()),
            _ => {}
        }
        Box::pin(std::future::ready(()))
    }
}

/// How long the donor is away, relative to the time that Azure and its boot need.
async fn absence() {
    let world = WorldBuilder::new().start().await;
    let away = Arc::new(Away::default());
    Box::pin(update(&world.process(away.clone()), &request(1))).await.expect("a run");
    let (from, until) = *away.0.lock().expect("one thread");
    let away = until.expect("it is Ready").duration_since(from.expect("it was stopped")).as_secs_f64();
    let spec = world.sim.spec();
    let donor = world.machines().into_iter().find(|machine| machine.computer_name == world::node(1).to_string());
    let boot = donor.and_then(|donor| donor.boot).expect("a boot");
    let boot = boot.stages.last().map_or(0.0, |(_, end)| end.duration_since(boot.started).as_secs_f64());
    let parts = spec.profile.power_off + spec.profile.snapshot + spec.profile.start + boot;
    println!("donor away: {away:.0} simulated s, {:.2} x (power off + snapshot + start + boot)", away / parts);
}

/// Simulated seconds that `auto-update` needs for a number of pools.
async fn pools_at_once(pools: usize) -> f64 {
    let mut builder = WorldBuilder::quick();
    for number in 1..pools {
        let mut pool = builder.spec.pools[0].clone();
        pool.name = format!("k8s-other{number}-26100436-vmss");
        builder.spec.pools.push(pool);
    }
    let world = builder.start().await;
    let nodes: Api<Node> = Api::all(Client::new(world.server.service(), "default"));
    for node in nodes.list(&ListParams::default()).await.expect("nodes") {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"patched": "2026-11-14"}}}));
        let name = node.metadata.name.unwrap_or_default();
        nodes.patch(&name, &PatchParams::default(), &patch).await.expect("an annotation");
    }
    let mut rules = DonorRules::new("reboot", "patched");
    rules.minimum_ready = "0".parse().expect("a span");
    let request = AutoRequest {
        pools: Vec::new(),
        rules,
        options: RunOptions { no_original: true, ..RunOptions::default() },
        dry_run: false,
        max_skipped_nights: 14,
        parallel: PARALLEL,
    };
    let began = Instant::now();
    let reports = Box::pin(auto_update(&world.quiet(), &request)).await.expect("runs");
    assert!(reports.len() == pools && reports.iter().all(|report| report.outcome.is_success()), "{reports:#?}");
    began.elapsed().as_secs_f64()
}
