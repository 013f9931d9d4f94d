//! Schema validation with the types of the Kubernetes API.

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret, Service};
use k8s_openapi::api::events::v1::Event as NewEvent;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::custom::Definition;
use crate::error::{ApiError, FieldError, Result};
use crate::meta;
use crate::resource::{ObjectKind, Resource};

/// An object that its type can represent.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    /// The paths of fields that the type does not have. They are removed from `object`.
    pub(crate) unknown: Vec<String>,
}

/// Applies the schema of a custom resource to an object.
pub(crate) fn decode_custom(definition: &Definition, mut object: Value) -> Result<Decoded> {
    let resource = definition.resource;
    for field in ["kind", "apiVersion"] {
        if object.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            let name = if field == "kind" { "Kind" } else { "apiVersion" };
            return Err(ApiError::bad(format!(
                "the object provided is unrecognized (must be of type {}): Object '{name}' is missing in '{object}'",
                resource.kind
            )));
        }
    }
    if object["kind"] != resource.kind {
        let cause = FieldError::invalid("kind", &object["kind"], &format!("must be {}", resource.kind));
        let given = object["kind"].as_str().unwrap_or_default();
        return Err(ApiError::invalid_kind(given, resource, meta::name(&object), &cause));
    }
    header(resource, &mut object)?;
    let mut unknown = Vec::new();
    if let Some(given) = object.get_mut("metadata") {
        let metadata = typed::<ObjectMeta>(given).map_err(|error| unhandled(resource, &error))?;
        dropped(given, &metadata, "metadata", &mut unknown);
        *given = metadata;
    }
    unknown.extend(definition.normalize(&mut object));
    Ok(Decoded { object, unknown })
}

fn unhandled(resource: &Resource, error: &serde_json::Error) -> ApiError {
    let (kind, version) = (resource.kind, resource.version);
    ApiError::bad(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"))
}

/// Checks an object against the type of its built-in resource.
pub(crate) fn decode(resource: &Resource, mut object: Value) -> Result<Decoded> {
    header(resource, &mut object)?;
    quantities_to_text(&mut object);
    let typed = match resource.object_kind {
        ObjectKind::Namespace => typed::<Namespace>(&object),
        ObjectKind::Node => typed::<Node>(&object),
        ObjectKind::Pod => typed::<Pod>(&object),
        ObjectKind::ConfigMap => typed::<ConfigMap>(&object),
        ObjectKind::Secret => typed::<Secret>(&object),
        ObjectKind::Event => typed::<Event>(&object),
        ObjectKind::NewEvent => typed::<NewEvent>(&object),
        ObjectKind::Lease => typed::<Lease>(&object),
        ObjectKind::Budget => typed::<PodDisruptionBudget>(&object),
        ObjectKind::DaemonSet => typed::<DaemonSet>(&object),
        ObjectKind::ReplicaSet => typed::<ReplicaSet>(&object),
        ObjectKind::Service => typed::<Service>(&object),
        ObjectKind::VolumeAttachment => typed::<VolumeAttachment>(&object),
        ObjectKind::Definition => typed::<CustomResourceDefinition>(&object),
        ObjectKind::Custom(_) => Ok(object.clone()),
    };
    let typed = typed.map_err(|error| unhandled(resource, &error))?;
    let mut unknown = Vec::new();
    dropped(&object, &typed, "", &mut unknown);
    Ok(Decoded { object: typed, unknown })
}

/// Sets kind and version of the resource where they are missing, and rejects others.
fn header(resource: &Resource, object: &mut Value) -> Result<()> {
    let version = resource.api_version();
    for (field, wanted, what) in [("apiVersion", version.as_str(), "API version"), ("kind", resource.kind, "kind")] {
        match object.get(field).and_then(Value::as_str) {
            None | Some("") => object[field] = json!(wanted),
            Some(given) if given == wanted => {}
            Some(given) => {
                return Err(ApiError::bad(format!(
                    "the {what} in the data ({given}) does not match the expected {what} ({wanted})"
                )));
            }
        }
    }
    Ok(())
}

fn typed<T: DeserializeOwned + Serialize>(object: &Value) -> serde_json::Result<Value> {
    serde_json::to_value(T::deserialize(object)?)
}

/// Quantities (`cpu: 2`) may be numbers in requests and are strings in the type.
fn quantities_to_text(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if matches!(key.as_str(), "limits" | "requests" | "capacity" | "allocatable" | "overhead")
                    && let Value::Object(quantities) = value
                {
                    for quantity in quantities.values_mut().filter(|quantity| quantity.is_number()) {
                        *quantity = json!(quantity.to_string());
                    }
                } else {
                    quantities_to_text(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(quantities_to_text),
        _ => {}
    }
}

/// Collects the paths that the type dropped.
fn dropped(given: &Value, kept: &Value, path: &str, into: &mut Vec<String>) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (key, value) in given {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match kept.get(key) {
                    Some(kept) => dropped(value, kept, &path, into),
                    None if value.is_null() => {}
                    None => into.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(kept)) => {
            for (index, (given, kept)) in given.iter().zip(kept).enumerate() {
                dropped(given, kept, &format!("{path}[{index}]"), into);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: Value) -> Result<Decoded> {
        decode(ObjectKind::Pod.resource(), value)
    }

    #[test]
    fn unknown_fields_are_dropped_and_their_paths_reported() {
        let decoded = pod(json!({
            "spec": {"containers": [{"name": "a", "imagee": "x"}], "nodename": "n"}, "metadata": {"name": "p"}
        }))
        .unwrap();
        assert_eq!(decoded.unknown, ["spec.containers[0].imagee", "spec.nodename"]);
        assert!(decoded.object.pointer("/spec/nodename").is_none());
        assert_eq!(decoded.object["kind"], "Pod");
    }

    #[test]
    fn wrong_types_and_kinds_are_rejected() {
        let message = |error: ApiError| error.status()["message"].as_str().unwrap_or_default().to_owned();
        let error = message(pod(json!({"spec": {"containers": "none"}})).unwrap_err());
        assert!(error.starts_with("Pod in version \"v1\" cannot be handled as a Pod: "), "{error}");
        let error = message(pod(json!({"kind": "Node"})).unwrap_err());
        assert_eq!(error, "the kind in the data (Node) does not match the expected kind (Pod)");
    }

    #[test]
    fn quantities_may_be_numbers() {
        let decoded =
            pod(json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": 2}}}]}})).unwrap();
        assert_eq!(decoded.object.pointer("/spec/containers/0/resources/requests/cpu"), Some(&json!("2")));
        assert!(decoded.unknown.is_empty());
    }
}
