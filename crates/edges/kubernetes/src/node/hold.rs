//! Holds and releases as pure functions: from a node to the patch that holds it or restores it.

use kiln_types::Node;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::name::Owner;

/// Records the owner of a hold and the previous state, as JSON.
pub const HOLD_ANNOTATION: &str = "kiln.dev/hold";
/// Prevents the cluster autoscaler from removing the node.
pub const AUTOSCALER_ANNOTATION: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
const DISABLED: &str = "true";

/// The parts of a node that are held. One owner can hold and release them one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldScope {
    /// The node is unschedulable.
    pub cordon: bool,
    /// The cluster autoscaler does not scale the node down.
    pub autoscaler: bool,
}

impl HoldScope {
    pub const ALL: Self = Self { cordon: true, autoscaler: true };
    pub const CORDON: Self = Self { cordon: true, autoscaler: false };
    pub const AUTOSCALER: Self = Self { cordon: false, autoscaler: true };
}

/// The owner of a node and the node's previous state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeHold {
    pub owner: Owner,
    /// Whether it was cordoned before; `None` when the cordon is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_cordoned: Option<bool>,
    /// The autoscaler annotation before; `None` when it is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler_was: Option<PreviousValue>,
}

impl NodeHold {
    /// Reads the hold from a node's annotation.
    pub fn read(node: &Node) -> Result<Option<Self>, Error> {
        let Some(text) = node.annotations.get(HOLD_ANNOTATION) else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|source| Error::BadAnnotation {
            node: node.name.clone(),
            annotation: HOLD_ANNOTATION,
            text: text.clone(),
            source,
        })
    }
}

/// An annotation's value before the hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PreviousValue {
    Absent,
    Value(String),
}

/// The next step of a hold or a release.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HoldAction {
    /// The node is already in the wanted state.
    None,
    HeldBy(Owner),
    /// This merge patch leads to the wanted state. It fails if the node has changed since it was read.
    Patch(Value),
}

/// Plans a hold. A part that is already held keeps its recorded state, so that a resumed run does not mistake its own cordon for a
/// previous one.
pub(crate) fn plan_hold(node: &Node, current: Option<NodeHold>, owner: &Owner, scope: HoldScope) -> HoldAction {
    let mut hold = match current {
        Some(hold) if hold.owner != *owner => return HoldAction::HeldBy(hold.owner),
        Some(hold) => hold,
        None => NodeHold { owner: owner.clone(), was_cordoned: None, autoscaler_was: None },
    };
    let mut annotations = Map::new();
    let mut spec = Map::new();
    if scope.cordon && hold.was_cordoned.is_none() {
        hold.was_cordoned = Some(node.cordoned);
        if !node.cordoned {
            spec.insert("unschedulable".to_owned(), json!(true));
        }
    }
    if scope.autoscaler && hold.autoscaler_was.is_none() {
        let was = node.annotations.get(AUTOSCALER_ANNOTATION);
        hold.autoscaler_was = Some(was.map_or(PreviousValue::Absent, |value| PreviousValue::Value(value.clone())));
        if was.is_none_or(|value| value != DISABLED) {
            annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), json!(DISABLED));
        }
    }
    patch(node, annotations, spec, Some(&hold))
}

/// Plans a release: each part is restored to its previous state. A part that another actor changed in the meantime is left alone.
pub(crate) fn plan_release(node: &Node, current: Option<NodeHold>, owner: &Owner, scope: HoldScope) -> HoldAction {
    let Some(mut hold) = current else { return HoldAction::None };
    if hold.owner != *owner {
        return HoldAction::HeldBy(hold.owner);
    }
    let mut annotations = Map::new();
    let mut spec = Map::new();
    if scope.cordon && hold.was_cordoned.take() == Some(false) && node.cordoned {
        spec.insert("unschedulable".to_owned(), Value::Null);
    }
    if scope.autoscaler {
        let unchanged = node.annotations.get(AUTOSCALER_ANNOTATION).is_some_and(|value| value == DISABLED);
        match hold.autoscaler_was.take() {
            Some(PreviousValue::Absent) if unchanged => {
                _ = annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), Value::Null);
            }
            Some(PreviousValue::Value(was)) if unchanged && was != DISABLED => {
                annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), json!(was));
            }
            _ => {}
        }
    }
    let still_held = hold.was_cordoned.is_some() || hold.autoscaler_was.is_some();
    patch(node, annotations, spec, still_held.then_some(&hold))
}

