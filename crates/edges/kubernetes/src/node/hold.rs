//! What it takes to hold a node and to give it back as it was: values only.

use kiln_types::Node;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::name::Owner;

/// Who holds a node and what it was before, as JSON.
pub const HOLD_ANNOTATION: &str = "kiln.dev/hold";
/// Keeps the cluster autoscaler from removing the node.
pub const AUTOSCALER_ANNOTATION: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
const KEPT: &str = "true";

/// What of a node is held. One after the other may be taken and given back, by the same owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldWhat {
    /// Nothing new is scheduled onto it.
    pub cordon: bool,
    /// The autoscaler leaves it.
    pub from_autoscaler: bool,
}

impl HoldWhat {
    /// Both.
    pub const ALL: Self = Self { cordon: true, from_autoscaler: true };
    /// The cordon alone.
    pub const CORDON: Self = Self { cordon: true, from_autoscaler: false };
    /// The autoscaler's annotation alone.
    pub const FROM_AUTOSCALER: Self = Self { cordon: false, from_autoscaler: true };
}

/// Who holds a node and what it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeHold {
    /// The run that holds it.
    pub owner: Owner,
    /// Whether it was cordoned before; none when the cordon is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_cordoned: Option<bool>,
    /// What the autoscaler's annotation was before; none when it is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler_was: Option<Earlier>,
}

impl NodeHold {
    /// The hold that a node's annotation records.
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

/// What an annotation was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Earlier {
    /// There was none.
    Absent,
    /// It had this value.
    Value(String),
}

/// What to do about a node that is to be held or released.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// It is as it should be.
    Nothing,
    /// Somebody else holds it.
    HeldBy(Owner),
    /// This merge patch makes it so, if the node is still the one that was read.
    Patch(Value),
}

/// Holds more of a node. What is held already keeps its earlier state: a run that starts again does not take its own cordon for somebody
/// else's.
pub(crate) fn take(node: &Node, current: Option<NodeHold>, owner: &Owner, what: HoldWhat) -> Act {
    let mut hold = match current {
        Some(hold) if hold.owner != *owner => return Act::HeldBy(hold.owner),
        Some(hold) => hold,
        None => NodeHold { owner: owner.clone(), was_cordoned: None, autoscaler_was: None },
    };
    let mut annotations = Map::new();
    let mut spec = Map::new();
    if what.cordon && hold.was_cordoned.is_none() {
        hold.was_cordoned = Some(node.cordoned);
        if !node.cordoned {
            spec.insert("unschedulable".to_owned(), json!(true));
        }
    }
    if what.from_autoscaler && hold.autoscaler_was.is_none() {
        let was = node.annotations.get(AUTOSCALER_ANNOTATION);
        hold.autoscaler_was = Some(was.map_or(Earlier::Absent, |value| Earlier::Value(value.clone())));
        if was.is_none_or(|value| value != KEPT) {
            annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), json!(KEPT));
        }
    }
    patch(node, annotations, spec, Some(&hold))
}

/// Gives back what is held of a node, each to what it was. What somebody else changed meanwhile stays theirs.
pub(crate) fn give_back(node: &Node, current: Option<NodeHold>, owner: &Owner, what: HoldWhat) -> Act {
    let Some(mut hold) = current else { return Act::Nothing };
    if hold.owner != *owner {
        return Act::HeldBy(hold.owner);
    }
    let mut annotations = Map::new();
    let mut spec = Map::new();
    if what.cordon && hold.was_cordoned.take() == Some(false) && node.cordoned {
        spec.insert("unschedulable".to_owned(), Value::Null);
    }
    if what.from_autoscaler {
        let ours = node.annotations.get(AUTOSCALER_ANNOTATION).is_some_and(|value| value == KEPT);
        match hold.autoscaler_was.take() {
            Some(Earlier::Absent) if ours => _ = annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), Value::Null),
            Some(Earlier::Value(was)) if ours && was != KEPT => {
                annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), json!(was));
            }
            _ => {}
        }
    }
    let left = hold.was_cordoned.is_some() || hold.autoscaler_was.is_some();
    patch(node, annotations, spec, left.then_some(&hold))
}

