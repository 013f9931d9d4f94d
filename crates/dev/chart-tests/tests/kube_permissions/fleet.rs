//! A fleet of one node that needs everything that the operator can do: kured's lock, a drain with a pod of a DaemonSet and a volume, and a label.

use std::time::Duration;

use control_plane::unique;
use kiln_fleet_api::{NodeConfigSpec, NodeState, NodeStateStatus, Rollout};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::plane;

/// The label that the node may not set itself.
pub(crate) const LABEL: &str = "node-role.kubernetes.io/web";

/// The objects of one test, and the parts that the test plays: kilnd, the kubelet and the controller of volumes.
pub(crate) struct Fleet {
    admin: Client,
    pub(crate) name: String,
    created: Vec<Value>,
    player: Option<JoinHandle<()>>,
}

/// The path of an object's kind in `/apis`.
fn resource(object: &Value) -> ApiResource {
    let version = object["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = object["kind"].as_str().unwrap();
    let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if kind == "RolloutPolicy" {
        "rolloutpolicies".clone_into(&mut resource.plural);
    }
    resource
}

fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource(object)),
        None => Api::all_with(client.clone(), &resource(object)),
    }
}

fn fleet_object(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "node.kiln.dev/v1alpha1", "kind": kind, "metadata": {"name": name}});
    object["spec"] = spec;
    object
}

/// A DaemonSet that nothing runs.
fn daemon_set(namespace: &str, name: &str) -> Value {
    let labels = json!({"app": name});
    let container = json!({"name": "c", "image": "example.invalid/c"});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
    })
}

fn pod(namespace: &str, name: &str, node: &str, owner: (&str, &str), uid: &str) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": owner.0, "name": owner.1, "uid": uid, "controller": true});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "ownerReferences": [owner]},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 1, "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "example.invalid/c"}],
        },
    })
}

impl Fleet {
    /// Creates the objects in a namespace that exists.
    pub(crate) async fn create(admin: &Client, namespace: &str) -> Self {
        let name = unique("fleet");
        let mut fleet = Self { admin: admin.clone(), name: name.clone(), created: Vec::new(), player: None };
        let labels = json!({"pool": name});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        fleet.add(node.clone()).await;
        let ready =
            json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]}});
        api(admin, &node).patch_status(&name, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();

        let kured = fleet.add(daemon_set("kube-system", "kured")).await;
        assert!(kured.metadata.uid.is_some());
        let agents = fleet.add(daemon_set(namespace, "agents")).await.metadata.uid.unwrap();
        let agent = pod(namespace, "agent", &name, ("DaemonSet", "agents"), &agents);
        fleet.add(agent.clone()).await;
        let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        api(admin, &agent).patch_status("agent", &PatchParams::default(), &Patch::Merge(running)).await.unwrap();
        let nothing = "00000000-0000-0000-0000-00000000d5d5";
        fleet.add(pod(namespace, "web", &name, ("ReplicaSet", "web"), nothing)).await;
        fleet
            .add(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
                "spec": {"attacher": "disk.csi.example", "nodeName": name, "source": {"persistentVolumeName": name}},
            }))
            .await;

        let document = json!({
            "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": name, "generation": 1},
            "spec": {
                "cluster": {"endpoint": "https://api.example:443", "certificateAuthority": plane().authority()},
                "kubelet": {"version": "1.34.4", "labels": {(LABEL): ""}},
            },
        });
        let config = NodeConfigSpec { document: document.to_string() };
        fleet.add(fleet_object("NodeConfig", &name, json!(config))).await;
        fleet.add(fleet_object("Pool", &name, json!({"nodeSelector": labels}))).await;
        fleet.add(fleet_object("Freeze", &name, json!({"reason": "test", "pools": ["other"]}))).await;
        let gates = json!([{"daemonSetsReady": true}]);
        fleet.add(fleet_object("RolloutPolicy", &name, json!({"gates": gates, "drainTimeout": "40s"}))).await;
        let donor = json!({"lastPatchAnnotation": "patched", "pendingRebootAnnotation": "reboot"});
        fleet.add(fleet_object("Prototype", &name, json!({"pool": name, "donor": donor}))).await;
        let rollout = json!({"pools": [name], "target": {"nodeConfig": name}, "policyRef": name, "onFailure": "Halt"});
        fleet.add(fleet_object("Rollout", &name, rollout)).await;
        fleet.player = Some(tokio::spawn(play(admin.clone(), name, namespace.to_owned())));
        fleet
    }

    async fn add(&mut self, object: Value) -> DynamicObject {
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let created = api(&self.admin, &object).create(&PostParams::default(), &typed).await;
        self.created.push(object);
        created.unwrap_or_else(|error| panic!("{typed:?}: {error}"))
    }

    pub(crate) async fn rollout(&self) -> Rollout {
        Api::all(self.admin.clone()).get(&self.name).await.unwrap()
    }

    /// The Node, and the annotations of kured.
    pub(crate) async fn node_and_kured(&self) -> (DynamicObject, DynamicObject) {
        let kured = daemon_set("kube-system", "kured");
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {}});
        (api(&self.admin, &node).get(&self.name).await.unwrap(), api(&self.admin, &kured).get("kured").await.unwrap())
    }

    /// How many of the two objects exist that let the node read its NodeState.
    pub(crate) async fn grants(&self) -> usize {
        let mut found = 0;
        for object in self.reader() {
            let name = object["metadata"]["name"].as_str().unwrap();
            found += usize::from(api(&self.admin, &object).get_opt(name).await.unwrap().is_some());
        }
        found
    }

    fn reader(&self) -> [Value; 2] {
        ["ClusterRole", "ClusterRoleBinding"].map(|kind| {
            let metadata = json!({"name": format!("kiln-node:{}", self.name)});
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata})
        })
    }

    /// Deletes everything, also what a finalizer or a missing kubelet would keep.
    pub(crate) async fn delete(mut self) {
        if let Some(player) = self.player.take() {
            player.abort();
        }
        self.created.push(fleet_object("NodeState", &self.name, json!({})));
        self.created.extend(self.reader());
        for object in self.created.iter().rev() {
            let (api, name) = (api(&self.admin, object), object["metadata"]["name"].as_str().unwrap());
            let finalizers = json!({"metadata": {"finalizers": null}});
            // Some have been deleted by the test.
            let _ = api.patch(name, &PatchParams::default(), &Patch::Merge(finalizers)).await;
            let _ = api.delete(name, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await;
        }
    }
}

