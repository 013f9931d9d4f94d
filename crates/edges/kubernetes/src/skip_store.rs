//! How often a pool was skipped in a row, in a `ConfigMap` per pool. It exists only while the pool is skipped.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kiln_types::PoolName;
use kube::Api;
use kube::api::DeleteParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::name::{Namespace, object_name};
use crate::request::RETRY_FOR;
use crate::version_records::write_map;
use crate::{Cluster, Error};

const KEY: &str = "skipped.json";

impl Cluster {
    /// Reads the record of a pool. One that cannot be parsed counts as missing: it is only a counter.
    pub async fn skip_record<T: DeserializeOwned>(
        &self,
        namespace: &Namespace,
        pool: &PoolName,
    ) -> Result<Option<T>, Error> {
        let (name, api) = self.skip_map(namespace, pool);
        let action = format!("read ConfigMap `{namespace}/{name}`");
        let map = self.retry(&action, Instant::now() + RETRY_FOR, || api.get_opt(&name)).await?;
        let text = map.and_then(|map| map.data).and_then(|mut data| data.remove(KEY));
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Writes the record of a pool, or deletes it.
    pub async fn set_skip_record<T: Serialize>(
        &self,
        namespace: &Namespace,
        pool: &PoolName,
        record: Option<&T>,
    ) -> Result<(), Error> {
        let (name, api) = self.skip_map(namespace, pool);
        let Some(record) = record else {
            let action = format!("delete ConfigMap `{namespace}/{name}`");
            let (params, deadline) = (DeleteParams::default(), Instant::now() + RETRY_FOR);
            return match self.retry(&action, deadline, || api.delete(&name, &params)).await {
                Err(error) if error.is_not_found() => Ok(()),
                done => done.map(drop),
            };
        };
        let action = format!("write ConfigMap `{namespace}/{name}`");
        let text =
            serde_json::to_string(record).map_err(|source| Error::BadContent { action: action.clone(), source })?;
        let labels = BTreeMap::from([("app.kubernetes.io/managed-by".to_owned(), "kiln".to_owned())]);
        let metadata = ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..ObjectMeta::default() };
        let data = Some(BTreeMap::from([(KEY.to_owned(), text)]));
        write_map(self, &api, &name, &action, ConfigMap { metadata, data, ..ConfigMap::default() }).await
    }

    fn skip_map(&self, namespace: &Namespace, pool: &PoolName) -> (String, Api<ConfigMap>) {
        (object_name("kiln-skipped", pool), Api::namespaced(self.client.clone(), namespace.as_str()))
    }
}
