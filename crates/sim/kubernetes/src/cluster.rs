//! The API server as a state machine: a request and the time in, an answer out. Nothing here waits or does I/O but the journal.

use std::path::Path;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kiln_sim_store::{Journal, JournalError};
use serde_json::json;

use crate::call::{Call, Target};
use crate::delete::{self, Deleted, Options};
use crate::error::{ApiError, Result};
use crate::list::{self, List};
use crate::resource::{Resource, Sort, Subresource};
use crate::show::View;
use crate::store::{Object, Store};
use crate::watch::Watch;
use crate::{control, discovery, meta, patch, pods, show, write};

/// The namespaces that every cluster has.
const SPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// What a request comes to.
#[derive(Debug)]
pub(crate) enum Outcome {
    Answer(Response<Bytes>),
    Watch(Box<Watch>),
}

/// The state of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) store: Store,
    journal: Option<Journal>,
    /// Pods without a node get one.
    pub(crate) schedules: bool,
    /// When time was last looked at.
    ticked: Timestamp,
}

impl Cluster {
    /// A new cluster in memory.
    pub(crate) fn new(seed: u64, now: Timestamp) -> Self {
        let mut cluster = Self { store: Store::new(seed), journal: None, schedules: false, ticked: now };
        cluster.furnish(now);
        cluster
    }

    /// The cluster in a state folder, made there when it is new.
    pub(crate) fn open(folder: &Path, seed: u64, now: Timestamp) -> std::result::Result<Self, JournalError> {
        let mut store = Store::new(seed);
        let (journal, _) = Journal::open(&folder.join("cluster.log"), &mut store)?;
        let mut cluster = Self { store, journal: Some(journal), schedules: false, ticked: now };
        cluster.furnish(now);
        cluster.commit()?;
        Ok(cluster)
    }

    fn furnish(&mut self, now: Timestamp) {
        let spaces = Sort::Namespace.resource();
        for name in SPACES {
            if self.store.get(spaces, "", name).is_none() {
                let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                write::create_object(&mut self.store, spaces, space, now, false).expect("a name without fault");
            }
        }
    }

    fn commit(&mut self) -> std::result::Result<(), JournalError> {
        match &mut self.journal {
            Some(journal) => journal.commit(&mut self.store),
            None => Ok(()),
        }
    }

    /// What a request comes to at a time. What it changed is on disk before the answer leaves.
    pub(crate) fn answer(&mut self, request: &Request<Bytes>, now: Timestamp) -> Outcome {
        self.tick(now);
        let from = self.store.revision();
        let outcome = Call::new(request).and_then(|call| self.call(&call, now));
        control::settle(&mut self.store, from, self.schedules, now);
        if let Err(error) = self.commit() {
            let error = ApiError::internal(format!("the cluster could not be saved: {error}"));
            return Outcome::Answer(error.response());
        }
        outcome.unwrap_or_else(|error| Outcome::Answer(error.response()))
    }

    /// Does what is due by time alone, and keeps it: a revision that was seen is never given twice.
    pub(crate) fn pass(&mut self, now: Timestamp) -> std::result::Result<(), JournalError> {
        self.tick(now);
        self.commit()
    }

    fn tick(&mut self, now: Timestamp) {
        let pace = SignedDuration::from_secs(control::TICK_SECONDS.cast_signed());
        if now < self.ticked + pace {
            return;
        }
        self.ticked = now;
        let from = self.store.revision();
        control::tick(&mut self.store, now);
        control::settle(&mut self.store, from, self.schedules, now);
    }

    fn call(&mut self, call: &Call<'_>, now: Timestamp) -> Result<Outcome> {
        let answer = match &call.target {
            Target::Other(path) => discovery::answer(call, path)?,
            _ if !call.takes_json() => return Err(ApiError::not_acceptable()),
            Target::AccessReview => review(call)?,
            Target::Resource { resource, namespace, name, sub } => {
                return self.resource(call, resource, (namespace.as_deref(), name.as_deref()), *sub, now);
            }
        };
        Ok(Outcome::Answer(answer))
    }

