//! A record per image version of a pool, each in its own `ConfigMap`: the tags of a version have no room for a list of packages.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kiln_types::hash::fnv1a_32;
use kiln_types::{PoolName, VersionNumber};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::name::{Namespace, object_name};
use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

/// The server rejects a `ConfigMap` over 1 MiB. Two thousand packages need about 80 KiB.
const LIMIT: usize = 900 * 1024;
const KEY: &str = "facts.json";
/// The label that selects the records of a pool; its value is a hash, because a pool name may not be a valid label value.
const POOL_LABEL: &str = "kiln.dev/version-records-of";
const POOL_ANNOTATION: &str = "kiln.dev/pool";
const VERSION_ANNOTATION: &str = "kiln.dev/version";
/// Only kiln writes these `ConfigMaps`, so a third conflict means that another run writes at the same time.
const TRIES: u32 = 3;

/// Stores the records of a pool's image versions.
#[derive(Clone)]
pub struct VersionRecords<T> {
    cluster: Cluster,
    api: Api<ConfigMap>,
    pool: PoolName,
    namespace: Namespace,
    facts: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> VersionRecords<T> {
    /// The records of a pool.
    pub fn new(cluster: &Cluster, namespace: &Namespace, pool: &PoolName) -> Self {
        Self {
            cluster: cluster.clone(),
            api: Api::namespaced(cluster.client.clone(), namespace.as_str()),
            pool: pool.clone(),
            namespace: namespace.clone(),
            facts: PhantomData,
        }
    }

    /// Writes the record of a version, replacing an older one.
    pub async fn put(&self, version: &VersionNumber, facts: &T) -> Result<(), Error> {
        let name = self.name(version);
        let action = format!("write ConfigMap `{}/{name}`", self.namespace);
        let map = self.map(version, facts, &action)?;
        write_map(&self.cluster, &self.api, &name, &action, map).await
    }

    /// The record of a version, if there is one.
    pub async fn get(&self, version: &VersionNumber) -> Result<Option<T>, Error> {
        let name = self.name(version);
        let action = format!("read ConfigMap `{}/{name}`", self.namespace);
        let deadline = Instant::now() + RETRY_FOR;
        let map = self.cluster.retry(&action, deadline, || self.api.get_opt(&name)).await?;
        map.as_ref().map(|map| facts(map, &action)).transpose()
    }

    /// All records of the pool, lowest version number first.
    pub async fn list(&self) -> Result<Vec<(VersionNumber, T)>, Error> {
        let action = format!("list the image versions of pool `{}`", self.pool);
        let params = ListParams::default().labels(&format!("{POOL_LABEL}={}", self.label()));
        let keep = |map: ConfigMap| {
            let annotation = |key: &str| map.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
            let matches = annotation(POOL_ANNOTATION).is_some_and(|pool| pool.eq_ignore_ascii_case(self.pool.as_str()));
            let version = annotation(VERSION_ANNOTATION).and_then(|version| version.parse::<VersionNumber>().ok());
            match version {
                Some(version) if matches => facts(&map, &action).map(|facts| Some((version, facts))),
                _ => Ok(None),
            }
        };
        let mut records = self.cluster.list_all(&action, &self.api, &params, keep).await?;
        records.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(records)
    }

    /// Deletes the record of a version; a missing one is not an error.
    pub async fn delete(&self, version: &VersionNumber) -> Result<(), Error> {
        let name = self.name(version);
        let action = format!("delete ConfigMap `{}/{name}`", self.namespace);
        let (params, deadline) = (DeleteParams::default(), Instant::now() + RETRY_FOR);
        match self.cluster.retry(&action, deadline, || self.api.delete(&name, &params)).await {
            Err(error) if error.is_not_found() => Ok(()),
            done => done.map(drop),
        }
    }

    fn name(&self, version: &VersionNumber) -> String {
        format!("{}-{version}", object_name("kiln-version", &self.pool))
    }

    fn label(&self) -> String {
        format!("{:08x}", fnv1a_32(self.pool.as_str().to_ascii_lowercase().as_bytes()))
    }

    fn map(&self, version: &VersionNumber, facts: &T, action: &str) -> Result<ConfigMap, Error> {
        let bad = |source| Error::BadContent { action: action.to_owned(), source };
        let text = serde_json::to_string(facts).map_err(bad)?;
        if text.len() > LIMIT {
            return Err(Error::TooLarge { action: action.to_owned(), size: text.len(), limit: LIMIT });
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

/// Creates a `ConfigMap`, or replaces it.
pub(crate) async fn write_map(
    cluster: &Cluster,
    api: &Api<ConfigMap>,
    name: &str,
    action: &str,
    mut map: ConfigMap,
) -> Result<(), Error> {
    let (params, deadline) = (PostParams::default(), Instant::now() + RETRY_FOR);
    for _ in 0..TRIES {
        let written = match &map.metadata.resource_version {
            None => cluster.retry(action, deadline, || api.create(&params, &map)).await,
            Some(_) => cluster.retry(action, deadline, || api.replace(name, &params, &map)).await,
        };
        match written {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let existing = cluster.retry(action, deadline, || api.get_opt(name)).await?;
        if existing.as_ref().is_some_and(|existing| existing.data == map.data) {
            return Ok(());
        }
        map.metadata.resource_version = existing.and_then(|existing| existing.metadata.resource_version);
    }
    Err(Error::Contended { action: action.to_owned(), attempts: TRIES })
}

fn facts<T: DeserializeOwned>(map: &ConfigMap, action: &str) -> Result<T, Error> {
    let text = map.data.as_ref().and_then(|data| data.get(KEY)).map_or("", String::as_str);
    serde_json::from_str(text).map_err(|source| Error::BadContent { action: action.to_owned(), source })
}

impl<T> fmt::Debug for VersionRecords<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VersionRecords({}/{})", self.namespace, self.pool)
    }
}
