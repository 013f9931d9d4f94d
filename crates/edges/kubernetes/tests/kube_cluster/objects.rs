//! Nodes, leases and journals on a real server.

use std::time::Duration;

use control_plane::unique;
use kiln_kubernetes::{
    AUTOSCALER_ANNOTATION, Error, EventKind, HOLD_ANNOTATION, Held, HoldWhat, JournalStore, NodeEvent, PoolLease,
    ProviderId,
};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::real::{Real, cluster, config, quiet};

async fn real() -> Real {
    Real::of(control_plane::shared()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_node_is_found_held_and_given_back_as_it_was() {
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
        let held = real.cluster.hold(&before.name, &owner, HoldWhat::ALL).await.unwrap();
        assert!(held.cordoned && held.annotations[AUTOSCALER_ANNOTATION] == "true");
        let other = real.cluster.hold(&before.name, &"run-2".parse().unwrap(), HoldWhat::ALL).await;
        assert!(matches!(other, Err(Error::HeldByAnother { .. })));
        real.cluster.release(&before.name, &owner, HoldWhat::ALL).await.unwrap();
        let after = real.cluster.node(&before.name).await.unwrap();
        assert_eq!(after.cordoned, cordoned);
        assert_eq!(after.annotations.get(AUTOSCALER_ANNOTATION).map(String::as_str), annotation);
        assert!(!after.annotations.contains_key(HOLD_ANNOTATION));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_trusted_is_said_at_once() {
    let mut config = config(control_plane::shared().kubeconfig()).await;
    // Another server's authority.
    config.root_cert = config_of_another().await.root_cert;
    let error = cluster(config).node(&"any".parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::Distrusted { .. }) && !error.retryable(), "{error:?}");
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
}

async fn config_of_another() -> kube::Config {
    config(quiet().kubeconfig()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_to_a_node_is_in_its_description() {
    let real = real().await;
    let node = real.node(&unique("told")).await;
    let seen = real.cluster.node(&node).await.unwrap();
    let event = NodeEvent {
        kind: EventKind::Warning,
        action: "Drain",
        reason: "DrainFailed",
        note: "pod shop/stuck: it was told to end and has not; ".repeat(40),
    };
    real.cluster.tell(&seen, &"run-1".parse().unwrap(), &event).await.unwrap();
    let text = control_plane::shared().run_kubectl(&["describe", "node", node.as_str()]).unwrap();
    let line = text.lines().find(|line| line.contains("DrainFailed")).expect(&text);
    assert!(line.contains("Warning") && line.contains("pod shop/stuck: it was told to end"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_of_a_real_node_do_not_undo_a_hold() {
    let real = real().await;
    let node = real.node(&unique("busy")).await;
    let api = real.nodes();
    let name = node.to_string();
    // A kubelet's heartbeats change the revision all the time.
    let heartbeats = tokio::spawn(async move {
        for beat in 0.. {
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"beat": beat.to_string()}}}));
            api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let owner = "run-1".parse().unwrap();
    for _ in 0..5 {
        assert!(real.cluster.hold(&node, &owner, HoldWhat::ALL).await.unwrap().cordoned);
        real.cluster.release(&node, &owner, HoldWhat::ALL).await.unwrap();
        assert!(!real.is_cordoned(&node).await);
    }
    heartbeats.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_wins_a_real_lease_and_a_dead_holder_is_followed() {
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
    let taken = futures_util::future::join_all(runs.iter().map(PoolLease::try_take)).await;
    assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 1, "{taken:?}");
    assert!(
        taken.iter().all(|taken| matches!(taken, Ok(Held { term: 0 }) | Err(Error::LeaseHeld { .. }))),
        "{taken:?}"
    );
    let winner = &runs[taken.iter().position(Result::is_ok).unwrap()];
    winner.check().await.unwrap();
    // The winner dies; the next one takes over and the dead one, woken, learns that it is one.
    let heir = lease("heir");
    assert_eq!(heir.take(Duration::from_mins(1)).await.unwrap(), Held { term: 1 });
    assert!(matches!(winner.check().await, Err(Error::LeaseLost { .. })));
    assert!(matches!(winner.renew().await, Err(Error::LeaseLost { .. })));
    heir.give_up().await.unwrap();
    assert_eq!(lease("last").try_take().await.unwrap(), Held { term: 2 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_in_a_real_config_map_stops_the_loser() {
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
    let (mut of_a, mut of_b) = (a.load().await.unwrap(), b.load().await.unwrap());
    let (first, second) = tokio::join!(a.append(&mut of_a, "same".to_owned()), b.append(&mut of_b, "same".to_owned()));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let lost = first.and(second).unwrap_err();
    assert!(matches!(lost, Error::JournalConflict { .. }), "{lost}");
    let mut journal = a.load().await.unwrap();
    assert_eq!(journal.entries(), ["same"]);
    let error = a.append(&mut journal, "x".repeat(1 << 20)).await.unwrap_err();
    assert!(matches!(error, Error::JournalTooLarge { .. }), "{error}");
    // What we think is the limit, the server takes.
    a.save(&mut journal, vec!["x".repeat(983_000)]).await.unwrap();
}
