//! Nodes of pools, what they ask for, and what the operator shows.

use std::net::SocketAddr;

use control_plane::unique;
use k8s_openapi::api::core::v1::Node;
use kiln_fleet_api::{Condition, NodeState, Pool, Rollout, RolloutPhase, WaitReason};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::{World, restarting};

/// Sends a GET request, and returns the status and the body.
pub(crate) async fn http(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn new_node_gets_the_last_complete_target_and_never_the_one_in_flight() {
    let world = World::new().await;
    let _kilnd = world.kilnd();
    let nodes = world.nodes(2).await;
    let first = world.document("web-1", restarting("10Mi")).await;
    let second = world.document("web-2", restarting("20Mi")).await;
    let third = world.document("web-3", restarting("30Mi")).await;
    let spec = json!({"nodeSelector": {"pool": "web"}, "nodeConfig": "web-1"});
    world.create::<Pool>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let operator = world.operator("operator");
    let has = async |node: &str, digest: &str| {
        let state = world.api::<NodeState>().get_opt(node).await.unwrap();
        state.and_then(|state| state.status?.current).is_some_and(|current| current.digest == digest)
    };
    for node in &nodes {
        world.until("a node has the document of its pool", async || has(node, &first).await).await;
    }
    world.rollout("complete", "web-2", json!({"budgets": [{"maxUnavailable": 2}]})).await;
    world.until_phase("complete", RolloutPhase::Complete).await;
    world.rollout("open", "web-3", json!({"waves": {"first": {"approve": "Manual"}}})).await;
    let waits =
        async || world.status("open").await.waiting_for.is_some_and(|waiting| waiting.reason == WaitReason::Approval);
    world.until("the open rollout waits", waits).await;

    let new = unique("new");
    world.node(&new, 0, false).await;
    world.until("the new node has the last complete target", async || has(&new, &second).await).await;
    let state = world.get::<NodeState>(&new).await;
    let owner = &state.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), Some(&owner.uid)), ("Node", world.get::<Node>(&new).await.metadata.uid.as_ref()));
    assert_eq!(state.spec.desired.unwrap().rollout, "");
    world.change::<Rollout>("open", json!({"spec": {"approvedWave": 3}})).await;
    let status = world.until_phase("open", RolloutPhase::Complete).await;
    assert_eq!(status.total, 3, "the new node is part of the rollout");
    assert!(has(&new, &third).await);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_was_created_again_does_not_keep_the_state_of_the_old_one() {
    let world = World::new().await;
    let _kilnd = world.kilnd();
    let nodes = world.nodes(1).await;
    world.pool().await;
    world.document("web-1", restarting("10Mi")).await;
    let operator = world.operator("operator");
    world.rollout("r", "web-1", json!({})).await;
    world.until_phase("r", RolloutPhase::Complete).await;
    world.api::<Node>().delete(&nodes[0], &DeleteParams::default()).await.unwrap();
    world.node(&nodes[0], 0, false).await;
    let uid = world.get::<Node>(&nodes[0]).await.metadata.uid;
    let adopted = async || {
        let state = world.api::<NodeState>().get_opt(&nodes[0]).await.unwrap();
        state.is_some_and(|state| {
            let owners = state.metadata.owner_references.unwrap_or_default();
            owners.iter().any(|owner| Some(&owner.uid) == uid.as_ref())
                && state.spec.desired.is_some_and(|desired| desired.rollout.is_empty())
        })
    };
    world.until("the NodeState belongs to the new node", adopted).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_taints_of_the_document_are_set_for_the_node() {
    let world = World::new().await;
    let _kilnd = world.kilnd();
    let nodes = world.nodes(1).await;
    world.pool().await;
    let kubelet = json!({
        "labels": {"node-role.kubernetes.io/gpu": ""}, "taints": [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}],
    });
    world.document("gpu", kubelet).await;
    let operator = world.operator("operator");
    world.rollout("gpu", "gpu", json!({})).await;
    world.until_phase("gpu", RolloutPhase::Complete).await;
    let requests = json!({
        "labels": {"node-role.kubernetes.io/gpu": "", "node-role.kubernetes.io/control-plane": ""},
        "taints": {"gpu:NoSchedule": "a100", "node.kubernetes.io/not-ready:NoSchedule": null},
    });
    let patch = Patch::Merge(json!({"status": {"requests": requests}}));
    world.api::<NodeState>().patch_status(&nodes[0], &PatchParams::default(), &patch).await.unwrap();
    let labelled = async || {
        let labels = world.get::<Node>(&nodes[0]).await.metadata.labels.unwrap();
        labels.contains_key("node-role.kubernetes.io/gpu")
    };
    world.until("the node is labelled", labelled).await;
    let node = world.get::<Node>(&nodes[0]).await;
    assert!(!node.metadata.labels.unwrap().contains_key("node-role.kubernetes.io/control-plane"));
    let taints: Vec<_> = node.spec.unwrap().taints.unwrap().into_iter().map(|taint| (taint.key, taint.value)).collect();
    let expected = [("node.kubernetes.io/not-ready".to_owned(), None), ("gpu".to_owned(), Some("a100".to_owned()))];
    assert_eq!(taints, expected, "the taint that no document names stays");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_conditions_show_drift() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(2).await;
    world.pool().await;
    world.document("web-1", restarting("10Mi")).await;
    let operator = world.operator("operator");
    let address = operator.address().await;
    world.rollout("r", "web-1", json!({"budgets": [{"maxUnavailable": 2}]})).await;
    world.until_phase("r", RolloutPhase::Complete).await;
    assert_eq!(http(address, "/readyz").await.0, 200);
    let shows = async |line: &str| http(address, "/metrics").await.1.lines().any(|other| other == line);
    for line in [
        "kiln_operator_leader 1",
        "kiln_operator_synced 1",
        "kiln_rollout_phase{rollout=\"r\",phase=\"Complete\"} 1",
        "kiln_rollout_nodes{rollout=\"r\",state=\"updated\"} 2",
        "kiln_pool_nodes_up_to_date{pool=\"web\"} 2",
        "kiln_nodes_in_flight 0",
        "kiln_frozen 0",
    ] {
        world.until(line, async || shows(line).await).await;
    }
    let drifted = async |expected: bool| {
        let conditions = world.get::<Pool>("web").await.status.unwrap_or_default().conditions;
        Condition::is_true(&conditions, "Drifted") == expected && !conditions.is_empty()
    };
    world.until("the pool has not drifted", async || drifted(false).await).await;
    let patch = Patch::Merge(json!({"status": {"current": {"digest": "changed by hand", "committed": true}}}));
    // kilnd would correct it at once.
    drop(kilnd);
    world.api::<NodeState>().patch_status(&nodes[1], &PatchParams::default(), &patch).await.unwrap();
    world.until("the pool has drifted", async || drifted(true).await).await;
    operator.stop().await;
}
