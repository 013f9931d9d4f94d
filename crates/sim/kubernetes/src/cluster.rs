//! The API server as a state machine: request and time in, response out. Its only I/O is the journal.

use std::path::Path;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kiln_sim_store::{Journal, JournalError};
use serde_json::json;

use crate::call::{Call, Target};
use crate::custom::Definitions;
use crate::delete::{self, DeleteOutcome, Options};
use crate::error::{ApiError, Result};
use crate::list::{self, List};
use crate::resource::{ObjectKind, Resource, Subresource};
use crate::response::View;
use crate::store::{Object, Store};
use crate::watch::Watch;
use crate::{control, discovery, meta, patch, pods, response, write};

/// The namespaces that every cluster has.
const DEFAULT_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The result of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Response(Response<Bytes>),
    Watch(Box<Watch>),
}

/// The state of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) store: Store,
    journal: Option<Journal>,
    /// Whether unbound pods are scheduled.
    pub(crate) schedules: bool,
    /// The last time that [`Cluster::tick`] ran.
    ticked: Timestamp,
}

impl Cluster {
    /// A new in-memory cluster.
    pub(crate) fn new(seed: u64, now: Timestamp) -> Self {
        let mut cluster = Self { store: Store::new(seed), journal: None, schedules: false, ticked: now };
        cluster.create_default_namespaces(now);
        cluster
    }

    /// The cluster of a state folder, created if it is missing.
    pub(crate) fn open(folder: &Path, seed: u64, now: Timestamp) -> std::result::Result<Self, JournalError> {
        let mut store = Store::new(seed);
        let (journal, _) = Journal::open(&folder.join("cluster.log"), &mut store)?;
        let mut cluster = Self { store, journal: Some(journal), schedules: false, ticked: now };
        cluster.create_default_namespaces(now);
        cluster.commit()?;
        Ok(cluster)
    }

    fn create_default_namespaces(&mut self, now: Timestamp) {
        let spaces = ObjectKind::Namespace.resource();
        for name in DEFAULT_NAMESPACES {
            if self.store.get(spaces, "", name).is_none() {
                let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                write::create_object(&mut self.store, spaces, space, now, false).expect("the name is valid");
            }
        }
    }

    fn commit(&mut self) -> std::result::Result<(), JournalError> {
        match &mut self.journal {
            Some(journal) => journal.commit(&mut self.store),
            None => Ok(()),
        }
    }

    /// Handles a request. Its changes are on disk before the response is sent.
    pub(crate) fn handle(&mut self, request: &Request<Bytes>, now: Timestamp) -> Outcome {
        self.tick(now);
        let from = self.store.revision();
        let outcome = Call::new(request, self.store.definitions()).and_then(|call| self.call(&call, now));
        control::settle(&mut self.store, from, self.schedules, now);
        if let Err(error) = self.commit() {
            let error = ApiError::internal(format!("cannot save the cluster: {error}"));
            return Outcome::Response(error.response());
        }
        outcome.unwrap_or_else(|error| Outcome::Response(error.response()))
    }

    /// Applies changes that only depend on time, and saves them: a revision that a client has seen is never reused.
    pub(crate) fn advance(&mut self, now: Timestamp) -> std::result::Result<(), JournalError> {
        self.tick(now);
        self.commit()
    }

    fn tick(&mut self, now: Timestamp) {
        let interval = SignedDuration::from_secs(control::TICK_SECONDS.cast_signed());
        if now < self.ticked + interval {
            return;
        }
        self.ticked = now;
        let from = self.store.revision();
        control::tick(&mut self.store, now);
        control::settle(&mut self.store, from, self.schedules, now);
    }

