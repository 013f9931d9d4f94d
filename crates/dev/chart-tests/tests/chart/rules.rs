//! The chart's roles match the permission table of `kiln-kubernetes`.

use std::fmt::Write as _;

use chart_tests::{chart, golden};
use kiln_kubernetes::rbac::{FORCE_PERMISSIONS, PERMISSIONS, Permission, Scope};

/// Rules in the format of the chart: one verb each, with its purpose.
fn rules<'a>(permissions: impl IntoIterator<Item = &'a Permission>) -> String {
    let mut text = String::new();
    for Permission { group, resource, verb, needed_to, .. } in permissions {
        let _ = write!(
            text,
            "# {needed_to}\n- apiGroups: [\"{group}\"]\n  resources: [\"{resource}\"]\n  verbs: [\"{verb}\"]\n"
        );
    }
    text
}

#[test]
fn chart_rules_are_generated_from_the_permission_table() {
    for (scope, name) in [(Scope::Cluster, "rules-cluster.yaml"), (Scope::Namespace, "rules-namespace.yaml")] {
        golden(&chart().join("files").join(name), &rules(PERMISSIONS.iter().filter(|one| one.scope == scope)));
    }
    golden(&chart().join("files/rules-force.yaml"), &rules(&FORCE_PERMISSIONS));
}
