//! An operator that runs as a user with some of the chart's permissions.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use control_plane::{Identity, unique};
use jiff::Timestamp;
use kiln_engine::operator::{OperatorOptions, run};
use kiln_engine::{Stop, Stopper};
use kiln_kubernetes::rbac::{KURED_PERMISSIONS, OPERATOR_PERMISSIONS, PER_NODE_READ_PERMISSIONS, Permission, Scope};
use kiln_kubernetes::{Cluster, ClusterOptions, Jitter, WallClock};
use serde_json::{Value, json};

use crate::{client, eventually, plane};

/// A running operator.
pub(crate) struct Operator {
    log: Arc<Mutex<Vec<String>>>,
    stopper: Stopper,
    task: JoinHandle<()>,
}

#[expect(clippy::disallowed_methods, reason = "the server's times are real")]
fn now() -> Timestamp {
    Timestamp::now()
}

fn rule(permission: &Permission) -> Value {
    json!({"apiGroups": [permission.group], "resources": [permission.resource], "verbs": [permission.verb]})
}

/// A role and its binding to a user.
fn role(namespace: Option<&str>, user: &str, rules: &[Value]) -> Value {
    let (prefix, mut metadata) = (if namespace.is_some() { "" } else { "Cluster" }, json!({"name": user}));
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    let (api, kind) = ("rbac.authorization.k8s.io", format!("{prefix}Role"));
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": format!("{api}/v1"), "kind": kind, "metadata": metadata, "rules": rules},
        {"apiVersion": format!("{api}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": kind, "name": user},
            "subjects": [{"apiGroup": api, "kind": "User", "name": user}]},
    ]})
}

/// The permissions of an operator.
#[derive(Clone, Copy)]
pub(crate) struct Permissions<'a> {
    /// With those of `operator.perNodeRead`.
    pub(crate) per_node_read: bool,
    pub(crate) without: Option<&'a Permission>,
}

impl Permissions<'_> {
    fn iter(&self) -> impl Iterator<Item = &'static Permission> {
        let more: &[Permission] = if self.per_node_read { &PER_NODE_READ_PERMISSIONS } else { &[] };
        OPERATOR_PERMISSIONS.iter().chain(more).filter(|one| Some(*one) != self.without)
    }
}

impl Operator {
    /// Creates a namespace and the roles of the chart with these permissions.
    pub(crate) fn prepare(permissions: Permissions<'_>) -> String {
        let plane = plane();
        let user = plane.namespace("operator").unwrap();
        for (scope, namespace) in [(Scope::Cluster, None), (Scope::Namespace, Some(user.as_str()))] {
            let kept = permissions.iter().filter(|one| one.scope == scope);
            plane.apply(&role(namespace, &user, &kept.map(rule).collect::<Vec<_>>())).unwrap();
        }
        let mut kured = rule(&KURED_PERMISSIONS[0]);
        kured["resourceNames"] = json!(["kured"]);
        let kured: Vec<Value> =
            (permissions.without != Some(&KURED_PERMISSIONS[0])).then_some(kured).into_iter().collect();
        plane.apply(&role(Some("kube-system"), &user, &kured)).unwrap();
        user
    }

    /// Starts the operator after the server has loaded its roles.
    pub(crate) async fn start(user: &str, permissions: Permissions<'_>) -> Self {
        let kubeconfig = plane().kubeconfig_for(&Identity::user(user)).unwrap();
        let client = client(&kubeconfig).await;
        let cluster = Cluster::new(client, ClusterOptions { jitter: Jitter::none(), clock: WallClock::new(now) });
        let expected: Vec<Permission> = permissions.iter().copied().collect();
        eventually("the server has loaded the roles", async || {
            let reviews = cluster.check_access(&user.parse().unwrap(), &expected).await.unwrap();
            let missing: Vec<String> =
                reviews.iter().filter(|row| !row.allowed).map(|row| row.permission.needed_to.to_owned()).collect();
            if missing.is_empty() { Ok(()) } else { Err(missing.join(", ")) }
        })
        .await;
        let mut options = OperatorOptions::new(user.parse().unwrap(), unique("pod").parse().unwrap(), Arc::new(now));
        options.lease = Duration::from_secs(6);
        options.per_node_read = permissions.per_node_read;
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = log.clone();
        options.report =
            Arc::new(move |event| sink.lock().unwrap_or_else(PoisonError::into_inner).push(event.to_string()));
        let (stopper, stop) = Stop::pair();
        // As in the program, the operator is the only task of its thread.
        let task = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(run(cluster, options, stop)).unwrap();
        });
        Self { log, stopper, task }
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }

    /// Stops the operator, which releases its lease.
    pub(crate) async fn stop(self) {
        self.stopper.stop();
        tokio::task::spawn_blocking(|| self.task.join().unwrap()).await.unwrap();
    }
}
