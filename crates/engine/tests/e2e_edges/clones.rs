//! New nodes while a run goes on, and long after it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use kiln_engine::{EventSink, RunEnd, RunEvent, RunEventKind, update};
use kiln_node_plan::{IDENTITY, Treatment};
use kiln_prototype::journal::{Event, Outcome};
use kiln_prototype::step::Step;
use kiln_sim_azure::{ContentsSpec, MachineView, Sim, Speed};
use kiln_types::JoinCredential;

use crate::world::{Made, POOL, World, node, request};

/// An autoscaler that adds a node at every boundary between two steps, and remembers which versions were proven by then.
struct Autoscaler {
    sim: Sim,
    /// Each new node's name, and whether a canary had proven the version of the run when it was made.
    made: Mutex<Vec<(String, bool)>>,
    proven: Mutex<bool>,
}

impl EventSink for Autoscaler {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        if let RunEventKind::Recorded(Event::Succeeded { step, .. }) = &event.kind {
            if *step == Step::AwaitCanary {
                *self.proven.lock().unwrap() = true;
            }
            let known: BTreeSet<String> = names(&self.sim);
            // While Azure works on the set it takes no other change; an autoscaler comes again.
            if self.sim.scale(POOL, u32::try_from(known.len()).unwrap() + 1).is_ok() {
                let proven = *self.proven.lock().unwrap();
                self.made
                    .lock()
                    .unwrap()
                    .extend(names(&self.sim).difference(&known).map(|name| (name.clone(), proven)));
            }
        }
        Box::pin(std::future::ready(()))
    }
}

fn names(sim: &Sim) -> BTreeSet<String> {
    let of_pool = |machine: &MachineView| machine.computer_name.starts_with(POOL);
    sim.machines().into_iter().filter(of_pool).map(|machine| machine.computer_name).collect()
}

async fn scaled_out(world: &World, donor: u32, version: &str) {
    let autoscaler = Arc::new(Autoscaler { sim: world.sim.clone(), made: Mutex::default(), proven: Mutex::new(false) });
    let report = Box::pin(update(&world.process(autoscaler.clone()), &request(donor))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    world.until_ready().await;
    let made = autoscaler.made.lock().unwrap().clone();
    assert!(made.len() > 15 && made.iter().any(|(_, proven)| *proven), "{made:?}");
    let machines = world.machines();
    let mut clones = 0;
    for (name, proven) in &made {
        let machine = machines.iter().find(|machine| machine.computer_name == *name).unwrap();
        let image = machine.image.as_deref().unwrap_or_default();
        if image.ends_with(version) {
            assert!(proven, "{name} was made from {image} before a canary had proven it");
            clones += 1;
        }
        assert_eq!(machine.cannot_join, None, "{name} of {image}");
    }
    assert!(clones > 0, "nobody got the new version: {made:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_scales_out_at_any_step_gets_an_old_or_a_proven_image_and_every_node_joins() {
    let world = Made { speed: Speed::Instant, ..Made::new() }.start().await;
    scaled_out(&world, 1, "/2026.11.15").await;
    world.days_later(1).await;
    scaled_out(&world, 2, "/2026.11.16").await;
}

fn machine(world: &World, number: u32) -> MachineView {
    let name = node(number).to_string();
    world.machines().into_iter().find(|machine| machine.computer_name == name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn clones_and_clones_of_clones_differ_in_every_identity_and_join_a_month_later() {
    let token: JoinCredential = serde_json::from_value(serde_json::json!({
        "kind": "bootstrapToken", "tokenId": "abcdef", "renewedBy": "the cluster's token controller"
    }))
    .unwrap();
    let made = Made { speed: Speed::Instant, ..Made::new() }.pool(|pool| {
        pool.contents = ContentsSpec { join_credential: Some(token), ..ContentsSpec::default() };
    });
    let world = made.start().await;
    let untouched = machine(&world, 1).contents.identity.clone();
    let report = Box::pin(update(&world.quiet(), &request(1))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    assert_eq!(machine(&world, 1).contents.identity, untouched, "the donor keeps its identity");

    world.sim.revoke_token("abcdef".parse().unwrap()).unwrap();
    world.days_later(30).await;
    world.sim.scale(POOL, 5).unwrap();
    world.until_ready().await;
    // Numbers 3 and 4 are clones; a clone of number 3 comes next.
    let report = Box::pin(update(&world.quiet(), &request(3))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    world.sim.scale(POOL, 6).unwrap();
    world.until_ready().await;

    let family = [1, 3, 4, 5].map(|number| machine(&world, number));
    assert!(family[3].image.as_deref().unwrap().ends_with("/2026.12.15"), "{:?}", family[3].image);
    let mut compared = 0;
    for item in IDENTITY.iter().filter(|item| item.treatment == Treatment::Reset) {
        let values: Vec<_> = family.iter().filter_map(|one| one.contents.identity.get(item.name)).collect();
        let distinct: BTreeSet<_> = values.iter().collect();
        assert_eq!(distinct.len(), values.len(), "{}: {values:?}", item.name);
        compared += usize::from(values.len() == family.len());
    }
    assert!(compared > 3, "only {compared} items are on all disks");
    let hosts: BTreeSet<_> = family.iter().map(|one| one.host_name().to_owned()).collect();
    assert_eq!(hosts.len(), 4, "{hosts:?}");
    world.state().await.assert_nothing_held();
}
