//! Refreshes, and what a run and a refresh wait for before a machine is stopped or deleted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kiln_engine::{Error, EventSink, RefreshReport, RefreshRequest, RunEnd, RunEvent, RunEventKind, refresh, update};
use kiln_kubernetes::{HOLD_ANNOTATION, KURED_LOCK_ANNOTATION, LOAD_BALANCER_LABEL};
use kiln_prototype::refresh::Budget;
use kiln_prototype::step::Step;
use kiln_types::{Factory, NodeName, PowerState};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::breakpoint::Breakpoint;
use crate::world::{World, WorldBuilder, node, pool_name, request};

/// The notes of an operation.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn contain(&self, words: &str) -> bool {
        self.0.lock().unwrap().iter().any(|note| note.contains(words))
    }
}

impl EventSink for Notes {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        match event.kind {
            RunEventKind::Note(text) => self.0.lock().unwrap().push(text),
            RunEventKind::Drain(progress) => self.0.lock().unwrap().push(progress.to_string()),
            _ => {}
        }
        Box::pin(std::future::ready(()))
    }
}

impl World {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = ()>,
    {
        Api::all(Client::new(self.server.service(), "default"))
    }

    async fn create<K>(&self, api: &Api<K>, object: Value)
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
    {
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    async fn attach(&self, name: &NodeName, volume: &str) {
        self.create::<VolumeAttachment>(
            &self.api(),
            json!({"metadata": {"name": format!("csi-{volume}")},
                "spec": {"attacher": "disk.csi.azure.com", "nodeName": name, "source": {"persistentVolumeName": volume}}}),
        )
        .await;
    }

    async fn detach(&self, volume: &str) {
        let api: Api<VolumeAttachment> = self.api();
        api.delete(&format!("csi-{volume}"), &DeleteParams::default()).await.unwrap();
    }

    /// A pod that cannot be evicted.
    async fn guard(&self, name: &NodeName) {
        let client = || Client::new(self.server.service(), "default");
        let pods: Api<Pod> = Api::namespaced(client(), "default");
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "g", "uid": "5e1f", "controller": true});
        let pod = json!({"metadata": {"name": "guarded", "labels": {"app": "guarded"}, "ownerReferences": [owner]},
            "spec": {"nodeName": name, "containers": [{"name": "main", "image": "pause:3.9"}]}});
        self.create(&pods, pod).await;
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client(), "default");
        let selector = json!({"matchLabels": {"app": "guarded"}});
        self.create(&budgets, json!({"metadata": {"name": "g"}, "spec": {"minAvailable": 1, "selector": selector}}))
            .await;
        sleep(Duration::from_secs(30)).await;
    }

    async fn node_objects(&self) -> Vec<Node> {
        self.api::<Node>().list(&ListParams::default()).await.unwrap().items
    }

    async fn assert_no_node_is_held(&self) {
        for node in self.node_objects().await {
            let spec = node.spec.unwrap_or_default();
            assert!(!spec.unschedulable.unwrap_or_default(), "{:?} is cordoned", node.metadata.name);
            assert!(!node.metadata.annotations.unwrap_or_default().contains_key(HOLD_ANNOTATION));
            assert!(!node.metadata.labels.unwrap_or_default().contains_key(LOAD_BALANCER_LABEL));
        }
    }

    async fn wait_for(&self, notes: &Notes, words: &str) {
        for _ in 0..3600 {
            if notes.contain(words) {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("no note contains `{words}`: {:?}", notes.0.lock().unwrap());
    }
}

fn budget(surge: u32, max_unavailable: u32) -> RefreshRequest {
    let budget = Budget { surge, max_unavailable, all_at_once: false };
    RefreshRequest { budget, ..RefreshRequest::default() }
}

/// A world in which new nodes get a version that no node runs.
async fn outdated(builder: WorldBuilder) -> World {
    let world = builder.start().await;
    let report = Box::pin(update(&world.quiet(), &request(0))).await.unwrap();
    assert!(matches!(report.end, RunEnd::Closed(_)), "{}", report.end);
    world.until_ready().await;
    world
}

/// Starts a refresh in the background.
fn start(
    world: &World,
    request: RefreshRequest,
) -> (Arc<Notes>, tokio::task::JoinHandle<Result<RefreshReport, Error>>) {
    let notes: Arc<Notes> = Arc::default();
    let context = world.process(notes.clone());
    (notes, tokio::spawn(async move { Box::pin(refresh(&context, &request)).await }))
}

#[tokio::test(start_paused = true)]
async fn nodes_with_letters_in_their_numbers_are_drained_before_they_are_deleted() {
    let world = outdated(WorldBuilder::quick().pool(|pool| pool.capacity = 12)).await;
    let machines = world.machines();
    assert!(machines.iter().any(|machine| machine.computer_name.ends_with("00000B")), "{machines:?}");
    let (notes, refreshing) = start(&world, budget(0, 4));
    let report = refreshing.await.unwrap().unwrap();
    assert_eq!(report.replaced.len(), 12, "{report}");
    assert!(notes.contain("draining k8s-agentpool1-26100436-vmss00000b"), "{:?}", notes.0.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn running_instance_without_a_node_stops_the_refresh() {
    let world = outdated(WorldBuilder::quick()).await;
    let nodes: Api<Node> = world.api();
    let before = world.wire.writes().len();
    nodes.delete(node(2).as_str(), &DeleteParams::default()).await.unwrap();
    // At once, before the kubelet registers again.
    let error = Box::pin(refresh(&world.quiet(), &budget(1, 1))).await.unwrap_err();
    assert!(matches!(&error, Error::Unmatched { instances } if instances.contains(node(2).as_str())), "{error}");
    let removed = world.wire.writes()[before..].iter().filter(|write| write.contains("/delete")).count();
    assert_eq!(removed, 0);
}

#[tokio::test(start_paused = true)]
async fn volumes_are_detached_before_an_instance_is_deleted() {
    let world = outdated(WorldBuilder::quick()).await;
    world.attach(&node(1), "pvc-1").await;
    let (notes, refreshing) = start(&world, budget(0, 3));
    world.wait_for(&notes, "waiting for volumes to be detached: pvc-1").await;
    sleep(Duration::from_mins(2)).await;
    assert_eq!(world.machines().len(), 3, "no instance is deleted before");
    world.detach("pvc-1").await;
    refreshing.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn volume_that_stays_attached_is_named_and_all_nodes_are_released() {
    let world = outdated(WorldBuilder::quick()).await;
    world.attach(&node(1), "pvc-1").await;
    let (_, refreshing) = start(&world, budget(0, 3));
    let error = refreshing.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("still has volumes attached after 600 s: pvc-1"), "{error}");
    world.assert_no_node_is_held().await;
    assert_eq!(world.machines().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn donor_is_not_stopped_while_a_volume_is_attached() {
    let world = WorldBuilder::quick().start().await;
    let breakpoint = Breakpoint::before(|step| step == Step::PowerOff);
    let context = world.process(breakpoint.clone());
    let running = tokio::spawn(async move { Box::pin(update(&context, &request(1))).await });
    breakpoint.reached().await;
    let donor: Node = world.api::<Node>().get(node(1).as_str()).await.unwrap();
    assert!(donor.metadata.labels.unwrap().contains_key(LOAD_BALANCER_LABEL), "it gets no traffic before it stops");
    world.attach(&node(1), "pvc-1").await;
    breakpoint.pass();
    sleep(Duration::from_mins(5)).await;
    let power = || async {
        let instances = world.azure().instances(&pool_name()).await.unwrap();
        instances.into_iter().find(|instance| instance.id.as_str() == "1").unwrap().power
    };
    assert_eq!(power().await, PowerState::Running);
    world.detach("pvc-1").await;
    let report = running.await.unwrap().unwrap();
    assert!(matches!(report.end, RunEnd::Closed(kiln_prototype::journal::Outcome::Completed { .. })), "{}", report.end);
    world.assert_no_node_is_held().await;
}

#[tokio::test(start_paused = true)]
async fn donor_with_a_volume_that_stays_attached_is_released_and_keeps_running() {
    let world = WorldBuilder::quick().start().await;
    let api: Api<Node> = world.api();
    let in_use = json!({"status": {"volumesInUse": ["kubernetes.io/csi/disk.csi.azure.com^/disks/pvc-7"]}});
    api.patch_status(node(1).as_str(), &PatchParams::default(), &Patch::Merge(in_use)).await.unwrap();
    let report = Box::pin(update(&world.quiet(), &request(1))).await.unwrap();
    let text = report.end.to_string();
    assert!(text.contains("still has volumes attached after 600 s: pvc-7"), "{text}");
    world.assert_no_node_is_held().await;
    let instances = world.azure().instances(&pool_name()).await.unwrap();
    assert!(instances.iter().all(|instance| instance.power == PowerState::Running));
    assert!(!world.wire.writes().iter().any(|write| write.contains("/powerOff")));
}

#[tokio::test(start_paused = true)]
async fn failed_drain_releases_all_nodes_of_its_batch() {
    let world = outdated(WorldBuilder::quick()).await;
    world.guard(&node(1)).await;
    let (_, refreshing) = start(&world, RefreshRequest { grace_seconds: Some(1), ..budget(0, 3) });
    let error = refreshing.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("guarded") && error.contains("budget"), "{error}");
    world.assert_no_node_is_held().await;
    assert_eq!(world.machines().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn capacity_that_others_change_during_a_refresh_is_kept() {
    let world = outdated(WorldBuilder::quick()).await;
    let (notes, refreshing) = start(&world, budget(1, 0));
    world.wait_for(&notes, "draining").await;
    let azure = world.azure();
    let pool = azure.describe_pool(&pool_name()).await.unwrap();
    azure.add_instances(&pool, 2).await.unwrap();
    refreshing.await.unwrap().unwrap();
    assert!(notes.contain("the refresh ends with 5 nodes"), "{:?}", notes.0.lock().unwrap());
    let after = world.pool().await;
    assert_eq!(after.capacity, 5);
    assert_eq!(after.tags.get("kiln-refresh").map(String::as_str), Some(""), "the goal is forgotten at the end");
}

#[tokio::test(start_paused = true)]
async fn azure_is_asked_every_30_seconds_and_after_own_changes() {
    let world = outdated(WorldBuilder::new()).await;
    let lists = || world.wire.reads_of("Microsoft.Compute/virtualMachineScaleSets/virtualMachines");
    let (before, writes, began) = (lists(), world.wire.writes().len(), Instant::now());
    let (_, refreshing) = start(&world, budget(1, 0));
    refreshing.await.unwrap().unwrap();
    let (asked, changes) = (lists() - before, world.wire.writes().len() - writes);
    let intervals = usize::try_from(began.elapsed().as_secs() / 30).unwrap();
    assert!(intervals > 10, "a refresh of three nodes takes minutes, not {intervals} intervals");
    assert!(
        asked <= intervals + changes + 1,
        "{asked} lists of instances in {intervals} intervals, with {changes} changes"
    );
}

#[tokio::test(start_paused = true)]
async fn refresh_and_run_exclude_each_other() {
    let world = outdated(WorldBuilder::quick()).await;
    let (notes, refreshing) = start(&world, budget(1, 0));
    world.wait_for(&notes, "adding").await;
    let again = Box::pin(refresh(&world.quiet(), &budget(1, 0))).await.unwrap_err();
    assert!(matches!(again, Error::Busy { .. }), "{again}");
    refreshing.await.unwrap().unwrap();
    world.days_later(1).await;
    let breakpoint = Breakpoint::before(|step| step == Step::Drain);
    let context = world.process(breakpoint.clone());
    let donor = world.cluster().nodes_of(&pool_name()).await.unwrap().remove(0).name;
    let run = kiln_engine::RunRequest { node: donor, options: kiln_prototype::run::RunOptions::default() };
    let running = tokio::spawn(async move { Box::pin(update(&context, &run)).await });
    breakpoint.reached().await;
    let refused = Box::pin(refresh(&world.quiet(), &budget(1, 0))).await.unwrap_err();
    assert!(matches!(refused, Error::Busy { .. }), "{refused}");
    breakpoint.pass();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn lock_of_kured_refuses_a_run_and_delays_a_refresh() {
    let world = outdated(WorldBuilder::quick()).await;
    let api: Api<DaemonSet> = Api::namespaced(Client::new(world.server.service(), "default"), "kube-system");
    let mut set: DaemonSet = api.list(&ListParams::default()).await.unwrap().items.remove(0);
    let lock = json!({"nodeID": node(2), "created": "2026-11-15T12:00:00Z", "TTL": 0}).to_string();
    let name = set.metadata.name.take().unwrap();
    let annotate = async |value: Value| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {KURED_LOCK_ANNOTATION: value}}}));
        api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    };
    annotate(json!(lock)).await;
    let mut second = request(1);
    second.options.replace_today = true;
    let report = Box::pin(update(&world.quiet(), &second)).await.unwrap();
    let RunEnd::Refused(reasons) = &report.end else { panic!("{}", report.end) };
    assert!(reasons.iter().any(|reason| reason.contains("is rebooting node")), "{reasons:?}");
    let (notes, refreshing) = start(&world, budget(0, 1));
    world.wait_for(&notes, "kured to release its lock").await;
    assert_eq!(world.machines().len(), 3);
    annotate(Value::Null).await;
    refreshing.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn nodes_that_a_killed_refresh_left_cordoned_are_released() {
    let world = outdated(WorldBuilder::quick()).await;
    world.guard(&node(1)).await;
    let (notes, refreshing) = start(&world, budget(0, 2));
    world.wait_for(&notes, "draining").await;
    refreshing.abort();
    let held =
        |nodes: Vec<Node>| nodes.iter().filter(|node| node.spec.as_ref().unwrap().unschedulable == Some(true)).count();
    assert!(held(world.node_objects().await) > 0);
    let pods: Api<Pod> = Api::namespaced(Client::new(world.server.service(), "default"), "default");
    pods.delete("guarded", &DeleteParams::default()).await.unwrap();
    let (_, again) = start(&world, budget(0, 2));
    again.await.unwrap().unwrap();
    world.assert_no_node_is_held().await;
}
