//! Every permission is necessary, and together they are sufficient.

use std::time::Duration;

use control_plane::{ControlPlane, Identity, unique};
use kiln_kubernetes::drain::{DrainError, DrainOptions, Flags};
use kiln_kubernetes::rbac::{FORCE_PERMISSIONS, PERMISSIONS, Permission, Scope};
use kiln_kubernetes::{
    Cluster, Error, EventKind, HoldScope, Inspector, JournalStore, Namespace, NodeEvent, NodeName, OriginalRecipe,
    OriginalStore, PodInspector, PoolLease, ReadyWhen, VersionRecords,
};
use kiln_types::{ImageSource, PoolName};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::common::pod;
use crate::kubelet::LogKubelet;
use crate::real::{LONG, RealCluster, bare_plane, cluster, config};

/// Whether a permission is dropped. The verb of `--force` is also in the table of kiln's namespace, so both go together.
fn is_dropped(permission: &Permission, dropped: Option<&Permission>) -> bool {
    let is_force =
        |one: &Permission| FORCE_PERMISSIONS.iter().any(|two| (two.resource, two.verb) == (one.resource, one.verb));
    dropped.is_some_and(|dropped| permission == dropped || (is_force(permission) && is_force(dropped)))
}

/// A user with its own objects.
struct User {
    name: String,
    namespace: Namespace,
    cluster: Cluster,
    real: RealCluster,
}

impl User {
    /// A user with all permissions but one.
    async fn without(plane: &'static ControlPlane, real: &RealCluster, dropped: Option<&Permission>) -> Self {
        let name = unique("user");
        real.namespace(&name).await;
        for (scope, prefix) in [(Scope::Cluster, "Cluster"), (Scope::Namespace, "")] {
            let all = PERMISSIONS.iter().chain(&FORCE_PERMISSIONS);
            let kept = all.filter(|p| p.scope == scope && !is_dropped(p, dropped));
            let rules: Vec<Value> =
                kept.map(|p| json!({"apiGroups": [p.group], "resources": [p.resource], "verbs": [p.verb]})).collect();
            let mut metadata = json!({"name": name});
            if scope == Scope::Namespace {
                metadata["namespace"] = json!(name);
            }
            let api = "rbac.authorization.k8s.io/v1";
            real.create(
                json!({"apiVersion": api, "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules}),
            )
            .await;
            let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": name});
            let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name});
            let kind = format!("{prefix}RoleBinding");
            real.create(
                json!({"apiVersion": api, "kind": kind, "metadata": metadata, "roleRef": role, "subjects": [subject]}),
            )
            .await;
        }
        let kubeconfig = plane.kubeconfig_for(&Identity::user(&name)).unwrap();
        let cluster = cluster(config(&kubeconfig).await);
        let user = Self { namespace: name.parse().unwrap(), name, cluster, real: real.clone() };
        user.wait_for_roles(dropped).await;
        user
    }

