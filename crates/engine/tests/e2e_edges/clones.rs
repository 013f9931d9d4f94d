//! New nodes during a run and long after it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kiln_engine::{EventSink, RunEnd, RunEvent, RunEventKind, update};
use kiln_node_plan::{IDENTITY, Treatment};
use kiln_prototype::journal::{Event, Outcome};
use kiln_prototype::step::Step;
use kiln_sim_azure::{ContentsSpec, MachineView, Sim, Speed};
use kiln_types::JoinCredential;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::world::{POOL, World, WorldBuilder, node, request};

/// An autoscaler that adds a node after every step, and records whether the version was tested by then.
struct Autoscaler {
    sim: Sim,
    /// The name of each new node, and whether the run's version had been tested when it was created.
    created: Mutex<Vec<(String, bool)>>,
    tested: Mutex<bool>,
}

impl EventSink for Autoscaler {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        if let RunEventKind::Recorded(Event::Succeeded { step, .. }) = &event.kind {
            if *step == Step::AwaitCanary {
                *self.tested.lock().unwrap() = true;
            }
            let known: BTreeSet<String> = names(&self.sim);
            // Azure rejects the change while another operation is running on the scale set.
            if self.sim.scale(POOL, u32::try_from(known.len()).unwrap() + 1).is_ok() {
                let tested = *self.tested.lock().unwrap();
                self.created
                    .lock()
                    .unwrap()
                    .extend(names(&self.sim).difference(&known).map(|name| (name.clone(), tested)));
            }
        }
        Box::pin(std::future::ready(()))
    }
}

fn names(sim: &Sim) -> BTreeSet<String> {
    let of_pool = |machine: &MachineView| machine.computer_name.starts_with(POOL);
    sim.machines().into_iter().filter(of_pool).map(|machine| machine.computer_name).collect()
}

/// Runs while the pool grows after every step, and asserts that all new nodes join.
async fn assert_new_nodes_join(world: &World, donor: u32, version: &str) {
    let autoscaler =
        Arc::new(Autoscaler { sim: world.sim.clone(), created: Mutex::default(), tested: Mutex::new(false) });
    let report = Box::pin(update(&world.process(autoscaler.clone()), &request(donor))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    world.until_ready().await;
    let created = autoscaler.created.lock().unwrap().clone();
    assert!(created.len() > 15 && created.iter().any(|(_, tested)| *tested), "{created:?}");
    let machines = world.machines();
    let mut clones = 0;
    for (name, tested) in &created {
        let machine = machines.iter().find(|machine| machine.computer_name == *name).unwrap();
        let image = machine.image.as_deref().unwrap_or_default();
        if image.ends_with(version) {
            assert!(tested, "{name} was created from {image} before a canary had tested it");
            clones += 1;
        }
        assert_eq!(machine.cannot_join, None, "{name} of {image}");
    }
    assert!(clones > 0, "no node got the new version: {created:?}");
}

#[tokio::test(start_paused = true)]
async fn nodes_created_at_any_step_have_an_old_or_a_tested_image_and_join() {
    let world = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.start().await;
    assert_new_nodes_join(&world, 1, "/2026.11.15").await;
    world.days_later(1).await;
    assert_new_nodes_join(&world, 2, "/2026.11.16").await;
}

fn machine(world: &World, number: u32) -> MachineView {
    let name = node(number).to_string();
    world.machines().into_iter().find(|machine| machine.computer_name == name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn clones_and_clones_of_clones_have_different_identities_and_join_a_month_later() {
    let token: JoinCredential = serde_json::from_value(serde_json::json!({
        "kind": "bootstrapToken", "tokenId": "abcdef", "renewedBy": "the cluster's token controller"
    }))
    .unwrap();
    let builder = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.pool(|pool| {
        pool.contents = ContentsSpec { join_credential: Some(token), ..ContentsSpec::default() };
    });
    let world = builder.start().await;
    let identity = machine(&world, 1).contents.identity.clone();
    let report = Box::pin(update(&world.quiet(), &request(1))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    assert_eq!(machine(&world, 1).contents.identity, identity, "the donor keeps its identity");

    world.sim.revoke_token("abcdef".parse().unwrap()).unwrap();
    world.days_later(30).await;
    world.sim.scale(POOL, 5).unwrap();
    world.until_ready().await;
    // Numbers 3 and 4 are clones. The next run clones number 3.
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

/// Workers after `kubeadm join`: cloud-init joined them, and the credential is gone.
fn kubeadm() -> WorldBuilder {
    let own = JoinCredential::NodeCertificate { path: "/etc/kubernetes/kubelet.conf".to_owned() };
    WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.pool(|pool| {
        pool.contents = ContentsSpec { join_credential: Some(own), ..ContentsSpec::default() };
    })
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_kubeadm_node_run_the_recipe_that_the_pool_keeps() {
    let world = kubeadm().start().await;
    let before = world.pool().await.recipe.extensions;
    let mut wanted = request(1);
    wanted.options.canary = false;
    for (donor, version) in [(1, "/2026.11.15"), (3, "/2026.11.16")] {
        wanted.node = node(donor);
        let report = Box::pin(update(&world.quiet(), &wanted)).await.unwrap();
        assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
        let known = names(&world.sim);
        world.sim.scale(POOL, u32::try_from(known.len()).unwrap() + 1).unwrap();
        world.until_ready().await;
        let clone = world.machines().into_iter().find(|machine| !known.contains(&machine.computer_name)).unwrap();
        assert!(clone.image.as_deref().is_some_and(|image| image.ends_with(version)), "{:?}", clone.image);
        assert_eq!(clone.cannot_join, None, "{}", clone.computer_name);
        world.days_later(1).await;
    }
    assert_eq!(world.pool().await.recipe.extensions, before, "the scripts stay");
}

#[tokio::test(start_paused = true)]
async fn canary_that_joins_by_the_recipe_gets_its_secrets_from_the_users_secret() {
    let world = kubeadm().start().await;
    let mut wanted = request(1);
    let refused = Box::pin(update(&world.quiet(), &wanted)).await.unwrap().end.to_string();
    assert!(refused.contains("--canary-secret") && refused.contains("custom data"), "{refused}");
    wanted.options.canary_secret = Some("recipe".to_owned());
    let refused = Box::pin(update(&world.quiet(), &wanted)).await.unwrap().end.to_string();
    assert!(refused.contains("Secret `kiln-system/recipe` does not exist"), "{refused}");

    let secrets: Api<Secret> = Api::default_namespaced(Client::new(world.server.service(), "kiln-system"));
    // "#!/bin/sh\njoin\n"
    let data = serde_json::json!({"customData": "IyEvYmluL3NoCmpvaW4K"});
    let secret = serde_json::json!({"metadata": {"name": "recipe"}, "data": data});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let report = Box::pin(update(&world.quiet(), &wanted)).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
}
