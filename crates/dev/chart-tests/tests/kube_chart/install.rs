//! Installation on a real API server: accepted and rejected objects, and cleanup.

use std::fs;

use chart_tests::{Helm, root};
use control_plane::{Error, Identity, shared, unique};
use kiln_kubernetes::rbac::{PERMISSIONS, Permission, Scope};
use serde_json::{Value, json};

use crate::release::{Place, eventually, node, release};
use crate::sets;

/// All kinds of objects that the chart may create.
const KINDS: &str = "jobs,cronjobs,pods,serviceaccounts,roles,rolebindings,poddisruptionbudgets,secrets,configmaps";

#[test]
fn run_with_workload_identity_fits_a_restricted_namespace() {
    let place = Place::enforcing(shared(), "restricted");
    let release = release();
    let notes = place.install(&release, &[sets::update(), sets::identity()].concat()).success();
    assert!(notes.stdout.contains("The pod of the run satisfies PodSecurity `restricted`"), "{notes}");
    assert!(!notes.stderr.contains("would violate"), "{notes}");
    let pod = place.pod(&release);
    assert_eq!(pod["spec"]["securityContext"]["runAsUser"], 65532);
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let token = volumes.iter().find(|volume| volume["name"] == "azure-identity-token").unwrap();
    assert_eq!(token["projected"]["sources"][0]["serviceAccountToken"]["audience"], "api://AzureADTokenExchange");
    assert_eq!(pod["spec"]["serviceAccountName"], place.objects(&release, "serviceaccounts")[0]["metadata"]["name"]);
    place.uninstall(&release);
}

#[test]
fn azure_json_of_the_node_is_rejected_at_once_in_stricter_namespaces() {
    for level in ["restricted", "baseline"] {
        let place = Place::enforcing(shared(), level);
        let rejected = place.install(&release(), &sets::update());
        assert_eq!(rejected.code, Some(1), "{rejected}");
        for word in [&place.namespace, level, "azure.credential=workloadIdentity", "azure.azureJson.secretName"] {
            assert!(rejected.stderr.contains(word), "`{word}` is missing: {rejected}");
        }

        // Without the check the server accepts the Job and rejects its pods, as the guide says.
        let release = release();
        let unchecked = [sets::update(), vec![("podSecurity.check", json!(false))]].concat();
        let _ = place.install(&release, &unchecked).success();
        assert_eq!(place.objects(&release, "jobs").len(), 1);
        let message = place.rejection();
        assert!(message.contains("violates PodSecurity") && message.contains("hostPath"), "{message}");
        assert!(place.objects(&release, "pods").is_empty());
        place.uninstall(&release);
    }
}

#[test]
fn azure_json_of_the_node_is_mounted_where_the_namespace_allows_it() {
    let place = Place::enforcing(shared(), "privileged");
    let release = release();
    let notes = place.install(&release, &sets::update()).success();
    assert!(notes.stdout.contains("runs as root to read it"), "{notes}");
    let pod = place.pod(&release);
    let file = json!({ "name": "azure-json", "hostPath": { "path": "/etc/kubernetes/azure.json", "type": "File" } });
    assert!(pod["spec"]["volumes"].as_array().unwrap().contains(&file), "{pod}");
    place.uninstall(&release);
}

#[test]
fn azure_json_from_a_secret_fits_a_restricted_namespace() {
    let place = Place::enforcing(shared(), "restricted");
    let release = release();
    let values = [sets::update(), vec![("azure.azureJson.secretName", json!("azure"))]].concat();
    let _ = place.install(&release, &values).success();
    assert_eq!(place.pod(&release)["spec"]["securityContext"]["runAsNonRoot"], true);
    place.uninstall(&release);
}

