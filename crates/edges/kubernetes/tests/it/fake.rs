//! An API server in memory, for virtual time: no socket, one thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kiln_kubernetes::{Cluster, ClusterOptions, Spread, WallClock};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

/// What happens to a request in place of being served.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// The connection breaks before the server sees it.
    Reset,
    /// The server serves it, and the answer is lost.
    LoseAnswer,
    /// The server answers so.
    Answer(u16, Value),
    /// Nothing ever comes.
    Silence,
}

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) at: Duration,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Value,
}

impl Asked {
    /// How long after another.
    pub(crate) fn after(&self, other: &Self) -> Duration {
        self.at.saturating_sub(other.at)
    }
}

/// Changes the world after a request, as somebody else would.
type Change = Box<dyn FnMut(&mut BTreeMap<String, Value>, &Asked) + Send>;

#[derive(Default)]
struct World {
    objects: BTreeMap<String, Value>,
    /// When an ending pod's containers are gone.
    ends: BTreeMap<String, Instant>,
    revision: u64,
    faults: Vec<(String, VecDeque<Fault>)>,
    asked: Vec<Asked>,
    in_flight: usize,
    most_in_flight: usize,
    after: Option<Change>,
}

#[derive(Clone)]
pub(crate) struct Fake(Arc<Mutex<World>>, Instant);

fn key(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}

pub(crate) fn budget_says_no() -> Fault {
    let causes = json!([{"reason": "DisruptionBudget", "message": "The disruption budget web needs 3 healthy pods and has 3 currently"}]);
    let mut answer =
        status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
    answer["details"] = json!({"causes": causes});
    Fault::Answer(429, answer)
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self(Arc::default(), Instant::now())
    }

    pub(crate) fn cluster(&self) -> Cluster {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| fake.clone().serve(request));
        let clock = WallClock::new(|| "2026-01-02T03:04:05Z".parse().unwrap());
        Cluster::new(Client::new(service, "default"), ClusterOptions { spread: Spread::none(), clock })
    }

    /// Puts an object there, as somebody else would.
    pub(crate) fn put(&self, kind: &str, mut object: Value) {
        let mut world = self.0.lock().unwrap();
        world.revision += 1;
        let revision = world.revision;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = key(kind, &text(&object["metadata"]["namespace"]), &text(&object["metadata"]["name"]));
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{revision}"));
        }
        world.objects.insert(key, object);
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(key).cloned()
    }

    pub(crate) fn remove(&self, key: &str) {
        self.0.lock().unwrap().objects.remove(key);
    }

    /// The next requests whose `METHOD path` holds this meet these faults.
    pub(crate) fn fault(&self, request: &str, faults: impl IntoIterator<Item = Fault>) {
        self.0.lock().unwrap().faults.push((request.to_owned(), faults.into_iter().collect()));
    }

    pub(crate) fn after(&self, change: impl FnMut(&mut BTreeMap<String, Value>, &Asked) + Send + 'static) {
        self.0.lock().unwrap().after = Some(Box::new(change));
    }

    pub(crate) fn asked(&self, request: &str) -> Vec<Asked> {
        let world = self.0.lock().unwrap();
        world.asked.iter().filter(|a| format!("{} {}", a.method, a.path).contains(request)).cloned().collect()
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.0.lock().unwrap().most_in_flight
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path_and_query().unwrap().to_string();
        let asked = Asked { at: self.1.elapsed(), method: parts.method.to_string(), path, body };
        let line = format!("{} {}", asked.method, asked.path);
        let fault = {
            let mut world = self.0.lock().unwrap();
            world.asked.push(asked.clone());
            world.in_flight += 1;
            world.most_in_flight = world.most_in_flight.max(world.in_flight);
            let waiting = world.faults.iter_mut().find(|(part, left)| line.contains(part.as_str()) && !left.is_empty());
            waiting.and_then(|(_, left)| left.pop_front())
        };
        // A server takes its time; others are served meanwhile.
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.0.lock().unwrap().in_flight -= 1;
        let broken = || std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer");
        let (code, answer) = match fault {
            Some(Fault::Reset) => return Err(broken()),
            Some(Fault::Silence) => std::future::pending().await,
            Some(Fault::Answer(code, answer)) => (code, answer),
            Some(Fault::LoseAnswer) => {
                self.act(&parts.method, &asked);
                return Err(broken());
            }
            None => self.act(&parts.method, &asked),
        };
        let text = match answer {
            Value::String(text) => text,
            answer => answer.to_string(),
        };
        Ok(Response::builder().status(code).body(Full::from(text)).unwrap())
    }

    fn act(&self, method: &Method, asked: &Asked) -> (u16, Value) {
        let mut world = self.0.lock().unwrap();
        let answer = world.act(method, asked);
        if let Some(mut after) = world.after.take() {
            after(&mut world.objects, asked);
            world.after = Some(after);
        }
        answer
    }
}

impl World {
    fn act(&mut self, method: &Method, asked: &Asked) -> (u16, Value) {
        self.let_pods_end();
        let path = asked.path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let rest = if parts[0] == "api" { &parts[2..] } else { &parts[3..] };
        let (namespace, rest) = if rest[0] == "namespaces" { (rest[1], &rest[2..]) } else { ("", rest) };
        let name = rest.get(1).copied().unwrap_or_default();
        let key = key(rest[0], namespace, name);
        match (method.as_str(), rest.get(2).copied()) {
            ("POST", Some("eviction")) => self.evict(&key, &asked.body["deleteOptions"]),
            ("DELETE", None) if rest[0] == "pods" => self.evict(&key, &asked.body),
            ("DELETE", None) => self.delete(&key, &asked.body),
            ("GET", Some("log")) => match self.objects.get(&format!("log of {key}")) {
                Some(text) if self.objects.contains_key(&key) => (200, text.clone()),
                _ => (404, status(404, "NotFound", "no such container")),
            },
            ("GET", None) if asked.path.contains("watch=true") => {
                let wanted = asked
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
                let node = asked.path.split("spec.nodeName%3D").nth(1).map(|r| r.split('&').next().unwrap_or_default());
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
                let name = asked.body["metadata"]["name"].as_str().unwrap_or_default();
                let mut object = asked.body.clone();
                object["metadata"]["namespace"] = json!(namespace);
                self.write(&format!("{key}{name}"), object, true)
            }
            ("PUT", None) => self.write(&key, asked.body.clone(), false),
            ("PATCH", None) => {
                let Some(mut object) = self.objects.get(&key).cloned() else {
                    return (404, status(404, "NotFound", "not found"));
                };
                merge(&mut object, &asked.body);
                self.write(&key, object, false)
            }
            other => panic!("the fake does not serve {other:?} {}", asked.path),
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

    /// An object that nobody runs is gone at once.
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
        let over: Vec<String> = self.ends.iter().filter(|(_, end)| **end <= now).map(|(key, _)| key.clone()).collect();
        for key in over {
            let held = self
                .objects
                .get(&key)
                .is_some_and(|pod| pod["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty()));
            if !held {
                self.objects.remove(&key);
                self.ends.remove(&key);
            }
        }
    }
}

fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut into[name], value);
        }
    }
}
