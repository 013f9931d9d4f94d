//! Recipes, version records, kamino's jobs, forced deletion and task pods on a real API server.

use std::collections::BTreeMap;
use std::time::Duration;

use control_plane::unique;
use k8s_openapi::api::core::v1::{self, ConfigMap};
use kiln_kubernetes::drain::{DrainError, DrainOptions, Flags};
use kiln_kubernetes::{
    Inspector, KaminoJobKind, OriginalRecipe, OriginalStore, PodInspector, SaveOutcome, VersionRecords,
};
use kiln_types::{Extension, ImageSource, SavedExtension, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::common::pod;
use crate::kubelet::LogKubelet;
use crate::real::{LONG, PodState, RealCluster, bare_plane};

async fn real() -> RealCluster {
    RealCluster::connect(bare_plane()).await
}

async fn new_namespace(real: &RealCluster, kind: &str) -> String {
    let namespace = unique(kind);
    real.namespace(&namespace).await;
    namespace
}

#[tokio::test(flavor = "multi_thread")]
async fn real_server_accepts_task_pods_and_nothing_remains() {
    let real = real().await;
    let namespace = new_namespace(&real, "task").await;
    let node = real.cluster.node(&real.simulated_node(&unique("inside")).await).await.unwrap();
    let inspector = PodInspector::new(&real.cluster, &namespace.parse().unwrap(), "example.invalid/kilnd").within(LONG);
    let kubelet = real.play_tasks(&namespace);
    let run = "run-1".parse().unwrap();
    for _ in 0..2 {
        let found = inspector.inspect(&node, &run).await.unwrap();
        assert_eq!((found.kernel.as_str(), found.custom_data.bytes().unwrap().expose()), ("5.4", &b"abc"[..]));
    }
    inspector.install_first_boot(&node, &run).await.unwrap();
    drop(kubelet);
    let pods = real.pods(&namespace).list(&ListParams::default()).await.unwrap().items;
    let maps: Api<ConfigMap> = Api::namespaced(real.client.clone(), &namespace);
    let secrets: Api<v1::Secret> = Api::namespaced(real.client.clone(), &namespace);
    let count_ours =
        |names: Vec<Option<String>>| names.into_iter().flatten().filter(|n| n.starts_with("kiln-")).count();
    let maps = maps.list(&ListParams::default()).await.unwrap().items.into_iter().map(|o| o.metadata.name).collect();
    let secrets =
        secrets.list(&ListParams::default()).await.unwrap().items.into_iter().map(|o| o.metadata.name).collect();
    assert_eq!((pods.len(), count_ours(maps), count_ours(secrets)), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn original_recipe_is_immutable_on_a_real_server() {
    let real = real().await;
    let namespace = new_namespace(&real, "original").await;
    let store = OriginalStore::new(&real.cluster, &namespace.parse().unwrap(), &"Pool_1".parse().unwrap());
    let extension = SavedExtension {
        extension: Extension { name: "cse".to_owned(), ..Extension::default() },
        protected_settings: Some(Secret::new(r#"{"a":"b"}"#)),
    };
    let recipe = OriginalRecipe {
        image: ImageSource::Other("/subscriptions/s/x".to_owned()),
        extensions: vec![extension],
        custom_data: Some(Secret::new("#cloud-config\n".repeat(4000))),
        saved_by: "run-1".parse().unwrap(),
    };
    assert_eq!(store.save(&recipe).await.unwrap(), SaveOutcome::Saved);
    let later = OriginalRecipe { custom_data: None, saved_by: "run-2".parse().unwrap(), ..recipe.clone() };
    assert_eq!(store.save(&later).await.unwrap(), SaveOutcome::AlreadySaved);
    assert_eq!(store.load().await.unwrap(), Some(recipe));
    let secrets: Api<v1::Secret> = Api::namespaced(real.client.clone(), &namespace);
    let name = secrets.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    let change = Patch::Merge(json!({"data": {"original.json": "e30="}}));
    let error = secrets.patch(&name, &PatchParams::default(), &change).await.unwrap_err();
    assert!(error.to_string().contains("immutable"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn version_records_are_found_by_pool_on_a_real_server() {
    let real = real().await;
    let namespace = new_namespace(&real, "records").await;
    let store = |pool: &str| -> VersionRecords<BTreeMap<String, String>> {
        VersionRecords::new(&real.cluster, &namespace.parse().unwrap(), &pool.parse().unwrap())
    };
    let packages = |count: usize| (0..count).map(|n| (format!("package-{n}"), "1:2.3-4ubuntu5".to_owned())).collect();
    for (pool, version, count) in [("a_b", "2026.11.15", 2000), ("a-b", "2026.11.15", 1), ("A_B", "2026.11.05", 3)] {
        store(pool).put(&version.parse().unwrap(), &packages(count)).await.unwrap();
    }
    let listed = store("a_b").list().await.unwrap();
    let counts: Vec<_> = listed.iter().map(|(version, packages)| (version.as_str(), packages.len())).collect();
    assert_eq!(counts, [("2026.11.05", 3), ("2026.11.15", 2000)], "pool names are compared case-insensitively");
    // The largest size that we allow.
    let largest = BTreeMap::from([("x".to_owned(), "y".repeat(900 * 1024 - 100))]);
    store("a_b").put(&"2026.11.15".parse().unwrap(), &largest).await.unwrap();
    store("a_b").delete(&"2026.11.15".parse().unwrap()).await.unwrap();
    assert_eq!(store("a_b").list().await.unwrap().len(), 1);
    assert_eq!(store("a-b").get(&"2026.11.15".parse().unwrap()).await.unwrap(), Some(packages(1)));
}

fn job_spec(image: &str) -> Value {
    let containers = json!([{"name": "c", "image": image}]);
    json!({"template": {"spec": {"restartPolicy": "Never", "containers": containers}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn kamino_is_found_in_any_namespace() {
    let real = real().await;
    let namespace = new_namespace(&real, "kamino").await;
    let image = "ghcr.io/jackfrancis/kamino/vmss-prototype:v0.0.12";
    for (name, image, suspend) in [("auto", image, false), ("paused", image, true), ("other", "busybox", false)] {
        real.create(json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"namespace": namespace, "name": name},
            "spec": {"schedule": "42 0 * * *", "suspend": suspend, "jobTemplate": {"spec": job_spec(image)}},
        }))
        .await;
    }
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": namespace, "name": "now"}, "spec": job_spec(image)});
    real.create(job).await;
    let found = real.cluster.kamino_jobs().await.unwrap();
    let names: Vec<_> = found.iter().filter(|r| r.namespace == namespace).map(|r| (r.kind, r.name.as_str())).collect();
    assert_eq!(names, [(KaminoJobKind::Job, "now"), (KaminoJobKind::CronJob, "auto")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_are_listed_with_their_manager() {
    let real = real().await;
    let (ours, aks) = (unique("ours"), unique("aks"));
    real.node(&ours).await;
    let labels = json!({"kubernetes.azure.com/mode": "user", "kubernetes.io/os": "windows"});
    real.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": aks, "labels": labels}})).await;
    let all = real.cluster.all_nodes().await.unwrap();
    let node = |name: &str| all.iter().find(|node| node.name.as_str() == name).unwrap();
    assert!(!node(&ours).is_windows() && node(&aks).is_windows());
    assert!(node(&ours).created.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_deletion_removes_a_pod_with_an_exhausted_budget_by_uid() {
    let real = real().await;
    let namespace = new_namespace(&real, "force").await;
    let node = real.node(&unique("forced")).await;
    real.pod(pod("replicated", &namespace, "blocked", node.as_str()), "Running").await;
    real.exhausted_budget(&namespace, "none", "blocked").await;
    let options = DrainOptions::new(Flags::default(), Duration::from_secs(2));
    let error = real.cluster.drain(&node, &options, &mut |_| {}).await.unwrap_err();
    let DrainError::Remaining { pods, .. } = error else { panic!("{error}") };
    let gone = real.cluster.force_out(&node, &pods, LONG, &mut |_| {}).await.unwrap();
    assert_eq!((gone.len(), real.pod_state(&namespace, "blocked").await), (1, PodState::Gone));
    // A new pod of the same name.
    real.pod(pod("replicated", &namespace, "blocked", node.as_str()), "Running").await;
    assert_eq!(real.cluster.force_out(&node, &pods, LONG, &mut |_| {}).await.unwrap(), []);
    assert_eq!(real.pod_state(&namespace, "blocked").await, PodState::Untouched);
}

#[tokio::test(flavor = "multi_thread")]
async fn real_server_fetches_findings_from_the_kubelet_of_the_node() {
    let real = real().await;
    let namespace = new_namespace(&real, "logged").await;
    let name = real.node(&unique("plain")).await;
    let kubelet = LogKubelet::start(&real, &name, &namespace).await;
    let node = real.cluster.node(&name).await.unwrap();
    let inspector = PodInspector::new(&real.cluster, &namespace.parse().unwrap(), "example.invalid/kiln").within(LONG);
    let found = inspector.inspect(&node, &"run-1".parse().unwrap()).await.unwrap();
    assert_eq!((found.kernel.as_str(), found.custom_data.bytes().unwrap().expose()), ("5.4", &b"abc"[..]));
    inspector.install_first_boot(&node, &"run-1".parse().unwrap()).await.unwrap();
    drop(kubelet);
    assert!(real.pods(&namespace).list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn task_pods_need_a_privileged_namespace_and_others_name_the_reason() {
    let real = real().await;
    for (level, allowed) in [("privileged", true), ("baseline", false), ("restricted", false)] {
        let namespace = unique(level);
        let labels = json!({"pod-security.kubernetes.io/enforce": level});
        let metadata = json!({"name": namespace, "labels": labels});
        real.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await;
        let name = real.node(&unique("secured")).await;
        let kubelet = LogKubelet::start(&real, &name, &namespace).await;
        let node = real.cluster.node(&name).await.unwrap();
        let inspector =
            PodInspector::new(&real.cluster, &namespace.parse().unwrap(), "example.invalid/kiln").within(LONG);
        for result in [
            inspector.inspect(&node, &"run-1".parse().unwrap()).await.map(drop),
            inspector.install_first_boot(&node, &"run-1".parse().unwrap()).await,
        ] {
            match result {
                Ok(()) => assert!(allowed, "{level}"),
                Err(error) => {
                    assert!(!allowed, "{level}: {error}");
                    assert!(error.to_string().contains("hostPath"), "{error}");
                }
            }
        }
        drop(kubelet);
    }
}
