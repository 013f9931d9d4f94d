//! An in-memory API server for virtual time, without sockets or threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kiln_kubernetes::{Cluster, ClusterOptions, Jitter, WallClock};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

/// A fault that replaces the normal handling of a request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// The connection breaks before the server sees the request.
    Reset,
    /// The server handles the request, and the response is lost.
    LoseResponse,
    /// The server answers with this status and body.
    Respond(u16, Value),
    /// No response ever arrives.
    Hang,
}

#[derive(Debug, Clone)]
pub(crate) struct SentRequest {
    pub(crate) at: Duration,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Value,
}

impl SentRequest {
    pub(crate) fn after(&self, other: &Self) -> Duration {
        self.at.saturating_sub(other.at)
    }
}

/// A change of the objects after a request, as by another client.
type Change = Box<dyn FnMut(&mut BTreeMap<String, Value>, &SentRequest) + Send>;

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    /// When a terminating pod is gone.
    ends: BTreeMap<String, Instant>,
    revision: u64,
    faults: Vec<(String, VecDeque<Fault>)>,
    request: Vec<SentRequest>,
    in_flight: usize,
    most_in_flight: usize,
    after: Option<Change>,
}

#[derive(Clone)]
pub(crate) struct Fake(Arc<Mutex<State>>, Instant);

fn key(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}

pub(crate) fn budget_exhausted() -> Fault {
    let causes = json!([{"reason": "DisruptionBudget", "message": "The disruption budget web needs 3 healthy pods and has 3 currently"}]);
    let mut answer =
        status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
    answer["details"] = json!({"causes": causes});
    Fault::Respond(429, answer)
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self(Arc::default(), Instant::now())
    }

    pub(crate) fn cluster(&self) -> Cluster {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| fake.clone().serve(request));
        let clock = WallClock::new(|| "2026-01-02T03:04:05Z".parse().unwrap());
        Cluster::new(Client::new(service, "default"), ClusterOptions { jitter: Jitter::none(), clock })
    }

    /// Stores an object, as another client would.
    pub(crate) fn put(&self, kind: &str, mut object: Value) {
        let mut state = self.0.lock().unwrap();
        state.revision += 1;
        let revision = state.revision;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = key(kind, &text(&object["metadata"]["namespace"]), &text(&object["metadata"]["name"]));
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{revision}"));
        }
        state.objects.insert(key, object);
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(key).cloned()
    }

    pub(crate) fn remove(&self, key: &str) {
        self.0.lock().unwrap().objects.remove(key);
    }

    /// Plans faults for the next requests whose `METHOD path` contains `request`.
    pub(crate) fn fault(&self, request: &str, faults: impl IntoIterator<Item = Fault>) {
        self.0.lock().unwrap().faults.push((request.to_owned(), faults.into_iter().collect()));
    }

    pub(crate) fn after(&self, change: impl FnMut(&mut BTreeMap<String, Value>, &SentRequest) + Send + 'static) {
        self.0.lock().unwrap().after = Some(Box::new(change));
    }

    pub(crate) fn requests(&self, request: &str) -> Vec<SentRequest> {
        let state = self.0.lock().unwrap();
        state.request.iter().filter(|a| format!("{} {}", a.method, a.path).contains(request)).cloned().collect()
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.0.lock().unwrap().most_in_flight
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path_and_query().unwrap().to_string();
        let request = SentRequest { at: self.1.elapsed(), method: parts.method.to_string(), path, body };
        let line = format!("{} {}", request.method, request.path);
        let fault = {
            let mut state = self.0.lock().unwrap();
            state.request.push(request.clone());
            state.in_flight += 1;
            state.most_in_flight = state.most_in_flight.max(state.in_flight);
            let waiting = state.faults.iter_mut().find(|(part, left)| line.contains(part.as_str()) && !left.is_empty());
            waiting.and_then(|(_, left)| left.pop_front())
        };
        // Requests take time, so that others run concurrently.
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.0.lock().unwrap().in_flight -= 1;
        let broken = || std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer");
        let (code, answer) = match fault {
            Some(Fault::Reset) => return Err(broken()),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Respond(code, answer)) => (code, answer),
            Some(Fault::LoseResponse) => {
                self.act(&parts.method, &request);
                return Err(broken());
            }
            None => self.act(&parts.method, &request),
        };
        let text = match answer {
            Value::String(text) => text,
            answer => answer.to_string(),
        };
        Ok(Response::builder().status(code).body(Full::from(text)).unwrap())
    }

    fn act(&self, method: &Method, request: &SentRequest) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let answer = state.act(method, request);
        if let Some(mut after) = state.after.take() {
            after(&mut state.objects, request);
            state.after = Some(after);
        }
        answer
    }
}

