//! What is known of each image version of a pool, in a `ConfigMap` each: the versions' tags have no room for a list of packages.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kiln_types::{PoolName, VersionNumber};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::call::PATIENCE;
use crate::name::{Namespace, mark, object_name};
use crate::{Cluster, Error};

/// The server refuses a `ConfigMap` of more than 1 MiB. Two thousand packages take some 80 KiB.
const LIMIT: usize = 900 * 1024;
const KEY: &str = "facts.json";
/// Which pool, in a form that any label can hold.
const POOL_LABEL: &str = "kiln.dev/facts-of";
const POOL_ANNOTATION: &str = "kiln.dev/pool";
const VERSION_ANNOTATION: &str = "kiln.dev/version";
/// Kubelet, the autoscaler and others write a `ConfigMap` of ours never: a third conflict is another run of ours.
const TRIES: u32 = 3;

/// Where the facts about a pool's versions are kept.
#[derive(Clone)]
pub struct FactsStore<T> {
    cluster: Cluster,
    api: Api<ConfigMap>,
    pool: PoolName,
    namespace: Namespace,
    facts: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> FactsStore<T> {
    /// The store of a pool.
    pub fn new(cluster: &Cluster, namespace: &Namespace, pool: &PoolName) -> Self {
        Self {
            cluster: cluster.clone(),
            api: Api::namespaced(cluster.client.clone(), namespace.as_str()),
            pool: pool.clone(),
            namespace: namespace.clone(),
            facts: PhantomData,
        }
    }

    /// Writes what is known of a version, over what was.
    pub async fn put(&self, version: &VersionNumber, facts: &T) -> Result<(), Error> {
        let name = self.name(version);
        let what = format!("write ConfigMap `{}/{name}`", self.namespace);
        let mut map = self.map(version, facts, &what)?;
        let (params, deadline) = (PostParams::default(), Instant::now() + PATIENCE);
        for _ in 0..TRIES {
            let written = match &map.metadata.resource_version {
                None => self.cluster.persist(&what, deadline, || self.api.create(&params, &map)).await,
                Some(_) => self.cluster.persist(&what, deadline, || self.api.replace(&name, &params, &map)).await,
            };
            match written {
                Ok(_) => return Ok(()),
                Err(error) if error.conflict() || error.not_found() => {}
                Err(error) => return Err(error),
            }
            let there = self.cluster.persist(&what, deadline, || self.api.get_opt(&name)).await?;
            if there.as_ref().is_some_and(|there| there.data == map.data) {
                return Ok(());
            }
            map.metadata.resource_version = there.and_then(|there| there.metadata.resource_version);
        }
        Err(Error::Contended { what, attempts: TRIES })
    }

    /// What is known of a version, if anything.
    pub async fn get(&self, version: &VersionNumber) -> Result<Option<T>, Error> {
        let name = self.name(version);
        let what = format!("read ConfigMap `{}/{name}`", self.namespace);
        let deadline = Instant::now() + PATIENCE;
        let map = self.cluster.persist(&what, deadline, || self.api.get_opt(&name)).await?;
        map.as_ref().map(|map| facts(map, &what)).transpose()
    }

    /// What is known of all versions of the pool, lowest number first.
    pub async fn list(&self) -> Result<Vec<(VersionNumber, T)>, Error> {
        let what = format!("list the versions of pool `{}`", self.pool);
        let params = ListParams::default().labels(&format!("{POOL_LABEL}={}", self.label()));
        let keep = |map: ConfigMap| {
            let note = |key: &str| map.metadata.annotations.as_ref().and_then(|notes| notes.get(key));
            let ours = note(POOL_ANNOTATION).is_some_and(|pool| pool.eq_ignore_ascii_case(self.pool.as_str()));
            let version = note(VERSION_ANNOTATION).and_then(|version| version.parse::<VersionNumber>().ok());
            match version {
                Some(version) if ours => facts(&map, &what).map(|facts| Some((version, facts))),
                _ => Ok(None),
            }
        };
        let mut found = self.cluster.list_all(&what, &self.api, &params, keep).await?;
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// Forgets a version. One that nothing is known of is forgotten already.
    pub async fn delete(&self, version: &VersionNumber) -> Result<(), Error> {
        let name = self.name(version);
        let what = format!("delete ConfigMap `{}/{name}`", self.namespace);
        let (params, deadline) = (DeleteParams::default(), Instant::now() + PATIENCE);
        match self.cluster.persist(&what, deadline, || self.api.delete(&name, &params)).await {
            Err(error) if error.not_found() => Ok(()),
            done => done.map(drop),
        }
    }

    fn name(&self, version: &VersionNumber) -> String {
        format!("{}-{version}", object_name("kiln-version", &self.pool))
    }

    fn label(&self) -> String {
        format!("{:08x}", mark(self.pool.as_str().to_ascii_lowercase().as_bytes()))
    }

    fn map(&self, version: &VersionNumber, facts: &T, what: &str) -> Result<ConfigMap, Error> {
        let bad = |source| Error::BadContent { what: what.to_owned(), source };
        let text = serde_json::to_string(facts).map_err(bad)?;
        if text.len() > LIMIT {
            return Err(Error::TooLarge { what: what.to_owned(), size: text.len(), limit: LIMIT });
        }
        let own = |pairs: [(&str, String); 2]| Some(pairs.map(|(key, value)| (key.to_owned(), value)).into());
        Ok(ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name(version)),
                labels: own([("app.kubernetes.io/managed-by", "kiln".to_owned()), (POOL_LABEL, self.label())]),
                annotations: own([(POOL_ANNOTATION, self.pool.to_string()), (VERSION_ANNOTATION, version.to_string())]),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(KEY.to_owned(), text)])),
            ..ConfigMap::default()
        })
    }
}

fn facts<T: DeserializeOwned>(map: &ConfigMap, what: &str) -> Result<T, Error> {
    let text = map.data.as_ref().and_then(|data| data.get(KEY)).map_or("", String::as_str);
    serde_json::from_str(text).map_err(|source| Error::BadContent { what: what.to_owned(), source })
}

impl<T> fmt::Debug for FactsStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FactsStore({}/{})", self.namespace, self.pool)
    }
}