/// Plays kilnd, the kubelet and the controller of volumes until it is aborted.
async fn play(admin: Client, node: String, namespace: String) {
    let states: Api<NodeState> = Api::all(admin.clone());
    let web = pod(&namespace, "web", &node, ("ReplicaSet", "web"), "");
    let volume = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {}});
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    let mut waited = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if let Ok(Some(found)) = api(&admin, &web).get_opt("web").await
            && found.metadata.deletion_timestamp.is_some()
        {
            let _ = api(&admin, &web).delete("web", &now).await;
        }
        // The volume stays attached for a moment after the pod has gone.
        if api(&admin, &web).get_opt("web").await.is_ok_and(|pod| pod.is_none()) {
            waited += 1;
            if waited == 5 {
                let _ = api(&admin, &volume).delete(&node, &now).await;
            }
        }
        let Ok(Some(state)) = states.get_opt(&node).await else { continue };
        if let Some(status) = answer(&state)
            && state.status.as_ref() != Some(&status)
        {
            let patch = json!([{"op": "add", "path": "/status", "value": status}]);
            let patch: Patch<Value> = Patch::Json(serde_json::from_value(patch).unwrap());
            let _ = states.patch_status(&node, &PatchParams::default(), &patch).await;
        }
    }
}

/// What kilnd reports: it asks for a drain, and applies the document after it.
fn answer(state: &NodeState) -> Option<NodeStateStatus> {
    let desired = state.spec.desired.as_ref()?;
    let is_allowed = state.spec.allow.as_ref() == Some(&desired.digest);
    let is_current = state.status.as_ref().is_some_and(|status| status.current.is_some());
    let generation = state.metadata.generation;
    let status = if is_allowed || is_current {
        json!({"phase": "Current", "current": {"digest": desired.digest, "committed": true}, "requests": {"labels": {(LABEL): ""}}})
    } else {
        json!({"phase": "Pending", "effect": "drain", "requests": {"action": "drain", "digest": desired.digest}})
    };
    let mut status: NodeStateStatus = serde_json::from_value(status).unwrap();
    status.observed_generation = generation;
    Some(status)
}
