//! A node with a NodeState: the custom resources of the chart on a real API server, and an operator that is the test.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use control_plane::{ControlPlane, Options, unique};
use kiln_node_config::node_state::{NodeStateStatus, Phase};
use kilnd::apiserver::NodeState;
use serde_json::{Value, json};

use super::{Watched, hash, reachable};
use crate::support::fleet::install;

/// How often and in which intervals a status is read: for a minute, which is long enough for a loaded machine.
const ATTEMPTS: u32 = 400;
const PAUSE: Duration = Duration::from_millis(150);

/// A node under `kilnd watch` that has a NodeState.
pub(crate) struct Followed {
    node: Watched,
    /// The NodeConfigs of this test.
    configs: RefCell<Vec<String>>,
}

impl Deref for Followed {
    type Target = Watched;

    fn deref(&self) -> &Watched {
        &self.node
    }
}

impl DerefMut for Followed {
    fn deref_mut(&mut self) -> &mut Watched {
        &mut self.node
    }
}

/// A control plane of this test only, which may be stopped. It ends with the process.
pub(crate) fn own_plane() -> &'static ControlPlane {
    let plane: &'static ControlPlane =
        Box::leak(Box::new(ControlPlane::start(&Options::bare()).expect("a control plane")));
    testkit::private().forward(plane.address());
    plane
}

/// The shared control plane with the custom resources.
fn fleet() -> &'static ControlPlane {
    static FLEET: OnceLock<&ControlPlane> = OnceLock::new();
    FLEET.get_or_init(|| {
        let plane = reachable();
        install(plane);
        plane
    })
}

impl Followed {
    /// A node with generation 5 in force and an empty NodeState, and a running kilnd.
    pub(crate) fn new(prefix: &str, instance: u32) -> Self {
        let mut node = Self::idle(fleet(), prefix, instance);
        node.apply(&node.document(5));
        node.create();
        node.watch();
        node.wait_committed(5);
        node
    }

    /// A node without a document and without a NodeState.
    pub(crate) fn idle(plane: &'static ControlPlane, prefix: &str, instance: u32) -> Self {
        Self { node: Watched::on(plane, prefix, instance), configs: RefCell::default() }
    }

    /// The same in the shared fleet.
    pub(crate) fn idle_in_fleet(prefix: &str, instance: u32) -> Self {
        Self::idle(fleet(), prefix, instance)
    }

    /// Creates the NodeState.
    #[track_caller]
    pub(crate) fn create(&self) {
        let state = json!({
            "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeState", "metadata": {"name": self.name}, "spec": {},
        });
        self.plane.apply(&state).expect("a NodeState");
    }

    /// A changed document.
    pub(crate) fn pods(&self, generation: u64, pods: u32) -> Value {
        let mut document = self.document(generation);
        document["spec"]["kubelet"]["configuration"]["maxPods"] = json!(pods);
        document
    }

    /// Creates a NodeConfig with this text.
    #[track_caller]
    pub(crate) fn store(&self, name: &str, text: &str) {
        let config = json!({
            "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": name},
            "spec": {"document": text},
        });
        self.plane.apply(&config).expect("a NodeConfig");
        self.configs.borrow_mut().push(name.to_owned());
    }

    /// Assigns a NodeConfig by name and digest, at a new time.
    #[track_caller]
    pub(crate) fn assign_name(&self, name: &str, digest: &str) {
        static TIME: AtomicU64 = AtomicU64::new(1_800_000_000);
        let since = TIME.fetch_add(1, Ordering::SeqCst);
        let since = kilnd::os::clock::rfc3339(Duration::from_secs(since));
        let desired = json!({"nodeConfig": name, "digest": digest, "since": since, "rollout": "r", "wave": 1});
        self.set(&json!({"desired": desired, "allow": null, "reboot": null}));
    }

    /// Stores and assigns a document. Returns its digest.
    #[track_caller]
    pub(crate) fn assign(&self, document: &Value) -> String {
        let (name, digest) = (unique("config"), hash(document));
        self.store(&name, &document.to_string());
        self.assign_name(&name, &digest);
        digest
    }

    /// Changes the spec of the NodeState.
    #[track_caller]
    pub(crate) fn set(&self, spec: &Value) {
        let patch = json!({"spec": spec}).to_string();
        self.kubectl(&["patch", "nodestate", &self.name, "--type=merge", "-p", &patch]);
    }

    /// The NodeState.
    pub(crate) fn object(&self) -> Option<NodeState> {
        self.client.node_state().ok().and_then(|(state, _)| state)
    }

    /// The status of the NodeState.
    pub(crate) fn reported(&self) -> NodeStateStatus {
        self.object().map(|state| state.status).unwrap_or_default()
    }

    /// Waits for a phase that answers the current spec.
    #[track_caller]
    pub(crate) fn wait_phase(&self, phase: Phase) -> NodeStateStatus {
        self.wait_reported(&format!("the phase is {}", phase.as_str()), |status| status.phase == phase)
    }

    /// Waits for a status that answers the current spec.
    #[track_caller]
    pub(crate) fn wait_reported(&self, what: &str, is_true: impl Fn(&NodeStateStatus) -> bool) -> NodeStateStatus {
        let answers = || {
            let state = self.object()?;
            let is_current = state.status.observed_generation == Some(state.generation);
            (is_current && is_true(&state.status)).then_some(state.status)
        };
        for _ in 0..ATTEMPTS {
            if let Some(status) = answers() {
                return status;
            }
            thread::sleep(PAUSE);
        }
        panic!("timeout: {what}; the status is {:?}\n{}", self.reported(), self.journal());
    }

    /// Everything that others can read, with the NodeState.
    pub(crate) fn everything_readable(&self) -> String {
        let object = self.plane.run_kubectl(&["get", "nodestate", &self.name, "-o", "json"]).expect("the NodeState");
        format!("{}\n{object}\n{}", self.everything_visible(), self.node.status())
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.node.stop();
        let _ = self.plane.run_kubectl(&["delete", "nodestate", &self.name, "--wait=false"]);
        for name in self.configs.borrow().iter() {
            let _ = self.plane.run_kubectl(&["delete", "nodeconfig", name, "--wait=false"]);
        }
    }
}
