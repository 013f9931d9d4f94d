//! The pod that must succeed on a canary.

use k8s_openapi::api::core::v1::{ContainerState, Pod, PodStatus};
use kiln_types::{CanaryName, SmokeTest};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::name::{Namespace, NodeName, Owner};
use crate::request::RETRY_FOR;
use crate::task::{RUN_ANNOTATION, explain};
use crate::{Cluster, Error};

/// The label with the canary that a pod tests.
pub const SMOKE_TEST_LABEL: &str = "kiln.dev/smoke-test";

/// The longest manifest. The journal keeps a copy, so that a resumed run has the same test.
const MAX_MANIFEST: usize = 8 << 10;

/// The manifest of a smoke test, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmokePod(Value);

impl SmokePod {
    /// Checks a manifest. The error is the reason to reject it.
    pub fn new(manifest: Value, namespace: &Namespace) -> Result<Self, String> {
        let text = |path: &str| manifest.pointer(path).and_then(Value::as_str);
        if (text("/apiVersion"), text("/kind")) != (Some("v1"), Some("Pod")) {
            return Err("expected `apiVersion: v1` and `kind: Pod`".to_owned());
        }
        if let Some(other) = text("/metadata/namespace").filter(|other| *other != namespace.as_str()) {
            return Err(format!("its namespace is `{other}`; kiln may only create pods in its own, `{namespace}`"));
        }
        if manifest.pointer("/spec/nodeName").is_some() {
            return Err("remove `spec.nodeName`: the pod runs on the canary".to_owned());
        }
        if let Some(policy) = text("/spec/restartPolicy").filter(|policy| *policy != "Never") {
            return Err(format!("`spec.restartPolicy` is `{policy}`; only a pod with `Never` can fail"));
        }
        serde_json::from_value::<Pod>(manifest.clone()).map_err(|error| error.to_string())?;
        if manifest.pointer("/spec/containers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            return Err("it has no containers".to_owned());
        }
        let bytes = manifest.to_string().len();
        if bytes > MAX_MANIFEST {
            return Err(format!("it has {bytes} bytes as JSON; at most {MAX_MANIFEST} are possible"));
        }
        Ok(Self(manifest))
    }

    /// The manifest as JSON, in which [`SmokePod::new`] finds nothing wrong.
    pub fn to_json(&self) -> String {
        self.0.to_string()
    }
}

/// The manifest with everything that binds it to one canary.
fn bind(manifest: &str, canary: &CanaryName, node: &NodeName, run: &Owner) -> Result<Pod, serde_json::Error> {
    let mut pod: Value = serde_json::from_str(manifest)?;
    let mut add = |object: &str, key: &str, value: &str| {
        if pod["metadata"][object].is_null() {
            pod["metadata"][object] = json!({});
        }
        pod["metadata"][object][key] = json!(value);
    };
    add("labels", SMOKE_TEST_LABEL, &canary.to_string());
    add("annotations", RUN_ANNOTATION, run.as_str());
    pod["metadata"]["name"] = json!(pod_name(canary));
    // A name of the user's would be the name of the pod of another run, too.
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("generateName");
    }
    // Without the scheduler, because the canary is cordoned.
    pod["spec"]["nodeName"] = json!(node.as_str());
    pod["spec"]["restartPolicy"] = json!("Never");
    serde_json::from_value(pod)
}

fn pod_name(canary: &CanaryName) -> String {
    format!("{canary}-smoke-test")
}

/// The result of a pod, from its status.
fn result(status: &PodStatus) -> SmokeTest {
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let failed = |state: &ContainerState| state.terminated.as_ref().is_some_and(|ended| ended.exit_code != 0);
    let has_failed = containers.filter_map(|container| container.state.as_ref()).any(failed);
    match status.phase.as_deref() {
        Some("Succeeded") => SmokeTest::Succeeded,
        Some("Failed") if has_failed => SmokeTest::Failed(explain(status)),
        Some("Failed") => SmokeTest::Aborted(explain(status)),
        _ => SmokeTest::Running(explain(status)),
    }
}

