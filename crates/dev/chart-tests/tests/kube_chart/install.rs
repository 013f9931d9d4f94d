//! Installation on a real API server: accepted and rejected objects, and cleanup.

use std::fs;

use chart_tests::{Helm, root};
use control_plane::{Error, Identity, shared, unique};
use kiln_kubernetes::rbac::{PERMISSIONS, Permission, Scope};
use serde_json::{Value, json};

use crate::release::{TestNamespace, eventually, node, release};
use crate::sets;

/// All kinds of objects that the chart may create.
const KINDS: &str = "jobs,cronjobs,pods,serviceaccounts,roles,rolebindings,poddisruptionbudgets,secrets,configmaps";

#[test]
fn run_with_workload_identity_fits_a_restricted_namespace() {
    let namespace = TestNamespace::enforcing(shared(), "restricted");
    let release = release();
    let notes = namespace.install(&release, &[sets::update(), sets::identity()].concat()).success();
    assert!(notes.stdout.contains("The pod of the run satisfies PodSecurity `restricted`"), "{notes}");
    assert!(!notes.stderr.contains("would violate"), "{notes}");
    let pod = namespace.pod(&release);
    assert_eq!(pod["spec"]["securityContext"]["runAsUser"], 65532);
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let token = volumes.iter().find(|volume| volume["name"] == "azure-identity-token").unwrap();
    assert_eq!(token["projected"]["sources"][0]["serviceAccountToken"]["audience"], "api://AzureADTokenExchange");
    assert_eq!(
        pod["spec"]["serviceAccountName"],
        namespace.objects(&release, "serviceaccounts")[0]["metadata"]["name"]
    );
    namespace.uninstall(&release);
}

#[test]
fn azure_json_of_the_node_is_rejected_at_once_in_stricter_namespaces() {
    for level in ["restricted", "baseline"] {
        let namespace = TestNamespace::enforcing(shared(), level);
        let rejected = namespace.install(&release(), &sets::update());
        assert_eq!(rejected.code, Some(1), "{rejected}");
        for word in [&namespace.name, level, "azure.credential=workloadIdentity", "azure.azureJson.secretName"] {
            assert!(rejected.stderr.contains(word), "`{word}` is missing: {rejected}");
        }

        // Without the check the server accepts the Job and rejects its pods, as the guide says.
        let release = release();
        let unchecked = [sets::update(), vec![("podSecurity.check", json!(false))]].concat();
        let _ = namespace.install(&release, &unchecked).success();
        assert_eq!(namespace.objects(&release, "jobs").len(), 1);
        let message = namespace.rejection();
        assert!(message.contains("violates PodSecurity") && message.contains("hostPath"), "{message}");
        assert!(namespace.objects(&release, "pods").is_empty());
        namespace.uninstall(&release);
    }
}

#[test]
fn azure_json_of_the_node_is_mounted_where_the_namespace_allows_it() {
    let namespace = TestNamespace::enforcing(shared(), "privileged");
    let release = release();
    let notes = namespace.install(&release, &sets::update()).success();
    assert!(notes.stdout.contains("runs as root to read it"), "{notes}");
    let pod = namespace.pod(&release);
    let file = json!({ "name": "azure-json", "hostPath": { "path": "/etc/kubernetes/azure.json", "type": "File" } });
    assert!(pod["spec"]["volumes"].as_array().unwrap().contains(&file), "{pod}");
    namespace.uninstall(&release);
}

#[test]
fn azure_json_from_a_secret_fits_a_restricted_namespace() {
    let namespace = TestNamespace::enforcing(shared(), "restricted");
    let release = release();
    let values = [sets::update(), vec![("azure.azureJson.secretName", json!("azure"))]].concat();
    let _ = namespace.install(&release, &values).success();
    assert_eq!(namespace.pod(&release)["spec"]["securityContext"]["runAsNonRoot"], true);
    namespace.uninstall(&release);
}

#[test]
fn scheduled_run_creates_the_same_pods_in_a_restricted_namespace() {
    let namespace = TestNamespace::enforcing(shared(), "restricted");
    let release = release();
    let values = [sets::nightly(), sets::identity(), vec![("cronjob.timeZone", json!("Etc/UTC"))]].concat();
    let notes = namespace.install(&release, &values).success();
    assert!(notes.stdout.contains("is scheduled at `42 0 * * *`; runs never overlap"), "{notes}");
    assert!(namespace.objects(&release, "jobs").is_empty(), "no job before its time");
    let cronjob = namespace.objects(&release, "cronjobs").pop().unwrap();
    let from = format!("--from=cronjob/{}", cronjob["metadata"]["name"].as_str().unwrap());
    namespace.plane.run_kubectl(&["create", "job", "now", &from, "--namespace", &namespace.name]).unwrap();
    let pod = namespace.pod(&release);
    assert_eq!(pod["spec"]["containers"][0]["args"][1], "auto-update");
    namespace.plane.run_kubectl(&["delete", "job", "now", "--namespace", &namespace.name]).unwrap();
    namespace.uninstall(&release);
}

