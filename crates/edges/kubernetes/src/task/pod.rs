//! The pod of a task: what it may touch, and where it leaves what it found.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

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

/// What the pods of tasks run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskImage {
    /// The image, which holds kilnd at [`PROGRAM`].
    pub(crate) name: String,
    /// The Secret, in the namespace of the pods, that it is pulled with.
    pub(crate) pull_secret: Option<String>,
}

/// Where kilnd is in our image.
const PROGRAM: &str = "/usr/local/bin/kilnd";
/// An image is pulled in a minute or two; reading a disk's package list takes seconds. What takes longer has a kubelet that does not work.
pub(super) const WITHIN: Duration = Duration::from_mins(3);
/// Where the node's root is in a pod.
const HOST: &str = "/host";
/// The firmware's words. Every container has the kernel's own `/sys`, read-only; the id in it is the machine's.
const DMI: &str = "/sys/class/dmi/id";

/// The pod of a task as it would be made, for who wants to see it first.
pub fn task_pod(task: Task, node: &NodeName, run: &Owner, place: &Namespace, image: &str, key: &str) -> Pod {
    let image = TaskImage { name: image.to_owned(), pull_secret: None };
    Order { task, node, run, place, image: &image, within: WITHIN }.pod(key)
}

/// A folder of the node that a pod sees below [`HOST`].
struct Seen {
    name: &'static str,
    path: &'static str,
    kind: &'static str,
}

impl Seen {
    const fn new(name: &'static str, path: &'static str, kind: &'static str) -> Self {
        Self { name, path, kind }
    }
}

/// All of it, to read.
const READ: [Seen; 1] = [Seen::new("root", "/", "Directory")];
/// What an installation writes to, and nothing else of the node.
const WRITTEN: [Seen; 4] = [
    Seen::new("program", "/usr/bin", "Directory"),
    Seen::new("units", "/usr/lib/systemd/system", "Directory"),
    Seen::new("links", "/etc/systemd/system", "Directory"),
    Seen::new("state", "/var/lib/kiln", "DirectoryOrCreate"),
];

/// Which task, for whom and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) task: Task,
    pub(crate) node: &'a NodeName,
    pub(crate) run: &'a Owner,
    pub(crate) place: &'a Namespace,
    pub(crate) image: &'a TaskImage,
    pub(crate) within: Duration,
}

