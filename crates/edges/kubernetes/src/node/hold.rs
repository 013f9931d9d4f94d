//! Holds and releases as pure functions: from a node to the patch that holds it or restores it.

use std::collections::BTreeMap;

use jiff::Timestamp;
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
/// Takes the node out of the load balancers of Services. A cordon alone has not done that since Kubernetes 1.19.
pub const LOAD_BALANCER_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const EXCLUDED: &str = "true";

/// The parts of a node that are held. One owner can hold and release them one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldScope {
    /// The node is unschedulable and gets no traffic from load balancers.
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
    /// The load balancer label before; `None` when it is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_was: Option<PreviousValue>,
    /// The autoscaler annotation before; `None` when it is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler_was: Option<PreviousValue>,
    /// When the node was held; `None` for the hold of a run, which has it in its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl NodeHold {
    /// Parses the value of the annotation [`HOLD_ANNOTATION`].
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// Reads the hold from a node's annotation.
    pub fn read(node: &Node) -> Result<Option<Self>, Error> {
        let Some(text) = node.annotations.get(HOLD_ANNOTATION) else { return Ok(None) };
        Self::parse(text).map(Some).map_err(|source| Error::BadAnnotation {
            node: node.name.clone(),
            annotation: HOLD_ANNOTATION,
            text: text.clone(),
            source,
        })
    }
}

/// The value of an annotation or a label before the hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PreviousValue {
    Absent,
    Value(String),
}

impl PreviousValue {
    fn read(values: &BTreeMap<String, String>, key: &str) -> Self {
        values.get(key).map_or(Self::Absent, |value| Self::Value(value.clone()))
    }
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
pub(crate) fn plan_hold(
    node: &Node,
    current: Option<NodeHold>,
    owner: &Owner,
    scope: HoldScope,
    since: Option<Timestamp>,
) -> HoldAction {
    let mut hold = match current {
        Some(hold) if hold.owner != *owner => return HoldAction::HeldBy(hold.owner),
        Some(hold) => hold,
        None => {
            NodeHold { owner: owner.clone(), was_cordoned: None, load_balancer_was: None, autoscaler_was: None, since }
        }
    };
    let mut changes = Changes::default();
    if scope.cordon && hold.was_cordoned.is_none() {
        hold.was_cordoned = Some(node.cordoned);
        if !node.cordoned {
            changes.spec.insert("unschedulable".to_owned(), json!(true));
        }
    }
    if scope.cordon && hold.load_balancer_was.is_none() {
        let was = PreviousValue::read(&node.labels, LOAD_BALANCER_LABEL);
        // The label counts with any value.
        if was == PreviousValue::Absent {
            changes.labels.insert(LOAD_BALANCER_LABEL.to_owned(), json!(EXCLUDED));
        }
        hold.load_balancer_was = Some(was);
    }
    if scope.autoscaler && hold.autoscaler_was.is_none() {
        let was = PreviousValue::read(&node.annotations, AUTOSCALER_ANNOTATION);
        if was != PreviousValue::Value(DISABLED.to_owned()) {
            changes.annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), json!(DISABLED));
        }
        hold.autoscaler_was = Some(was);
    }
    patch(node, changes, Some(&hold))
}

/// Plans a release: each part is restored to its previous state. A part that another actor changed in the meantime is left alone.
pub(crate) fn plan_release(node: &Node, current: Option<NodeHold>, owner: &Owner, scope: HoldScope) -> HoldAction {
    let Some(mut hold) = current else { return HoldAction::None };
    if hold.owner != *owner {
        return HoldAction::HeldBy(hold.owner);
    }
    let mut changes = Changes::default();
    if scope.cordon {
        if hold.was_cordoned.take() == Some(false) && node.cordoned {
            changes.spec.insert("unschedulable".to_owned(), Value::Null);
        }
        let unchanged = node.labels.get(LOAD_BALANCER_LABEL).is_some_and(|value| value == EXCLUDED);
        if hold.load_balancer_was.take() == Some(PreviousValue::Absent) && unchanged {
            changes.labels.insert(LOAD_BALANCER_LABEL.to_owned(), Value::Null);
        }
    }
    if scope.autoscaler {
        let unchanged = node.annotations.get(AUTOSCALER_ANNOTATION).is_some_and(|value| value == DISABLED);
        match hold.autoscaler_was.take() {
            Some(PreviousValue::Absent) if unchanged => {
                _ = changes.annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), Value::Null);
            }
            Some(PreviousValue::Value(was)) if unchanged && was != DISABLED => {
                changes.annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), json!(was));
            }
            _ => {}
        }
    }
    let still_held = hold.was_cordoned.is_some() || hold.load_balancer_was.is_some() || hold.autoscaler_was.is_some();
    patch(node, changes, still_held.then_some(&hold))
}

/// The fields of a merge patch; null removes a value.
#[derive(Default)]
struct Changes {
    annotations: Map<String, Value>,
    labels: Map<String, Value>,
    spec: Map<String, Value>,
}

