//! Pauses between two reads of an object that end as soon as the object changes.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::request::once;
use crate::{Cluster, Error};

/// How long a caller relies on one watch before it reads again: a dead connection is not noticed otherwise.
pub(crate) const LONGEST_WATCH: Duration = Duration::from_secs(30);

/// What to watch, and from when on.
pub(crate) struct Watched<'a, K> {
    pub(crate) action: &'a str,
    pub(crate) api: &'a Api<K>,
    /// The field selector.
    pub(crate) fields: &'a str,
    /// The revision of the caller's last read. Later changes are not missed.
    pub(crate) revision: &'a str,
}

impl Cluster {
    /// Waits for a change that `is_relevant`, at most until `wake`. The caller reads again in any case, so an event is only a hint: a watch
    /// that ends early or breaks is replaced by a pause of `interval`. A missing permission is an error.
    pub(crate) async fn wait_for_change<K>(
        &self,
        watched: Watched<'_, K>,
        is_relevant: impl Fn(&WatchEvent<K>) -> bool,
        interval: Duration,
        wake: Instant,
    ) -> Result<(), Error>
    where
        K: Clone + Debug + DeserializeOwned + 'static,
    {
        let Watched { action, api, fields, revision } = watched;
        let pause = sleep_until((Instant::now() + interval).min(wake));
        if revision.is_empty() {
            // A watch without a revision would start with all existing objects.
            pause.await;
            return Ok(());
        }
        let seconds = u32::try_from(LONGEST_WATCH.as_secs()).unwrap_or(u32::MAX);
        let mut params = WatchParams::default().timeout(seconds);
        if !fields.is_empty() {
            params = params.fields(fields);
        }
        let changed = async {
            let mut events = pin!(once(action, api.watch(&params, revision)).await?);
            // An event that cannot be read, such as that of an expired revision, ends the watch.
            while let Ok(Some(event)) = events.try_next().await {
                match event {
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(_) => break,
                    event if is_relevant(&event) => return Ok(true),
                    _ => {}
                }
            }
            Ok::<bool, Error>(false)
        };
        match timeout_at(wake.min(Instant::now() + LONGEST_WATCH), changed).await {
            Err(_) | Ok(Ok(true)) => return Ok(()),
            Ok(Err(error)) if !error.is_retryable() && !error.is_expired() => return Err(error),
            Ok(Ok(false) | Err(_)) => {}
        }
        pause.await;
        Ok(())
    }
}
