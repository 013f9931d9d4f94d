//! Long lists, page by page.

use std::fmt::Debug;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::call::PATIENCE;
use crate::{Cluster, Error};

/// A node object has 10 to 20 KiB, the largest that are listed here: a page stays below 10 MiB.
const PAGE: u32 = 500;

impl Cluster {
    /// All objects that a list has, less those that `keep` drops, so that no more is in memory than what is kept and one page.
    pub(crate) async fn list_all<K, T>(
        &self,
        what: &str,
        api: &Api<K>,
        params: &ListParams,
        keep: impl Fn(K) -> Result<Option<T>, Error>,
    ) -> Result<Vec<T>, Error>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let first = || params.clone().limit(PAGE);
        let deadline = Instant::now() + PATIENCE;
        let mut kept = Vec::new();
        let mut page = first();
        loop {
            let list = match self.persist(what, deadline, || api.list(&page)).await {
                // A page that comes minutes after the one before it finds its list forgotten.
                Err(error) if error.expired() && page.continue_token.is_some() && Instant::now() < deadline => {
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
                _ => return Ok(kept),
            }
        }
    }
}
