//! `kiln node diff`.

use kiln_bootstrap::compare::{Difference, Side, compare};
use kiln_fleet_api::{NodeConfig, NodeState};
use kiln_node_config::Effect;
use kube::ResourceExt as _;
use serde_json::json;

use crate::bootstrap::show::{short, table};
use crate::failure::Failure;
use crate::fleet::document::{self, Loaded};
use crate::fleet::objects::existing;
use crate::fleet::{Session, failure};

pub(super) async fn run(session: &Session, node: &str, document: &Loaded) -> Result<(), Failure> {
    let state: NodeState = existing(session, node).await?;
    let current = current(session, &state).await?;
    let from = document::parse(&current)?;
    let sides = [from, document.config.clone()].map(|config| Side::NodeConfig(Box::new(config)));
    let differences = compare(&sides[0], &sides[1]).map_err(Failure::input)?;
    let effect = differences.iter().filter_map(|one| one.effect).max().unwrap_or(Effect::None);
    let value = json!({
        "node": node, "current": current.name_any(), "digest": document.digest, "effect": effect, "changes": differences,
    });
    session.print(&value, |_| text(node, &current.name_any(), effect, &differences))
}

/// The NodeConfig object whose document is in force on a node.
pub(super) async fn current(session: &Session, state: &NodeState) -> Result<NodeConfig, Failure> {
    let node = state.name_any();
    let current = state.status.as_ref().and_then(|status| status.current.as_ref());
    let Some(current) = current else {
        return Err(Failure::failed(format_args!("node `{node}` has not reported which document is in force"))
            .hint("`kiln node status` shows its phase; its kilnd must be able to reach the API server"));
    };
    let has_digest = |object: &NodeConfig| document::parse(object).is_ok_and(|config| config.hash() == current.digest);
    if let Some(desired) = state.spec.desired.as_ref().filter(|desired| desired.digest == current.digest)
        && let Some(object) = session.fleet.get::<NodeConfig>(&desired.node_config).await.map_err(failure)?
        && has_digest(&object)
    {
        return Ok(object);
    }
    let all = session.fleet.list::<NodeConfig>().await.map_err(failure)?;
    all.into_iter().find(has_digest).ok_or_else(|| {
        let source = if current.source.is_empty() { "elsewhere" } else { &current.source };
        Failure::failed(format_args!(
            "the document in force on node `{node}` ({}) is not in the cluster; it came from {source}",
            document::short(&current.digest, 12)
        ))
        .hint("run `kilnd plan` on the node, or create a NodeConfig object of that document")
    })
}

fn text(node: &str, current: &str, effect: Effect, differences: &[Difference]) -> String {
    if differences.is_empty() {
        return format!("no differences: {current} is in force on {node}\n");
    }
    let value = |value: &Option<serde_json::Value>| value.as_ref().map_or("-".to_owned(), short);
    let rows = differences.iter().map(|one| {
        let effect = one.effect.map_or_else(String::new, |effect| effect.to_string());
        [one.path.clone(), value(&one.from), value(&one.to), effect]
    });
    let table = table(["FIELD", "CURRENT", "NEW", "EFFECT"], rows);
    let means = match effect {
        Effect::None | Effect::Reload | Effect::Restart | Effect::Cluster => "changed while its pods run",
        Effect::Drain => "drained first",
        Effect::Reboot => "drained and rebooted",
        Effect::Replace => "not changed: a new node is required",
    };
    format!("{table}\n{node} is {means} (effect {effect}), from {current}\n")
}
