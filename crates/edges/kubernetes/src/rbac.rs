//! The permissions that this crate uses, each with its purpose. `rbac/kiln.yaml` is generated from this table; a test removes each row in
//! turn and checks that an operation fails without it.

use std::fmt::Write;

/// The scope of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    /// The namespace of kiln's leases and journals.
    Namespace,
}

/// A verb on a resource that kiln uses, and its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permission {
    pub scope: Scope,
    pub group: &'static str,
    /// With its subresource: `pods/eviction`.
    pub resource: &'static str,
    pub verb: &'static str,
    /// The operation that fails without it.
    pub needed_to: &'static str,
}

const fn on(
    scope: Scope,
    group: &'static str,
    resource: &'static str,
    verb: &'static str,
    needed_to: &'static str,
) -> Permission {
    Permission { scope, group, resource, verb, needed_to }
}

/// Every permission that is always needed, in the order of the manifest.
pub const PERMISSIONS: [Permission; 30] = [
    on(Scope::Cluster, "", "nodes", "get", "read a node before it is held or released"),
    on(Scope::Cluster, "", "nodes", "list", "find a node by its provider id, and those of a pool"),
    on(Scope::Cluster, "", "nodes", "watch", "wait until a node is ready"),
    on(Scope::Cluster, "", "nodes", "patch", "hold and release a node"),
    on(Scope::Cluster, "", "pods", "list", "list the pods of a node that is drained"),
    on(Scope::Cluster, "", "pods", "watch", "wait until pods have ended"),
    on(Scope::Cluster, "", "pods/eviction", "create", "evict pods in a drain"),
    on(Scope::Cluster, "apps", "daemonsets", "get", "detect pods whose DaemonSet no longer exists"),
    on(Scope::Cluster, "apps", "daemonsets", "list", "detect that kured is rebooting a node"),
    on(Scope::Cluster, "storage.k8s.io", "volumeattachments", "list", "wait until the volumes of a node are detached"),
    on(Scope::Cluster, "storage.k8s.io", "volumeattachments", "watch", "notice that a volume was detached"),
    on(Scope::Cluster, "", "services", "list", "detect load balancers that send traffic to nodes"),
    on(Scope::Cluster, "batch", "cronjobs", "list", "detect kamino's schedules"),
    on(Scope::Cluster, "batch", "jobs", "list", "detect running jobs of kamino"),
    on(Scope::Cluster, "events.k8s.io", "events", "create", "record events on a node"),
    on(Scope::Namespace, "coordination.k8s.io", "leases", "get", "read who holds a pool's lease"),
    on(Scope::Namespace, "coordination.k8s.io", "leases", "create", "acquire a pool's lease for the first time"),
    on(Scope::Namespace, "coordination.k8s.io", "leases", "update", "acquire, renew and release a pool's lease"),
    on(Scope::Namespace, "", "configmaps", "get", "read a journal"),
    on(Scope::Namespace, "", "configmaps", "list", "list the records of a pool's image versions"),
    on(Scope::Namespace, "", "configmaps", "create", "create a journal"),
    on(Scope::Namespace, "", "configmaps", "update", "append to a journal"),
    on(Scope::Namespace, "", "configmaps", "delete", "delete the record of a pruned image version"),
    on(Scope::Namespace, "", "pods", "get", "wait for an inspection pod"),
    on(Scope::Namespace, "", "pods", "create", "create inspection pods"),
    on(Scope::Namespace, "", "pods", "delete", "remove inspection pods"),
    on(Scope::Namespace, "", "pods/log", "get", "read the findings of an inspection pod"),
    on(
        Scope::Namespace,
        "",
        "secrets",
        "get",
        "read the original recipe of a pool, and the Secret of `--canary-secret`",
    ),
    on(Scope::Namespace, "", "secrets", "create", "save the original recipe of a pool"),
    on(Scope::Namespace, "", "secrets", "delete", "delete the custom data that an inspection found"),
];

/// What `--force` needs in addition. Pods can be deleted past their budgets with it, so it is granted only on request.
pub const FORCE_PERMISSIONS: [Permission; 1] =
    [on(Scope::Cluster, "", "pods", "delete", "delete pods that a drain leaves")];

/// Group of the custom resources.
const FLEET: &str = kiln_fleet_api::GROUP;

