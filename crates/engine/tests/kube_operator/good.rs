//! A rollout that succeeds.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kiln_fleet_api::{NodeConfig, Pool, Rollout, RolloutPhase, Verdict};
use serde_json::json;

use crate::kilnd::Behaviour;
use crate::recording::Recording;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn twelve_nodes_in_two_zones_are_changed_in_waves_within_the_budgets() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let nodes = world.nodes(12).await;
    world.pool().await;
    let digest = world.document("web-1", json!({"version": "1.33.1"})).await;
    kilnd.on(&digest, Behaviour::Drain);
    let recording = Recording::start(&world.client);
    let zone = "topology.kubernetes.io/zone";
    world
        .rollout(
            "drain-all",
            "web-1",
            json!({
                "waves": {"first": {"nodes": 1, "prefer": ["canary=true"]}, "then": {"factor": 3, "maxPercent": 50}},
                "budgets": [{"maxUnavailable": 2, "topologyKey": zone, "domains": "OneAtATime"}],
            }),
        )
        .await;
    let operator = world.operator("operator");
    let status = world.until_phase("drain-all", RolloutPhase::Complete).await;
    assert_eq!((status.total, status.updated, status.failed), (12, 12, 0), "{status:?}");
    let sizes: Vec<(i64, Verdict)> = status.waves.iter().map(|wave| (wave.size, wave.verdict)).collect();
    assert_eq!(sizes, [(1, Verdict::Passed), (3, Verdict::Passed), (6, Verdict::Passed), (2, Verdict::Passed)]);

    let order = recording.order(&digest);
    assert_eq!(order.first(), Some(&(nodes[0].clone(), 1)), "the canary is first");
    assert!(order.is_sorted_by_key(|(_, wave)| *wave), "a wave starts after the one before it: {order:?}");
    let zones: std::collections::BTreeMap<String, String> = world
        .list::<Node>()
        .await
        .into_iter()
        .map(|node| (node.metadata.name.unwrap(), node.metadata.labels.unwrap()[zone].clone()))
        .collect();
    let cordoned = recording.cordoned();
    assert!(cordoned.iter().any(|set| !set.is_empty()), "nodes were cordoned");
    for set in recording.in_flight(&digest).iter().chain(&cordoned) {
        let domains: BTreeSet<&String> = set.iter().map(|node| &zones[node]).collect();
        assert!(set.len() <= 2 && domains.len() <= 1, "{set:?} in {domains:?}");
    }
    let twice: Vec<_> = recording.assignments().into_iter().filter(|(_, documents)| documents.len() != 1).collect();
    assert_eq!(twice, [], "each node is assigned once");

    let shown = async || world.get::<Pool>("web").await.status.is_some_and(|status| status.up_to_date == 12);
    world.until("the pool shows its nodes", shown).await;
    let pool = world.get::<Pool>("web").await.status.unwrap();
    assert_eq!((pool.nodes, pool.unavailable), (12, 0));
    assert_eq!(pool.target.unwrap().digest.as_deref(), Some(digest.as_str()));
    let config = world.get::<NodeConfig>("web-1").await.status.unwrap();
    assert_eq!(config.digest, digest);
    let finished = async || world.get::<Rollout>("drain-all").await.metadata.finalizers.unwrap_or_default().is_empty();
    world.until("the finalizer is removed", finished).await;
    world.assert_released().await;
    operator.stop().await;
}
