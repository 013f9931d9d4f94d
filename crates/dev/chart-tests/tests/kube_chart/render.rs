//! Rendered objects of whole sets of values, and invariants of all of them.

use std::fs;
use std::path::PathBuf;

use chart_tests::{Helm, Rendered, golden, root};
use kiln_kubernetes::rbac::{
    FORCE_PERMISSIONS, IMAGE_PERMISSIONS, KURED_PERMISSIONS, OPERATOR_PERMISSIONS, PER_NODE_READ_PERMISSIONS,
    PERMISSIONS, Permission, Scope,
};
use serde_json::{Value, json};

use crate::sets::{self, rendered};

fn folder() -> PathBuf {
    root().join("crates/dev/chart-tests/golden")
}

/// All golden sets of values, rendered.
fn all() -> Vec<(String, Rendered)> {
    let helm = Helm::new();
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".values.yaml").map(str::to_owned))
        .collect();
    names.sort();
    let render = |name: String| {
        let values = folder().join(format!("{name}.values.yaml")).display().to_string();
        let mut arguments = vec!["--values", &values];
        if name == "old-server" {
            arguments.extend(["--kube-version", "1.22.0"]);
        }
        let rendered = helm.template(&arguments).unwrap_or_else(|error| panic!("{name}: {}", error.0));
        (name, rendered)
    };
    names.into_iter().map(render).collect()
}

#[test]
fn every_set_of_values_matches_its_golden_file() {
    let all = all();
    assert!(all.len() >= 10, "{} sets", all.len());
    for (name, rendered) in all {
        golden(&folder().join(format!("{name}.yaml")), &reviewed(&name, &rendered.text));
    }
}

/// The sets with a run.
fn runs() -> Vec<(String, Rendered)> {
    let runs: Vec<_> = all().into_iter().filter(|(name, _)| !name.starts_with("operator")).collect();
    assert!(runs.len() >= 9, "{} sets", runs.len());
    runs
}

/// The roles are generated from a table with its own test, so they are shown only once. The definitions are in the chart as they are.
fn reviewed(name: &str, text: &str) -> String {
    let is_shown = |part: &&str| {
        (name == "status" || !part.starts_with("# Source: kiln/templates/rbac.yaml"))
            && !part.starts_with("# Source: kiln/templates/fleet-crds.yaml")
    };
    let parts: Vec<_> = text.split("---\n").filter(is_shown).collect();
    parts.join("---\n")
}

#[test]
fn run_never_overlaps_is_never_evicted_and_never_runs_on_its_donor() {
    for (name, rendered) in runs() {
        let pod = rendered.pod();
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"], "false", "{name}");
        assert_eq!(pod["spec"]["restartPolicy"], "Never", "{name}");
        if !rendered.one("CronJob").is_null() {
            assert_eq!(rendered.one("CronJob")["spec"]["concurrencyPolicy"], "Forbid", "{name}");
        }
        let arguments = rendered.arguments();
        assert_eq!(rendered.one("PodDisruptionBudget").is_null(), arguments.contains(" status "), "{name}");
        if let Some((_, rest)) = arguments.split_once(" --target-node ") {
            let donor = rest.split(' ').next().unwrap();
            let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
            let terms = terms["nodeSelectorTerms"].as_array().unwrap_or_else(|| panic!("{name} may run on its donor"));
            for term in terms {
                let expected = json!([{ "key": "metadata.name", "operator": "NotIn", "values": [donor] }]);
                assert_eq!(term["matchFields"], expected, "{name}: terms are alternatives");
            }
        }
        for variable in ["NODE_ID", "POD_NAME", "POD_NAMESPACE"] {
            let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
            assert!(env.iter().any(|one| one["name"] == variable && !one["valueFrom"].is_null()), "{name}: {variable}");
        }
    }
}

