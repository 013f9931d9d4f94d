//! The pod of a task: what it can access, and where it leaves its result.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kiln_types::hash::fnv1a_32;
use serde_json::{Value, json};

use crate::name::{Namespace, NodeName, Owner};

/// The label with a pod's task.
pub const TASK_LABEL: &str = "kiln.dev/task";
/// The annotation with the name of the `ConfigMap` for the findings, in the pod's namespace.
pub const RESULT_ANNOTATION: &str = "kiln.dev/result";
/// The key of the findings in that `ConfigMap`.
pub const RESULT_KEY: &str = "inspection.json";
/// The key of a [`ThawReport`](kiln_types::ThawReport) in that `ConfigMap`.
pub const THAW_RESULT_KEY: &str = "thaw.json";
/// The annotation with the name of the Secret for confidential findings.
pub const SECRET_RESULT_ANNOTATION: &str = "kiln.dev/secret-result";
/// The key of the custom data in that Secret.
pub const SECRET_RESULT_KEY: &str = "custom-data";
/// The annotation with the run that created a pod.
pub const RUN_ANNOTATION: &str = "kiln.dev/run";
/// The annotation of nodes of the embedded Kubernetes.
pub const SIMULATED_ANNOTATION: &str = "kiln.dev/simulated";

/// A task that a pod carries out on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Read-only.
    Inspect,
    /// Installs the unit that resets a clone's identity at its first boot, and records the VM ID. It removes nothing.
    InstallFirstBoot,
    /// Freezes the file systems of the OS disk until the pod is deleted, for [`FREEZE_WINDOW`](kiln_types::FREEZE_WINDOW) at most. The pod is Ready while they are frozen.
    Freeze,
    /// Thaws the file systems of the OS disk if they are frozen, and reports the last freeze.
    Thaw,
}

impl Task {
    /// The value of the label, and kilnd's subcommand.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::InstallFirstBoot => "install-first-boot",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
        }
    }

    /// The key of the result in the `ConfigMap` that a simulated node writes; none if the task has no result.
    pub(super) fn result_key(self) -> Option<&'static str> {
        match self {
            Self::Inspect => Some(RESULT_KEY),
            Self::Thaw => Some(THAW_RESULT_KEY),
            Self::InstallFirstBoot | Self::Freeze => None,
        }
    }

    /// Whether the pod may do everything on the node. Only root with all capabilities can freeze a file system and talk to systemd.
    fn is_privileged(self) -> bool {
        matches!(self, Self::Freeze | Self::Thaw)
    }

    /// The description of the pod in its annotation and event.
    pub(crate) fn announcement(self) -> &'static str {
        match self {
            Self::Inspect => "reads what a clone of this node would contain; changes nothing",
            Self::InstallFirstBoot => {
                "installs the unit that gives a clone of this node its own identity; removes nothing"
            }
            Self::Freeze => {
                "freezes the file systems of this node for 9 s at most, while a snapshot of its disk is created"
            }
            Self::Thaw => "verifies that the file systems of this node are thawed; changes nothing else",
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of a task's pod and results. A node name can have the maximum length of an object name; then its end is replaced by a hash.
pub(crate) fn task_object_name(task: Task, node: &NodeName) -> String {
    const LONGEST: usize = 253;
    let whole = format!("kiln-{task}-{node}");
    if whole.len() <= LONGEST {
        return whole;
    }
    let head = whole[..LONGEST - 9].trim_end_matches(['-', '.']);
    format!("{head}-{:08x}", fnv1a_32(node.as_str().as_bytes()))
}

/// The image of the pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskImage {
    /// Contains kilnd at [`PROGRAM`].
    pub(crate) name: String,
    /// The image pull secret, in the namespace of the pods.
    pub(crate) pull_secret: Option<String>,
}

/// The path of kilnd in kiln's image.
const PROGRAM: &str = "/usr/local/bin/kilnd";
/// Pulling the image takes a minute or two, reading the package list seconds. If it takes longer, the kubelet does not work.
pub(super) const WITHIN: Duration = Duration::from_mins(3);
/// The mount point of the node's root in a pod.
const HOST: &str = "/host";
/// The firmware's data. Every container has the host's `/sys`, read-only, so its ID is the machine's.
const DMI: &str = "/sys/class/dmi/id";

/// The pod of a task, for tests and previews.
pub fn task_pod(task: Task, node: &NodeName, run: &Owner, namespace: &Namespace, image: &str, key: &str) -> Pod {
    let image = TaskImage { name: image.to_owned(), pull_secret: None };
    TaskSpec { task, node, run, namespace, image: &image, within: WITHIN }.pod(key)
}

/// A directory of the node that a pod mounts below [`HOST`].
struct HostMount {
    name: &'static str,
    path: &'static str,
    kind: &'static str,
}

impl HostMount {
    const fn new(name: &'static str, path: &'static str, kind: &'static str) -> Self {
        Self { name, path, kind }
    }
}

