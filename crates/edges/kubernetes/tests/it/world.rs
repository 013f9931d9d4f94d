//! The Kubernetes edge against the embedded API server, with simulated kubelets for the machines of an embedded Azure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, ConfigMap, Pod};
use kiln_kubernetes::rbac::PERMISSIONS;
use kiln_kubernetes::{
    Cluster, ClusterOptions, Inspector, Jitter, Namespace, OriginalRecipe, OriginalStore, Owner, PodInspector,
    ProviderId, SaveOutcome, VersionRecords, WallClock,
};
use kiln_sim_azure::{Options, Sim, Speed, WorldSpec};
use kiln_sim_kubernetes::Server;
use kiln_sim_kubernetes::kubelet::Kubelets;
use kiln_types::{Extension, ImageSource, Node, SavedExtension, Secret};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

struct World {
    sim: Sim,
    client: Client,
    cluster: Cluster,
    namespace: Namespace,
    kubelets: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.kubelets.abort();
    }
}

/// An embedded Azure with running machines, their kubelets, and a namespace for kiln.
async fn world() -> World {
    let wall: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    let sim = Sim::new(WorldSpec::default(), Options { speed: Speed::Factor(1.0), ..Options::instant(wall) }).unwrap();
    let server = {
        let sim = sim.clone();
        Server::new(1, Arc::new(move || sim.now()))
    };
    let client = Client::new(server.service(), "default");
    let clock = WallClock::new(move || wall);
    let cluster = Cluster::new(client.clone(), ClusterOptions { jitter: Jitter::none(), clock });
    let spaces: Api<v1::Namespace> = Api::all(client.clone());
    let space = serde_json::from_value(json!({"metadata": {"name": "kiln-system"}})).unwrap();
    spaces.create(&PostParams::default(), &space).await.unwrap();
    let mut play = Kubelets::new(client.clone()).with_disks(Arc::new(sim.clone()));
    let problems = play.turn(&sim.machines(), sim.now()).await;
    assert!(problems.is_empty(), "{problems:?}");
    let machines = sim.clone();
    let kubelets = tokio::spawn(async move {
        loop {
            play.turn(&machines.machines(), machines.now()).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    World { sim, client, cluster, namespace: "kiln-system".parse().unwrap(), kubelets }
}

impl World {
    async fn donor(&self) -> Node {
        let pool = self.sim.spec().pools[0].name.parse().unwrap();
        self.cluster.nodes_of(&pool).await.unwrap().remove(3)
    }

    fn inspector(&self) -> PodInspector {
        PodInspector::new(&self.cluster, &self.namespace, "kilnd:1")
    }

    /// The names of the objects that remain in kiln's namespace.
    async fn remaining(&self) -> Vec<String> {
        let (client, namespace) = (|| self.client.clone(), self.namespace.as_str());
        let all = ListParams::default();
        let pods = Api::<Pod>::namespaced(client(), namespace).list(&all).await.unwrap();
        let maps = Api::<ConfigMap>::namespaced(client(), namespace).list(&all).await.unwrap();
        let secrets = Api::<v1::Secret>::namespaced(client(), namespace).list(&all).await.unwrap();
        let pods = pods.items.iter().map(ResourceExt::name_any);
        let maps = maps.items.iter().map(ResourceExt::name_any).filter(|name| name != "kube-root-ca.crt");
        pods.chain(maps).chain(secrets.items.iter().map(ResourceExt::name_any)).collect()
    }
}

fn run() -> Owner {
    "run-1".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn simulated_node_is_inspected_and_prepared_and_nothing_remains() {
    let world = world().await;
    let donor = world.donor().await;
    let before = world.inspector().inspect(&donor, &run()).await.unwrap();
    assert_eq!(before.host_name, donor.name.as_str());
    assert_eq!(before.kernel, donor.system.kernel, "the node reports the kernel of its disk");
    let machine = world.sim.machines().into_iter().find(|machine| machine.vm_id == before.vm_id).unwrap();
    assert_eq!(machine.provider_id(), donor.provider_id.clone().unwrap());
    assert!(before.custom_data.present());
    let bytes = before.custom_data.bytes().expect("its custom data was in a Secret").expose().to_vec();
    assert!(!bytes.is_empty());

    let installed = world.inspector().install_first_boot(&donor, &run()).await;
    installed.unwrap();
    let after = world.inspector().inspect(&donor, &run()).await.unwrap();
    assert_eq!(after.first_boot_unit.unwrap().recorded_vm_id, before.vm_id);
    assert_eq!(after.packages, before.packages, "it removes nothing");
    assert_eq!(world.remaining().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn simulated_nodes_have_what_donor_selection_needs_and_no_other_manager() {
    let world = world().await;
    let nodes = world.cluster.all_nodes().await.unwrap();
    assert_eq!(nodes.len(), world.sim.machines().len());
    for node in &nodes {
        assert!(
            ProviderId::from_node(node).is_some() && node.created.is_some() && node.ready_since.is_some(),
            "{node:?}"
        );
        assert!(!node.is_windows() && !node.system.kubelet.is_empty(), "{node:?}");
    }
    assert_eq!(world.cluster.kamino_jobs().await.unwrap(), []);
    let access = world.cluster.check_access(&world.namespace, &PERMISSIONS).await.unwrap();
    let missing: Vec<_> = access.iter().filter(|row| !row.allowed).collect();
    assert!(missing.iter().all(|row| row.permission.group == "batch"), "the admin is allowed everything: {missing:?}");
    assert!(missing.iter().all(|row| row.reason.contains("does not have the resource")), "{missing:?}");
}

#[tokio::test(start_paused = true)]
async fn embedded_server_stores_recipes_and_version_records_like_a_real_one() {
    let world = world().await;
    let pool = world.sim.spec().pools[0].name.parse().unwrap();
    let recipe = OriginalRecipe {
        image: ImageSource::Other("/subscriptions/s/x".to_owned()),
        extensions: vec![SavedExtension {
            extension: Extension { name: "cse".to_owned(), ..Extension::default() },
            protected_settings: Some(Secret::new("{}")),
        }],
        custom_data: Some(Secret::new("#cloud-config\n")),
        saved_by: run(),
    };
    let originals = OriginalStore::new(&world.cluster, &world.namespace, &pool);
    assert_eq!(originals.save(&recipe).await.unwrap(), SaveOutcome::Saved);
    let later = OriginalRecipe { custom_data: None, ..recipe.clone() };
    assert_eq!(originals.save(&later).await.unwrap(), SaveOutcome::AlreadySaved);
    assert_eq!(originals.load().await.unwrap(), Some(recipe));
    let records: VersionRecords<u32> = VersionRecords::new(&world.cluster, &world.namespace, &pool);
    for (version, known) in [("2026.11.15", 1), ("2026.9.30", 2), ("2026.11.15", 3)] {
        records.put(&version.parse().unwrap(), &known).await.unwrap();
    }
    let other: VersionRecords<u32> = VersionRecords::new(&world.cluster, &world.namespace, &"other".parse().unwrap());
    other.put(&"2026.11.15".parse().unwrap(), &9).await.unwrap();
    let listed: Vec<u32> = records.list().await.unwrap().into_iter().map(|(_, known)| known).collect();
    assert_eq!(listed, [2, 3]);
    records.delete(&"2026.9.30".parse().unwrap()).await.unwrap();
    assert_eq!(records.get(&"2026.9.30".parse().unwrap()).await.unwrap(), None);
}