impl Order<'_> {
    fn words(&self, key: &str) -> Vec<String> {
        let verb: &[&str] = match self.task {
            Task::Inspect => &["inspect", "--output", "json", "--custom-data-for", key],
            Task::InstallFirstBoot => &["install", "--output", "json"],
        };
        verb.iter().chain(&["--root", HOST, "--dmi", DMI]).map(ToString::to_string).collect()
    }

    /// The pod. All that it may do to the node stands in its container's security context and in its mounts. Custom data that it finds
    /// is closed with the key.
    pub(crate) fn pod(&self, key: &str) -> Pod {
        let Self { task, node, run, place, image, within } = *self;
        let name = object_of(task, node);
        let reads = task == Task::Inspect;
        // Root without capabilities reads and writes what root owns; the rest is for files of others, which are only read.
        let capabilities: &[&str] = if reads { &["DAC_READ_SEARCH"] } else { &[] };
        let seen: &[Seen] = if reads { &READ } else { &WRITTEN };
        let volumes: Vec<Value> = seen
            .iter()
            .map(|Seen { name, path, kind }| json!({"name": name, "hostPath": {"path": path, "type": kind}}))
            .collect();
        let mounts: Vec<Value> = seen
            .iter()
            .map(|Seen { name, path, .. }| {
                let mut mount = json!({"name": name, "mountPath": format!("{HOST}{path}").trim_end_matches('/')});
                if reads {
                    mount["readOnly"] = json!(true);
                    // Disks that are mounted below would stay writable. Servers and runtimes that do not know the word do without.
                    mount["recursiveReadOnly"] = json!("IfPossible");
                }
                mount
            })
            .collect();
        let mut annotations = BTreeMap::from([
            (RUN_ANNOTATION, run.as_str()),
            ("kiln.dev/announcement", task.announcement()),
            // Neither may the autoscaler wait for it, nor is it worth a node.
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"),
        ]);
        if reads {
            annotations.insert(RESULT_ANNOTATION, &name);
            annotations.insert(SECRET_RESULT_ANNOTATION, &name);
        }
        let pull: Vec<Value> = image.pull_secret.iter().map(|secret| json!({"name": secret})).collect();
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
                "imagePullSecrets": pull,
                "volumes": volumes,
                "containers": [{
                    "name": task.word(),
                    "image": image.name,
                    "command": [PROGRAM],
                    "args": self.words(key),
                    // What a failing kilnd says is in the pod's status, without leave to read logs.
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": mounts,
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
                    "securityContext": {
                        "privileged": false,
                        "allowPrivilegeEscalation": false,
                        "readOnlyRootFilesystem": true,
                        "runAsUser": 0,
                        "runAsGroup": 0,
                        "capabilities": {"drop": ["ALL"], "add": capabilities},
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                }],
            },
        });
        serde_json::from_value(pod).expect("a pod is a pod")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(task: Task) -> Value {
        let (node, run, place) = ("n".parse().unwrap(), "run-1".parse().unwrap(), "kiln".parse().unwrap());
        let image = TaskImage { name: "kiln:1".to_owned(), pull_secret: Some("registry".to_owned()) };
        let within = Duration::from_mins(2);
        let order = Order { task, node: &node, run: &run, place: &place, image: &image, within };
        serde_json::to_value(order.pod("KEY")).unwrap()
    }

    #[test]
    fn a_pod_that_inspects_sees_all_of_its_node_and_writes_nowhere() {
        let pod = pod(Task::Inspect);
        assert_eq!(pod["spec"]["volumes"], json!([{"name": "root", "hostPath": {"path": "/", "type": "Directory"}}]));
        let container = &pod["spec"]["containers"][0];
        let mount = json!({"name": "root", "mountPath": "/host", "readOnly": true, "recursiveReadOnly": "IfPossible"});
        assert_eq!(container["volumeMounts"], json!([mount]));
        assert_eq!(container["securityContext"]["capabilities"]["add"], json!(["DAC_READ_SEARCH"]));
        let words = "inspect --output json --custom-data-for KEY --root /host --dmi /sys/class/dmi/id";
        assert_eq!(container["args"], json!(words.split(' ').collect::<Vec<_>>()));
    }

    #[test]
    fn a_pod_that_installs_sees_what_it_writes_and_nothing_else_of_its_node() {
        let pod = pod(Task::InstallFirstBoot);
        let paths = |list: &Value, pointer: &str| -> Vec<String> {
            let all = list.as_array().unwrap().iter();
            all.map(|one| one.pointer(pointer).unwrap().as_str().unwrap().to_owned()).collect()
        };
        let written = ["/usr/bin", "/usr/lib/systemd/system", "/etc/systemd/system", "/var/lib/kiln"];
        assert_eq!(paths(&pod["spec"]["volumes"], "/hostPath/path"), written);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(paths(&container["volumeMounts"], "/mountPath"), written.map(|path| format!("/host{path}")));
        assert_eq!(container["securityContext"]["capabilities"], json!({"drop": ["ALL"], "add": []}));
        let words = "install --output json --root /host --dmi /sys/class/dmi/id";
        assert_eq!(container["args"], json!(words.split(' ').collect::<Vec<_>>()));
    }

    #[test]
    fn no_pod_has_a_privilege_an_account_or_another_program() {
        for task in [Task::Inspect, Task::InstallFirstBoot] {
            let pod = pod(task);
            let spec = &pod["spec"];
            for shared in ["hostPID", "hostNetwork", "hostIPC", "serviceAccountName", "initContainers"] {
                assert!(spec[shared].is_null(), "{shared}");
            }
            assert_eq!(spec["automountServiceAccountToken"], false);
            assert_eq!(spec["imagePullSecrets"], json!([{"name": "registry"}]));
            let container = &spec["containers"][0];
            assert_eq!((&container["image"], &container["command"]), (&json!("kiln:1"), &json!([PROGRAM])));
            let context = &container["securityContext"];
            assert_eq!((&context["privileged"], &context["allowPrivilegeEscalation"]), (&json!(false), &json!(false)));
            assert_eq!((&context["readOnlyRootFilesystem"], &context["runAsUser"]), (&json!(true), &json!(0)));
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
            assert_eq!(context["seccompProfile"], json!({"type": "RuntimeDefault"}));
        }
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