/// Group of roles.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Every permission that `kiln operator` always needs, in the order of the chart.
pub const OPERATOR_PERMISSIONS: [Permission; 40] = [
    on(Scope::Cluster, "", "nodes", "get", "read a node before it is held or released"),
    on(Scope::Cluster, "", "nodes", "list", "find the nodes of a pool"),
    on(Scope::Cluster, "", "nodes", "watch", "notice nodes that appear, change or disappear"),
    on(
        Scope::Cluster,
        "",
        "nodes",
        "patch",
        "hold, cordon and release a node, and set the labels and taints that it asks for",
    ),
    on(Scope::Cluster, "", "pods", "list", "list the pods of a node that is drained"),
    on(Scope::Cluster, "", "pods", "watch", "wait until pods have ended"),
    on(Scope::Cluster, "", "pods/eviction", "create", "evict pods in a drain"),
    on(Scope::Cluster, "apps", "daemonsets", "get", "detect pods whose DaemonSet no longer exists"),
    on(Scope::Cluster, "apps", "daemonsets", "list", "find kured and its lock"),
    on(Scope::Cluster, "storage.k8s.io", "volumeattachments", "list", "wait until the volumes of a node are detached"),
    on(Scope::Cluster, "storage.k8s.io", "volumeattachments", "watch", "notice that a volume was detached"),
    on(Scope::Cluster, "events.k8s.io", "events", "create", "record events on nodes and objects of the fleet"),
    on(Scope::Cluster, FLEET, "freezes", "list", "read freezes"),
    on(Scope::Cluster, FLEET, "freezes", "watch", "notice changes of freezes"),
    on(Scope::Cluster, FLEET, "nodeconfigs", "list", "read documents"),
    on(Scope::Cluster, FLEET, "nodeconfigs", "watch", "notice changes of documents"),
    on(Scope::Cluster, FLEET, "nodestates", "list", "read the state of nodes"),
    on(Scope::Cluster, FLEET, "nodestates", "watch", "notice changes of the state of nodes"),
    on(Scope::Cluster, FLEET, "pools", "list", "read pools"),
    on(Scope::Cluster, FLEET, "pools", "watch", "notice changes of pools"),
    on(Scope::Cluster, FLEET, "rolloutpolicies", "list", "read policies"),
    on(Scope::Cluster, FLEET, "rolloutpolicies", "watch", "notice changes of policies"),
    on(Scope::Cluster, FLEET, "rollouts", "list", "read rollouts"),
    on(Scope::Cluster, FLEET, "rollouts", "watch", "notice changes of rollouts"),
    on(Scope::Cluster, FLEET, "nodestates", "create", "create the NodeState of a new node of a pool"),
    on(Scope::Cluster, FLEET, "nodestates", "patch", "assign a document to a node and allow its drain and reboot"),
    on(Scope::Cluster, FLEET, "rollouts", "patch", "set and remove the finalizer of a rollout"),
    on(Scope::Cluster, FLEET, "freezes/status", "patch", "report which rollouts a freeze stops"),
    on(Scope::Cluster, FLEET, "nodeconfigs/status", "patch", "report the digest of a document"),
    on(Scope::Cluster, FLEET, "pools/status", "patch", "report the nodes and the target of a pool"),
    on(Scope::Cluster, FLEET, "rolloutpolicies/status", "patch", "report whether a policy is valid"),
    on(Scope::Cluster, FLEET, "rollouts/status", "patch", "report the progress of a rollout"),
    on(Scope::Cluster, FLEET, "imageversions", "list", "read the records of image versions"),
    on(Scope::Cluster, FLEET, "imageversions", "watch", "notice changes of the records of image versions"),
    on(Scope::Cluster, FLEET, "prototypes", "list", "read prototypes"),
    on(Scope::Cluster, FLEET, "prototypes", "watch", "notice changes of prototypes"),
    on(Scope::Cluster, FLEET, "prototypes/status", "patch", "report the runs of a prototype"),
    on(Scope::Namespace, "coordination.k8s.io", "leases", "get", "read which operator is the leader"),
    on(Scope::Namespace, "coordination.k8s.io", "leases", "create", "become the leader for the first time"),
    on(Scope::Namespace, "coordination.k8s.io", "leases", "update", "become, stay and stop being the leader"),
];

