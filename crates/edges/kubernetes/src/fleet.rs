//! The custom resources of the fleet, for commands of people: single objects that are read, created, patched and deleted. The operator watches them instead.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::request::{RETRY_FOR, once};
use crate::watch::Watched;
use crate::{Cluster, Error};

/// The name in `metadata.managedFields` of what people change with kiln.
const FIELD_MANAGER: &str = "kiln";

/// A kind of `kiln_fleet_api`, all of which are cluster-scoped.
pub trait FleetKind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

macro_rules! kinds {
    ($($kind:ident),*) => { $(impl FleetKind for kiln_fleet_api::$kind {})* };
}

kinds!(Freeze, ImageVersion, NodeConfig, NodeState, Pool, Rollout, RolloutPolicy);

/// The custom resources of a cluster.
#[derive(Clone)]
pub struct Fleet {
    cluster: Cluster,
}

impl Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fleet")
    }
}

impl Fleet {
    /// The resources of this cluster.
    pub fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone() }
    }

    fn api<K: FleetKind>(&self) -> Api<K> {
        Api::all(self.cluster.client.clone())
    }

    /// Lists all objects of a kind.
    pub async fn list<K: FleetKind>(&self) -> Result<Vec<K>, Error> {
        let action = format!("list {}", K::plural(&()));
        self.cluster.list_all(&action, &self.api(), &ListParams::default(), |object| Ok(Some(object))).await
    }

    /// Reads an object, if it exists.
    pub async fn get<K: FleetKind>(&self, name: &str) -> Result<Option<K>, Error> {
        let (action, api) = (format!("get {} `{name}`", K::kind(&())), self.api());
        match self.cluster.retry(&action, Instant::now() + RETRY_FOR, || api.get(name)).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() && !error.is_kind_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object. With `dry_run` the server only checks it. The request is not repeated: after a lost answer, a second attempt would fail because
    /// the first one succeeded.
    pub async fn create<K: FleetKind>(&self, object: &K, dry_run: bool) -> Result<K, Error> {
        let name = object.meta().name.as_deref().or(object.meta().generate_name.as_deref()).unwrap_or_default();
        let action = format!("create {} `{name}`", K::kind(&()));
        let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        once(&action, self.api().create(&params, object)).await
    }

    /// Changes an object with a JSON merge patch.
    pub async fn patch<K: FleetKind>(&self, name: &str, patch: &Value) -> Result<K, Error> {
        let (action, api) = (format!("change {} `{name}`", K::kind(&())), self.api());
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        self.cluster.retry(&action, Instant::now() + RETRY_FOR, || api.patch(name, &params, &patch)).await
    }

    /// Deletes an object, and returns whether it existed.
    pub async fn delete<K: FleetKind>(&self, name: &str) -> Result<bool, Error> {
        let (action, api) = (format!("delete {} `{name}`", K::kind(&())), self.api::<K>());
        let params = DeleteParams::default();
        match self.cluster.retry(&action, Instant::now() + RETRY_FOR, || api.delete(name, &params)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() && !error.is_kind_missing() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until an object differs from this revision, at most for `limit`. The caller reads it again in any case.
    pub async fn wait_for_change<K: FleetKind>(
        &self,
        name: &str,
        revision: &str,
        limit: Duration,
    ) -> Result<(), Error> {
        let action = format!("watch {} `{name}`", K::kind(&()));
        let (api, fields) = (self.api::<K>(), format!("metadata.name={name}"));
        let watched = Watched { action: &action, api: &api, fields: &fields, revision };
        self.cluster.wait_for_change(watched, |_| true, limit, Instant::now() + limit).await
    }

    /// Returns the names of the nodes with these labels, in alphabetical order.
    pub async fn node_names(&self, labels: &BTreeMap<String, String>) -> Result<Vec<String>, Error> {
        let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let params = ListParams::default().labels(&selector.join(","));
        let api: Api<Node> = Api::all(self.cluster.client.clone());
        let mut names = self.cluster.list_all("list nodes", &api, &params, |node: Node| Ok(node.metadata.name)).await?;
        names.sort();
        Ok(names)
    }
}
