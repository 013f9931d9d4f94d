//! Four real nodes in two zones and two pools, a real control plane, and the operator as a process.

use std::fmt::{Debug, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use control_plane::{ControlPlane, Options};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kiln_fleet_api::{NodeState, Phase, Pool, Rollout, RolloutPhase, RolloutStatus};
use kiln_kubernetes::HOLD_ANNOTATION;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::booted::cluster::joining_objects;
use super::booted::stage::{Stage, pods};
use super::chart;
use super::documents::{Documents, Target};
use super::node::{Counts, Node};
use super::operator::Operator;

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// The label of the nodes of a pool.
const POOL: &str = "example.com/pool";

/// On a machine that compiles on every core, a node with a real kubelet has taken two minutes for a turn.
const DEADLINE: Duration = Duration::from_mins(4);

/// Poll interval while waiting.
const TICK: Duration = Duration::from_millis(100);

pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Node>,
    pub(crate) operator: Operator,
    pub(crate) client: Client,
    pub(crate) runtime: Runtime,
    pub(crate) documents: Documents,
    pub(crate) plane: ControlPlane,
    _folder: TempDir,
}

#[expect(clippy::disallowed_methods, reason = "deadlines and figures of a test are in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl Fleet {
    /// Boots the nodes, and starts the operator when all of them have joined: `node-1` and `node-2` are in zone `a`, the others in `b`;
    /// the pool `left` has the first node of each zone, and `right` the second.
    pub(crate) fn start() -> Self {
        let plane = ControlPlane::start(&Options::default().with_scheduler()).expect("a control plane");
        for object in joining_objects() {
            plane.apply(&object).expect("an object");
        }
        let kubeconfig = chart::install(&plane);
        let documents = Documents::new(&plane);
        let places = [(1, "a", "left"), (2, "a", "right"), (3, "b", "left"), (4, "b", "right")];
        let nodes = places.map(|(number, zone, pool)| Node::new(number, zone, pool, &plane, &documents.first()));
        let runtime = Runtime::new().expect("a runtime");
        let client = runtime.block_on(async {
            let file = Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
            let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a cluster");
            kiln_kubernetes::connect(config).expect("a client")
        });
        let folder = TempDir::new().expect("a folder");
        let operator = Operator::new(kubeconfig, folder.path().join("operator.log"));
        let mut fleet = Self { nodes: nodes.into(), operator, client, runtime, documents, plane, _folder: folder };
        thread::scope(|scope| {
            for node in &mut fleet.nodes {
                scope.spawn(|| node.machine.boot());
            }
        });
        for index in 0..fleet.nodes.len() {
            fleet.join(index);
        }
        for pool in ["left", "right"] {
            fleet.create("Pool", pool, &json!({"nodeSelector": {(POOL): pool}}));
        }
        fleet.operator.start();
        fleet.wait("all nodes report", |fleet| fleet.states().iter().all(|state| state.status.is_some()).then_some(()));
        fleet
    }

    /// Waits until a node has joined, and labels it.
    pub(crate) fn join(&mut self, index: usize) {
        let (name, zone, pool) = (self.nodes[index].name.clone(), self.nodes[index].zone, self.nodes[index].pool);
        self.wait(&format!("{name} is ready"), |fleet| fleet.is_ready(&name).then_some(()));
        let labels = [format!("{ZONE}={zone}"), format!("{POOL}={pool}")];
        self.plane.run_kubectl(&["label", "node", &name, &labels[0], &labels[1]]).expect("labels");
        self.wait(&format!("{name} has committed a document"), |fleet| Stage::committed(&fleet.nodes[index].machine));
        self.nodes[index].import_images();
    }

    /// Waits until `look` returns a value. Machines that reboot are started again meanwhile.
    #[track_caller]
    pub(crate) fn wait<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let started = now();
        loop {
            for node in &mut self.nodes {
                if !node.is_kept_off && node.machine.is_off() {
                    node.machine.boot();
                }
            }
            if let Some(found) = look(self) {
                return found;
            }
            assert!(started.elapsed() < DEADLINE, "timed out waiting until {what}\n{}", self.describe());
            thread::sleep(TICK);
        }
    }

    /// Waits for a phase of a rollout, which must not end in another one.
    #[track_caller]
    pub(crate) fn wait_phase(&mut self, rollout: &str, phase: RolloutPhase) -> RolloutStatus {
        self.wait(&format!("rollout {rollout} is {phase:?}"), |fleet| {
            let status = fleet.rollout(rollout)?;
            let is_wrong = status.phase.is_final() && status.phase != phase;
            assert!(!is_wrong, "{rollout}: {status:?}\n{}", fleet.describe());
            (status.phase == phase).then_some(status)
        })
    }

    /// Waits until a node is assigned a document by a rollout.
    #[track_caller]
    pub(crate) fn wait_assigned(&mut self, node: &str, rollout: &str) {
        self.wait(&format!("{node} is assigned by {rollout}"), |fleet| fleet.is_assigned(node, rollout).then_some(()));
    }

    pub(crate) fn is_assigned(&self, node: &str, rollout: &str) -> bool {
        let state = self.state(node);
        state.is_some_and(|state| state.spec.desired.is_some_and(|desired| desired.rollout == rollout))
    }

    /// An object, if it exists and the API server answers.
    pub(crate) fn get<K>(&self, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.runtime.block_on(Api::<K>::all(self.client.clone()).get(name)).ok()
    }

    pub(crate) fn state(&self, node: &str) -> Option<NodeState> {
        self.get(node)
    }

    pub(crate) fn rollout(&self, name: &str) -> Option<RolloutStatus> {
        self.get::<Rollout>(name)?.status
    }

    /// The NodeStates of the nodes that have one.
    pub(crate) fn states(&self) -> Vec<NodeState> {
        self.nodes.iter().filter_map(|node| self.state(&node.name)).collect()
    }

    /// Creates or changes an object of the fleet.
    #[track_caller]
    pub(crate) fn create(&self, kind: &str, name: &str, spec: &Value) {
        let object =
            json!({"apiVersion": "node.kiln.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        self.plane.apply(&object).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Stores a document.
    #[track_caller]
    pub(crate) fn store(&self, target: &Target) {
        self.create("NodeConfig", &target.name, &json!({"document": target.document}));
    }

    pub(crate) fn node(&self, name: &str) -> &Node {
        self.nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    pub(crate) fn node_mut(&mut self, name: &str) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// The counts of all nodes.
    pub(crate) fn counts(&self) -> Vec<Counts> {
        self.nodes.iter().map(Node::counts).collect()
    }

    pub(crate) fn is_cordoned(&self, name: &str) -> bool {
        self.get::<NodeObject>(name).is_some_and(|node| node.spec.is_some_and(|spec| spec.unschedulable == Some(true)))
    }

    fn is_ready(&self, name: &str) -> bool {
        let status = self.get::<NodeObject>(name).and_then(|node| node.status);
        let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    /// Asserts that a document is in force and committed: in the NodeState, on the machine, and in what the kubelet reports.
    #[track_caller]
    pub(crate) fn assert_in_force(&mut self, name: &str, target: &Target) {
        let state = self.state(name).unwrap_or_else(|| panic!("no NodeState {name}"));
        let status = state.status.clone().unwrap_or_default();
        let current = status.current.clone().unwrap_or_default();
        assert_eq!(
            (status.phase, current.digest.as_str()),
            (Phase::Current, target.digest.as_str()),
            "{name}: {state:?}"
        );
        assert!(current.committed, "{name}: {state:?}");
        let machine = &self.node(name).machine;
        assert_eq!((Stage::committed(machine), pods(machine)), (Some(target.generation), Some(target.pods)), "{name}");
        let wanted = target.pods.to_string();
        self.wait(&format!("the kubelet of {name} reports {wanted} pods"), |fleet| {
            let capacity = fleet.get::<NodeObject>(name)?.status?.capacity?;
            (capacity.get("pods")?.0 == wanted).then_some(())
        });
    }

    /// Asserts that no rollout left anything on the nodes: no cordon, no hold, no consent.
    #[track_caller]
    pub(crate) fn assert_released(&mut self) {
        self.wait("all nodes are released", |fleet| {
            let released = fleet.nodes.iter().filter(|node| !node.is_kept_off).all(|node| {
                let object = fleet.get::<NodeObject>(&node.name);
                let annotations = object.and_then(|object| object.metadata.annotations).unwrap_or_default();
                let state = fleet.state(&node.name).unwrap_or_default();
                !fleet.is_cordoned(&node.name)
                    && !annotations.contains_key(HOLD_ANNOTATION)
                    && state.spec.allow.is_none()
                    && state.spec.reboot.is_none()
            });
            released.then_some(())
        });
    }

    /// How many documents each machine has reverted or rejected.
    pub(crate) fn rejections(&self) -> Vec<usize> {
        self.nodes.iter().map(Node::rejected).collect()
    }

    /// `maxPods` of each machine.
    pub(crate) fn node_pods(&self) -> Vec<Option<u64>> {
        self.nodes.iter().map(|node| pods(&node.machine)).collect()
    }

    /// The digests that a pool rejects.
    pub(crate) fn rejected(&self, pool: &str) -> Vec<String> {
        self.get::<Pool>(pool).and_then(|pool| pool.status).map(|status| status.rejected).unwrap_or_default()
    }

    /// The objects and logs that explain a failure.
    fn describe(&mut self) -> String {
        let mut text = String::new();
        for words in
            [["get", "rollouts,nodestates,nodes,pods", "-A", "-o", "wide"], ["get", "rollouts", "-A", "-o", "yaml"]]
        {
            _ = writeln!(text, "{}", self.plane.run_kubectl(&words).unwrap_or_else(|error| error.to_string()));
        }
        for state in self.states() {
            _ = writeln!(text, "{}", json!(state));
        }
        _ = writeln!(text, "{}", self.operator.log());
        for node in &mut self.nodes {
            if !node.machine.is_off() {
                _ = writeln!(text, "--- {}\n{}", node.name, node.machine.journal(Some("kiln-watch")));
            }
        }
        text
    }
}