/// One patch for everything, with the revision that was read: the server rejects it if the node has changed since.
fn patch(
    node: &Node,
    mut annotations: Map<String, Value>,
    spec: Map<String, Value>,
    hold: Option<&NodeHold>,
) -> HoldAction {
    let text = hold.map(|hold| serde_json::to_string(hold).expect("names and flags are JSON"));
    if node.annotations.get(HOLD_ANNOTATION) != text.as_ref() {
        annotations.insert(HOLD_ANNOTATION.to_owned(), json!(text));
    }
    if annotations.is_empty() && spec.is_empty() {
        return HoldAction::None;
    }
    let mut patch = json!({"metadata": {"resourceVersion": node.revision, "annotations": annotations}});
    if !spec.is_empty() {
        patch["spec"] = Value::Object(spec);
    }
    HoldAction::Patch(patch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(cordoned: bool, annotation: Option<&str>) -> Node {
        let annotations = annotation.map(|value| (AUTOSCALER_ANNOTATION.to_owned(), value.to_owned()));
        Node {
            annotations: annotations.into_iter().collect(),
            cordoned,
            revision: "7".to_owned(),
            ..Node::new("n".parse().unwrap())
        }
    }

    fn owner(name: &str) -> Owner {
        name.parse().unwrap()
    }

    /// Applies a patch as the server would.
    fn apply(mut node: Node, action: &HoldAction) -> Node {
        let HoldAction::Patch(patch) = action else { return node };
        assert_eq!(patch["metadata"]["resourceVersion"], node.revision.as_str());
        for (key, value) in patch["metadata"]["annotations"].as_object().unwrap() {
            match value.as_str() {
                Some(value) => _ = node.annotations.insert(key.clone(), value.to_owned()),
                None => _ = node.annotations.remove(key),
            }
        }
        if let Some(value) = patch.get("spec").and_then(|spec| spec.get("unschedulable")) {
            node.cordoned = value.as_bool().unwrap_or_default();
        }
        node
    }

    fn held(node: Node, by: &str, scope: HoldScope) -> Node {
        let action = plan_hold(&node, NodeHold::read(&node).unwrap(), &owner(by), scope);
        apply(node, &action)
    }

    fn released(node: Node, by: &str, scope: HoldScope) -> Node {
        let action = plan_release(&node, NodeHold::read(&node).unwrap(), &owner(by), scope);
        apply(node, &action)
    }

    #[test]
    fn owner_previous_state_and_cordon_are_written_in_one_patch() {
        let HoldAction::Patch(patch) = plan_hold(&node(false, None), None, &owner("run-1"), HoldScope::ALL) else {
            panic!()
        };
        assert_eq!(patch["spec"]["unschedulable"], true);
        assert_eq!(patch["metadata"]["annotations"][AUTOSCALER_ANNOTATION], "true");
        let record = patch["metadata"]["annotations"][HOLD_ANNOTATION].as_str().unwrap();
        assert_eq!(record, r#"{"owner":"run-1","wasCordoned":false,"autoscalerWas":"absent"}"#);
    }

    proptest! {
        #[test]
        fn released_node_is_restored(cordoned: bool, annotation in prop::option::of("true|false|"), apart: bool) {
            let before = node(cordoned, annotation.as_deref());
            let after = if apart {
                let held = held(held(before.clone(), "run-1", HoldScope::AUTOSCALER), "run-1", HoldScope::CORDON);
                prop_assert!(held.cordoned);
                prop_assert_eq!(&held.annotations[AUTOSCALER_ANNOTATION], "true");
                released(released(held, "run-1", HoldScope::CORDON), "run-1", HoldScope::AUTOSCALER)
            } else {
                released(held(before.clone(), "run-1", HoldScope::ALL), "run-1", HoldScope::ALL)
            };
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn resumed_run_does_not_record_its_own_cordon_as_previous_state() {
        let once = held(node(false, None), "run-1", HoldScope::ALL);
        let twice = held(once.clone(), "run-1", HoldScope::ALL);
        assert_eq!(twice, once);
        assert!(!released(twice, "run-1", HoldScope::ALL).cordoned);
    }

    #[test]
    fn held_node_is_neither_held_nor_released_by_another_run() {
        let node = held(node(false, None), "run-1", HoldScope::CORDON);
        let hold = NodeHold::read(&node).unwrap();
        assert_eq!(plan_hold(&node, hold.clone(), &owner("run-2"), HoldScope::ALL), HoldAction::HeldBy(owner("run-1")));
        assert_eq!(plan_release(&node, hold, &owner("run-2"), HoldScope::ALL), HoldAction::HeldBy(owner("run-1")));
    }

    #[test]
    fn changes_by_other_actors_are_not_undone() {
        let mut changed = held(node(true, None), "run-1", HoldScope::ALL);
        changed.cordoned = false;
        changed.annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), "false".to_owned());
        let after = released(changed, "run-1", HoldScope::ALL);
        assert!(!after.cordoned, "an uncordon by another actor is not undone");
        assert_eq!(after.annotations[AUTOSCALER_ANNOTATION], "false");
        assert!(!after.annotations.contains_key(HOLD_ANNOTATION));
    }

    #[test]
    fn releasing_an_unheld_node_does_nothing() {
        assert_eq!(plan_release(&node(true, Some("true")), None, &owner("run-1"), HoldScope::ALL), HoldAction::None);
    }
}