#[test]
fn run_has_no_unnecessary_access_to_its_node() {
    for (name, rendered) in runs() {
        let spec = &rendered.pod()["spec"];
        let container = &spec["containers"][0]["securityContext"];
        assert_eq!(container["allowPrivilegeEscalation"], false, "{name}");
        assert_eq!(container["readOnlyRootFilesystem"], true, "{name}");
        assert_eq!(container["capabilities"], json!({ "drop": ["ALL"] }), "{name}");
        assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{name}");
        for key in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(spec[key].is_null(), "{name}: {key}");
        }
        for mount in spec["containers"][0]["volumeMounts"].as_array().unwrap_or(&Vec::new()) {
            assert_eq!(mount["readOnly"], true, "{name}: {mount}");
        }
        let host = spec["volumes"].as_array().is_some_and(|all| all.iter().any(|one| !one["hostPath"].is_null()));
        assert_eq!(
            spec["securityContext"]["runAsNonRoot"], !host,
            "{name}: root only if a file of the node is mounted"
        );
    }
}

#[test]
fn rendered_roles_grant_exactly_the_permission_table() {
    let helm = Helm::new();
    let rule = |one: &Permission| json!({ "apiGroups": [one.group], "resources": [one.resource], "verbs": [one.verb] });
    let forced = rendered(&helm, &[("kamino.drain.force", json!(true))]);
    let granted = forced.one("ClusterRole")["rules"].as_array().unwrap().clone();
    let needed = PERMISSIONS.iter().filter(|one| one.scope == Scope::Cluster).chain(&FORCE_PERMISSIONS);
    assert_eq!(granted, needed.map(rule).collect::<Vec<Value>>(), "with `--force`");
    let rendered = rendered(&helm, &[]);
    for (kind, scope) in [("ClusterRole", Scope::Cluster), ("Role", Scope::Namespace)] {
        let granted: Vec<Value> = rendered.one(kind)["rules"].as_array().unwrap().clone();
        let needed: Vec<Value> = PERMISSIONS.iter().filter(|one| one.scope == scope).map(rule).collect();
        assert_eq!(granted, needed, "{kind}");
        let binding = rendered.one(&format!("{kind}Binding"));
        assert_eq!(binding["roleRef"]["name"], rendered.one(kind)["metadata"]["name"]);
        let account = rendered.one("ServiceAccount")["metadata"]["name"].clone();
        assert_eq!(binding["subjects"], json!([{ "kind": "ServiceAccount", "name": account, "namespace": "nodes" }]));
        assert_eq!(rendered.pod()["spec"]["serviceAccountName"], account);
    }
}

