//! The table columns of each resource.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age, created};
use crate::meta;
use crate::resource::ObjectKind;

/// Name, type, and whether it is only for `-o wide`.
type Column = (&'static str, &'static str, bool);

const NAME: Column = ("Name", "string", false);
const AGE: Column = ("Age", "string", false);

fn columns(object_kind: ObjectKind) -> &'static [Column] {
    match object_kind {
        ObjectKind::Pod => &[
            NAME,
            ("Ready", "string", false),
            ("Status", "string", false),
            ("Restarts", "string", false),
            AGE,
            ("IP", "string", true),
            ("Node", "string", true),
            ("Nominated Node", "string", true),
            ("Readiness Gates", "string", true),
        ],
        ObjectKind::Node => &[
            NAME,
            ("Status", "string", false),
            ("Roles", "string", false),
            AGE,
            ("Version", "string", false),
            ("Internal-IP", "string", true),
            ("External-IP", "string", true),
            ("OS-Image", "string", true),
            ("Kernel-Version", "string", true),
            ("Container-Runtime", "string", true),
        ],
        ObjectKind::Namespace => &[NAME, ("Status", "string", false), AGE],
        ObjectKind::Definition => &[NAME, ("Created At", "date", false)],
        // The columns of a custom resource are in its definition.
        ObjectKind::Custom(_) => &[NAME, AGE],
        ObjectKind::ConfigMap => &[NAME, ("Data", "string", false), AGE],
        ObjectKind::Secret => &[NAME, ("Type", "string", false), ("Data", "string", false), AGE],
        ObjectKind::Service => &[
            NAME,
            ("Type", "string", false),
            ("Cluster-IP", "string", false),
            ("External-IP", "string", false),
            ("Port(s)", "string", false),
            AGE,
            ("Selector", "string", true),
        ],
        ObjectKind::Lease => &[NAME, ("Holder", "string", false), AGE],
        ObjectKind::VolumeAttachment => &[
            NAME,
            ("Attacher", "string", false),
            ("PV", "string", false),
            ("Node", "string", false),
            ("Attached", "boolean", false),
            AGE,
        ],
        ObjectKind::Budget => &[
            NAME,
            ("Min Available", "string", false),
            ("Max Unavailable", "string", false),
            ("Allowed Disruptions", "integer", false),
            AGE,
        ],
        ObjectKind::DaemonSet => &[
            NAME,
            ("Desired", "integer", false),
            ("Current", "integer", false),
            ("Ready", "integer", false),
            ("Up-to-date", "integer", false),
            ("Available", "integer", false),
            ("Node Selector", "string", false),
            AGE,
        ],
        ObjectKind::ReplicaSet => {
            &[NAME, ("Desired", "integer", false), ("Current", "integer", false), ("Ready", "integer", false), AGE]
        }
        ObjectKind::Event | ObjectKind::NewEvent => &[
            ("Last Seen", "string", false),
            ("Type", "string", false),
            ("Reason", "string", false),
            ("Object", "string", false),
            ("Subobject", "string", true),
            ("Source", "string", true),
            ("Message", "string", false),
            ("First Seen", "string", true),
            ("Count", "string", true),
            ("Name", "string", true),
        ],
    }
}

pub(super) fn definitions(object_kind: ObjectKind) -> Value {
    columns(object_kind).iter().map(definition).collect()
}

pub(super) fn definition((name, kind, wide): &Column) -> Value {
    json!({
        "name": name, "type": kind, "format": if *name == "Name" { "name" } else { "" },
        "description": "", "priority": u8::from(*wide),
    })
}