/// One patch for everything, with the revision that was read: the server refuses it when the node is another one by now.
fn patch(node: &Node, mut annotations: Map<String, Value>, spec: Map<String, Value>, hold: Option<&NodeHold>) -> Act {
    let text = hold.map(|hold| serde_json::to_string(hold).expect("names and flags are JSON"));
    if node.annotations.get(HOLD_ANNOTATION) != text.as_ref() {
        annotations.insert(HOLD_ANNOTATION.to_owned(), json!(text));
    }
    if annotations.is_empty() && spec.is_empty() {
        return Act::Nothing;
    }
    let mut patch = json!({"metadata": {"resourceVersion": node.revision, "annotations": annotations}});
    if !spec.is_empty() {
        patch["spec"] = Value::Object(spec);
    }
    Act::Patch(patch)
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

    /// What the server makes of a patch.
    fn apply(mut node: Node, act: &Act) -> Node {
        let Act::Patch(patch) = act else { return node };
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

    fn held(node: Node, by: &str, what: HoldWhat) -> Node {
        let act = take(&node, NodeHold::read(&node).unwrap(), &owner(by), what);
        apply(node, &act)
    }

    fn released(node: Node, by: &str, what: HoldWhat) -> Node {
        let act = give_back(&node, NodeHold::read(&node).unwrap(), &owner(by), what);
        apply(node, &act)
    }

    #[test]
    fn owner_earlier_state_and_cordon_go_in_one_patch() {
        let Act::Patch(patch) = take(&node(false, None), None, &owner("run-1"), HoldWhat::ALL) else { panic!() };
        assert_eq!(patch["spec"]["unschedulable"], true);
        assert_eq!(patch["metadata"]["annotations"][AUTOSCALER_ANNOTATION], "true");
        let record = patch["metadata"]["annotations"][HOLD_ANNOTATION].as_str().unwrap();
        assert_eq!(record, r#"{"owner":"run-1","wasCordoned":false,"autoscalerWas":"absent"}"#);
    }

    proptest! {
        #[test]
        fn a_released_node_is_what_it_was(cordoned: bool, annotation in prop::option::of("true|false|"), apart: bool) {
            let before = node(cordoned, annotation.as_deref());
            let after = if apart {
                let held = held(held(before.clone(), "run-1", HoldWhat::FROM_AUTOSCALER), "run-1", HoldWhat::CORDON);
                prop_assert!(held.cordoned);
                prop_assert_eq!(&held.annotations[AUTOSCALER_ANNOTATION], "true");
                released(released(held, "run-1", HoldWhat::CORDON), "run-1", HoldWhat::FROM_AUTOSCALER)
            } else {
                released(held(before.clone(), "run-1", HoldWhat::ALL), "run-1", HoldWhat::ALL)
            };
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn a_run_that_starts_again_does_not_take_its_own_cordon_for_somebody_elses() {
        let once = held(node(false, None), "run-1", HoldWhat::ALL);
        let twice = held(once.clone(), "run-1", HoldWhat::ALL);
        assert_eq!(twice, once);
        assert!(!released(twice, "run-1", HoldWhat::ALL).cordoned);
    }

    #[test]
    fn another_run_neither_takes_nor_releases_a_held_node() {
        let node = held(node(false, None), "run-1", HoldWhat::CORDON);
        let hold = NodeHold::read(&node).unwrap();
        assert_eq!(take(&node, hold.clone(), &owner("run-2"), HoldWhat::ALL), Act::HeldBy(owner("run-1")));
        assert_eq!(give_back(&node, hold, &owner("run-2"), HoldWhat::ALL), Act::HeldBy(owner("run-1")));
    }

    #[test]
    fn what_somebody_else_changed_meanwhile_stays_theirs() {
        let mut changed = held(node(true, None), "run-1", HoldWhat::ALL);
        changed.cordoned = false;
        changed.annotations.insert(AUTOSCALER_ANNOTATION.to_owned(), "false".to_owned());
        let after = released(changed, "run-1", HoldWhat::ALL);
        assert!(!after.cordoned, "an uncordon by somebody else is not undone");
        assert_eq!(after.annotations[AUTOSCALER_ANNOTATION], "false");
        assert!(!after.annotations.contains_key(HOLD_ANNOTATION));
    }

    #[test]
    fn releasing_what_is_not_held_does_nothing() {
        assert_eq!(give_back(&node(true, Some("true")), None, &owner("run-1"), HoldWhat::ALL), Act::Nothing);
    }
}