    /// The server loads roles a moment after they are written: waits until the user may do something in both scopes.
    async fn wait_for_roles(&self, dropped: Option<&Permission>) {
        let cluster_wide = async || match dropped {
            Some(p) if (p.resource, p.verb) == ("nodes", "list") => self.node_read().await,
            _ => self.list_nodes().await,
        };
        let in_namespace = async || match dropped {
            Some(p) if p.resource == "leases" => self.journal().load().await.map(drop),
            _ => self.lease("probe").try_acquire().await.map(drop),
        };
        for _ in 0..600 {
            let forbidden = |done: Result<(), Error>| done.is_err_and(|error| error.is_forbidden());
            if !forbidden(cluster_wide().await) && !forbidden(in_namespace().await) {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("the server did not load the roles of {}", self.name);
    }

    async fn list_nodes(&self) -> Result<(), Error> {
        self.cluster.nodes_of(&"pool".parse().unwrap()).await.map(drop)
    }

    async fn node_read(&self) -> Result<(), Error> {
        let node = self.real.node(&self.name).await;
        self.cluster.node(&node).await.map(drop)
    }

    async fn node(&self, kind: &str) -> NodeName {
        self.real.node(&format!("{}-{kind}", self.name)).await
    }

    fn lease(&self, pool: &str) -> PoolLease {
        let holder = self.name.parse().unwrap();
        PoolLease::new(&self.cluster, &self.namespace, &pool.parse().unwrap(), holder, Duration::from_secs(30))
    }

    fn journal(&self) -> JournalStore<String> {
        let pool: PoolName = "pool".parse().unwrap();
        JournalStore::new(&self.cluster, &self.namespace, &pool, self.name.parse().unwrap())
    }

    fn originals(&self) -> OriginalStore {
        OriginalStore::new(&self.cluster, &self.namespace, &"pool".parse().unwrap())
    }

    fn records(&self) -> VersionRecords<String> {
        VersionRecords::new(&self.cluster, &self.namespace, &"pool".parse().unwrap())
    }

    /// Inspects a simulated node that has custom data too.
    async fn inspect(&self) -> Result<(), Error> {
        let name = self.real.simulated_node(&format!("{}-inspected", self.name)).await;
        let node = self.real.cluster.node(&name).await.unwrap();
        let kubelet = self.real.play_tasks(&self.name);
        let inspector = PodInspector::new(&self.cluster, &self.namespace, "example.invalid/kilnd").within(LONG);
        let result = inspector.inspect(&node, &self.name.parse().unwrap()).await;
        drop(kubelet);
        result.map(drop)
    }

    /// Inspects a node whose kubelet serves logs.
    async fn read_log(&self) -> Result<(), Error> {
        let name = self.node("logged").await;
        let kubelet = LogKubelet::start(&self.real, &name, &self.name).await;
        let node = self.real.cluster.node(&name).await.unwrap();
        let inspector = PodInspector::new(&self.cluster, &self.namespace, "example.invalid/kiln").within(LONG);
        let result = inspector.inspect(&node, &self.name.parse().unwrap()).await;
        drop(kubelet);
        result.map(drop)
    }

    /// Drains a node with one pod of a class.
    async fn drain(&self, kind: &str, class: &str, flags: Flags) -> Result<(), Error> {
        let node = self.node(kind).await;
        self.real.pod(pod(class, &self.name, kind, node.as_str()), "Running").await;
        let kubelet = self.real.play_kubelet(&self.name);
        let drained = self.cluster.drain(&node, &DrainOptions::new(flags, LONG), &mut |_| {}).await;
        drop(kubelet);
        match drained {
            Ok(_) => Ok(()),
            Err(DrainError::Cluster(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for a volume that is not detached.
    async fn wait_attached(&self) -> Result<(), Error> {
        let node = self.node("attached").await;
        let source = json!({"persistentVolumeName": self.name});
        let spec = json!({"attacher": "disk.csi.example", "nodeName": node.as_str(), "source": source});
        let metadata = json!({"name": format!("{}-attached", self.name)});
        self.real
            .create(json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": metadata, "spec": spec}))
            .await;
        match self.cluster.wait_detached(&node, Duration::from_secs(2), &mut |_| {}).await {
            Err(DrainError::Cluster(error)) => Err(error),
            Err(DrainError::Attached { .. }) => Ok(()),
            other => panic!("{other:?}"),
        }
    }

    /// Does something that needs the permission.
    async fn use_permission(&self, permission: &Permission) -> Result<(), Error> {
        let owner = self.name.parse().unwrap();
        let force = Flags { force: true, ..Flags::default() };
        match (permission.resource, permission.verb) {
            ("nodes", "get") => self.node_read().await,
            ("nodes", "list") => self.list_nodes().await,
            ("nodes", "watch") => {
                let node = self.node("never-ready").await;
                let ready = self.cluster.wait_ready(&node, &ReadyWhen::Now, Duration::from_secs(2)).await;
                // A node that is not ready is expected here.
                ready
                    .map(drop)
                    .or_else(|error| if matches!(error, Error::NotReady { .. }) { Ok(()) } else { Err(error) })
            }
            ("nodes", "patch") => {
                let node = self.node("held").await;
                self.cluster.hold(&node, &owner, HoldScope::ALL).await?;
                self.cluster.release(&node, &owner, HoldScope::ALL).await
            }
            ("pods", "list") => self.drain("listed", "replicated", force).await,
            ("pods", "watch") => self.drain("watched", "replicated", force).await,
            ("pods/eviction", "create") => self.drain("evicted", "replicated", force).await,
            ("pods", "delete") if permission.scope == Scope::Cluster => {
                self.drain("deleted", "replicated", Flags { disable_eviction: true, ..force }).await
            }
            ("daemonsets", "list") => self.cluster.kured_locks().await.map(drop),
            ("volumeattachments", "list") => {
                let node = self.node("volumes").await;
                match self.cluster.wait_detached(&node, LONG, &mut |_| {}).await {
                    Err(DrainError::Cluster(error)) => Err(error),
                    waited => {
                        waited.unwrap();
                        Ok(())
                    }
                }
            }
            ("volumeattachments", "watch") => self.wait_attached().await,
            ("services", "list") => self.cluster.has_load_balancers().await.map(drop),
            ("daemonsets", "get") => self.drain("orphan", "deleted DaemonSet", force).await,
            ("events", "create") => {
                let node = self.cluster.node(&self.node("events").await).await?;
                let event = NodeEvent {
                    kind: EventKind::Normal,
                    action: "Drain",
                    reason: "Drained",
                    note: "all pods left".to_owned(),
                };
                self.cluster.record_event(&node, &owner, &event).await
            }
            ("leases", "get" | "create") => self.lease("fresh").try_acquire().await.map(drop),
            ("leases", "update") => {
                let lease = self.lease("again");
                lease.try_acquire().await?;
                lease.renew().await?;
                lease.release().await
            }
            ("cronjobs" | "jobs", "list") => self.cluster.kamino_jobs().await.map(drop),
            ("configmaps", "list") => self.records().list().await.map(drop),
            ("configmaps", "delete") => self.records().delete(&"2026.11.15".parse().unwrap()).await,
            ("pods", "get" | "create" | "delete") | ("secrets", "delete") => self.inspect().await,
            ("pods/log", "get") => self.read_log().await,
            ("secrets", "get") => self.originals().load().await.map(drop),
            ("secrets", "create") => {
                let image = ImageSource::Other("/subscriptions/s/x".to_owned());
                let (extensions, custom_data) = (Vec::new(), None);
                let recipe = OriginalRecipe { image, extensions, custom_data, saved_by: owner };
                self.originals().save(&recipe).await.map(drop)
            }
            ("configmaps", "get") => self.journal().load().await.map(drop),
            ("configmaps", "create") => {
                let mut journal = self.journal().load().await?;
                self.journal().append(&mut journal, "first".to_owned()).await
            }
            ("configmaps", "update") => {
                let mut journal = self.journal().load().await?;
                self.journal().append(&mut journal, "one".to_owned()).await?;
                self.journal().append(&mut journal, "two".to_owned()).await
            }
            other => panic!("no operation needs {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_missing_permission_fails_its_operation_and_is_named() {
    let plane = bare_plane();
    let real = RealCluster::connect(plane).await;
    for permission in PERMISSIONS.iter().chain(&FORCE_PERMISSIONS) {
        let user = User::without(plane, &real, Some(permission)).await;
        let error = user.use_permission(permission).await.expect_err(permission.needed_to);
        let text = error.to_string();
        assert!(error.is_forbidden(), "{}: {text}", permission.needed_to);
        let expected = format!("cannot {} resource \"{}\"", permission.verb, permission.resource);
        assert!(text.contains(&expected), "{}: `{text}` does not contain `{expected}`", permission.needed_to);
        let reviewed = if FORCE_PERMISSIONS.contains(permission) { &FORCE_PERMISSIONS[..] } else { &PERMISSIONS };
        let reviews = user.cluster.check_access(&user.namespace, reviewed).await.unwrap();
        let missing: Vec<_> = reviews.iter().filter(|row| !row.allowed).map(|row| row.permission).collect();
        assert_eq!(missing, [*permission], "the access review names the missing permission");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_permissions_together_are_sufficient() {
    let plane = bare_plane();
    let real = RealCluster::connect(plane).await;
    let user = User::without(plane, &real, None).await;
    for permission in PERMISSIONS.iter().chain(&FORCE_PERMISSIONS) {
        user.use_permission(permission).await.unwrap_or_else(|error| panic!("{}: {error}", permission.needed_to));
    }
}