pub(super) fn cells(object_kind: ObjectKind, object: &Value, now: Timestamp) -> Vec<Value> {
    let text = |pointer: &str| meta::text(object, pointer).to_owned();
    let number = |pointer: &str| json!(object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default());
    let (name, age_cell) = (json!(meta::name(object)), json!(created(object, now)));
    let size = |pointers: &[&str]| -> usize {
        pointers.iter().filter_map(|pointer| object.pointer(pointer)?.as_object()).map(serde_json::Map::len).sum()
    };
    match object_kind {
        ObjectKind::Pod => pod(object, now),
        ObjectKind::Node => node(object, now),
        ObjectKind::Namespace => vec![name, json!(text("/status/phase")), age_cell],
        ObjectKind::Definition => vec![name, json!(text("/metadata/creationTimestamp"))],
        ObjectKind::Custom(_) => vec![name, age_cell],
        ObjectKind::ConfigMap => vec![name, json!(size(&["/data", "/binaryData"])), age_cell],
        ObjectKind::Secret => vec![name, json!(text("/type")), json!(size(&["/data"])), age_cell],
        ObjectKind::Service => {
            let ports = object.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
            let ports: Vec<String> = ports
                .map(|port| {
                    let protocol = Some(meta::text(port, "/protocol")).filter(|text| !text.is_empty()).unwrap_or("TCP");
                    format!("{}/{protocol}", port["port"])
                })
                .collect();
            let none = || json!("<none>");
            vec![name, json!(text("/spec/type")), none(), none(), json!(ports.join(",")), age_cell, none()]
        }
        ObjectKind::Lease => vec![name, json!(text("/spec/holderIdentity")), age_cell],
        ObjectKind::VolumeAttachment => vec![
            name,
            json!(text("/spec/attacher")),
            json!(text("/spec/source/persistentVolumeName")),
            json!(text("/spec/nodeName")),
            object.pointer("/status/attached").cloned().unwrap_or(json!(false)),
            age_cell,
        ],
        ObjectKind::Budget => {
            let amount = |pointer: &str| match object.pointer(pointer) {
                None | Some(Value::Null) => "N/A".to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            vec![
                name,
                json!(amount("/spec/minAvailable")),
                json!(amount("/spec/maxUnavailable")),
                number("/status/disruptionsAllowed"),
                age_cell,
            ]
        }
        ObjectKind::DaemonSet => vec![
            name,
            number("/status/desiredNumberScheduled"),
            number("/status/currentNumberScheduled"),
            number("/status/numberReady"),
            number("/status/updatedNumberScheduled"),
            number("/status/numberAvailable"),
            json!(labels(object.pointer("/spec/template/spec/nodeSelector"))),
            age_cell,
        ],
        ObjectKind::ReplicaSet => {
            vec![name, number("/spec/replicas"), number("/status/replicas"), number("/status/readyReplicas"), age_cell]
        }
        ObjectKind::Event | ObjectKind::NewEvent => event(object, now),
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text.to_owned() }
}

fn labels(map: Option<&Value>) -> String {
    let pairs: Vec<String> = map
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or_none(&pairs.join(","))
}

fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let statuses = meta::list(pod, "/status/containerStatuses");
    let ready = statuses.iter().filter(|status| status["ready"] == true && !status["state"]["running"].is_null());
    let restarts: i64 = statuses.iter().filter_map(|status| status["restartCount"].as_i64()).sum();
    let text = |pointer: &str| meta::text(pod, pointer);
    vec![
        json!(meta::name(pod)),
        json!(format!("{}/{}", ready.count(), meta::list(pod, "/spec/containers").len())),
        json!(pod_status(pod)),
        json!(restarts.to_string()),
        json!(created(pod, now)),
        json!(or_none(text("/status/podIP"))),
        json!(or_none(text("/spec/nodeName"))),
        json!(or_none(text("/status/nominatedNodeName"))),
        json!(or_none("")),
    ]
}

/// The status column: the reason of the first waiting or ended container, or else the phase.
fn pod_status(pod: &Value) -> String {
    let phase = meta::text(pod, "/status/phase");
    let ended = matches!(phase, "Succeeded" | "Failed");
    let reason = meta::text(pod, "/status/reason");
    if meta::is_terminating(pod) && reason == "NodeLost" {
        return "Unknown".to_owned();
    }
    if meta::is_terminating(pod) && !ended {
        return "Terminating".to_owned();
    }
    let mut status_text = if reason.is_empty() { phase } else { reason }.to_owned();
    for status in meta::list(pod, "/status/containerStatuses").iter().rev() {
        let [waiting, terminated] = ["waiting", "terminated"].map(|state| &status["state"][state]);
        if let Some(reason) = waiting["reason"].as_str().filter(|reason| !reason.is_empty()) {
            reason.clone_into(&mut status_text);
        } else if !terminated.is_null() {
            let reason = terminated["reason"].as_str().filter(|reason| !reason.is_empty());
            status_text = reason.map_or_else(|| format!("ExitCode:{}", terminated["exitCode"]), str::to_owned);
        }
    }
    status_text
}

const ROLE: &str = "node-role.kubernetes.io/";

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let mut status = match meta::condition(node, "Ready") {
        None => "Unknown".to_owned(),
        Some(condition) if condition["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
    };
    if node.pointer("/spec/unschedulable") == Some(&json!(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix(ROLE) {
            Some(role) if !role.is_empty() => Some(role),
            _ if key == "kubernetes.io/role" => value.as_str(),
            _ => None,
        })
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let found = meta::list(node, "/status/addresses").iter().find(|address| address["type"] == kind);
        or_none(found.and_then(|address| address["address"].as_str()).unwrap_or_default())
    };
    let info = |field: &str| {
        let text = meta::text(node, &format!("/status/nodeInfo/{field}"));
        if text.is_empty() { "<unknown>".to_owned() } else { text.to_owned() }
    };
    vec![
        json!(meta::name(node)),
        json!(status),
        json!(or_none(&roles.join(","))),
        json!(created(node, now)),
        json!(meta::text(node, "/status/nodeInfo/kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(info("osImage")),
        json!(info("kernelVersion")),
        json!(info("containerRuntimeVersion")),
    ]
}

fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let text = |pointer: &str| meta::text(event, pointer);
    let first_of = |pointers: &[&str]| {
        let found = pointers.iter().map(|pointer| text(pointer)).find(|at| !at.is_empty());
        found.map_or_else(|| "<unknown>".to_owned(), |at| age(at, now))
    };
    let kind = text("/involvedObject/kind").to_ascii_lowercase();
    let component =
        if text("/source/component").is_empty() { text("/reportingComponent") } else { text("/source/component") };
    let source = match text("/source/host") {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    let count = event["series"]["count"].as_i64().or_else(|| event["count"].as_i64()).unwrap_or(1);
    vec![
        json!(first_of(&["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/firstTimestamp"])),
        json!(text("/type")),
        json!(text("/reason")),
        json!(format!("{kind}/{}", text("/involvedObject/name"))),
        json!(text("/involvedObject/fieldPath")),
        json!(source),
        json!(text("/message").trim()),
        json!(first_of(&["/firstTimestamp", "/eventTime"])),
        json!(count.to_string()),
        json!(meta::name(event)),
    ]
}
