//! Daemon sets and replica sets.

use serde_json::{Value, json};

use super::pod;
use crate::error::FieldError;
use crate::meta;
use crate::resource::{ObjectKind, Resource};
use crate::selector::Selector;

pub(crate) fn prepare(resource: &Resource, object: &mut Value) {
    let spec = meta::child(object, "spec");
    if let Some(Value::Object(template)) = spec.get_mut("template").and_then(|template| template.get_mut("spec")) {
        pod::default_spec(template);
    }
    if resource.object_kind == ObjectKind::DaemonSet {
        spec.entry("revisionHistoryLimit").or_insert(json!(10));
        spec.entry("updateStrategy")
            .or_insert_with(|| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}));
        object["status"] = json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        });
    } else {
        spec.entry("replicas").or_insert(json!(1));
        object["status"] = json!({"replicas": 0});
    }
}

pub(crate) fn check(object: &Value) -> Vec<FieldError> {
    let mut causes = Vec::new();
    let template = json!({"metadata": object.pointer("/spec/template/metadata").cloned().unwrap_or_default()});
    match object.pointer("/spec/selector").and_then(Selector::from_object) {
        None => causes.push(FieldError::required("spec.selector", "")),
        Some(selector) if !selector.matches(&template) => {
            let labels = &template["metadata"]["labels"];
            let why = "`selector` does not match template `labels`";
            causes.push(FieldError::invalid("spec.template.metadata.labels", labels, why));
        }
        Some(_) => {}
    }
    causes.extend(pod::check_spec(object, "/spec/template/spec", "spec.template.spec"));
    causes
}