#[test]
fn server_accepts_every_golden_set_of_values() {
    let plane = shared();
    let namespace = plane.namespace("chart").unwrap();
    let helm = Helm::new();
    let folder = root().join("crates/dev/chart-tests/golden");
    let mut sets = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path().display().to_string();
        if !path.ends_with(".values.yaml") {
            continue;
        }
        sets += 1;
        let rendered = helm.template(&["--values", &path, "--namespace", &namespace]).unwrap();
        let apply = ["apply", "--dry-run=server", "--validate=strict", "--filename", "-"];
        let applied = plane.run_kubectl_as(plane.kubeconfig(), &apply, &rendered.text);
        applied.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    assert!(sets >= 9, "{sets} sets");
}

#[test]
fn service_account_has_exactly_the_permissions_that_kiln_needs() {
    let namespace = TestNamespace::enforcing(shared(), "restricted");
    let release = release();
    let _ = namespace.install(&release, &[sets::update(), sets::identity()].concat()).success();
    let account = namespace.objects(&release, "serviceaccounts").pop().unwrap();
    let account = format!("system:serviceaccount:{}:{}", namespace.name, account["metadata"]["name"].as_str().unwrap());
    let other = namespace.plane.namespace("other").unwrap();
    let mut expected = Vec::new();
    for one in &PERMISSIONS {
        expected.push((one.verb, one.group, one.resource, &namespace.name, true));
        let same = |two: &&Permission| (two.verb, two.group, two.resource) == (one.verb, one.group, one.resource);
        let everywhere = PERMISSIONS.iter().filter(same).any(|two| two.scope == Scope::Cluster);
        expected.push((one.verb, one.group, one.resource, &other, everywhere));
    }
    for (verb, resource) in [
        ("delete", "nodes"),
        ("delete", "pods"),
        ("create", "pods/exec"),
        ("list", "secrets"),
        ("create", "serviceaccounts/token"),
    ] {
        expected.push((verb, "", resource, &other, false));
    }
    let reviews = expected.iter().map(|(verb, group, resource, namespace, _)| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": account,
            "resourceAttributes": { "verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace },
        }})
    });
    let reviews = json!({ "apiVersion": "v1", "kind": "List", "items": reviews.collect::<Vec<_>>() });
    let create = ["create", "--output", "json", "--filename", "-"];
    let responses =
        namespace.plane.run_kubectl_as(namespace.plane.kubeconfig(), &create, &reviews.to_string()).unwrap();
    let responses = serde_json::Deserializer::from_str(&responses).into_iter::<Value>().map(Result::unwrap);
    let allowed: Vec<bool> = responses.map(|review| review["status"]["allowed"] == true).collect();
    assert_eq!(allowed.len(), expected.len());
    for (actual, (verb, _, resource, namespace, expected)) in allowed.iter().zip(expected) {
        assert_eq!(*actual, expected, "{verb} {resource} in {namespace}");
    }
    namespace.uninstall(&release);
}

#[test]
fn run_cannot_be_evicted_until_it_has_ended() {
    let namespace = TestNamespace::enforcing(shared(), "restricted");
    let (release, node_name) = (release(), unique("node"));
    node(namespace.plane, &node_name, &json!({}), &json!([]));
    let _ = namespace.install(&release, &[sets::update(), sets::identity()].concat()).success();
    let pod = namespace.pod(&release)["metadata"]["name"].as_str().unwrap().to_owned();
    let admin = namespace.plane.kubeconfig();
    let post = |subresource: &str, body: Value| {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}/{subresource}", namespace.name);
        namespace.plane.run_kubectl_as(admin, &["create", "--raw", &path, "--filename", "-"], &body.to_string())
    };
    let metadata = json!({ "name": pod, "namespace": namespace.name });
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
        "target": { "apiVersion": "v1", "kind": "Node", "name": node_name } });
    post("binding", binding).unwrap();
    namespace.phase(&pod, "Running", "True");
    eventually("the budget counts the run", || {
        let budget = namespace.objects(&release, "poddisruptionbudgets").pop()?;
        (budget["status"]["currentHealthy"] == 1).then_some(())
    });
    let eviction = || json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata });
    match post("eviction", eviction()) {
        Err(Error::Kubectl { stderr, .. }) => assert!(stderr.contains("disruption budget"), "{stderr}"),
        other => panic!("expected a rejection: {other:?}"),
    }
    namespace.end(&release);
    post("eviction", eviction()).unwrap();
    namespace.uninstall(&release);
    namespace.plane.run_kubectl(&["delete", "node", &node_name]).unwrap();
}

