//! Announced pods: what `kilnd` does in a pod on a real node, the world does on its own. A label says which task it is.

use kiln_sim_azure::{MachineView, Sim};
use serde_json::{Value, json};

use crate::meta;

/// Which task a pod is: [`INSPECT`] or [`INSTALL_FIRST_BOOT`].
pub const TASK_LABEL: &str = "kiln.dev/task";
/// Reads the node's inside.
pub const INSPECT: &str = "inspect";
/// Puts the first-boot unit on the node's disk.
pub const INSTALL_FIRST_BOOT: &str = "install-first-boot";
/// The `ConfigMap`, in the pod's namespace, that the inspection goes to.
pub const RESULT_ANNOTATION: &str = "kiln.dev/result";
/// The key in it.
pub const RESULT_KEY: &str = "inspection.json";
/// The `Secret`, in the pod's namespace, that the custom data on the disk go to; without the annotation they go nowhere.
pub const SECRET_ANNOTATION: &str = "kiln.dev/secret-result";
/// The key in it.
pub const SECRET_KEY: &str = "custom-data";
/// The version of the first-boot unit; without it, that of this program.
pub const VERSION_ANNOTATION: &str = "kiln.dev/unit-version";

/// Where the world's disks can be written to.
pub trait Disks: Send + Sync {
    /// Puts the first-boot unit on the disk of a machine, recorded for it.
    fn install_first_boot(&self, vm_id: &str, version: &str) -> Result<(), String>;
}

impl Disks for Sim {
    fn install_first_boot(&self, vm_id: &str, version: &str) -> Result<(), String> {
        Self::install_first_boot(self, vm_id, version).map_err(|error| error.to_string())
    }
}

/// A task that a pod announces.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Task {
    /// Write these objects of the pod's namespace, then succeed.
    Write(Vec<Written>),
    /// Install this version of the unit.
    Install(String),
    /// It cannot be done.
    Impossible(String),
}

/// An object that a task leaves.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Written {
    pub(super) secret: bool,
    pub(super) name: String,
    pub(super) key: &'static str,
    pub(super) text: Vec<u8>,
}

/// The task of a pod, or `None` for a pod that is an ordinary one.
pub(super) fn of(pod: &Value, machine: &MachineView) -> Option<Task> {
    let annotation = |key: &str| {
        let annotations = pod.pointer("/metadata/annotations").and_then(|all| all.get(key));
        annotations.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    match meta::label(pod, TASK_LABEL)? {
        INSPECT => Some(match annotation(RESULT_ANNOTATION) {
            None => Task::Impossible(format!("the annotation {RESULT_ANNOTATION} names no ConfigMap")),
            Some(name) => inspect(machine, name, annotation(SECRET_ANNOTATION)),
        }),
        INSTALL_FIRST_BOOT => {
            let version = annotation(VERSION_ANNOTATION).unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
            Some(Task::Install(version))
        }
        other => Some(Task::Impossible(format!("`{other}` is no task"))),
    }
}

fn inspect(machine: &MachineView, result: String, secret: Option<String>) -> Task {
    let inspection = machine.inspection();
    let text = match serde_json::to_vec_pretty(&inspection) {
        Ok(text) => text,
        Err(error) => return Task::Impossible(error.to_string()),
    };
    let mut all = vec![Written { secret: false, name: result, key: RESULT_KEY, text }];
    if let (Some(name), Some(bytes)) = (secret, inspection.custom_data.bytes()) {
        all.push(Written { secret: true, name, key: SECRET_KEY, text: bytes.expose().to_vec() });
    }
    Task::Write(all)
}

/// The status of a pod whose task has come to its end.
pub(super) fn ended(pod: &Value, outcome: &Result<(), String>, now: &str) -> Value {
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
