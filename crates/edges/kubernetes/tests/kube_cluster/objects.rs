//! Nodes, leases and journals on a real server.

use std::time::Duration;

use control_plane::unique;
use kiln_kubernetes::{
    AUTOSCALER_ANNOTATION, Error, EventKind, HOLD_ANNOTATION, HoldScope, JournalStore, LeaseTerm, NodeEvent, PoolLease,
    ProviderId, Room,
};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::real::{RealCluster, bare_plane, cluster, config};

async fn real() -> RealCluster {
    RealCluster::connect(control_plane::shared()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn real_node_is_found_held_and_restored() {
    let real = real().await;
    for (cordoned, annotation) in [(false, None), (true, Some("false")), (false, Some("true"))] {
        let name = unique("held");
        let id: ProviderId = format!("azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/{name}/virtualMachines/3")
            .parse()
            .unwrap();
        let annotations = annotation.map_or(json!({}), |value| json!({AUTOSCALER_ANNOTATION: value}));
        real.create(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations},
            "spec": {"providerID": id.to_string().to_ascii_lowercase(), "unschedulable": cordoned},
        }))
        .await;
        let before = real.cluster.find_node(&id).await.unwrap().unwrap();
        assert_eq!(before.name.as_str(), name);
        let owner = "run-1".parse().unwrap();
        let held = real.cluster.hold(&before.name, &owner, HoldScope::ALL).await.unwrap();
        assert!(held.cordoned && held.annotations[AUTOSCALER_ANNOTATION] == "true");
        let other = real.cluster.hold(&before.name, &"run-2".parse().unwrap(), HoldScope::ALL).await;
        assert!(matches!(other, Err(Error::HeldByAnother { .. })));
        real.cluster.release(&before.name, &owner, HoldScope::ALL).await.unwrap();
        let after = real.cluster.node(&before.name).await.unwrap();
        assert_eq!(after.cordoned, cordoned);
        assert_eq!(after.annotations.get(AUTOSCALER_ANNOTATION).map(String::as_str), annotation);
        assert!(!after.annotations.contains_key(HOLD_ANNOTATION));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_server_fails_at_once() {
    let mut config = config(control_plane::shared().kubeconfig()).await;
    // The CA of another server.
    config.root_cert = config_of_another().await.root_cert;
    let error = cluster(config).node(&"any".parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::Untrusted { .. }) && !error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
}

async fn config_of_another() -> kube::Config {
    config(bare_plane().kubeconfig()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_appear_in_the_description_of_a_node() {
    let real = real().await;
    let node = real.node(&unique("events")).await;
    let seen = real.cluster.node(&node).await.unwrap();
    let event = NodeEvent {
        kind: EventKind::Warning,
        action: "Drain",
        reason: "DrainFailed",
        note: "pod shop/stuck: it is terminating and has not ended; ".repeat(40),
    };
    real.cluster.record_event(&seen, &"run-1".parse().unwrap(), &event).await.unwrap();
    let text = control_plane::shared().run_kubectl(&["describe", "node", node.as_str()]).unwrap();
    let line = text.lines().find(|line| line.contains("DrainFailed")).expect(&text);
    assert!(line.contains("Warning") && line.contains("pod shop/stuck: it is terminating"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_survives_many_writers_of_a_real_node() {
    let real = real().await;
    let node = real.node(&unique("busy")).await;
    let api = real.nodes();
    let name = node.to_string();
    // The heartbeats of a kubelet change the revision all the time.
    let heartbeats = tokio::spawn(async move {
        for beat in 0.. {
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"beat": beat.to_string()}}}));
            api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let owner = "run-1".parse().unwrap();
    for _ in 0..5 {
        assert!(real.cluster.hold(&node, &owner, HoldScope::ALL).await.unwrap().cordoned);
        real.cluster.release(&node, &owner, HoldScope::ALL).await.unwrap();
        assert!(!real.is_cordoned(&node).await);
    }
    heartbeats.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_runs_acquires_a_real_lease_and_a_dead_holder_is_replaced() {
    let real = real().await;
    let namespace = unique("lease");
    real.namespace(&namespace).await;
    let length = Duration::from_secs(2);
    let lease = |holder: &str| {
        PoolLease::new(
            &real.cluster,
            &namespace.parse().unwrap(),
            &"Pool_1".parse().unwrap(),
            holder.parse().unwrap(),
            length,
        )
    };
    let runs: Vec<PoolLease> = (0..5).map(|number| lease(&format!("run-{number}"))).collect();
    let results = futures_util::future::join_all(runs.iter().map(PoolLease::try_acquire)).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert!(
        results.iter().all(|result| matches!(result, Ok(LeaseTerm { transitions: 0 }) | Err(Error::LeaseHeld { .. }))),
        "{results:?}"
    );
    let winner = &runs[results.iter().position(Result::is_ok).unwrap()];
    winner.check().await.unwrap();
    // The winner dies; the next run takes over, and the dead one learns that it lost the lease.
    let heir = lease("heir");
    assert_eq!(heir.acquire(Duration::from_mins(1)).await.unwrap(), LeaseTerm { transitions: 1 });
    assert!(matches!(winner.check().await, Err(Error::LeaseLost { .. })));
    assert!(matches!(winner.renew().await, Err(Error::LeaseLost { .. })));
    heir.release().await.unwrap();
    assert_eq!(lease("last").try_acquire().await.unwrap(), LeaseTerm { transitions: 2 });
}

#[tokio::test(flavor = "multi_thread")]
async fn conflict_in_a_real_config_map_stops_the_loser() {
    let real = real().await;
    let namespace = unique("journal");
    real.namespace(&namespace).await;
    let store = |writer: &str| -> JournalStore<String> {
        JournalStore::new(
            &real.cluster,
            &namespace.parse().unwrap(),
            &"pool-1".parse().unwrap(),
            writer.parse().unwrap(),
        )
    };
    let (a, b) = (store("a"), store("b"));
    let (mut journal_a, mut journal_b) = (a.load().await.unwrap(), b.load().await.unwrap());
    let (first, second) =
        tokio::join!(a.append(&mut journal_a, "same".to_owned()), b.append(&mut journal_b, "same".to_owned()));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let lost = first.and(second).unwrap_err();
    assert!(matches!(lost, Error::JournalConflict { .. }), "{lost}");
    let mut journal = a.load().await.unwrap();
    assert_eq!(journal.entries(), ["same"]);
    let error = a.append(&mut journal, "x".repeat(1 << 20)).await.unwrap_err();
    assert!(matches!(error, Error::JournalTooLarge { .. }), "{error}");
    // The server accepts our own limit.
    a.save(&mut journal, vec!["x".repeat(983_000)], Room::Release).await.unwrap();
}
