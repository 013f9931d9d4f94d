//! Labels that a node may set itself, by the rules of the admission plugin `NodeRestriction`.

/// Labels in Kubernetes' own domains that a kubelet may set.
const OWN: [&str; 12] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.kubernetes.io/region",
    "failure-domain.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Domains in which a kubelet may set any label.
const OWN_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Whether a node may set a label on itself. A kubelet refuses to start with any other label.
pub fn node_may_set(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let below = |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
    let kubernetes = below("kubernetes.io") || below("k8s.io");
    !kubernetes || OWN.contains(&label) || OWN_DOMAINS.into_iter().any(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_may_set_foreign_labels_and_few_of_kubernetes() {
        for own in [
            "team",
            "example.com/team",
            "kubernetes.azure.com/mode",
            "notkubernetes.io/x",
            "topology.kubernetes.io/zone",
            "node.kubernetes.io/instance-type",
            "x.node.kubernetes.io/y",
            "kubelet.kubernetes.io/z",
        ] {
            assert!(node_may_set(own), "{own}");
        }
        for others in [
            "node-role.kubernetes.io/worker",
            "kubernetes.io/role",
            "k8s.io/x",
            "x.k8s.io/y",
            "node-restriction.kubernetes.io/a",
            "b.node-restriction.kubernetes.io/a",
        ] {
            assert!(!node_may_set(others), "{others}");
        }
    }
}