impl State {
    fn act(&mut self, method: &Method, request: &SentRequest) -> (u16, Value) {
        self.let_pods_end();
        let path = request.path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let rest = if parts[0] == "api" { &parts[2..] } else { &parts[3..] };
        let (namespace, rest) = if rest[0] == "namespaces" { (rest[1], &rest[2..]) } else { ("", rest) };
        let name = rest.get(1).copied().unwrap_or_default();
        let key = key(rest[0], namespace, name);
        match (method.as_str(), rest.get(2).copied()) {
            ("POST", Some("eviction")) => self.evict(&key, &request.body["deleteOptions"]),
            ("DELETE", None) if rest[0] == "pods" => self.evict(&key, &request.body),
            ("DELETE", None) => self.delete(&key, &request.body),
            ("GET", Some("log")) => match self.objects.get(&format!("log of {key}")) {
                Some(text) if self.objects.contains_key(&key) => (200, text.clone()),
                _ => (404, status(404, "NotFound", "no such container")),
            },
            ("GET", None) if request.path.contains("watch=true") => {
                let wanted = request
                    .path
                    .split("metadata.name%3D")
                    .nth(1)
                    .unwrap_or_default()
                    .split('&')
                    .next()
                    .unwrap_or_default();
                let node = self.objects.get(&format!("nodes/{wanted}"));
                let event = node.map(|node| json!({"type": "MODIFIED", "object": node}).to_string() + "\n");
                (200, Value::String(event.unwrap_or_default()))
            }
            ("GET", None) if name.is_empty() => {
                let node =
                    request.path.split("spec.nodeName%3D").nth(1).map(|r| r.split('&').next().unwrap_or_default());
                let of_kind = self.objects.iter().filter(|(key, _)| key.starts_with(&format!("{}/", rest[0])));
                let items: Vec<&Value> = of_kind
                    .map(|(_, object)| object)
                    .filter(|object| node.is_none_or(|node| object["spec"]["nodeName"] == node))
                    .collect();
                (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
            }
            ("GET", None) => {
                self.objects.get(&key).map_or((404, status(404, "NotFound", "not found")), |o| (200, o.clone()))
            }
            ("POST", None) => {
                let name = request.body["metadata"]["name"].as_str().unwrap_or_default();
                let mut object = request.body.clone();
                object["metadata"]["namespace"] = json!(namespace);
                self.write(&format!("{key}{name}"), object, true)
            }
            ("PUT", None) => self.write(&key, request.body.clone(), false),
            ("PATCH", None) => {
                let Some(mut object) = self.objects.get(&key).cloned() else {
                    return (404, status(404, "NotFound", "not found"));
                };
                kiln_types::json::merge_patch(&mut object, &request.body);
                self.write(&key, object, false)
            }
            other => panic!("the fake does not serve {other:?} {}", request.path),
        }
    }

    fn write(&mut self, key: &str, mut object: Value, new: bool) -> (u16, Value) {
        let current = self.objects.get(key).map(|object| object["metadata"]["resourceVersion"].clone());
        match (&current, new) {
            (Some(_), true) => return (409, status(409, "AlreadyExists", "already exists")),
            (None, false) => return (404, status(404, "NotFound", "not found")),
            (Some(revision), false) if object["metadata"]["resourceVersion"] != *revision => {
                return (409, status(409, "Conflict", "the object has been modified"));
            }
            _ => {}
        }
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        if new && object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.revision));
        }
        self.objects.insert(key.to_owned(), object.clone());
        (if new { 201 } else { 200 }, object)
    }

    /// Deletes an object without a grace period.
    fn delete(&mut self, key: &str, options: &Value) -> (u16, Value) {
        let Some(object) = self.objects.get(key) else { return (404, status(404, "NotFound", "not found")) };
        let uid = &options["preconditions"]["uid"];
        if !uid.is_null() && *uid != object["metadata"]["uid"] {
            return (409, status(409, "Conflict", "the UID in the precondition does not match"));
        }
        self.objects.remove(key);
        (200, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200}))
    }

    fn evict(&mut self, key: &str, options: &Value) -> (u16, Value) {
        let Some(pod) = self.objects.get_mut(key) else { return (404, status(404, "NotFound", "not found")) };
        let uid = &options["preconditions"]["uid"];
        assert!(uid.is_string(), "an eviction without a uid: {options}");
        if *uid != pod["metadata"]["uid"] {
            return (409, status(409, "Conflict", "the UID in the precondition does not match"));
        }
        let grace = options["gracePeriodSeconds"].as_u64().or(pod["spec"]["terminationGracePeriodSeconds"].as_u64());
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        self.ends.insert(key.to_owned(), Instant::now() + Duration::from_secs(grace.unwrap_or(30)));
        (201, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}))
    }

    fn let_pods_end(&mut self) {
        let now = Instant::now();
        let ended: Vec<String> = self.ends.iter().filter(|(_, end)| **end <= now).map(|(key, _)| key.clone()).collect();
        for key in ended {
            let has_finalizers = self
                .objects
                .get(&key)
                .is_some_and(|pod| pod["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty()));
            if !has_finalizers {
                self.objects.remove(&key);
                self.ends.remove(&key);
            }
        }
    }
}
