//! Drains that are blocked, and kured's lock.

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kiln_fleet_api::{Pool, RolloutPhase};
use kiln_kubernetes::{HOLD_ANNOTATION, KURED_LOCK_ANNOTATION};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::kilnd::Behaviour;
use crate::recording::Recording;
use crate::world::World;

async fn create<K>(world: &World, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let api: Api<K> = Api::namespaced(world.client.clone(), &world.namespace);
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// A pod on a node with a budget that allows no disruption.
async fn blocked_pod(world: &World, node: &str) {
    let labels = json!({"app": "web"});
    create::<ReplicaSet>(world, json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "example.invalid/c"}],
        }}},
    }))
    .await;
    create::<PodDisruptionBudget>(
        world,
        json!({
            "metadata": {"name": "keep-web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        }),
    )
    .await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let found = async || pods.list(&ListParams::default()).await.unwrap().items.pop();
    world.until("the pod exists", async || found().await.is_some()).await;
    let name = found().await.unwrap().metadata.name.unwrap();
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(running)).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(world.client.clone(), &world.namespace);
    let counted = async || {
        let status = budgets.get("keep-web").await.unwrap().status;
        status.is_some_and(|status| status.current_healthy == 1 && status.disruptions_allowed == 0)
    };
    world.until("the budget is counted", counted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_drain_skips_the_node_uncordons_it_and_names_the_budget() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(3).await;
    world.pool().await;
    let digest = world.document("web-1", json!({"version": "1.33.1"})).await;
    kilnd.on(&digest, Behaviour::Drain);
    blocked_pod(&world, &nodes[0]).await;
    let recording = Recording::start(&world.client);
    let operator = world.operator("operator");
    let spec = json!({
        "target": {"nodeConfig": "web-1"}, "onFailure": "Halt",
        "policy": {
            "waves": {"first": {"nodes": 3}}, "budgets": [{"maxUnavailable": 3}], "drainTimeout": "6s",
            "failure": {"nodes": 2, "inFirstWave": 2},
        },
    });
    world.rollout_with("blocked", spec).await;
    let failed = async || world.status("blocked").await.failed == 1;
    world.until("the blocked node fails", failed).await;
    let status = world.status("blocked").await;
    assert_eq!(status.failures[0].node, nodes[0]);
    let reason = &status.failures[0].reason;
    assert!(reason.contains("keep-web") && reason.contains(&format!("{}/web-", world.namespace)), "{reason}");
    let updated = async || world.status("blocked").await.updated == 2;
    world.until("the other nodes are updated", updated).await;
    assert!(recording.cordoned().iter().any(|set| set.contains(&nodes[0])), "the node was cordoned");
    let released = async || {
        let node = world.get::<Node>(&nodes[0]).await;
        node.spec.is_none_or(|spec| spec.unschedulable != Some(true))
    };
    world.until("the node is uncordoned", released).await;
    let rejected = world.get::<Pool>("web").await.status.unwrap().rejected;
    assert_eq!(rejected, [""; 0], "a blocked drain says nothing about the document");
    operator.stop().await;
}

/// Creates kured's DaemonSet, without pods.
pub(crate) async fn kured(world: &World, annotations: Value) {
    create::<DaemonSet>(world, json!({
        "metadata": {"name": "kured", "annotations": annotations},
        "spec": {"selector": {"matchLabels": {"name": "kured"}}, "template": {"metadata": {"labels": {"name": "kured"}}, "spec": {
            "nodeSelector": {"no": "node"}, "containers": [{"name": "kured", "image": "example.invalid/kured", "command": ["/usr/bin/kured"]}],
        }}},
    }))
    .await;
}

/// The value of kured's lock.
pub(crate) async fn lock(world: &World) -> Option<String> {
    let sets: Api<DaemonSet> = Api::namespaced(world.client.clone(), &world.namespace);
    sets.get("kured").await.unwrap().metadata.annotations.unwrap_or_default().remove(KURED_LOCK_ANNOTATION)
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_of_kured_is_respected_taken_and_released() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(1).await;
    world.pool().await;
    let digest = world.document("web-1", json!({"version": "1.33.1"})).await;
    kilnd.on(&digest, Behaviour::Drain);
    let foreign = json!({"nodeID": "elsewhere", "metadata": {"unschedulable": false}, "created": crate::world::now().to_string(), "TTL": 0});
    kured(&world, json!({KURED_LOCK_ANNOTATION: foreign.to_string()})).await;
    let sets: Api<DaemonSet> = Api::namespaced(world.client.clone(), &world.namespace);
    let lock = async || lock(&world).await;
    let recording = Recording::start(&world.client);
    let operator = world.operator("operator");
    world.rollout("locked", "web-1", json!({})).await;
    let pending = async || world.status("locked").await.in_flight == nodes;
    world.until("the node waits for its drain", pending).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(recording.cordoned().iter().all(std::collections::BTreeSet::is_empty), "kured reboots a node");

    // kured ends, and the drain is held up by a pod so that the operator's lock can be seen.
    blocked_pod(&world, &nodes[0]).await;
    let free = Patch::Merge(json!({"metadata": {"annotations": {KURED_LOCK_ANNOTATION: null}}}));
    sets.patch("kured", &PatchParams::default(), &free).await.unwrap();
    world.until("the operator has the lock", async || lock().await.is_some()).await;
    let text = lock().await.unwrap();
    assert!(text.contains(&format!("kiln/{}", nodes[0])), "{text}");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(world.client.clone(), &world.namespace);
    budgets.delete("keep-web", &kube::api::DeleteParams::default()).await.unwrap();
    // The pods have no kubelet that ends them.
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let drained = async || {
        let now = kube::api::DeleteParams::default().grace_period(0);
        let _ = Api::<ReplicaSet>::namespaced(world.client.clone(), &world.namespace).delete("web", &now).await;
        let _ = pods.delete_collection(&now, &ListParams::default()).await;
        world.status("locked").await.phase == RolloutPhase::Complete
    };
    world.until("the rollout completes", drained).await;
    world.until("the lock is free", async || lock().await.is_none()).await;
    world.assert_released().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cordon_of_a_person_is_kept() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(1).await;
    world.pool().await;
    let digest = world.document("web-1", json!({"version": "1.33.1"})).await;
    kilnd.on(&digest, Behaviour::Drain);
    // The lock keeps the operator from cordoning the node until the person has done it.
    let foreign = json!({"nodeID": "elsewhere", "created": crate::world::now().to_string(), "TTL": 0});
    kured(&world, json!({KURED_LOCK_ANNOTATION: foreign.to_string()})).await;
    let operator = world.operator("operator");
    world.rollout("kept", "web-1", json!({})).await;
    let waits = async || !world.status("kept").await.held.is_empty();
    world.until("the operator is about to drain the node", waits).await;
    world.change::<Node>(&nodes[0], json!({"spec": {"unschedulable": true}})).await;
    let sets: Api<DaemonSet> = Api::namespaced(world.client.clone(), &world.namespace);
    let free = Patch::Merge(json!({"metadata": {"annotations": {KURED_LOCK_ANNOTATION: null}}}));
    sets.patch("kured", &PatchParams::default(), &free).await.unwrap();
    world.until_phase("kept", RolloutPhase::Complete).await;
    let released = async || {
        let annotations = world.get::<Node>(&nodes[0]).await.metadata.annotations.unwrap_or_default();
        !annotations.contains_key(HOLD_ANNOTATION)
    };
    world.until("the hold is released", released).await;
    let node = world.get::<Node>(&nodes[0]).await;
    assert_eq!(node.spec.unwrap().unschedulable, Some(true), "the cordon is the person's");
    operator.stop().await;
}