#[test]
fn scheduled_run_creates_the_same_pods_in_a_restricted_namespace() {
    let place = Place::enforcing(shared(), "restricted");
    let release = release();
    let values = [sets::nightly(), sets::identity(), vec![("cronjob.timeZone", json!("Etc/UTC"))]].concat();
    let notes = place.install(&release, &values).success();
    assert!(notes.stdout.contains("is scheduled at `42 0 * * *`; runs never overlap"), "{notes}");
    assert!(place.objects(&release, "jobs").is_empty(), "no job before its time");
    let cronjob = place.objects(&release, "cronjobs").pop().unwrap();
    let from = format!("--from=cronjob/{}", cronjob["metadata"]["name"].as_str().unwrap());
    place.plane.run_kubectl(&["create", "job", "now", &from, "--namespace", &place.namespace]).unwrap();
    let pod = place.pod(&release);
    assert_eq!(pod["spec"]["containers"][0]["args"][1], "auto-update");
    place.plane.run_kubectl(&["delete", "job", "now", "--namespace", &place.namespace]).unwrap();
    place.uninstall(&release);
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
    let place = Place::enforcing(shared(), "restricted");
    let release = release();
    let _ = place.install(&release, &[sets::update(), sets::identity()].concat()).success();
    let account = place.objects(&release, "serviceaccounts").pop().unwrap();
    let account =
        format!("system:serviceaccount:{}:{}", place.namespace, account["metadata"]["name"].as_str().unwrap());
    let other = place.plane.namespace("other").unwrap();
    let mut expected = Vec::new();
    for one in &PERMISSIONS {
        expected.push((one.verb, one.group, one.resource, &place.namespace, true));
        let same = |two: &&Permission| (two.verb, two.group, two.resource) == (one.verb, one.group, one.resource);
        let everywhere = PERMISSIONS.iter().filter(same).any(|two| two.scope == Scope::Cluster);
        expected.push((one.verb, one.group, one.resource, &other, everywhere));
    }
    for (verb, resource) in
        [("delete", "nodes"), ("create", "pods/exec"), ("list", "secrets"), ("create", "serviceaccounts/token")]
    {
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
    let responses = place.plane.run_kubectl_as(place.plane.kubeconfig(), &create, &reviews.to_string()).unwrap();
    let responses = serde_json::Deserializer::from_str(&responses).into_iter::<Value>().map(Result::unwrap);
    let allowed: Vec<bool> = responses.map(|review| review["status"]["allowed"] == true).collect();
    assert_eq!(allowed.len(), expected.len());
    for (actual, (verb, _, resource, namespace, expected)) in allowed.iter().zip(expected) {
        assert_eq!(*actual, expected, "{verb} {resource} in {namespace}");
    }
    place.uninstall(&release);
}

#[test]
fn run_cannot_be_evicted_until_it_has_ended() {
    let place = Place::enforcing(shared(), "restricted");
    let (release, node_name) = (release(), unique("node"));
    node(place.plane, &node_name, &json!({}), &json!([]));
    let _ = place.install(&release, &[sets::update(), sets::identity()].concat()).success();
    let pod = place.pod(&release)["metadata"]["name"].as_str().unwrap().to_owned();
    let admin = place.plane.kubeconfig();
    let post = |subresource: &str, body: Value| {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}/{subresource}", place.namespace);
        place.plane.run_kubectl_as(admin, &["create", "--raw", &path, "--filename", "-"], &body.to_string())
    };
    let metadata = json!({ "name": pod, "namespace": place.namespace });
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
        "target": { "apiVersion": "v1", "kind": "Node", "name": node_name } });
    post("binding", binding).unwrap();
    place.phase(&pod, "Running", "True");
    eventually("the budget counts the run", || {
        let budget = place.objects(&release, "poddisruptionbudgets").pop()?;
        (budget["status"]["currentHealthy"] == 1).then_some(())
    });
    let eviction = || json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata });
    match post("eviction", eviction()) {
        Err(Error::Kubectl { stderr, .. }) => assert!(stderr.contains("disruption budget"), "{stderr}"),
        other => panic!("expected a rejection: {other:?}"),
    }
    place.end(&release);
    post("eviction", eviction()).unwrap();
    place.uninstall(&release);
    place.plane.run_kubectl(&["delete", "node", &node_name]).unwrap();
}