#[test]
fn operator_has_exactly_its_permissions_and_no_access_to_its_node() {
    let helm = Helm::new();
    let rendered = rendered(&helm, &sets::operator());
    let rule = |one: &Permission| json!({ "apiGroups": [one.group], "resources": [one.resource], "verbs": [one.verb] });
    let account = json!([{ "kind": "ServiceAccount", "name": "runner-kiln-operator", "namespace": "nodes" }]);
    for (kind, name, scope) in [
        ("ClusterRole", "nodes-runner-kiln-operator", Scope::Cluster),
        ("Role", "runner-kiln-operator", Scope::Namespace),
    ] {
        let needed = OPERATOR_PERMISSIONS.iter().filter(|one| one.scope == scope);
        let needed: Vec<Value> = needed.map(rule).collect();
        assert_eq!(rendered.named(kind, name)["rules"], json!(needed), "{kind}");
        let binding = rendered.named(&format!("{kind}Binding"), name);
        assert_eq!(binding["roleRef"]["name"], name);
        assert_eq!(binding["subjects"], account);
    }
    let limited = self::rendered(&helm, &[sets::operator(), vec![("operator.perNodeRead", json!(true))]].concat());
    let needed =
        OPERATOR_PERMISSIONS.iter().filter(|one| one.scope == Scope::Cluster).chain(&PER_NODE_READ_PERMISSIONS);
    let needed: Vec<Value> = needed.map(rule).collect();
    assert_eq!(limited.named("ClusterRole", "nodes-runner-kiln-operator")["rules"], json!(needed));
    let with_images = [sets::operator(), sets::identity(), vec![("operator.images", json!(true))]].concat();
    let with_images = self::rendered(&helm, &with_images);
    for (kind, name, scope) in [
        ("ClusterRole", "nodes-runner-kiln-operator", Scope::Cluster),
        ("Role", "runner-kiln-operator", Scope::Namespace),
    ] {
        let needed = OPERATOR_PERMISSIONS.iter().chain(&IMAGE_PERMISSIONS).filter(|one| one.scope == scope);
        let needed: Vec<Value> = needed.map(rule).collect();
        assert_eq!(with_images.named(kind, name)["rules"], json!(needed), "{kind} with images");
    }
    let mut kured = rule(&KURED_PERMISSIONS[0]);
    kured["resourceNames"] = json!(["kured"]);
    assert_eq!(rendered.named("Role", "nodes-runner-kiln-kured")["rules"], json!([kured]));
    assert_eq!(rendered.named("RoleBinding", "nodes-runner-kiln-kured")["subjects"], account);

    let spec = &rendered.one("Deployment")["spec"]["template"]["spec"];
    assert_eq!(spec["serviceAccountName"], "runner-kiln-operator");
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    assert_eq!(spec["volumes"], Value::Null);
    let container = &spec["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["capabilities"], json!({ "drop": ["ALL"] }));
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
}

#[test]
fn run_and_operator_in_one_release_do_not_share_pods_or_accounts() {
    let helm = Helm::new();
    let both = rendered(&helm, &[sets::operator(), sets::update()].concat());
    let selector = &both.named("PodDisruptionBudget", "runner-kiln")["spec"]["selector"]["matchLabels"];
    let name = "app.kubernetes.io/name";
    assert_eq!((&selector[name], &both.pod()["metadata"]["labels"][name]), (&json!("kiln"), &json!("kiln")));
    let operator = &both.one("Deployment")["spec"];
    assert_eq!(operator["selector"]["matchLabels"][name], "kiln-operator");
    assert_eq!(operator["template"]["metadata"]["labels"][name], "kiln-operator");
    assert_eq!(both.pod()["spec"]["serviceAccountName"], "runner-kiln");
    let alone = rendered(&helm, &sets::operator());
    assert!(alone.one("Job").is_null() && alone.named("ServiceAccount", "runner-kiln").is_null());
    let deployment = alone.one("Deployment").to_string();
    assert!(!deployment.contains("azure"), "the operator needs no credential of Azure: {deployment}");
}

#[test]
fn target_selects_the_command_as_in_kaminos_chart() {
    let helm = Helm::new();
    let command = |values: &[(&str, Value)]| {
        let arguments = rendered(&helm, values).arguments();
        arguments.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(command(&[]), "prototype status");
    assert_eq!(command(&sets::update()), "prototype update");
    assert_eq!(command(&sets::auto()), "prototype auto-update");
    assert_eq!(command(&[sets::auto(), sets::update()].concat()), "prototype update");
    let one = rendered(&helm, &[sets::auto(), vec![("kamino.targetVMSS", json!("pool-1"))]].concat());
    assert!(one.arguments().contains(" --target-vmss pool-1 "), "{}", one.arguments());
    assert!(!rendered(&helm, &sets::auto()).arguments().contains("--target-vmss"), "ALL is not a scale set");
}

#[test]
fn changed_run_gets_a_new_job_name() {
    let helm = Helm::new();
    let name = |values: &[(&str, Value)]| rendered(&helm, values).one("Job")["metadata"]["name"].clone();
    let first = name(&sets::update());
    assert_eq!(first, name(&sets::update()));
    assert_ne!(first, name(&[sets::update(), vec![("kamino.imageHistory", json!(4))]].concat()));
}

#[test]
fn long_names_are_valid() {
    let helm = Helm::new();
    let long = "a".repeat(30);
    let node = format!("{}.example", "n".repeat(200));
    for mut values in [sets::update(), sets::nightly()] {
        if values[0].0 == "kamino.targetNode" {
            values[0].1 = json!(node);
        }
        values.push(("kamino.name", json!(long)));
        for object in rendered(&helm, &values).objects {
            let name = object["metadata"]["name"].as_str().unwrap();
            // A CronJob appends eleven characters to the names of its Jobs, which are label values of pods.
            let limit = if object["kind"] == "CronJob" { 52 } else { 63 };
            assert!(name.len() <= limit && !name.contains('.') && !name.ends_with('-'), "{name}");
        }
    }
}
