//! A fleet on a real control plane: kwok keeps the nodes Ready, as their kubelets would.

use std::error::Error;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use control_plane::{ControlPlane, Options};
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kiln_fleet_api::{NodeConfig, NodeState, Pool, Rollout, RolloutPhase};
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ClusterResourceScope;
use kube::{Api, Client, Config, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use test_deps::{Cache, TestDep};
use tokio::time::sleep;

/// Pools of the fleet, whatever its size.
const POOLS: usize = 20;
/// Renewed four times in this time, as the kubelet does. With the default of 40 s the leases of 5,000 nodes take more than a core.
const LEASE_SECONDS: &str = "160";
/// Objects that are created at the same time.
const PARALLEL: usize = 32;
/// Longer than anything takes on a machine that does other work.
const PATIENCE: Duration = Duration::from_mins(20);
/// How often the state of the fleet is read.
const POLL: Duration = Duration::from_secs(1);

/// A control plane with nodes. Dropping it ends all processes.
pub(crate) struct Fleet {
    pub(crate) plane: ControlPlane,
    pub(crate) client: Client,
    kwok: Child,
    size: usize,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = self.kwok.kill();
        let _ = self.kwok.wait();
    }
}

/// A client without the settings of the environment.
pub(crate) async fn client(kubeconfig: &std::path::Path) -> Result<Client, Box<dyn Error>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(kiln_kubernetes::connect(config)?)
}

impl Fleet {
    /// Starts a control plane and as many nodes.
    pub(crate) async fn start(size: usize) -> Result<Self, Box<dyn Error>> {
        let plane = ControlPlane::start(&Options::default())?;
        let apply = ["apply", "--server-side", "-f", "-"];
        plane.run_kubectl_as(plane.kubeconfig(), &apply, &kiln_fleet_api::yaml())?;
        plane.run_kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"])?;
        let client = client(plane.kubeconfig()).await?;
        let kwok = kwok(&plane)?;
        let fleet = Self { plane, client, kwok, size };
        let nodes = (0..size).map(|number| {
            let labels =
                json!({"pool": pool(number % POOLS), "topology.kubernetes.io/zone": format!("zone-{}", number % 3)});
            json!({"metadata": {"name": format!("node-{number:05}"), "labels": labels}})
        });
        fleet.create::<Node>(nodes).await?;
        fleet.until("all nodes are Ready", async || fleet.count_nodes(is_ready).await).await?;
        Ok(fleet)
    }

    /// Creates the pools, which have no document yet.
    pub(crate) async fn create_pools(&self) -> Result<(), Box<dyn Error>> {
        let pools = (0..POOLS).map(
            |number| json!({"metadata": {"name": pool(number)}, "spec": {"nodeSelector": {"pool": pool(number)}}}),
        );
        self.create::<Pool>(pools).await
    }

    /// Waits until kilnd has reported the state of each node.
    pub(crate) async fn until_reported(&self) -> Result<(), Box<dyn Error>> {
        let reported = |state: &NodeState| state.status.as_ref().is_some_and(|status| !status.boot_id.is_empty());
        self.until("all nodes have reported", async || {
            let states = Api::<NodeState>::all(self.client.clone()).list(&ListParams::default()).await?;
            Ok(states.items.iter().filter(|state| reported(state)).count())
        })
        .await
    }

    /// Brings a document to all nodes, and returns the Rollout when it is complete.
    pub(crate) async fn roll_out(&self) -> Result<Rollout, Box<dyn Error>> {
        let document = json!({
            "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": "next", "generation": 1},
            "spec": {
                "cluster": {
                    "endpoint": "https://cluster.example",
                    "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
                },
                "kubelet": {"version": "1.34.4", "configuration": {"containerLogMaxSize": "20Mi"}},
            },
        });
        let _valid = kiln_node_config::NodeConfig::parse(document.to_string().as_bytes())?;
        self.create::<NodeConfig>([json!({"metadata": {"name": "next"}, "spec": {"document": document.to_string()}})])
            .await?;
        let pools: Vec<String> = (0..POOLS).map(pool).collect();
        let spec = json!({"pools": pools, "target": {"nodeConfig": "next"}});
        self.create::<Rollout>([json!({"metadata": {"name": "next"}, "spec": spec})]).await?;
        let api: Api<Rollout> = Api::all(self.client.clone());
        self.until("the rollout is complete", async || {
            let status = api.get("next").await?.status.unwrap_or_default();
            if matches!(status.phase, RolloutPhase::Halted | RolloutPhase::RolledBack | RolloutPhase::Aborted) {
                return Err(format!("the rollout ended: {status:?}").into());
            }
            let updated = usize::try_from(status.updated)?;
            Ok(if status.phase == RolloutPhase::Complete { updated } else { updated.min(self.size - 1) })
        })
        .await?;
        Ok(api.get("next").await?)
    }

    async fn count_nodes(&self, is_counted: fn(&Node) -> bool) -> Result<usize, Box<dyn Error>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        Ok(nodes.items.iter().filter(|node| is_counted(node)).count())
    }

    async fn create<K>(&self, objects: impl IntoIterator<Item = Value>) -> Result<(), Box<dyn Error>>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let objects: Result<Vec<K>, _> = objects.into_iter().map(serde_json::from_value).collect();
        let params = PostParams::default();
        let creates = objects?.into_iter().map(|object| {
            let (api, params) = (&api, &params);
            async move { api.create(params, &object).await }
        });
        let creates: Vec<_> = creates.collect();
        stream::iter(creates).buffer_unordered(PARALLEL).try_for_each(async |_| Ok(())).await?;
        Ok(())
    }

    /// Waits until a count has reached the size of the fleet.
    async fn until(
        &self,
        what: &str,
        count: impl AsyncFn() -> Result<usize, Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        let waiting = async {
            loop {
                if count().await? == self.size {
                    return Ok(());
                }
                sleep(POLL).await;
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(done) => done,
            Err(_) => Err(format!("not within {} minutes: {what}", PATIENCE.as_secs() / 60).into()),
        }
    }
}

fn pool(number: usize) -> String {
    format!("pool-{number:02}")
}

fn is_ready(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Starts kwok for all nodes.
fn kwok(plane: &ControlPlane) -> Result<Child, Box<dyn Error>> {
    let cache = Cache::of_user()?;
    let (program, stages) = (cache.find(TestDep::Kwok)?, cache.find(TestDep::KwokStages)?);
    let log = File::create(plane.folder().join("kwok.log"))?;
    let mut command = Command::new(program);
    command.args(["--manage-all-nodes=true", "--node-lease-duration-seconds", LEASE_SECONDS, "--kubeconfig"]);
    command.arg(plane.kubeconfig()).arg("--config").arg(stages);
    // Without a folder of its own, kwok would read the developer's configuration.
    command.env("HOME", plane.folder()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command.spawn()?)
}