#[test]
fn upgrade_starts_a_new_run_and_uninstall_leaves_nothing_behind() {
    let namespace = TestNamespace::enforcing(shared(), "restricted");
    let release = release();
    let values = [sets::update(), sets::identity()].concat();
    let before = everything(&namespace);
    let _ = namespace.install(&release, &values).success();
    let job = |namespace: &TestNamespace| {
        namespace.objects(&release, "jobs").iter().map(|job| job["metadata"]["name"].clone()).collect::<Vec<_>>()
    };
    let first = job(&namespace);
    namespace.pod(&release);
    for values in [values.clone(), [values.clone(), vec![("kamino.imageHistory", json!(5))]].concat()] {
        let last = job(&namespace);
        let _ = namespace.install(&release, &values).success();
        let next = eventually("the previous job is gone", || Some(job(&namespace)).filter(|jobs| jobs.len() == 1));
        assert_ne!(next, last, "an upgrade starts a new run");
    }
    assert_ne!(job(&namespace), first);
    // Switch to a schedule.
    let nightly = [sets::nightly(), sets::identity(), vec![("kamino.targetNode", json!(""))]].concat();
    let _ = namespace.install(&release, &nightly).success();
    eventually("the job is replaced by the schedule", || job(&namespace).is_empty().then_some(()));
    assert_eq!(namespace.objects(&release, "cronjobs").len(), 1);

    namespace.uninstall(&release);
    let after = eventually("everything is removed", || Some(everything(&namespace)).filter(|after| *after == before));
    assert_eq!(after, before);
    let selector = format!("app.kubernetes.io/instance={release}");
    let roles = namespace.plane.get(&["clusterroles,clusterrolebindings", "--selector", &selector]).unwrap();
    assert_eq!(roles["items"], json!([]));
}

/// The names of all objects in the namespace.
fn everything(namespace: &TestNamespace) -> Vec<String> {
    let list = ["get", KINDS, "--namespace", &namespace.name, "--output", "name"];
    let mut names: Vec<_> = namespace.plane.run_kubectl(&list).unwrap().lines().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn releases_of_the_same_name_in_two_namespaces_are_independent() {
    let plane = shared();
    let (one, two) = (TestNamespace::enforcing(plane, "restricted"), TestNamespace::enforcing(plane, "restricted"));
    let release = release();
    let values = [sets::update(), sets::identity()].concat();
    let _ = one.install(&release, &values).success();
    let _ = two.install(&release, &values).success();
    one.uninstall(&release);
    let role = format!("{}-{release}", two.name);
    plane.run_kubectl(&["get", "clusterrole", &role]).unwrap();
    two.uninstall(&release);
}

#[test]
fn user_without_permission_for_roles_can_use_an_existing_account() {
    let namespace = TestNamespace::enforcing(shared(), "privileged");
    let user = unique("installer");
    let kubeconfig = namespace.plane.kubeconfig_for(&Identity::user(&user)).unwrap();
    let binding = ["create", "rolebinding", "admin", "--clusterrole=admin", "--user", &user, "-n", &namespace.name];
    namespace.plane.run_kubectl(&binding).unwrap();
    let helm = Helm::new();
    let chart = chart_tests::chart().display().to_string();
    let install = |release: &str, more: &[&str]| {
        let arguments = [&["install", release, &chart, "--namespace", &namespace.name], more].concat();
        helm.run(Some(&kubeconfig), &arguments)
    };
    let rejected = install("one", &[]);
    assert!(rejected.code == Some(1) && rejected.stderr.contains("clusterroles"), "{rejected}");
    let account = "rbac.create=false,serviceAccount.create=false,serviceAccount.name=default";
    let _ = install("two", &["--set", account]).success();
    assert_eq!(namespace.pod("two")["spec"]["serviceAccountName"], "default");
    namespace.uninstall("two");
}
