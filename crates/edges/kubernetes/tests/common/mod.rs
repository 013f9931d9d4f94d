//! The decision table of `docs/reference/drain.md`, and pods of its classes.

use kiln_kubernetes::drain::Flags;
use serde_json::{Value, json};

/// The outcome that the table gives for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The pod leaves, or it is terminating and remains: then the drain fails.
    Evict { remains: bool },
    /// The pod stays, and the node counts as drained.
    Skip,
    /// Nothing is changed.
    Block,
}

/// A cell of the table.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) class: String,
    pub(crate) letters: String,
    pub(crate) flags: Flags,
    pub(crate) outcome: Outcome,
}

/// Every cell of the table.
pub(crate) fn cases() -> Vec<Case> {
    let page = include_str!("../../../../../docs/reference/drain.md");
    let rows = |line: &&str| line.starts_with("| ") && line.matches('|').count() == 11;
    let mut rows =
        page.lines().filter(rows).map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let head = rows.next().expect("the table has a head");
    let mut cases = Vec::new();
    for row in rows {
        let remains = row[9] == "remains";
        for column in 1..9 {
            let letters = if head[column] == "none" { "" } else { head[column] };
            let outcome = match row[column] {
                "evict" => Outcome::Evict { remains },
                "skip" => Outcome::Skip,
                "block" => Outcome::Block,
                other => panic!("unknown outcome `{other}`"),
            };
            cases.push(Case { class: row[0].to_owned(), letters: letters.to_owned(), flags: flags(letters), outcome });
        }
    }
    assert_eq!(cases.len(), 17 * 8, "unexpected number of classes in the table");
    cases
}

fn flags(letters: &str) -> Flags {
    Flags {
        force: letters.contains('F'),
        delete_emptydir_data: letters.contains('E'),
        ignore_daemonsets: letters.contains('D'),
        disable_eviction: false,
    }
}

/// The phase of a pod of this class.
pub(crate) fn phase(class: &str) -> &'static str {
    if class.starts_with("completed") { "Succeeded" } else { "Running" }
}

/// A pod of this class. Its `DaemonSet` is called `agents`, or `forgotten` where it no longer exists.
pub(crate) fn pod(class: &str, namespace: &str, name: &str, node: &str) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"pod": name}, "annotations": {}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 5,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "example.invalid/c"}],
        },
    });
    let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "00000000-0000-0000-0000-00000000d5d5", "controller": true}]);
    let class_head = class.split(", emptyDir").next().unwrap_or_default();
    match class_head {
        "DaemonSet" | "completed, DaemonSet" => pod["metadata"]["ownerReferences"] = owner("DaemonSet", "agents"),
        "deleted DaemonSet" => pod["metadata"]["ownerReferences"] = owner("DaemonSet", "forgotten"),
        "mirror" => pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = json!("0123456789abcdef"),
        "unmanaged" | "completed" => {}
        "replicated" | "finalizer" | "other namespace's budget" | "exhausted budget" | "two budgets" => {
            pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "web");
        }
        other => panic!("unknown class `{other}`"),
    }
    if class == "finalizer" {
        pod["metadata"]["finalizers"] = json!(["example.invalid/keep"]);
    }
    if class.ends_with("emptyDir") {
        pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    }
    pod
}
