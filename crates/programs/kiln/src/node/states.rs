//! `kiln node status`.

use std::collections::BTreeMap;

use kiln_fleet_api::{NodeState, Pool};
use kube::ResourceExt as _;
use serde::Serialize;

use crate::bootstrap::show::table;
use crate::failure::Failure;
use crate::fleet::document::short;
use crate::fleet::objects::existing;
use crate::fleet::{Session, failure};

/// Digits of a digest in the table.
const DIGITS: usize = 12;

/// A node in the list.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    node: String,
    phase: String,
    /// Digest of the document in force.
    digest: String,
    committed: bool,
    /// Digest of the document that the cluster wants.
    desired: String,
    effect: String,
    rollout: String,
    message: String,
}

impl Row {
    fn new(state: &NodeState) -> Self {
        let status = state.status.clone().unwrap_or_default();
        let (current, desired) = (status.current.unwrap_or_default(), state.spec.desired.clone().unwrap_or_default());
        let message = match (&status.message, &status.reverted) {
            (message, Some(reverted)) if message.is_empty() && reverted.digest == desired.digest => {
                reverted.reason.clone()
            }
            (message, _) if message.is_empty() && state.status.is_none() => "its kilnd has not reported yet".to_owned(),
            (message, _) => message.clone(),
        };
        Self {
            node: state.name_any(),
            phase: status.phase.as_str().to_owned(),
            digest: current.digest,
            committed: current.committed,
            desired: desired.digest,
            effect: status.effect.map(|effect| effect.to_string()).unwrap_or_default(),
            rollout: desired.rollout,
            message,
        }
    }

    /// A node of a pool for which the operator has not created a NodeState.
    fn without_state(node: String) -> Self {
        Self { node, message: "no NodeState; the operator creates it".to_owned(), ..Self::default() }
    }
}

pub(super) async fn run(session: &Session, pool: Option<&str>) -> Result<(), Failure> {
    let pool: Option<Pool> = match pool {
        Some(name) => Some(existing(session, name).await?),
        None => None,
    };
    let states = session.fleet.list::<NodeState>().await.map_err(failure)?;
    let rows: Vec<Row> = match &pool {
        None => states.iter().map(Row::new).collect(),
        Some(pool) => {
            let names = session.fleet.node_names(&pool.spec.node_selector).await.map_err(failure)?;
            let states: BTreeMap<String, &NodeState> = states.iter().map(|state| (state.name_any(), state)).collect();
            let row = |name: String| {
                states.get(&name).map_or_else(|| Row::without_state(name.clone()), |state| Row::new(state))
            };
            names.into_iter().map(row).collect()
        }
    };
    session.print(&rows, |rows| {
        if rows.is_empty() {
            return "no nodes; a Pool selects them by their labels\n".to_owned();
        }
        text(rows)
    })
}

fn text(rows: &[Row]) -> String {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let rows = rows.iter().map(|row| {
        let trial = if row.committed || row.digest.is_empty() { "" } else { " (on trial)" };
        [
            row.node.clone(),
            or_dash(&row.phase),
            format!("{}{trial}", or_dash(short(&row.digest, DIGITS))),
            or_dash(&row.effect),
            or_dash(&row.rollout),
            row.message.clone(),
        ]
    });
    table(["NODE", "PHASE", "DIGEST", "EFFECT", "ROLLOUT", "MESSAGE"], rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(value: serde_json::Value) -> NodeState {
        serde_json::from_value(value).expect("a NodeState")
    }

    #[test]
    fn nodes_are_shown_with_phase_document_and_reason() {
        let digest = "3f2a91c0d4e5f6a7b8c9";
        let rows = [
            Row::new(&state(json!({"metadata": {"name": "a"}, "spec": {}}))),
            Row::new(&state(json!({
                "metadata": {"name": "b"},
                "spec": {"desired": {"nodeConfig": "web", "digest": digest, "rollout": "web-3f2a91c0", "wave": 1}},
                "status": {"phase": "Reverted", "current": {"digest": "0000000000001111", "committed": true},
                    "reverted": {"digest": digest, "reason": "gate `kubelet` failed"}},
            }))),
            Row::new(&state(json!({
                "metadata": {"name": "c"},
                "spec": {"desired": {"nodeConfig": "web", "digest": digest, "rollout": "web-3f2a91c0", "wave": 1}},
                "status": {"phase": "OnTrial", "effect": "restart", "message": "gate `node` is checked", "current": {"digest": digest}},
            }))),
            Row::without_state("d".to_owned()),
        ];
        let expected = [
            " NODE  PHASE     DIGEST                   EFFECT   ROLLOUT       MESSAGE",
            " a     Idle      -                        -        -             its kilnd has not reported yet",
            " b     Reverted  000000000000             -        web-3f2a91c0  gate `kubelet` failed",
            " c     OnTrial   3f2a91c0d4e5 (on trial)  restart  web-3f2a91c0  gate `node` is checked",
            " d     -         -                        -        -             no NodeState; the operator creates it",
        ];
        assert_eq!(text(&rows).lines().collect::<Vec<_>>(), expected);
    }
}