impl Cluster {
    /// Creates the pod that tests a canary. A pod of this run that exists already stays.
    pub async fn create_smoke_test(
        &self,
        namespace: &Namespace,
        canary: &CanaryName,
        node: &NodeName,
        run: &Owner,
        manifest: &str,
    ) -> Result<(), Error> {
        let action = format!("create pod `{namespace}/{}`", pod_name(canary));
        let pod = bind(manifest, canary, node, run)
            .map_err(|error| Error::from_kube(&action, kube::Error::SerdeError(error)))?;
        let (pods, params) = (self.smoke_tests(namespace), PostParams::default());
        match self.retry(&action, Instant::now() + RETRY_FOR, || pods.create(&params, &pod)).await {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads the pod that tests a canary.
    pub async fn smoke_test(&self, namespace: &Namespace, canary: &CanaryName) -> Result<Option<SmokeTest>, Error> {
        let (pods, name) = (self.smoke_tests(namespace), pod_name(canary));
        let action = format!("get pod `{namespace}/{name}`");
        let found = self.retry(&action, Instant::now() + RETRY_FOR, || pods.get_opt(&name)).await?;
        Ok(found.map(|pod| result(&pod.status.unwrap_or_default())))
    }

    /// Deletes the pod that tests a canary, if it exists.
    pub async fn delete_smoke_test(&self, namespace: &Namespace, canary: &CanaryName) -> Result<(), Error> {
        let (pods, name) = (self.smoke_tests(namespace), pod_name(canary));
        // The node of the pod is deleted in a moment, so its kubelet may never confirm.
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let action = format!("delete pod `{namespace}/{name}`");
        match self.retry(&action, Instant::now() + RETRY_FOR, || pods.delete(&name, &params)).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    fn smoke_tests(&self, namespace: &Namespace) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dns"},
            "spec": {"containers": [{"name": "dns", "image": "busybox", "command": ["nslookup", "kubernetes"]}]},
        })
    }

    fn refused(change: impl FnOnce(&mut Value)) -> String {
        let mut manifest = manifest();
        change(&mut manifest);
        SmokePod::new(manifest, &"kiln".parse().unwrap()).unwrap_err()
    }

    #[test]
    fn manifest_that_cannot_test_a_canary_is_refused_with_the_reason() {
        assert!(refused(|pod| pod["kind"] = json!("Job")).contains("`kind: Pod`"));
        assert!(refused(|pod| pod["metadata"]["namespace"] = json!("prod")).contains("`prod`"));
        assert!(refused(|pod| pod["spec"]["nodeName"] = json!("n")).contains("nodeName"));
        assert!(refused(|pod| pod["spec"]["restartPolicy"] = json!("Always")).contains("`Never`"));
        assert!(refused(|pod| pod["spec"]["containers"] = json!([])).contains("no containers"));
        assert!(refused(|pod| pod["spec"]["containers"] = json!("x")).contains("invalid type"));
        assert!(
            refused(|pod| pod["metadata"]["annotations"] = json!({"a": "x".repeat(9_000)})).contains("at most 8192")
        );
    }

    #[test]
    fn pod_is_bound_to_the_canary_and_named_after_it() {
        let pod = SmokePod::new(manifest(), &"kiln".parse().unwrap()).unwrap();
        let canary = CanaryName::from_run("r1").unwrap();
        let bound = bind(&pod.to_json(), &canary, &"node".parse().unwrap(), &"r1".parse().unwrap()).unwrap();
        assert_eq!(bound.metadata.name.as_deref(), Some("kiln-canary-r1-smoke-test"));
        let spec = bound.spec.unwrap();
        assert_eq!((spec.node_name.as_deref(), spec.restart_policy.as_deref()), (Some("node"), Some("Never")));
        assert_eq!(bound.metadata.labels.unwrap()[SMOKE_TEST_LABEL], "kiln-canary-r1");
    }

    #[test]
    fn only_a_container_with_an_error_is_a_failure() {
        let of = |status: Value| result(&serde_json::from_value(status).unwrap());
        let ended = |code: u32| {
            json!([{"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "reason": "Error"}}}])
        };
        assert_eq!(of(json!({"phase": "Succeeded", "containerStatuses": ended(0)})), SmokeTest::Succeeded);
        assert!(matches!(of(json!({"phase": "Failed", "containerStatuses": ended(1)})), SmokeTest::Failed(_)));
        assert!(matches!(of(json!({"phase": "Failed", "initContainerStatuses": ended(1)})), SmokeTest::Failed(_)));
        assert!(
            matches!(of(json!({"phase": "Failed", "reason": "OutOfcpu"})), SmokeTest::Aborted(why) if why.contains("OutOfcpu"))
        );
        assert!(matches!(of(json!({"phase": "Pending"})), SmokeTest::Running(_)));
    }
}
