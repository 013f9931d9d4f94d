//! Pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::FieldError;
use crate::{meta, names};

/// Sets the defaults of a pod and of its containers.
pub(crate) fn prepare(pod: &mut Value, now: Timestamp) {
    default_spec(meta::child(pod, "spec"));
    default_tolerations(pod);
    let class = qos_class(pod);
    // The status is set later, also for mirror pods.
    pod["status"] = json!({"phase": "Pending", "qosClass": class});
    if !meta::text(pod, "/spec/nodeName").is_empty() {
        pod["status"]["conditions"] = json!([scheduled(now)]);
    }
}

/// The condition of a bound pod.
pub(crate) fn scheduled(now: Timestamp) -> Value {
    json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": meta::time(now)})
}

/// Sets the defaults of a pod spec, in a pod or a template.
pub(crate) fn default_spec(spec: &mut serde_json::Map<String, Value>) {
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
    ] {
        spec.entry(field).or_insert(value);
    }
    for field in ["initContainers", "containers"] {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            let policy = pull_policy(meta::text(container, "/image"));
            let Some(container) = container.as_object_mut() else { continue };
            for (field, value) in [
                ("imagePullPolicy", json!(policy)),
                ("terminationMessagePath", json!("/dev/termination-log")),
                ("terminationMessagePolicy", json!("File")),
                ("resources", json!({})),
            ] {
                container.entry(field).or_insert(value);
            }
            for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                if port.get("protocol").is_none() {
                    port["protocol"] = json!("TCP");
                }
            }
        }
    }
}

/// `latest` is always pulled, other tags once.
fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') {
        return "IfNotPresent";
    }
    // A colon before the last slash belongs to a port.
    let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    if tag.is_none_or(|tag| tag == "latest") { "Always" } else { "IfNotPresent" }
}

/// Pods stay on an unreachable node for five minutes by default. Also sets the default priority.
fn default_tolerations(pod: &mut Value) {
    let spec = meta::child(pod, "spec");
    spec.entry("enableServiceLinks").or_insert(json!(true));
    spec.entry("priority").or_insert(json!(0));
    spec.entry("preemptionPolicy").or_insert(json!("PreemptLowerPriority"));
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(list) = tolerations.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list.iter().any(|one| {
            let (own, effect) = (meta::text(one, "/key"), meta::text(one, "/effect"));
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

/// The QoS class: best effort without requests and limits; guaranteed if all containers have limits equal to their requests.
fn qos_class(pod: &Value) -> &'static str {
    let containers = || meta::list(pod, "/spec/containers").iter().chain(meta::list(pod, "/spec/initContainers"));
    let amount = |container: &Value, kind: &str, what: &str| {
        let text = meta::text(container, &format!("/resources/{kind}/{what}")).to_owned();
        (!text.is_empty()).then_some(text)
    };
    let each = ["cpu", "memory"];
    let any = containers().any(|container| {
        each.iter()
            .any(|what| amount(container, "requests", what).is_some() || amount(container, "limits", what).is_some())
    });
    if !any {
        return "BestEffort";
    }
    let full = containers().all(|container| {
        each.iter().all(|what| {
            let limit = amount(container, "limits", what);
            let request = amount(container, "requests", what).or_else(|| limit.clone());
            limit.is_some() && request == limit
        })
    });
    if full { "Guaranteed" } else { "Burstable" }
}

pub(crate) fn check(pod: &Value) -> Vec<FieldError> {
    check_spec(pod, "/spec", "spec")
}

/// Validates a pod spec at a JSON pointer; `path` is used in messages.
pub(crate) fn check_spec(object: &Value, pointer: &str, path: &str) -> Vec<FieldError> {
    let mut causes = Vec::new();
    let containers = meta::list(object, &format!("{pointer}/containers"));
    if containers.is_empty() {
        causes.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let field = format!("{path}.containers[{index}]");
        let name = meta::text(container, "/name");
        if name.is_empty() {
            causes.push(FieldError::required(format!("{field}.name"), ""));
        } else if !names::is_dns_label(name) {
            causes.push(FieldError::invalid(
                format!("{field}.name"),
                &json!(name),
                "must be a lowercase RFC 1123 label",
            ));
        } else if seen.contains(&name) {
            causes.push(FieldError::duplicate(format!("{field}.name"), &json!(name)));
        }
        seen.push(name);
        if meta::text(container, "/image").is_empty() {
            causes.push(FieldError::required(format!("{field}.image"), ""));
        }
    }
    let policy = object.pointer(&format!("{pointer}/restartPolicy")).cloned().unwrap_or(Value::Null);
    let policies = ["Always", "OnFailure", "Never"];
    if !policies.iter().any(|known| policy == *known) {
        causes.push(FieldError::unsupported(format!("{path}.restartPolicy"), &policy, &policies));
    }
    causes
}

/// Validates a change of a pod spec. The node is only set by a binding.
pub(crate) fn check_change(old: &Value, new: &Value) -> Vec<FieldError> {
    let blank = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for field in ["initContainers", "containers"] {
            for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        for field in ["activeDeadlineSeconds", "terminationGracePeriodSeconds", "schedulingGates"] {
            spec.as_object_mut().map(|spec| spec.remove(field));
        }
        // Tolerations may be added but not removed.
        let tolerations = spec.as_object_mut().and_then(|spec| spec.remove("tolerations")).unwrap_or(json!([]));
        (spec, tolerations)
    };
    let ((old, had), (new, has)) = (blank(old), blank(new));
    let kept =
        had.as_array().is_none_or(|had| had.iter().all(|one| has.as_array().is_some_and(|has| has.contains(one))));
    if old == new && kept {
        return Vec::new();
    }
    vec![FieldError::forbidden(
        "spec",
        "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policy_depends_on_the_tag() {
        for (image, policy) in [
            ("pause", "Always"),
            ("pause:latest", "Always"),
            ("pause:3.9", "IfNotPresent"),
            ("reg:5000/pause", "Always"),
            ("reg:5000/pause:3.9", "IfNotPresent"),
            ("pause@sha256:00", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn qos_class_depends_on_requests_and_limits() {
        let class = |resources: Value| qos_class(&json!({"spec": {"containers": [{"resources": resources}]}}));
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
        assert_eq!(class(json!({"limits": {"cpu": "1", "memory": "1Gi"}})), "Guaranteed");
    }
}