/// The whole node, read-only.
const READ: [HostMount; 1] = [HostMount::new("root", "/", "Directory")];
/// The directories that an installation writes to.
const WRITTEN: [HostMount; 4] = [
    HostMount::new("program", "/usr/bin", "Directory"),
    HostMount::new("units", "/usr/lib/systemd/system", "Directory"),
    HostMount::new("links", "/etc/systemd/system", "Directory"),
    HostMount::new("state", "/var/lib/kiln", "DirectoryOrCreate"),
];

/// The whole node, read-only, and the directory for the report of a freeze. It is in memory: the disk cannot be written meanwhile.
const FROZEN: [HostMount; 2] =
    [HostMount::new("root", "/", "Directory"), HostMount::new("reports", "/run/kiln", "DirectoryOrCreate")];
/// systemd's private socket on the node.
const SYSTEMD: &str = "/host/run/systemd/private";
/// The port that kilnd listens on while the file systems are frozen, on the node's loopback device. The kubelet connects to it to find out
/// whether the pod is Ready: that works without a network plugin, and nothing is executed or written on the frozen node.
const READY_PORT: u16 = 10_298;

/// A task with its node, run and pod settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskSpec<'a> {
    pub(crate) task: Task,
    pub(crate) node: &'a NodeName,
    pub(crate) run: &'a Owner,
    pub(crate) namespace: &'a Namespace,
    pub(crate) image: &'a TaskImage,
    pub(crate) within: Duration,
}