    fn resource(
        &mut self,
        call: &Call<'_>,
        resource: &'static Resource,
        (namespace, name): (Option<&str>, Option<&str>),
        sub: Option<Subresource>,
        now: Timestamp,
    ) -> Result<Outcome> {
        let store = &mut self.store;
        let view = View::new(call, resource, now);
        let space = namespace.unwrap_or_default();
        let status = sub == Some(Subresource::Status);
        let answer = match (call.method, name, sub) {
            (&Method::GET, _, None) if call.flag("watch") => {
                let watch = Watch::start(store, call, resource, (namespace, name), now)?;
                return Ok(Outcome::Watch(Box::new(watch)));
            }
            (&Method::GET, None, None) => view.list(&list::list(store, call, resource, namespace)?),
            (&Method::GET, Some(name), None | Some(Subresource::Status)) => {
                show::json(StatusCode::OK, &view.object(&find(store, resource, space, name)?))
            }
            (&Method::POST, None, None) => view.written(&write::create(store, call, resource, namespace, now)?),
            (&Method::POST, Some(name), Some(Subresource::Binding)) => {
                pods::bind(store, call, (space, name), now)?;
                show::success(StatusCode::CREATED)
            }
            (&Method::POST, Some(name), Some(Subresource::Eviction)) => {
                pods::evict(store, call, (space, name), now)?;
                show::success(StatusCode::CREATED)
            }
            (&Method::PUT, Some(name), None | Some(Subresource::Status)) => {
                view.written(&write::update(store, call, resource, (namespace, name), status, now)?)
            }
            (&Method::PATCH, Some(name), None | Some(Subresource::Status)) => {
                view.written(&patch::patch(store, call, resource, (namespace, name), status)?)
            }
            (&Method::DELETE, Some(name), None) => {
                let object = find(store, resource, space, name)?;
                let options = Options::of_call(call)?;
                view.deleted(&delete::delete(store, resource.stored(), &object, &options, now)?)
            }
            (&Method::DELETE, None, None) => {
                if resource.namespaced && namespace.is_none() {
                    return Err(ApiError::method(resource, "deletecollection"));
                }
                view.list(&delete_all(store, call, resource, namespace, now)?)
            }
            (method, ..) => return Err(ApiError::method(resource, &method.as_str().to_ascii_lowercase())),
        };
        Ok(Outcome::Answer(answer))
    }
}

fn find(store: &Store, resource: &'static Resource, namespace: &str, name: &str) -> Result<Object> {
    store.get(resource.stored(), namespace, name).cloned().ok_or_else(|| ApiError::not_found(resource, name))
}

fn delete_all(
    store: &mut Store,
    call: &Call<'_>,
    resource: &'static Resource,
    namespace: Option<&str>,
    now: Timestamp,
) -> Result<List> {
    let mut list = list::list(store, call, resource, namespace)?;
    let options = Options::of_call(call)?;
    let mut items = Vec::new();
    for object in &list.items {
        match delete::delete(store, resource.stored(), object, &options, now)? {
            Deleted::Gone(object) | Deleted::Pending(object) => items.push(object),
        }
    }
    list.items = items;
    list.revision = store.revision();
    Ok(list)
}

/// Whoever has the one token may do everything that the server does.
fn review(call: &Call<'_>) -> Result<Response<Bytes>> {
    if *call.method != Method::POST {
        return Err(ApiError::method_of_path());
    }
    let mut review = call.json()?;
    let attributes = &review["spec"]["resourceAttributes"];
    let allowed = attributes.is_null() || {
        let resource = meta::text(attributes, "/resource");
        resource == "*" || Resource::find(meta::text(attributes, "/group"), resource).is_some()
    };
    review["kind"] = json!("SelfSubjectAccessReview");
    review["apiVersion"] = json!("authorization.k8s.io/v1");
    review["status"] = if allowed {
        json!({"allowed": true})
    } else {
        json!({"allowed": false, "reason": "this server does not have the resource"})
    };
    Ok(show::json(StatusCode::CREATED, &review))
}
