//! Labels that a kubelet may set on its own node.

use std::collections::BTreeMap;

/// Labels in Kubernetes' own domains that kubelets may set.
const ALLOWED: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

fn is_under(namespace: &str, domain: &str) -> bool {
    namespace.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether a kubelet may set the label. The API server rejects nodes with other labels.
pub fn kubelet_may_set(label: &str) -> bool {
    let Some((namespace, _)) = label.split_once('/') else { return true };
    ALLOWED.contains(&label)
        || !(is_under(namespace, "kubernetes.io") || is_under(namespace, "k8s.io"))
        || is_under(namespace, "kubelet.kubernetes.io")
        || is_under(namespace, "node.kubernetes.io")
}

/// Joins a map as sorted `key=value` pairs.
pub fn pairs(map: &BTreeMap<String, String>, separator: &str) -> String {
    map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(separator)
}

/// Formats the labels that a kubelet may set for `--node-labels`.
pub fn kubelet_labels(labels: &BTreeMap<String, String>) -> String {
    let allowed = labels.iter().filter(|(key, _)| kubelet_may_set(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    pairs(&allowed, ",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restricted_labels_are_recognized() {
        for label in [
            "agentpool",
            "example.com/a",
            "my.node.kubernetes.io/a",
            "kubelet.kubernetes.io/a",
            "kubernetes.io/arch",
            "notk8s.io/a",
        ] {
            assert!(kubelet_may_set(label), "{label}");
        }
        for label in [
            "node-restriction.kubernetes.io/a",
            "x.node-restriction.kubernetes.io/a",
            "example.k8s.io/a",
            "kubernetes.io/role",
        ] {
            assert!(!kubelet_may_set(label), "{label}");
        }
    }

    #[test]
    fn labels_are_sorted_and_restricted_ones_are_omitted() {
        let labels =
            [("b", "2"), ("a", "1"), ("kubernetes.io/role", "x")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(kubelet_labels(&labels), "a=1,b=2");
    }
}