impl TaskSpec<'_> {
    fn arguments(&self, key: &str) -> Vec<String> {
        let verb: &[&str] = match self.task {
            Task::Inspect => &["inspect", "--output", "json", "--custom-data-for", key],
            Task::InstallFirstBoot => &["install", "--output", "json"],
            Task::Freeze => {
                let port = READY_PORT.to_string();
                return self.on_frozen(&["freeze", "--ready-port", &port]);
            }
            Task::Thaw => return self.on_frozen(&["thaw"]),
        };
        verb.iter().chain(&["--root", HOST, "--dmi", DMI]).map(ToString::to_string).collect()
    }

    fn on_frozen(&self, verb: &[&str]) -> Vec<String> {
        let options = ["--run", self.run.as_str(), "--output", "json", "--root", HOST, "--systemd", SYSTEMD];
        verb.iter().chain(&options).map(ToString::to_string).collect()
    }

    fn security_context(&self, capabilities: &[&str]) -> Value {
        if self.task.is_privileged() {
            return json!({"privileged": true, "readOnlyRootFilesystem": true, "runAsUser": 0, "runAsGroup": 0});
        }
        json!({
            "privileged": false,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "runAsUser": 0,
            "runAsGroup": 0,
            "capabilities": {"drop": ["ALL"], "add": capabilities},
            "seccompProfile": {"type": "RuntimeDefault"},
        })
    }

    /// Builds the pod. Its container's security context and mounts limit its access to the node. Custom data is encrypted to `key`.
    pub(crate) fn pod(&self, key: &str) -> Pod {
        let Self { task, node, run, namespace, image, within } = *self;
        let name = task_object_name(task, node);
        let reads = task == Task::Inspect;
        // Root without capabilities can read and write root's files. Files of other users are only read, which needs this one.
        let capabilities: &[&str] = if reads { &["DAC_READ_SEARCH"] } else { &[] };
        let mounts: &[HostMount] = match task {
            Task::Inspect => &READ,
            Task::InstallFirstBoot => &WRITTEN,
            Task::Freeze | Task::Thaw => &FROZEN,
        };
        let volumes: Vec<Value> = mounts
            .iter()
            .map(|HostMount { name, path, kind }| json!({"name": name, "hostPath": {"path": path, "type": kind}}))
            .collect();
        let mounts: Vec<Value> = mounts
            .iter()
            .map(|HostMount { name, path, .. }| {
                let mut mount = json!({"name": name, "mountPath": format!("{HOST}{path}").trim_end_matches('/')});
                if *path == "/" {
                    mount["readOnly"] = json!(true);
                    // Other disks that are mounted below would stay writable. Older servers and runtimes ignore the field.
                    mount["recursiveReadOnly"] = json!("IfPossible");
                }
                mount
            })
            .collect();
        let mut annotations = BTreeMap::from([
            (RUN_ANNOTATION, run.as_str()),
            ("kiln.dev/announcement", task.announcement()),
            // The pod neither delays a scale-down nor justifies a node.
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"),
        ]);
        if task.result_key().is_some() {
            annotations.insert(RESULT_ANNOTATION, &name);
        }
        if reads {
            annotations.insert(SECRET_RESULT_ANNOTATION, &name);
        }
        let pull: Vec<Value> = image.pull_secret.iter().map(|secret| json!({"name": secret})).collect();
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace.as_str(),
                "labels": {"app.kubernetes.io/managed-by": "kiln", (TASK_LABEL): task.as_str()},
                "annotations": annotations,
            },
            "spec": {
                // Bound by name, bypassing the scheduler: the node may be cordoned, tainted or full.
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
                    "name": task.as_str(),
                    "image": image.name,
                    "command": [PROGRAM],
                    "args": self.arguments(key),
                    // An error of kilnd then appears in the pod's status, which needs no permission to read logs.
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": mounts,
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
                    "securityContext": self.security_context(capabilities),
                }],
            },
        });
        if task == Task::Freeze {
            pod["spec"]["hostNetwork"] = json!(true);
            pod["spec"]["containers"][0]["readinessProbe"] = json!({
                "tcpSocket": {"host": "127.0.0.1", "port": READY_PORT},
                "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1,
            });
        }
        serde_json::from_value(pod).expect("the pod is valid")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(task: Task) -> Value {
        let (node, run, namespace) = ("n".parse().unwrap(), "run-1".parse().unwrap(), "kiln".parse().unwrap());
        let image = TaskImage { name: "kiln:1".to_owned(), pull_secret: Some("registry".to_owned()) };
        let within = Duration::from_mins(2);
        let order = TaskSpec { task, node: &node, run: &run, namespace: &namespace, image: &image, within };
        serde_json::to_value(order.pod("KEY")).unwrap()
    }

    #[test]
    fn inspection_pod_sees_the_whole_node_read_only() {
        let pod = pod(Task::Inspect);
        assert_eq!(pod["spec"]["volumes"], json!([{"name": "root", "hostPath": {"path": "/", "type": "Directory"}}]));
        let container = &pod["spec"]["containers"][0];
        let mount = json!({"name": "root", "mountPath": "/host", "readOnly": true, "recursiveReadOnly": "IfPossible"});
        assert_eq!(container["volumeMounts"], json!([mount]));
        assert_eq!(container["securityContext"]["capabilities"]["add"], json!(["DAC_READ_SEARCH"]));
        let arguments = "inspect --output json --custom-data-for KEY --root /host --dmi /sys/class/dmi/id";
        assert_eq!(container["args"], json!(arguments.split(' ').collect::<Vec<_>>()));
    }

    #[test]
    fn installation_pod_sees_only_the_directories_it_writes() {
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
        let arguments = "install --output json --root /host --dmi /sys/class/dmi/id";
        assert_eq!(container["args"], json!(arguments.split(' ').collect::<Vec<_>>()));
    }

    #[test]
    fn pods_have_no_privileges_and_no_service_account() {
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
    fn only_pods_of_live_runs_are_privileged_and_write_only_their_report() {
        for (task, verb) in [(Task::Freeze, "freeze --ready-port 10298"), (Task::Thaw, "thaw")] {
            let pod = pod(task);
            let container = &pod["spec"]["containers"][0];
            assert_eq!(container["securityContext"]["privileged"], true);
            let mounts = container["volumeMounts"].as_array().unwrap();
            let writable: Vec<&Value> = mounts.iter().filter(|mount| mount["readOnly"] != json!(true)).collect();
            assert_eq!(writable, [&json!({"name": "reports", "mountPath": "/host/run/kiln"})]);
            let options = "--run run-1 --output json --root /host --systemd /host/run/systemd/private";
            let arguments: Vec<String> = format!("{verb} {options}").split(' ').map(str::to_owned).collect();
            assert_eq!(container["args"], json!(arguments));
        }
        assert!(pod(Task::Thaw)["spec"]["hostNetwork"].is_null());
        assert_eq!(pod(Task::Thaw)["metadata"]["annotations"][RESULT_ANNOTATION], "kiln-thaw-n");
        let freeze = pod(Task::Freeze);
        assert_eq!(freeze["spec"]["hostNetwork"], true);
        let probe = &freeze["spec"]["containers"][0]["readinessProbe"];
        assert_eq!(probe["tcpSocket"], json!({"host": "127.0.0.1", "port": 10_298}));
        let seconds = kiln_types::FREEZE_WINDOW.as_secs();
        assert!(
            freeze["metadata"]["annotations"]["kiln.dev/announcement"]
                .as_str()
                .unwrap()
                .contains(&format!("for {seconds} s"))
        );
    }

    #[test]
    fn pod_is_bound_announced_limited_and_names_its_result_objects() {
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
    fn long_node_names_have_distinct_pods() {
        let name =
            |end: char| format!("{}{end}", ["a".repeat(60), "b".repeat(60), "c".repeat(60), "d".repeat(60)].join("."));
        let objects = ['x', 'y'].map(|end| task_object_name(Task::InstallFirstBoot, &name(end).parse().unwrap()));
        assert_ne!(objects[0], objects[1]);
        for object in &objects {
            assert!(object.parse::<NodeName>().is_ok(), "{object} is not an object name");
        }
    }
}