/// What the operator needs in addition to grant each node access to its own NodeState. The API server accepts the roles because the operator
/// itself has what they grant.
pub const PER_NODE_READ_PERMISSIONS: [Permission; 6] = [
    on(Scope::Cluster, RBAC, "clusterroles", "list", "find the roles of nodes"),
    on(Scope::Cluster, RBAC, "clusterroles", "watch", "notice that the role of a node was deleted"),
    on(Scope::Cluster, RBAC, "clusterroles", "create", "create the role of a new node"),
    on(Scope::Cluster, RBAC, "clusterrolebindings", "list", "find the role bindings of nodes"),
    on(Scope::Cluster, RBAC, "clusterrolebindings", "watch", "notice that the role binding of a node was deleted"),
    on(Scope::Cluster, RBAC, "clusterrolebindings", "create", "bind the role of a new node to its kubelet"),
];

/// What the operator needs in addition to work with images. Its runs need the permissions of a run, of which it has most.
pub const IMAGE_PERMISSIONS: [Permission; 19] = [
    on(Scope::Cluster, FLEET, "imageversions", "create", "record a new image version"),
    on(Scope::Cluster, FLEET, "imageversions", "patch", "correct the record of an image version"),
    on(Scope::Cluster, FLEET, "imageversions", "delete", "delete the record of a deleted image version"),
    on(Scope::Cluster, FLEET, "imageversions/status", "patch", "report the state of an image version"),
    on(Scope::Cluster, "", "services", "list", "detect load balancers that send traffic to nodes"),
    on(Scope::Cluster, "batch", "cronjobs", "list", "detect kamino's schedules"),
    on(Scope::Cluster, "batch", "jobs", "list", "detect running jobs of kamino"),
    on(Scope::Namespace, "", "configmaps", "get", "read a journal"),
    on(Scope::Namespace, "", "configmaps", "list", "list the records of a pool's image versions"),
    on(Scope::Namespace, "", "configmaps", "create", "create a journal"),
    on(Scope::Namespace, "", "configmaps", "update", "append to a journal"),
    on(Scope::Namespace, "", "configmaps", "delete", "delete the record of a pruned image version"),
    on(Scope::Namespace, "", "pods", "get", "wait for an inspection pod"),
    on(Scope::Namespace, "", "pods", "create", "create inspection pods"),
    on(Scope::Namespace, "", "pods", "delete", "remove inspection pods"),
    on(Scope::Namespace, "", "pods/log", "get", "read the findings of an inspection pod"),
    on(
        Scope::Namespace,
        "",
        "secrets",
        "get",
        "read the original recipe of a pool, and the Secret of `--canary-secret`",
    ),
    on(Scope::Namespace, "", "secrets", "create", "save the original recipe of a pool"),
    on(Scope::Namespace, "", "secrets", "delete", "delete the custom data that an inspection found"),
];

/// What the operator needs on the DaemonSet of kured, and only on this one: a change of any DaemonSet could run any program on every node.
pub const KURED_PERMISSIONS: [Permission; 1] =
    [on(Scope::Namespace, "apps", "daemonsets", "patch", "take and release kured's lock")];

/// The manifest that grants these permissions to the service account `kiln` of a namespace.
pub fn manifest(namespace: &str, permissions: &[Permission]) -> String {
    let mut out =
        String::from("# Generated from crates/edges/kubernetes/src/rbac.rs: exactly the verbs that kiln uses.\n");
    for (scope, prefix) in [(Scope::Cluster, "Cluster"), (Scope::Namespace, "")] {
        let location = if scope == Scope::Namespace { format!("\n  namespace: {namespace}") } else { String::new() };
        let _ = write!(
            out,
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}Role\nmetadata:\n  name: kiln{location}\nrules:\n{}---\n",
            rules(permissions.iter().filter(|permission| permission.scope == scope)),
        );
        let _ = write!(
            out,
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}RoleBinding\nmetadata:\n  name: kiln{location}\n\
             roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {prefix}Role\n  name: kiln\n\
             subjects:\n  - kind: ServiceAccount\n    name: kiln\n    namespace: {namespace}\n{}",
            if scope == Scope::Cluster { "---\n" } else { "" },
        );
    }
    out
}

fn rules<'a>(permissions: impl Iterator<Item = &'a Permission>) -> String {
    let mut out = String::new();
    for Permission { group, resource, verb, needed_to, .. } in permissions {
        let _ = write!(
            out,
            "  # {needed_to}\n  - apiGroups: [\"{group}\"]\n    resources: [\"{resource}\"]\n    verbs: [\"{verb}\"]\n",
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_manifest_matches_the_table() {
        let committed = include_str!("../rbac/kiln.yaml");
        assert_eq!(committed, manifest("kiln-system", &PERMISSIONS));
    }
}
