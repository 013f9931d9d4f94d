//! The pod of a task: what it may touch, and where it leaves what it found.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::name::{Namespace, NodeName, Owner, mark};

/// The label that says what a pod of ours does.
pub const TASK_LABEL: &str = "kiln.dev/task";
/// The annotation with the `ConfigMap` that the pod writes its findings to, in its own namespace.
pub const RESULT_ANNOTATION: &str = "kiln.dev/result";
/// The key of the findings in that `ConfigMap`.
pub const RESULT_KEY: &str = "inspection.json";
/// The annotation with the Secret that the pod writes what it found and nobody may read to.
pub const SECRET_RESULT_ANNOTATION: &str = "kiln.dev/secret-result";
/// The key of the custom data in that Secret.
pub const SECRET_RESULT_KEY: &str = "custom-data";
/// The annotation with the run that made a pod.
pub const RUN_ANNOTATION: &str = "kiln.dev/run";
/// The annotation of nodes whose inside is played by a world.
pub const SIMULATED_ANNOTATION: &str = "kiln.dev/simulated";

/// What a pod does inside a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Reads, and changes nothing.
    Inspect,
    /// Puts the unit there that lets a clone clean itself at its first boot, and records the machine's id. It wipes nothing.
    InstallFirstBoot,
}

impl Task {
    /// The label's value, and the program's verb.
    pub fn word(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::InstallFirstBoot => "install-first-boot",
        }
    }

    /// What the pod says of itself to who finds it on a node.
    pub(crate) fn announcement(self) -> &'static str {
        match self {
            Self::Inspect => "reads what a copy of this node's disk would hold; changes nothing",
            Self::InstallFirstBoot => {
                "installs the unit by which a copy of this node's disk gets an identity of its own; removes nothing"
            }
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The name of a task's pod on a node, and of what it leaves. A node's name may be as long as any object's; then the end becomes a mark.
pub(crate) fn object_of(task: Task, node: &NodeName) -> String {
    const LONGEST: usize = 253;
    let whole = format!("kiln-{task}-{node}");
    if whole.len() <= LONGEST {
        return whole;
    }
    let head = whole[..LONGEST - 9].trim_end_matches(['-', '.']);
    format!("{head}-{:08x}", mark(node.as_str().as_bytes()))
}

/// The pod of a task. All that it may do to the node stands in its container's security context and in the one mount.
pub(crate) fn pod_of(
    task: Task,
    node: &NodeName,
    run: &Owner,
    place: &Namespace,
    image: &str,
    within: Duration,
) -> Pod {
    let name = object_of(task, node);
    let writes = task == Task::InstallFirstBoot;
    // Root without capabilities reads what root owns; the rest is for files of others.
    let capabilities: &[&str] = if writes { &["CHOWN", "DAC_OVERRIDE", "FOWNER"] } else { &["DAC_READ_SEARCH"] };
    let mut annotations = BTreeMap::from([
        (RUN_ANNOTATION, run.as_str()),
        ("kiln.dev/announcement", task.announcement()),
        // Neither may the autoscaler wait for it, nor is it worth a node.
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"),
    ]);
    if task == Task::Inspect {
        annotations.insert(RESULT_ANNOTATION, &name);
        annotations.insert(SECRET_RESULT_ANNOTATION, &name);
    }
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": place.as_str(),
            "labels": {"app.kubernetes.io/managed-by": "kiln", (TASK_LABEL): task.word()},
            "annotations": annotations,
        },
        "spec": {
            // Bound by name, past the scheduler: the node may be cordoned, tainted or full.
            "nodeName": node.as_str(),
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": within.as_secs(),
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "volumes": [{"name": "host", "hostPath": {"path": "/", "type": "Directory"}}],
            "containers": [{
                "name": task.word(),
                "image": image,
                "args": [task.word(), "--root", "/host"],
                "volumeMounts": [{"name": "host", "mountPath": "/host", "readOnly": !writes}],
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
                "securityContext": {
                    "privileged": false,
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "runAsUser": 0,
                    "capabilities": {"drop": ["ALL"], "add": capabilities},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            }],
        },
    });
    serde_json::from_value(pod).expect("a pod is a pod")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn pod(task: Task) -> Value {
        let (node, run, place) = ("n".parse().unwrap(), "run-1".parse().unwrap(), "kiln".parse().unwrap());
        serde_json::to_value(pod_of(task, &node, &run, &place, "kilnd:1", Duration::from_mins(2))).unwrap()
    }

    #[test]
    fn a_pod_that_inspects_cannot_write_to_its_node_and_one_that_installs_can() {
        for (task, read_only) in [(Task::Inspect, true), (Task::InstallFirstBoot, false)] {
            let pod = pod(task);
            let container = &pod["spec"]["containers"][0];
            assert_eq!(container["volumeMounts"][0]["readOnly"], read_only);
            assert_eq!(container["volumeMounts"][0]["mountPath"], "/host");
            let context = &container["securityContext"];
            assert_eq!((&context["privileged"], &context["allowPrivilegeEscalation"]), (&json!(false), &json!(false)));
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
            assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
        }
        assert_eq!(
            pod(Task::Inspect)["spec"]["containers"][0]["securityContext"]["capabilities"]["add"],
            json!(["DAC_READ_SEARCH"])
        );
    }

    #[test]
    fn a_pod_is_bound_announced_limited_and_says_where_its_findings_go() {
        let pod = pod(Task::Inspect);
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(pod["spec"]["tolerations"], json!([{"operator": "Exists"}]));
        assert_eq!(
            (&pod["spec"]["restartPolicy"], &pod["spec"]["activeDeadlineSeconds"]),
            (&json!("Never"), &json!(120))
        );
        assert_eq!(pod["metadata"]["labels"][TASK_LABEL], "inspect");
        assert_eq!(pod["metadata"]["annotations"][RESULT_ANNOTATION], "kiln-inspect-n");
        assert_eq!(pod["metadata"]["annotations"][RUN_ANNOTATION], "run-1");
        assert!(pod["metadata"]["annotations"]["kiln.dev/announcement"].as_str().unwrap().contains("changes nothing"));
    }

    #[test]
    fn the_longest_node_names_have_pods_of_their_own() {
        let name =
            |end: char| format!("{}{end}", ["a".repeat(60), "b".repeat(60), "c".repeat(60), "d".repeat(60)].join("."));
        let objects = ['x', 'y'].map(|end| object_of(Task::InstallFirstBoot, &name(end).parse().unwrap()));
        assert_ne!(objects[0], objects[1]);
        for object in &objects {
            assert!(object.parse::<NodeName>().is_ok(), "{object} is no object's name");
        }
    }
}