/// One patch for everything, with the revision that was read: the server rejects it if the node has changed since.
fn patch(node: &Node, changes: Changes, hold: Option<&NodeHold>) -> HoldAction {
    let Changes { mut annotations, labels, spec } = changes;
    let text = hold.map(|hold| serde_json::to_string(hold).expect("names and flags are JSON"));
    if node.annotations.get(HOLD_ANNOTATION) != text.as_ref() {
        annotations.insert(HOLD_ANNOTATION.to_owned(), json!(text));
    }
    if annotations.is_empty() && labels.is_empty() && spec.is_empty() {
        return HoldAction::None;
    }
    let mut patch = json!({"metadata": {"resourceVersion": node.revision, "annotations": annotations}});
    if !labels.is_empty() {
        patch["metadata"]["labels"] = Value::Object(labels);
    }
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

    fn labelled(mut node: Node, value: Option<&str>) -> Node {
        node.labels.extend(value.map(|value| (LOAD_BALANCER_LABEL.to_owned(), value.to_owned())));
        node
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
        for (key, value) in patch["metadata"]["labels"].as_object().into_iter().flatten() {
            match value.as_str() {
                Some(value) => _ = node.labels.insert(key.clone(), value.to_owned()),
                None => _ = node.labels.remove(key),
            }
        }
        if let Some(value) = patch.get("spec").and_then(|spec| spec.get("unschedulable")) {
            node.cordoned = value.as_bool().unwrap_or_default();
        }
        node
    }

    fn held(node: Node, by: &str, scope: HoldScope) -> Node {
        let action = plan_hold(&node, NodeHold::read(&node).unwrap(), &owner(by), scope, None);
        apply(node, &action)
    }

    fn released(node: Node, by: &str, scope: HoldScope) -> Node {
        let action = plan_release(&node, NodeHold::read(&node).unwrap(), &owner(by), scope);
        apply(node, &action)
    }

    #[test]
    fn owner_previous_state_and_cordon_are_written_in_one_patch() {
        let HoldAction::Patch(patch) = plan_hold(&node(false, None), None, &owner("run-1"), HoldScope::ALL, None)
        else {
            panic!()
        };
        assert_eq!(patch["spec"]["unschedulable"], true);
        assert_eq!(patch["metadata"]["annotations"][AUTOSCALER_ANNOTATION], "true");
        let record = patch["metadata"]["annotations"][HOLD_ANNOTATION].as_str().unwrap();
        assert_eq!(
            record,
            r#"{"owner":"run-1","wasCordoned":false,"loadBalancerWas":"absent","autoscalerWas":"absent"}"#
        );
        assert_eq!(patch["metadata"]["labels"][LOAD_BALANCER_LABEL], "true");
    }

    proptest! {
        #[test]
        fn released_node_is_restored(
            cordoned: bool,
            annotation in prop::option::of("true|false|"),
            label in prop::option::of("true|false|"),
            apart: bool,
        ) {
            let before = labelled(node(cordoned, annotation.as_deref()), label.as_deref());
            let after = if apart {
                let held = held(held(before.clone(), "run-1", HoldScope::AUTOSCALER), "run-1", HoldScope::CORDON);
                prop_assert!(held.cordoned && held.labels.contains_key(LOAD_BALANCER_LABEL));
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
    fn time_of_a_hold_is_that_of_the_first_one() {
        let at = |text: &str| Some(text.parse().unwrap());
        let hold = |node: Node, since| {
            let action =
                plan_hold(&node, NodeHold::read(&node).unwrap(), &owner("rollout/r/1"), HoldScope::CORDON, since);
            apply(node, &action)
        };
        let once = hold(node(false, None), at("2026-01-02T03:04:05Z"));
        assert_eq!(NodeHold::read(&once).unwrap().unwrap().since, at("2026-01-02T03:04:05Z"));
        assert_eq!(hold(once.clone(), at("2026-01-02T03:09:05Z")), once);
    }

    #[test]
    fn held_node_is_neither_held_nor_released_by_another_run() {
        let node = held(node(false, None), "run-1", HoldScope::CORDON);
        let hold = NodeHold::read(&node).unwrap();
        let second = plan_hold(&node, hold.clone(), &owner("run-2"), HoldScope::ALL, None);
        assert_eq!(second, HoldAction::HeldBy(owner("run-1")));
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
    fn load_balancer_label_of_another_actor_is_kept() {
        let before = labelled(node(false, None), Some(""));
        let during = held(before.clone(), "run-1", HoldScope::CORDON);
        assert_eq!(during.labels, before.labels, "a label without a value counts, too");
        assert_eq!(released(during, "run-1", HoldScope::CORDON).labels, before.labels);
        let mut changed = held(node(false, None), "run-1", HoldScope::CORDON);
        changed.labels.insert(LOAD_BALANCER_LABEL.to_owned(), "maintenance".to_owned());
        assert_eq!(released(changed, "run-1", HoldScope::CORDON).labels[LOAD_BALANCER_LABEL], "maintenance");
    }

    #[test]
    fn hold_of_an_older_kiln_is_completed_and_released() {
        let mut old = node(true, None);
        old.annotations.insert(HOLD_ANNOTATION.to_owned(), r#"{"owner":"run-1","wasCordoned":false}"#.to_owned());
        let resumed = held(old, "run-1", HoldScope::CORDON);
        assert!(resumed.labels.contains_key(LOAD_BALANCER_LABEL));
        assert_eq!(released(resumed, "run-1", HoldScope::CORDON), node(false, None));
    }

    #[test]
    fn releasing_an_unheld_node_does_nothing() {
        assert_eq!(plan_release(&node(true, Some("true")), None, &owner("run-1"), HoldScope::ALL), HoldAction::None);
    }
}
