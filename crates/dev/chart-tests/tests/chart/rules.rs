//! The chart's roles are the table of permissions of `kiln-kubernetes`.

use std::fmt::Write as _;

use chart_tests::{chart, golden};
use kiln_kubernetes::rbac::{PERMISSIONS, Permission, Scope};

/// The rules of a scope as the chart holds them: one verb each, with what it is for.
fn rules(scope: Scope) -> String {
    let mut text = String::new();
    for Permission { group, resource, verb, needed_to, .. } in PERMISSIONS.iter().filter(|one| one.scope == scope) {
        let _ = write!(
            text,
            "# {needed_to}\n- apiGroups: [\"{group}\"]\n  resources: [\"{resource}\"]\n  verbs: [\"{verb}\"]\n"
        );
    }
    text
}

#[test]
fn the_rules_of_the_chart_are_made_of_the_table_of_permissions() {
    for (scope, name) in [(Scope::Cluster, "rules-cluster.yaml"), (Scope::Namespace, "rules-namespace.yaml")] {
        golden(&chart().join("files").join(name), &rules(scope));
    }
}
