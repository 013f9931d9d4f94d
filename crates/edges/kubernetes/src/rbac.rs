//! The permissions that this crate uses, each with what it is for. `rbac/kiln.yaml` is made of this table; a test takes each line away in
//! turn and sees that operation fail.

use std::fmt::Write;

/// Where a permission is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In the namespace in which kiln keeps its leases and journals.
    Namespace,
}

/// One verb on one kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permission {
    pub scope: Scope,
    /// The API group.
    pub group: &'static str,
    /// The resource, with its subresource.
    pub resource: &'static str,
    pub verb: &'static str,
    /// What fails without it.
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

/// Every permission, in the order of the manifest.
pub const PERMISSIONS: [Permission; 25] = [
    on(Scope::Cluster, "", "nodes", "get", "read a node before it is held or released"),
    on(Scope::Cluster, "", "nodes", "list", "find a node by its provider id, and those of a pool"),
    on(Scope::Cluster, "", "nodes", "watch", "wait until a node is ready"),
    on(Scope::Cluster, "", "nodes", "patch", "hold and release a node"),
    on(Scope::Cluster, "", "pods", "list", "see what is on a node that is drained"),
    on(Scope::Cluster, "", "pods", "delete", "drain past budgets, and remove the pod that looked into a node"),
    on(Scope::Cluster, "", "pods/eviction", "create", "drain"),
    on(Scope::Cluster, "apps", "daemonsets", "get", "tell a DaemonSet's pod from an orphan"),
    on(Scope::Cluster, "batch", "cronjobs", "list", "see whether kamino is still at work"),
    on(Scope::Cluster, "batch", "jobs", "list", "see whether kamino is at work now"),
    on(Scope::Cluster, "events.k8s.io", "events", "create", "tell on a node what was done to it"),
    on(Scope::Namespace, "coordination.k8s.io", "leases", "get", "see who holds a pool"),
    on(Scope::Namespace, "coordination.k8s.io", "leases", "create", "take a pool for the first time"),
    on(Scope::Namespace, "coordination.k8s.io", "leases", "update", "take, renew and give up a pool"),
    on(Scope::Namespace, "", "configmaps", "get", "read a journal"),
    on(Scope::Namespace, "", "configmaps", "list", "see what is known of a pool's versions"),
    on(Scope::Namespace, "", "configmaps", "create", "begin a journal"),
    on(Scope::Namespace, "", "configmaps", "update", "go on with a journal"),
    on(Scope::Namespace, "", "configmaps", "delete", "forget a version that was pruned"),
    on(Scope::Namespace, "", "pods", "get", "see how the pod fares that looks into a node"),
    on(Scope::Namespace, "", "pods", "create", "look into a node"),
    on(Scope::Namespace, "", "pods/log", "get", "read what the look into a node found"),
    on(Scope::Namespace, "", "secrets", "get", "read the original recipe of a pool"),
    on(Scope::Namespace, "", "secrets", "create", "save the original recipe of a pool"),
    on(Scope::Namespace, "", "secrets", "delete", "remove the custom data that the look into a node found"),
];

/// The manifest that grants these permissions to the service account `kiln` of a namespace.
pub fn manifest(namespace: &str, permissions: &[Permission]) -> String {
    let mut out = String::from("# Made from crates/edges/kubernetes/src/rbac.rs: exactly the verbs that kiln uses.\n");
    for (scope, prefix) in [(Scope::Cluster, "Cluster"), (Scope::Namespace, "")] {
        let place = if scope == Scope::Namespace { format!("\n  namespace: {namespace}") } else { String::new() };
        let _ = write!(
            out,
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}Role\nmetadata:\n  name: kiln{place}\nrules:\n{}---\n",
            rules(permissions.iter().filter(|permission| permission.scope == scope)),
        );
        let _ = write!(
            out,
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}RoleBinding\nmetadata:\n  name: kiln{place}\n\
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
    fn the_committed_manifest_grants_what_the_table_says() {
        let committed = include_str!("../rbac/kiln.yaml");
        assert_eq!(committed, manifest("kiln-system", &PERMISSIONS));
    }
}
