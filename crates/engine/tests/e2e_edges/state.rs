//! Everything that a run may leave behind, for comparisons.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kiln_kubernetes::{AUTOSCALER_ANNOTATION, HOLD_ANNOTATION};
use kiln_prototype::journal::Outcome;
use kiln_prototype::names;
use kiln_types::tags::CLAIM_TAG;
use kiln_types::{CANARY_TAG, Factory, ImageSource, PowerState, Protection, Provisioning, VersionState};
use kube::api::ListParams;
use kube::{Api, Client};

use crate::world::{World, pool_name};

/// The state of the pool, its image and the cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    pub(crate) image: ImageSource,
    pub(crate) extensions: Vec<String>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) capacity: u32,
    pub(crate) versions: Vec<(String, VersionState, bool)>,
    pub(crate) snapshots: usize,
    pub(crate) canaries: usize,
    /// Name, power, whether provisioning succeeded, and protection.
    pub(crate) instances: Vec<(String, PowerState, bool, Protection)>,
    /// Name, Ready, cordoned, and annotations that a run writes.
    pub(crate) nodes: Vec<(String, bool, bool, Vec<String>)>,
    /// The holder of the lease.
    pub(crate) holder: String,
    pub(crate) outcomes: Vec<Option<Outcome>>,
    pub(crate) original: bool,
    /// Remaining pods of kiln, and objects that they wrote.
    pub(crate) leftovers: Vec<String>,
}

impl State {
    /// Asserts that a completed run released all holds.
    pub(crate) fn assert_nothing_held(&self) {
        assert_eq!(self.snapshots, 0, "the snapshot is deleted");
        self.assert_donor_is_back();
    }

    /// Asserts that a failed run released all holds. Its snapshot may stay, because the next run of the day uses it.
    pub(crate) fn assert_donor_is_back(&self) {
        assert_eq!(self.canaries, 0, "the canary is deleted");
        assert_eq!(self.holder, "", "the lease is free");
        for (name, power, settled, protection) in &self.instances {
            assert_eq!((power, *settled), (&PowerState::Running, true), "{name}");
            assert_eq!(*protection, Protection::NONE, "{name}");
        }
        for (name, ready, cordoned, marks) in &self.nodes {
            assert!(*ready && !*cordoned && marks.is_empty(), "{name} {ready} {cordoned} {marks:?}");
        }
        assert!(!self.tags.iter().any(|(key, value)| key == CLAIM_TAG && !value.is_empty()), "{:?}", self.tags);
        assert!(self.leftovers.is_empty(), "{:?}", self.leftovers);
    }
}

impl World {
    /// Reads the state.
    pub(crate) async fn state(&self) -> State {
        // The cloud controller removes the nodes of deleted instances.
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        let azure = self.azure();
        let pool = self.pool().await;
        let definition = names::definition(&self.sim.spec().resource_group, &pool.name).unwrap();
        let versions = azure.versions(&definition).await.unwrap();
        let snapshot = azure.find_snapshot(&names::snapshot(&pool.name).unwrap()).await.unwrap();
        let canaries = azure.pools().await.unwrap().iter().filter(|pool| pool.tags.contains_key(CANARY_TAG)).count();
        let instances = azure.instances(&pool.name).await.unwrap();
        let marks = [HOLD_ANNOTATION, AUTOSCALER_ANNOTATION];
        let nodes = self.cluster().all_nodes().await.unwrap();
        let client = Client::new(self.server.service(), "kiln-system");
        let leases: Api<Lease> = Api::default_namespaced(client.clone());
        let lease = leases.list(&ListParams::default()).await.unwrap().items.pop().and_then(|lease| lease.spec);
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let secrets: Api<Secret> = Api::default_namespaced(client);
        let mut leftovers: Vec<String> = Vec::new();
        leftovers
            .extend(pods.list(&ListParams::default()).await.unwrap().items.into_iter().filter_map(|p| p.metadata.name));
        let inspections = |name: &String| name.starts_with("kiln-inspect") || name.starts_with("kiln-thaw");
        let maps = maps.list(&ListParams::default()).await.unwrap().items.into_iter().filter_map(|m| m.metadata.name);
        leftovers.extend(maps.filter(inspections));
        let secrets: Vec<String> = secrets
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .into_iter()
            .filter_map(|s| s.metadata.name)
            .collect();
        leftovers.extend(secrets.iter().filter(|name| inspections(name)).cloned());
        // Azure gives the order in the list no meaning.
        let mut extensions: Vec<String> = pool.recipe.extensions.into_iter().map(|extension| extension.name).collect();
        extensions.sort();
        State {
            image: pool.recipe.image,
            extensions,
            tags: pool.tags.into_iter().collect(),
            capacity: pool.capacity,
            versions: versions.into_iter().map(|v| (v.number.to_string(), v.state, v.excluded)).collect(),
            snapshots: usize::from(snapshot.is_some()),
            canaries,
            instances: instances
                .into_iter()
                .map(|i| (i.node_name, i.power, i.provisioning == Provisioning::Succeeded, i.protection))
                .collect(),
            nodes: nodes
                .into_iter()
                .map(|node| {
                    let marks = marks.iter().filter(|mark| node.annotations.contains_key(**mark));
                    let marks = marks.map(ToString::to_string).collect();
                    (node.name.to_string(), node.is_ready(), node.cordoned, marks)
                })
                .collect(),
            holder: lease.and_then(|spec| spec.holder_identity).unwrap_or_default(),
            outcomes: self.outcomes().await,
            original: secrets.iter().any(|name| name.starts_with("kiln-original")),
            leftovers,
        }
    }

    /// The outcomes of all runs in the journal.
    pub(crate) async fn outcomes(&self) -> Vec<Option<Outcome>> {
        let runs = self.quiet().runs(&pool_name()).await.unwrap();
        runs.into_iter().map(|run| run.closed.map(|(_, outcome)| outcome)).collect()
    }
}
