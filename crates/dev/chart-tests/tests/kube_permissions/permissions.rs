//! Every permission of the operator is necessary, and together they are sufficient.

use kiln_fleet_api::RolloutPhase;
use kiln_kubernetes::rbac::{KURED_PERMISSIONS, OPERATOR_PERMISSIONS, PER_NODE_READ_PERMISSIONS, Permission};

use crate::fleet::{Fleet, LABEL};
use crate::user::{Operator, Permissions};
use crate::{client, eventually, plane};

/// The operators share the objects of the cluster, so the rows run one after another.
#[tokio::test(flavor = "multi_thread")]
async fn every_missing_permission_fails_a_named_operation_and_all_together_suffice() {
    let admin = client(plane().kubeconfig()).await;
    for per_node_read in [false, true] {
        all_together_suffice(&admin, Permissions { per_node_read, without: None }).await;
    }
    for permission in OPERATOR_PERMISSIONS.iter().chain(&KURED_PERMISSIONS) {
        without(&admin, permission, false).await;
    }
    for permission in &PER_NODE_READ_PERMISSIONS {
        without(&admin, permission, true).await;
    }
}

async fn all_together_suffice(admin: &kube::Client, permissions: Permissions<'_>) {
    let user = Operator::prepare(permissions);
    let fleet = Fleet::create(admin, &user).await;
    let operator = Operator::start(&user, permissions).await;
    eventually("the rollout is complete and its node released", async || {
        let rollout = fleet.rollout().await;
        let status = rollout.status.unwrap_or_default();
        let (node, kured) = fleet.node_and_kured().await;
        let has_label = node.metadata.labels.is_some_and(|labels| labels.contains_key(LABEL));
        let is_cordoned = node.data["spec"]["unschedulable"] == true;
        let is_locked = kured.metadata.annotations.is_some_and(|all| all.keys().any(|key| key.contains("kured")));
        let has_grants = fleet.grants().await == if permissions.per_node_read { 2 } else { 0 };
        let is_finished = rollout.metadata.finalizers.is_none_or(|all| all.is_empty());
        if status.phase == RolloutPhase::Complete
            && has_label
            && has_grants
            && is_finished
            && !is_cordoned
            && !is_locked
        {
            Ok(())
        } else {
            Err(format!(
                "{status:?}, label {has_label}, cordoned {is_cordoned}, locked {is_locked}, grants {has_grants}\n{}",
                operator.log()
            ))
        }
    })
    .await;
    let log = operator.log();
    assert!(!log.contains("forbidden"), "{log}");
    operator.stop().await;
    fleet.delete().await;
}

async fn without(admin: &kube::Client, permission: &Permission, per_node_read: bool) {
    let permissions = Permissions { per_node_read, without: Some(permission) };
    let user = Operator::prepare(permissions);
    let fleet = Fleet::create(admin, &user).await;
    let operator = Operator::start(&user, permissions).await;
    let expected = format!("cannot {} resource \"{}\"", permission.verb, permission.resource);
    let what = format!("the operator fails to {} ({expected})", permission.needed_to);
    eventually(&what, async || {
        let log = operator.log();
        if log.contains(&expected) { Ok(()) } else { Err(format!("{:?}\n{log}", fleet.rollout().await.status)) }
    })
    .await;
    operator.stop().await;
    fleet.delete().await;
}
