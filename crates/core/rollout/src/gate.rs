//! Gates: proofs that a node or a wave has to deliver.

use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

use crate::observed::NodeObserved;
use crate::time;

/// A gate of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeGate {
    ReadyFor(SignedDuration),
    DaemonSetsReady,
    ConditionsUnchanged(Vec<String>),
}

/// A gate that a node has not passed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) message: String,
    /// When it opens by itself.
    pub(crate) until: Option<Timestamp>,
}

/// Returns the first gate that the node has not passed. A node must be Ready even without gates.
pub(crate) fn closed(gates: &[NodeGate], node: &NodeObserved, now: Timestamp) -> Option<Closed> {
    if !node.ready {
        return Some(Closed { message: "it is not Ready".to_owned(), until: None });
    }
    gates.iter().find_map(|gate| gate.closed(node, now))
}

impl NodeGate {
    fn closed(&self, node: &NodeObserved, now: Timestamp) -> Option<Closed> {
        match self {
            Self::ReadyFor(wanted) => {
                let since = node.ready_changed(now);
                let until = time::add(since, *wanted);
                let message = format!("it must be Ready for {wanted:#}");
                (time::elapsed(since, now) < *wanted).then_some(Closed { message, until: Some(until) })
            }
            Self::DaemonSetsReady => (!node.daemon_sets_ready)
                .then(|| Closed { message: "not all pods of its DaemonSets are ready".to_owned(), until: None }),
            Self::ConditionsUnchanged(names) => names.iter().find_map(|name| {
                // A condition that is not reported is as good as `False`: node-problem-detector adds its conditions when it starts.
                let [before, after] = [&node.conditions_before, &node.conditions]
                    .map(|conditions| conditions.get(name).map_or("False", String::as_str));
                (before != after).then(|| Closed {
                    message: format!("condition `{name}` changed from {before} to {after}"),
                    until: None,
                })
            }),
        }
    }
}

/// A comparison with a number, such as `> 0.02`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Threshold {
    operator: Operator,
    number: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Threshold {
    /// Whether a value fails the gate. A value that is not a number proves nothing: `None`.
    pub(crate) fn fails(self, value: f64) -> Option<bool> {
        (!value.is_nan()).then_some(match self.operator {
            Operator::Above => value > self.number,
            Operator::AtLeast => value >= self.number,
            Operator::Below => value < self.number,
            Operator::AtMost => value <= self.number,
        })
    }
}

impl FromStr for Threshold {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let operators =
            [(">=", Operator::AtLeast), ("<=", Operator::AtMost), (">", Operator::Above), ("<", Operator::Below)];
        let (number, operator) = operators
            .into_iter()
            .find_map(|(sign, operator)| text.strip_prefix(sign).map(|number| (number, operator)))
            .ok_or(())?;
        match number.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Self { operator, number }),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_compares_with_all_operators() {
        for (text, failing, passing) in
            [("> 0.02", 0.03, 0.02), (">=1", 1.0, 0.9), ("< -1.5", -2.0, -1.5), ("<= 3", 3.0, 3.1)]
        {
            let threshold: Threshold = text.parse().expect(text);
            assert_eq!(threshold.fails(failing), Some(true), "{text}");
            assert_eq!(threshold.fails(passing), Some(false), "{text}");
        }
        for bad in ["", "1", "> x", ">", "> inf", "= 1"] {
            assert!(bad.parse::<Threshold>().is_err(), "{bad}");
        }
    }

    #[test]
    fn value_that_is_not_a_number_proves_nothing() {
        let threshold: Threshold = "> 0".parse().expect("a threshold");
        assert_eq!(threshold.fails(f64::NAN), None);
        assert_eq!(threshold.fails(f64::INFINITY), Some(true));
    }

    #[test]
    fn node_passes_when_it_was_ready_long_enough() {
        let now: Timestamp = "2026-03-02T12:00:00Z".parse().expect("a time");
        let gates = [NodeGate::ReadyFor(SignedDuration::from_mins(5))];
        let mut node = NodeObserved { ready: true, ready_since: Some(now), ..NodeObserved::default() };
        let until = closed(&gates, &node, now).expect("closed").until;
        assert_eq!(until.map(|time| time.to_string()).as_deref(), Some("2026-03-02T12:05:00Z"));
        node.ready_since = Some(now - SignedDuration::from_mins(5));
        assert_eq!(closed(&gates, &node, now), None);
        node.ready = false;
        assert!(closed(&[], &node, now).is_some(), "a node must be Ready even without gates");
    }

    #[test]
    fn condition_that_changed_closes_the_gate() {
        let gates = [NodeGate::ConditionsUnchanged(vec!["KernelDeadlock".to_owned()]), NodeGate::DaemonSetsReady];
        let mut node = NodeObserved { ready: true, daemon_sets_ready: true, ..NodeObserved::default() };
        let now = Timestamp::UNIX_EPOCH;
        node.conditions.insert("KernelDeadlock".to_owned(), "False".to_owned());
        assert_eq!(closed(&gates, &node, now), None, "a condition that appears as False has not changed");
        node.conditions.insert("KernelDeadlock".to_owned(), "True".to_owned());
        let message = closed(&gates, &node, now).expect("closed").message;
        assert_eq!(message, "condition `KernelDeadlock` changed from False to True");
        node.conditions_before.clone_from(&node.conditions);
        assert_eq!(closed(&gates, &node, now), None);
        node.daemon_sets_ready = false;
        assert!(closed(&gates, &node, now).is_some());
    }
}
