//! The journal of a pool in a `ConfigMap`: one line of JSON per entry, replaced only if unchanged since it was read.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kiln_types::PoolName;
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::name::{Namespace, Owner, object_name};
use crate::request::{Outage, RETRY_FOR, once};
use crate::{Cluster, Error};

/// The server rejects a `ConfigMap` over 1 MiB. The rest is left for annotations of other tools.
pub const JOURNAL_LIMIT: usize = 960 * 1024;

/// The part of [`JOURNAL_LIMIT`] that only [`Room::Release`] may use. A run that fails twelve times at each of its six releases, with the
/// longest messages, writes about 90 KiB.
pub const JOURNAL_RESERVE: usize = 128 * 1024;

/// How much of a journal a write may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// All but the reserve.
    Ordinary,
    /// Everything: the write is part of releasing a hold or of ending a run, which must be possible with a full journal.
    Release,
}

const KEY: &str = "journal.jsonl";
/// The last writer and its write number. It distinguishes our own write whose response was lost from identical bytes of another writer.
const WRITER_ANNOTATION: &str = "kiln.dev/written-by";

/// A journal as last read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal<T> {
    entries: Vec<T>,
    revision: Option<String>,
    writes: u64,
}

impl<T> Journal<T> {
    /// The entries, oldest first.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }
}

/// Stores the journal of a pool.
#[derive(Clone)]
pub struct JournalStore<T> {
    cluster: Cluster,
    api: Api<ConfigMap>,
    name: String,
    namespace: Namespace,
    writer: Owner,
    entry: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> JournalStore<T> {
    /// The journal of a pool for one run. Two processes must not use the same `writer`.
    pub fn new(cluster: &Cluster, namespace: &Namespace, pool: &PoolName, writer: Owner) -> Self {
        Self::named("kiln-journal", cluster, namespace, pool, writer)
    }

    /// The record of the last push of a document to a pool.
    pub fn of_push(cluster: &Cluster, namespace: &Namespace, pool: &PoolName, writer: Owner) -> Self {
        Self::named("kiln-push", cluster, namespace, pool, writer)
    }

    fn named(prefix: &str, cluster: &Cluster, namespace: &Namespace, pool: &PoolName, writer: Owner) -> Self {
        Self {
            cluster: cluster.clone(),
            api: Api::namespaced(cluster.client.clone(), namespace.as_str()),
            name: object_name(prefix, pool),
            namespace: namespace.clone(),
            writer,
            entry: PhantomData,
        }
    }

    /// Reads the journal; a missing one is empty.
    pub async fn load(&self) -> Result<Journal<T>, Error> {
        let action = format!("read journal `{self}`");
        let deadline = Instant::now() + RETRY_FOR;
        let map = self.cluster.retry(&action, deadline, || self.api.get_opt(&self.name)).await?;
        let Some(map) = map else { return Ok(Journal { entries: Vec::new(), revision: None, writes: 0 }) };
        let mut entries = Vec::new();
        for (index, line) in text(&map).lines().enumerate() {
            let entry = serde_json::from_str(line).map_err(|source| Error::JournalUnreadable {
                journal: self.to_string(),
                line: index + 1,
                source,
            })?;
            entries.push(entry);
        }
        Ok(Journal { entries, revision: map.metadata.resource_version, writes: 0 })
    }

    /// Appends an entry. On success the entry is durable; on failure `journal` is unchanged.
    pub async fn append(&self, journal: &mut Journal<T>, entry: T) -> Result<(), Error> {
        journal.entries.push(entry);
        let written = self.write(journal, Room::Ordinary).await;
        if written.is_err() {
            journal.entries.pop();
        }
        written
    }

    /// Replaces all entries. On success they are durable; on failure `journal` is unchanged.
    pub async fn save(&self, journal: &mut Journal<T>, entries: Vec<T>, room: Room) -> Result<(), Error> {
        let before = std::mem::replace(&mut journal.entries, entries);
        let written = self.write(journal, room).await;
        if written.is_err() {
            journal.entries = before;
        }
        written
    }

    async fn write(&self, journal: &mut Journal<T>, room: Room) -> Result<(), Error> {
        let action = format!("write journal `{self}`");
        journal.writes += 1;
        let map = self.map(journal, room)?;
        let deadline = Instant::now() + RETRY_FOR;
        let mut outage = Outage::default();
        let mut failures = 0;
        let params = PostParams::default();
        loop {
            let written = match &journal.revision {
                None => once(&action, self.api.create(&params, &map)).await,
                Some(_) => once(&action, self.api.replace(&self.name, &params, &map)).await,
            };
            let error = match written {
                Ok(written) => {
                    journal.revision = written.metadata.resource_version;
                    return Ok(());
                }
                Err(error) => error,
            };
            // A journal that was deleted after it was read is not silently recreated.
            if error.is_conflict() || (error.is_not_found() && journal.revision.is_some()) {
                return self.confirm_own_write(&action, journal, &map).await;
            }
            let now = Instant::now();
            let wait = self.cluster.wait_after(failures, &error);
            failures += 1;
            if !outage.should_retry(&error, now) || now + wait >= deadline {
                return Err(error);
            }
            sleep(wait).await;
        }
    }

    /// A conflict after a lost response may be with our own write.
    async fn confirm_own_write(&self, action: &str, journal: &mut Journal<T>, map: &ConfigMap) -> Result<(), Error> {
        let deadline = Instant::now() + RETRY_FOR;
        let found = self.cluster.retry(action, deadline, || self.api.get_opt(&self.name)).await?;
        match found {
            Some(found) if writer(&found) == writer(map) && text(&found) == text(map) => {
                journal.revision = found.metadata.resource_version;
                Ok(())
            }
            _ => Err(Error::JournalConflict { journal: self.to_string() }),
        }
    }

    fn map(&self, journal: &Journal<T>, room: Room) -> Result<ConfigMap, Error> {
        let mut text = String::new();
        for (index, entry) in journal.entries.iter().enumerate() {
            let line = serde_json::to_string(entry).map_err(|source| Error::JournalUnreadable {
                journal: self.to_string(),
                line: index + 1,
                source,
            })?;
            text.push_str(&line);
            text.push('\n');
        }
        let limit = match room {
            Room::Ordinary => JOURNAL_LIMIT - JOURNAL_RESERVE,
            Room::Release => JOURNAL_LIMIT,
        };
        if text.len() > limit {
            return Err(Error::JournalTooLarge { journal: self.to_string(), size: text.len(), limit });
        }
        let base = journal.revision.as_deref().unwrap_or("new");
        let mark = format!("{} write {} over {base}", self.writer, journal.writes);
        Ok(ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: journal.revision.clone(),
                labels: Some(BTreeMap::from([("app.kubernetes.io/managed-by".to_owned(), "kiln".to_owned())])),
                annotations: Some(BTreeMap::from([(WRITER_ANNOTATION.to_owned(), mark)])),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(KEY.to_owned(), text)])),
            ..ConfigMap::default()
        })
    }
}

fn text(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get(KEY)).map_or("", String::as_str)
}

fn writer(map: &ConfigMap) -> Option<&String> {
    map.metadata.annotations.as_ref()?.get(WRITER_ANNOTATION)
}

impl<T> fmt::Display for JournalStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl<T> fmt::Debug for JournalStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JournalStore({self})")
    }
}