    fn call(&mut self, call: &Call<'_>, now: Timestamp) -> Result<Outcome> {
        let response = match &call.target {
            Target::Other(path) => discovery::handle(self.store.definitions(), call, path)?,
            _ if !call.accepts_json() => return Err(ApiError::not_acceptable()),
            Target::AccessReview => review(self.store.definitions(), call)?,
            Target::Resource { resource, namespace, name, sub } => {
                return self.resource(call, resource, (namespace.as_deref(), name.as_deref()), *sub, now);
            }
        };
        Ok(Outcome::Response(response))
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
        let view = View::new(store, call, resource, now);
        let space = namespace.unwrap_or_default();
        let status = sub == Some(Subresource::Status);
        let response = match (call.method, name, sub) {
            (&Method::GET, _, None) if call.flag("watch") => {
                let watch = Watch::start(store, call, resource, (namespace, name), now)?;
                return Ok(Outcome::Watch(Box::new(watch)));
            }
            (&Method::GET, None, None) => view.list(&list::list(store, call, resource, namespace)?),
            (&Method::GET, Some(name), None | Some(Subresource::Status)) => {
                response::json(StatusCode::OK, &view.object(&find(store, resource, space, name)?))
            }
            (&Method::POST, None, None) => view.written(&write::create(store, call, resource, namespace, now)?),
            (&Method::POST, Some(name), Some(Subresource::Binding)) => {
                pods::bind(store, call, (space, name), now)?;
                response::success(StatusCode::CREATED)
            }
            (&Method::POST, Some(name), Some(Subresource::Eviction)) => {
                pods::evict(store, call, (space, name), now)?;
                response::success(StatusCode::CREATED)
            }
            (&Method::PUT, Some(name), None | Some(Subresource::Status)) => {
                view.written(&write::update(store, call, resource, (namespace, name), status, now)?)
            }
            (&Method::PATCH, Some(name), None | Some(Subresource::Status)) => {
                view.written(&patch::patch(store, call, resource, (namespace, name), status, now)?)
            }
            (&Method::DELETE, Some(name), None) => {
                let object = find(store, resource, space, name)?;
                let options = Options::from_call(call)?;
                view.deleted(&delete::delete(store, resource.stored(), &object, &options, now)?)
            }
            (&Method::DELETE, None, None) => {
                if resource.namespaced && namespace.is_none() {
                    return Err(ApiError::method(resource, "deletecollection"));
                }
                view.list(&delete_all(store, call, resource, namespace, now)?)
            }
            (method, ..) => {
                return Err(ApiError::method(resource, &method.as_str().to_ascii_lowercase()));
            }
        };
        Ok(Outcome::Response(response))
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
    let options = Options::from_call(call)?;
    let mut items = Vec::new();
    for object in &list.items {
        match delete::delete(store, resource.stored(), object, &options, now)? {
            DeleteOutcome::Gone(object) | DeleteOutcome::Pending(object) => items.push(object),
        }
    }
    list.items = items;
    list.revision = store.revision();
    Ok(list)
}

/// The token grants full access, so only resources that the server does not serve are denied.
fn review(definitions: &Definitions, call: &Call<'_>) -> Result<Response<Bytes>> {
    if *call.method != Method::POST {
        return Err(ApiError::method_of_path());
    }
    let mut review = call.json()?;
    let attributes = &review["spec"]["resourceAttributes"];
    let allowed = attributes.is_null() || {
        let resource = meta::text(attributes, "/resource");
        let group = meta::text(attributes, "/group");
        let is_custom = || {
            let mut served = definitions.served().map(|definition| definition.resource);
            served.any(|served| served.group == group && served.plural == resource)
        };
        resource == "*" || Resource::find(group, resource).is_some() || is_custom()
    };
    review["kind"] = json!("SelfSubjectAccessReview");
    review["apiVersion"] = json!("authorization.k8s.io/v1");
    review["status"] = if allowed {
        json!({"allowed": true})
    } else {
        json!({"allowed": false, "reason": "this server does not have the resource"})
    };
    Ok(response::json(StatusCode::CREATED, &review))
}
