//! What an object may look like: the types of the Kubernetes API say so.

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret};
use k8s_openapi::api::events::v1::Event as NewEvent;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{ApiError, Result};
use crate::resource::{Resource, Sort};

/// An object that its type can hold.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    /// Paths of fields that the type does not have. They are not in `object`.
    pub(crate) unknown: Vec<String>,
}

/// Holds an object against the type of its resource.
pub(crate) fn decode(resource: &Resource, mut object: Value) -> Result<Decoded> {
    header(resource, &mut object)?;
    amounts_as_text(&mut object);
    let typed = match resource.sort {
        Sort::Namespace => typed::<Namespace>(&object),
        Sort::Node => typed::<Node>(&object),
        Sort::Pod => typed::<Pod>(&object),
        Sort::ConfigMap => typed::<ConfigMap>(&object),
        Sort::Secret => typed::<Secret>(&object),
        Sort::Event => typed::<Event>(&object),
        Sort::NewEvent => typed::<NewEvent>(&object),
        Sort::Lease => typed::<Lease>(&object),
        Sort::Budget => typed::<PodDisruptionBudget>(&object),
        Sort::DaemonSet => typed::<DaemonSet>(&object),
        Sort::ReplicaSet => typed::<ReplicaSet>(&object),
    };
    let typed = typed.map_err(|error| {
        let (kind, version) = (resource.kind, resource.api_version());
        ApiError::bad(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"))
    })?;
    let mut unknown = Vec::new();
    lost(&object, &typed, "", &mut unknown);
    Ok(Decoded { object: typed, unknown })
}

/// Kind and version: those of the resource, said or not.
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

/// Amounts (`cpu: 2`) may be numbers on the wire and are text in the type.
fn amounts_as_text(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if matches!(key.as_str(), "limits" | "requests" | "capacity" | "allocatable" | "overhead")
                    && let Value::Object(amounts) = value
                {
                    for amount in amounts.values_mut().filter(|amount| amount.is_number()) {
                        *amount = json!(amount.to_string());
                    }
                } else {
                    amounts_as_text(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(amounts_as_text),
        _ => {}
    }
}

/// The paths that the type dropped.
fn lost(given: &Value, kept: &Value, path: &str, into: &mut Vec<String>) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (key, value) in given {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match kept.get(key) {
                    Some(kept) => lost(value, kept, &path, into),
                    None if value.is_null() => {}
                    None => into.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(kept)) => {
            for (index, (given, kept)) in given.iter().zip(kept).enumerate() {
                lost(given, kept, &format!("{path}[{index}]"), into);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: Value) -> Result<Decoded> {
        decode(Sort::Pod.resource(), value)
    }

    #[test]
    fn unknown_fields_are_named_by_their_path_and_dropped() {
        let decoded = pod(json!({
            "spec": {"containers": [{"name": "a", "imagee": "x"}], "nodename": "n"}, "metadata": {"name": "p"}
        }))
        .unwrap();
        assert_eq!(decoded.unknown, ["spec.containers[0].imagee", "spec.nodename"]);
        assert!(decoded.object.pointer("/spec/nodename").is_none());
        assert_eq!(decoded.object["kind"], "Pod");
    }

    #[test]
    fn wrong_types_and_foreign_kinds_are_refused() {
        let message = |error: ApiError| error.status()["message"].as_str().unwrap_or_default().to_owned();
        let error = message(pod(json!({"spec": {"containers": "none"}})).unwrap_err());
        assert!(error.starts_with("Pod in version \"v1\" cannot be handled as a Pod: "), "{error}");
        let error = message(pod(json!({"kind": "Node"})).unwrap_err());
        assert_eq!(error, "the kind in the data (Node) does not match the expected kind (Pod)");
    }

    #[test]
    fn amounts_may_be_numbers() {
        let decoded =
            pod(json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": 2}}}]}})).unwrap();
        assert_eq!(decoded.object.pointer("/spec/containers/0/resources/requests/cpu"), Some(&json!("2")));
        assert!(decoded.unknown.is_empty());
    }
}
