//! Paginated lists.

use std::fmt::Debug;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

/// Node objects are the largest ones listed here, with 10 to 20 KiB each: a page stays below 10 MiB.
const PAGE: u32 = 500;

impl Cluster {
    /// Lists all objects and maps them with `keep`, which drops those that return `None`. Memory holds the kept objects and one page.
    pub(crate) async fn list_all<K, T>(
        &self,
        action: &str,
        api: &Api<K>,
        params: &ListParams,
        keep: impl Fn(K) -> Result<Option<T>, Error>,
    ) -> Result<Vec<T>, Error>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        self.list_at(action, api, params, keep).await.map(|(kept, _)| kept)
    }

    /// Like [`Self::list_all`], with the revision of the list, at which a watch can start.
    pub(crate) async fn list_at<K, T>(
        &self,
        action: &str,
        api: &Api<K>,
        params: &ListParams,
        keep: impl Fn(K) -> Result<Option<T>, Error>,
    ) -> Result<(Vec<T>, String), Error>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let first = || params.clone().limit(PAGE);
        let deadline = Instant::now() + RETRY_FOR;
        let mut kept = Vec::new();
        let mut page = first();
        loop {
            let list = match self.retry(action, deadline, || api.list(&page)).await {
                // The continue token of a page that is requested minutes later has expired.
                Err(error) if error.is_expired() && page.continue_token.is_some() && Instant::now() < deadline => {
                    kept.clear();
                    page = first();
                    continue;
                }
                list => list?,
            };
            for object in list.items {
                kept.extend(keep(object)?);
            }
            match list.metadata.continue_ {
                Some(token) if !token.is_empty() => page = page.continue_token(&token),
                _ => return Ok((kept, list.metadata.resource_version.unwrap_or_default())),
            }
        }
    }
}
