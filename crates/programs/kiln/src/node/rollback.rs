//! `kiln node rollback`: assigns the last complete target of a pool to one of its nodes.
//!
//! It is for a node that differs from its pool: one whose rollout failed or was aborted, or one that reverted the target and was repaired. A new assignment
//! also makes kilnd try a document again that it reverted before. The operator drains nodes only within a rollout, so a change that needs a drain is refused.

use kiln_fleet_api::{Effect, NodeConfig, NodeState, Pool, Rollout, Target};
use kiln_node_config::changes;
use kube::ResourceExt as _;
use serde_json::json;

use super::diff;
use crate::failure::Failure;
use crate::fleet::document::parse;
use crate::fleet::objects::{existing, is_open, list};
use crate::fleet::{CHANGED_BY, Session, failure, time};

pub(super) async fn run(session: &Session, node: &str) -> Result<(), Failure> {
    let state: NodeState = existing(session, node).await?;
    let pool = pool_of(session, node).await?;
    let name = pool.name_any();
    refuse_open(session, &name).await?;
    let target: Target = pool.status.and_then(|status| status.target).ok_or_else(|| {
        Failure::failed(format_args!("pool `{name}` has no complete target to return to"))
            .hint("a Rollout that completes sets it")
    })?;
    let object: NodeConfig = existing(session, &target.node_config).await?;
    let config = parse(&object)?;
    let digest = target.digest.clone().unwrap_or_else(|| config.hash());
    refuse_drain(session, &state, &config).await?;
    // Fields of the earlier assignment are removed, so that no rollout counts the node.
    let since = time(session.now());
    let desired =
        json!({"nodeConfig": target.node_config, "digest": digest, "since": since, "rollout": null, "wave": null});
    let patch = json!({
        "metadata": {"annotations": {CHANGED_BY: session.changed_by("node rollback")}},
        "spec": {"desired": desired, "allow": null, "reboot": null},
    });
    session.fleet.patch::<NodeState>(node, &patch).await.map_err(failure)?;
    let value = json!({"node": node, "pool": name, "nodeConfig": target.node_config, "digest": digest});
    session.print(&value, |_| {
        format!(
            "{node} gets {} of pool {name}; `kiln node status --pool {name}` shows the result\n",
            target.node_config
        )
    })
}

/// The pool that selects a node.
async fn pool_of(session: &Session, node: &str) -> Result<Pool, Failure> {
    for pool in session.fleet.list::<Pool>().await.map_err(failure)? {
        let names = session.fleet.node_names(&pool.spec.node_selector).await.map_err(failure)?;
        if names.iter().any(|name| name == node) {
            return Ok(pool);
        }
    }
    Err(Failure::failed(format_args!("node `{node}` is in no Pool"))
        .hint("`kubectl get node --show-labels` shows its labels; a Pool selects nodes with `spec.nodeSelector`"))
}

async fn refuse_open(session: &Session, pool: &str) -> Result<(), Failure> {
    let rollouts = session.fleet.list::<Rollout>().await.map_err(failure)?;
    let open = rollouts.iter().filter(|one| is_open(one) && one.spec.pools.iter().any(|name| name == pool));
    let open: Vec<String> = open.map(kube::ResourceExt::name_any).collect();
    match open.first() {
        None => Ok(()),
        Some(first) => Err(Failure::failed(format_args!("pool `{pool}` has an open rollout: {}", list(&open)))
            .hint(format_args!("the rollout decides about its nodes; end it with `kiln rollout abort {first}`"))),
    }
}

async fn refuse_drain(session: &Session, state: &NodeState, to: &kiln_node_config::NodeConfig) -> Result<(), Failure> {
    // A document that is not in the cluster cannot be compared; the node then reports what it needs.
    let Ok(current) = diff::current(session, state).await else { return Ok(()) };
    let effect = changes::highest_effect(&changes::between(&parse(&current)?, to));
    if effect < Effect::Drain {
        return Ok(());
    }
    let node = state.name_any();
    Err(Failure::failed(format_args!("the change of node `{node}` needs `{effect}`, which only a rollout does")).hint(
        "create a rollout with `kiln rollout create --node-config`; nodes that have the document are not touched",
    ))
}
