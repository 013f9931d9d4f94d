//! A release with the operator: installed, upgraded, removed and installed again by Helm.

use chart_tests::{Helm, chart};
use control_plane::{ControlPlane, Options};
use serde_json::{Value, json};
use testkit::Finished;

use crate::people::roles_grant_what_they_are_for;
use crate::session::{FLEET, Session, eventually, object};

/// All kinds of objects of the release that have no namespace.
const CLUSTER_KINDS: &str = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,customresourcedefinitions";

const NAMESPACED_KINDS: &str =
    "deployments,services,serviceaccounts,roles,rolebindings,poddisruptionbudgets,configmaps,jobs";

struct Release<'a> {
    plane: &'a ControlPlane,
    helm: Helm,
    namespace: String,
}

impl Release<'_> {
    fn helm(&self, command: &[&str], more: &[&str]) -> Finished {
        self.helm.run(Some(self.plane.kubeconfig()), &[command, &["--namespace", &self.namespace], more].concat())
    }

    fn install(&self, more: &[&str]) -> Finished {
        let chart = chart().display().to_string();
        self.helm(&["upgrade", "--install", "fleet", &chart, "--set", "operator.enabled=true"], more)
    }

    /// Names of the objects with the label of this release.
    fn objects(&self, kinds: &str) -> Vec<String> {
        let selector = ["--selector", "app.kubernetes.io/instance=fleet", "--output", "name"];
        let arguments = [&["get", kinds, "--all-namespaces"], &selector[..]].concat();
        self.plane.run_kubectl(&arguments).unwrap().lines().map(str::to_owned).collect()
    }

    /// The revision in which the object was last written.
    fn revision(&self, object: &str) -> u64 {
        let object = self.plane.get(&[object]).unwrap();
        object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_is_installed_upgraded_removed_and_installed_again() {
    let plane = ControlPlane::start(&Options::default()).unwrap();
    let namespace = plane.namespace("fleet").unwrap();
    plane.run_kubectl(&["label", "namespace", &namespace, "pod-security.kubernetes.io/enforce=restricted"]).unwrap();
    let release = Release { plane: &plane, helm: Helm::new(), namespace };
    let notes = release.install(&["--set", "operator.dashboard=true"]).success();
    assert!(notes.stdout.contains("`kiln operator` runs with 2 replica(s)"), "{notes}");
    assert!(!notes.stderr.contains("would violate"), "{notes}");
    assert!(!notes.stdout.contains("kubectl logs"), "there is no run: {notes}");

    // The policy exists before nodes may write.
    let binding = release.revision("clusterrolebinding/kiln-node");
    assert!(release.revision("validatingadmissionpolicybinding/nodestates.node.kiln.dev") < binding);
    policy_has_no_type_warnings(&plane).await;
    pods_are_created(&release).await;
    roles_grant_what_they_are_for(&plane).await;
    assert!(release.objects("jobs").is_empty(), "no target, no run");
    second_operator_is_refused(&plane);

    let admin = Session::admin(&plane).await;
    admin.post(&format!("{FLEET}/freezes"), object("Freeze", "kept", json!({"reason": "x"}))).await.ok();
    let _ = release.install(&["--set", "operator.replicas=3,operator.metrics.service=false"]).success();
    let deployment = plane.get(&["deployment", "fleet-kiln-operator", "--namespace", &release.namespace]).unwrap();
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert!(release.objects("services").is_empty());
    plane.get(&["clusterrolebinding", "kiln-node"]).unwrap();

    let _ = release.helm(&["uninstall", "fleet", "--wait"], &[]).success();
    let remains = release.objects(&format!("{CLUSTER_KINDS},{NAMESPACED_KINDS}"));
    assert!(remains.iter().all(|name| name.starts_with("customresourcedefinition")), "{remains:?}");
    assert_eq!(remains.len(), 8, "{remains:?}");
    admin.get(&format!("{FLEET}/freezes/kept")).await.ok();

    let _ = release.install(&[]).success();
    admin.get(&format!("{FLEET}/freezes/kept")).await.ok();
    let _ = release.helm(&["uninstall", "fleet", "--wait"], &[]).success();
}

/// The server checks the types of the policy's expressions against the schema.
async fn policy_has_no_type_warnings(plane: &ControlPlane) {
    let checked = eventually("the policy is checked", async || {
        let policy = plane.get(&["validatingadmissionpolicies", "nodestates.node.kiln.dev"]).unwrap();
        (policy["status"]["observedGeneration"] == 1).then(|| policy["status"]["typeChecking"].clone())
    });
    assert_eq!(checked.await["expressionWarnings"], Value::Null);
}

/// A namespace that enforces `restricted` accepts the pods.
async fn pods_are_created(release: &Release<'_>) {
    let pods = eventually("both pods are created", async || {
        let selector = ["--selector", "app.kubernetes.io/name=kiln-operator", "--namespace", &release.namespace];
        let pods = release.plane.get(&[&["pods"], &selector[..]].concat()).unwrap();
        let pods = pods["items"].as_array().unwrap().clone();
        (pods.len() == 2).then_some(pods)
    });
    let pod = &pods.await[0];
    assert_eq!(pod["spec"]["serviceAccountName"], "fleet-kiln-operator");
    assert_eq!(pod["spec"]["containers"][0]["args"][0], "operator");
}

/// Two operators would lead in their own namespaces.
fn second_operator_is_refused(plane: &ControlPlane) {
    let second = Release { plane, helm: Helm::new(), namespace: plane.namespace("second").unwrap() };
    let refused = second.install(&["--set", "operator.crds=false"]);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("cannot be imported into the current release"),
        "{refused}"
    );
}
