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