#[test]
fn upgrade_starts_a_new_run_and_uninstall_leaves_nothing_behind() {
    let place = Place::enforcing(shared(), "restricted");
    let release = release();
    let values = [sets::update(), sets::identity()].concat();
    let before = everything(&place);
    let _ = place.install(&release, &values).success();
    let job = |place: &Place| {
        place.objects(&release, "jobs").iter().map(|job| job["metadata"]["name"].clone()).collect::<Vec<_>>()
    };
    let first = job(&place);
    place.pod(&release);
    for values in [values.clone(), [values.clone(), vec![("kamino.imageHistory", json!(5))]].concat()] {
        let last = job(&place);
        let _ = place.install(&release, &values).success();
        let next = eventually("the previous job is gone", || Some(job(&place)).filter(|jobs| jobs.len() == 1));
        assert_ne!(next, last, "an upgrade starts a new run");
    }
    assert_ne!(job(&place), first);
    // Switch to a schedule.
    let nightly = [sets::nightly(), sets::identity(), vec![("kamino.targetNode", json!(""))]].concat();
    let _ = place.install(&release, &nightly).success();
    eventually("the job is replaced by the schedule", || job(&place).is_empty().then_some(()));
    assert_eq!(place.objects(&release, "cronjobs").len(), 1);

    place.uninstall(&release);
    let after = eventually("everything is removed", || Some(everything(&place)).filter(|after| *after == before));
    assert_eq!(after, before);
    let selector = format!("app.kubernetes.io/instance={release}");
    let roles = place.plane.get(&["clusterroles,clusterrolebindings", "--selector", &selector]).unwrap();
    assert_eq!(roles["items"], json!([]));
}

/// The names of all objects in the namespace.
fn everything(place: &Place) -> Vec<String> {
    let list = ["get", KINDS, "--namespace", &place.namespace, "--output", "name"];
    let mut names: Vec<_> = place.plane.run_kubectl(&list).unwrap().lines().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn releases_of_the_same_name_in_two_namespaces_are_independent() {
    let plane = shared();
    let (one, two) = (Place::enforcing(plane, "restricted"), Place::enforcing(plane, "restricted"));
    let release = release();
    let values = [sets::update(), sets::identity()].concat();
    let _ = one.install(&release, &values).success();
    let _ = two.install(&release, &values).success();
    one.uninstall(&release);
    let role = format!("{}-{release}", two.namespace);
    plane.run_kubectl(&["get", "clusterrole", &role]).unwrap();
    two.uninstall(&release);
}

#[test]
fn user_without_permission_for_roles_can_use_an_existing_account() {
    let place = Place::enforcing(shared(), "privileged");
    let user = unique("installer");
    let kubeconfig = place.plane.kubeconfig_for(&Identity::user(&user)).unwrap();
    let binding = ["create", "rolebinding", "admin", "--clusterrole=admin", "--user", &user, "-n", &place.namespace];
    place.plane.run_kubectl(&binding).unwrap();
    let helm = Helm::new();
    let chart = chart_tests::chart().display().to_string();
    let install = |release: &str, more: &[&str]| {
        let arguments = [&["install", release, &chart, "--namespace", &place.namespace], more].concat();
        helm.run(Some(&kubeconfig), &arguments)
    };
    let rejected = install("one", &[]);
    assert!(rejected.code == Some(1) && rejected.stderr.contains("clusterroles"), "{rejected}");
    let account = "rbac.create=false,serviceAccount.create=false,serviceAccount.name=default";
    let _ = install("two", &["--set", account]).success();
    assert_eq!(place.pod("two")["spec"]["serviceAccountName"], "default");
    place.uninstall("two");
}
