//! Task pods: on a real node `kilnd` runs in the pod, here the simulated kubelet does its work. A label names the task.

use kiln_sim_azure::{MachineView, Sim};
use serde_json::{Value, json};

use super::freeze::{Freezes, run_of};
use crate::meta;

/// The label with the task: [`INSPECT`], [`INSTALL_FIRST_BOOT`], [`FREEZE`] or [`THAW`].
pub const TASK_LABEL: &str = "kiln.dev/task";
/// Inspects the node.
pub const INSPECT: &str = "inspect";
/// Installs the first-boot unit on the node's disk.
pub const INSTALL_FIRST_BOOT: &str = "install-first-boot";
/// Freezes the file systems while the pod is running.
pub const FREEZE: &str = "freeze";
/// Reports the last freeze.
pub const THAW: &str = "thaw";
/// The key of the report of a freeze.
pub const THAW_KEY: &str = "thaw.json";
/// The annotation with the `ConfigMap`, in the pod's namespace, for the inspection or the report.
pub const RESULT_ANNOTATION: &str = "kiln.dev/result";
/// The key of the inspection.
pub const RESULT_KEY: &str = "inspection.json";
/// The annotation with the Secret, in the pod's namespace, for the custom data. Without it the custom data is not written.
pub const SECRET_ANNOTATION: &str = "kiln.dev/secret-result";
/// The key of the custom data.
pub const SECRET_KEY: &str = "custom-data";
/// The annotation with the version of the first-boot unit; by default the version of this program.
pub const VERSION_ANNOTATION: &str = "kiln.dev/unit-version";

/// The annotation with the exit code of an ordinary pod's containers, which then end at once. Without it they run until the pod is deleted.
pub(super) const EXIT_CODE_ANNOTATION: &str = "sim.kiln.dev/exit-code";

/// Write access to the disks of the machines.
pub trait Disks: Send + Sync {
    /// Installs the first-boot unit on the disk of a machine.
    fn install_first_boot(&self, vm_id: &str, version: &str) -> Result<(), String>;
}

impl Disks for Sim {
    fn install_first_boot(&self, vm_id: &str, version: &str) -> Result<(), String> {
        Self::install_first_boot(self, vm_id, version).map_err(|error| error.to_string())
    }
}

/// The task of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Task {
    /// Write these objects to the pod's namespace.
    Write(Vec<TaskResult>),
    /// Install this version of the unit.
    Install(String),
    Impossible(String),
}

/// A result object of a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TaskResult {
    pub(super) secret: bool,
    pub(super) name: String,
    pub(super) key: &'static str,
    pub(super) text: Vec<u8>,
}

/// The task of a pod, or `None` for an ordinary pod.
pub(super) fn from_pod(pod: &Value, machine: &MachineView, freezes: &Freezes) -> Option<Task> {
    let annotation = |key: &str| {
        let annotations = pod.pointer("/metadata/annotations").and_then(|all| all.get(key));
        annotations.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    if let Some(code) = annotation(EXIT_CODE_ANNOTATION) {
        let failed = || Task::Impossible(format!("the container exited with {code}"));
        return Some(if code == "0" { Task::Write(Vec::new()) } else { failed() });
    }
    match meta::label(pod, TASK_LABEL)? {
        INSPECT => Some(match annotation(RESULT_ANNOTATION) {
            None => Task::Impossible(format!("the annotation {RESULT_ANNOTATION} names no ConfigMap")),
            Some(name) => inspect(machine, name, annotation(SECRET_ANNOTATION)),
        }),
        // It runs until it is deleted, like an ordinary pod.
        FREEZE => None,
        THAW => Some(match annotation(RESULT_ANNOTATION) {
            None => Task::Impossible(format!("the annotation {RESULT_ANNOTATION} names no ConfigMap")),
            Some(name) => {
                Task::Write(vec![TaskResult { secret: false, name, key: THAW_KEY, text: freezes.report(run_of(pod)) }])
            }
        }),
        INSTALL_FIRST_BOOT => {
            let version = annotation(VERSION_ANNOTATION).unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
            Some(Task::Install(version))
        }
        other => Some(Task::Impossible(format!("unknown task `{other}`"))),
    }
}

fn inspect(machine: &MachineView, result: String, secret: Option<String>) -> Task {
    let inspection = machine.inspection();
    let text = match serde_json::to_vec_pretty(&inspection) {
        Ok(text) => text,
        Err(error) => return Task::Impossible(error.to_string()),
    };
    let mut all = vec![TaskResult { secret: false, name: result, key: RESULT_KEY, text }];
    if let (Some(name), Some(bytes)) = (secret, inspection.custom_data.bytes()) {
        all.push(TaskResult { secret: true, name, key: SECRET_KEY, text: bytes.expose().to_vec() });
    }
    Task::Write(all)
}

/// The status of a pod whose task has ended.
pub(super) fn ended_status(pod: &Value, outcome: &Result<(), String>, now: &str) -> Value {
    let (phase, reason, code) = match outcome {
        Ok(()) => ("Succeeded", "Completed", 0),
        Err(_) => ("Failed", "Error", 1),
    };
    let message = outcome.as_ref().err();
    let containers: Vec<Value> = meta::list(pod, "/spec/containers")
        .iter()
        .map(|container| {
            let mut terminated = json!({"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now});
            if let Some(message) = message {
                terminated["message"] = json!(message);
            }
            json!({
                "name": container["name"], "image": container["image"], "imageID": "", "ready": false, "started": false,
                "restartCount": 0, "state": {"terminated": terminated}, "lastState": {},
            })
        })
        .collect();
    let mut status = json!({"phase": phase, "startTime": now, "containerStatuses": containers});
    if let Some(message) = message {
        status["message"] = json!(message);
    }
    status
}
