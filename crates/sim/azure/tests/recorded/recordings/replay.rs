//! Sends the recorded requests to the embedded Azure in the recorded order and compares the answers.
//!
//! The clock stands still while the recorded operation is in progress and jumps to its end before an answer of a finished one. So each
//! state that a recording shows must be shown here too. It does not move otherwise, because finished operations are forgotten after a
//! while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use kiln_sim_azure::{Options, Profile, Region, Sim, Speed, WorldSpec};
use serde_json::{Value, json};

use super::data::{self, Interaction, operation, query, shape};
use super::differences::{Difference, judge, rows};
use super::seeds;
use crate::common::{Client, Got, start};

/// Simulated seconds per real second: the longest operation ends within one step of the paused clock.
const FACTOR: f64 = 1e3;
const STEP: Duration = Duration::from_secs(1);
/// The lengths of all recorded status URLs.
const URL_LENGTH: std::ops::RangeInclusive<usize> = 3_045..=3_288;
/// Regions of the recordings.
const REGIONS: [&str; 9] = [
    "westus",
    "eastus2",
    "centraluseuap",
    "eastus2euap",
    "northeurope",
    "eastus",
    "westcentralus",
    "westus2",
    "southcentralus",
];

/// One recording being replayed.
struct Replay<'a> {
    file: &'a str,
    client: Client,
    /// Recorded operation to the status URL of its counterpart.
    operations: BTreeMap<String, Urls>,
    /// Recorded instance to its counterpart, per scale set.
    instances: BTreeMap<String, Vec<(String, String)>>,
    /// Recorded names that Azure generated, and their counterparts.
    names: Vec<(String, String)>,
    found: Vec<Difference>,
    compared: usize,
    /// Whether an operation may have started since the clock last moved.
    is_busy: bool,
}

struct Urls {
    status: String,
    location: Option<String>,
}

impl<'a> Replay<'a> {
    fn new(file: &'a str) -> Self {
        let spec = WorldSpec {
            subscription_id: "00000000-0000-0000-0000-000000000000".to_owned(),
            resource_group: "seeds".to_owned(),
            regions: REGIONS.map(|name| Region { name: name.to_owned(), zones: true }).to_vec(),
            pools: Vec::new(),
            throttling: Some(false),
            token_lifetime: u32::MAX,
            // Shorter than a step, like everything else.
            profile: Profile { image_version: 600.0, ..Profile::default() },
            ..WorldSpec::default()
        };
        let options = Options { speed: Speed::Factor(FACTOR), ..Options::instant(start()) };
        let client = Client::for_sim(Sim::new(spec, options).expect("a simulation"));
        let (operations, instances) = (BTreeMap::new(), BTreeMap::new());
        Self { file, client, operations, instances, names: Vec::new(), found: Vec::new(), compared: 0, is_busy: false }
    }

    async fn run(mut self, recorded: &[Interaction]) -> (Vec<Difference>, usize) {
        for (index, one) in recorded.iter().enumerate() {
            let in_progress = one.answer()["status"] == "InProgress"
                || one.method == "GET" && matches!(state_of(one.answer()), Some("Creating" | "Updating" | "Deleting"));
            if !in_progress {
                self.finish_operations().await;
            }
            self.is_busy |= seeds::plant(&self.client, recorded, index, &|text| self.rename(text));
            if !in_progress {
                self.finish_operations().await;
            }
            if let Some(got) = self.send(one) {
                self.learn_names(one, &got);
                self.compare(one, &got, index);
            }
        }
        self.client.take_findings();
        (self.found, self.compared)
    }

    async fn finish_operations(&mut self) {
        if std::mem::take(&mut self.is_busy) {
            tokio::time::advance(STEP).await;
        }
    }

    /// Sends the counterpart of a recorded request. Returns `None` for the status of an operation that no recorded request started.
    fn send(&mut self, one: &Interaction) -> Option<Got> {
        let method: Method = one.method.parse().expect("a method");
        if let Some(id) = one.operation() {
            let urls = self.operations.get(id)?;
            let url = if one.query("monitor").is_some() { urls.location.clone()? } else { urls.status.clone() };
            return Some(self.client.send(&method, &url, None));
        }
        let url = self.map_instances(&self.rename(one.uri.split_once("azure.com").expect("a URL of Azure").1));
        let body = one.request.as_ref().map(|body| self.rename(&body.to_string()));
        let mut body: Option<Value> = body.map(|body| serde_json::from_str(&body).expect("json"));
        if let (Some(Value::Array(ids)), Some(set)) =
            (body.as_mut().and_then(|body| body.get_mut("instanceIds")), scale_set(one.path()))
        {
            for id in ids.iter_mut().filter(|id| **id != "*") {
                *id = json!(self.instance(&set, id.as_str().expect("an id")));
            }
        }
        let got = self.client.send(&method, &url, body.as_ref());
        self.is_busy |= got.headers.contains_key("azure-asyncoperation");
        let header = |name: &str| got.headers.get(name).map(|value| value.to_str().expect("text").to_owned());
        if let (Some(id), Some(status)) =
            (one.headers.get("azure-asyncoperation").and_then(|url| operation(url)), header("azure-asyncoperation"))
        {
            self.operations.insert(id.to_owned(), Urls { status, location: header("location") });
        }
        Some(got)
    }

    /// Remembers the names that Azure generates for a gallery.
    fn learn_names(&mut self, one: &Interaction, got: &Got) {
        for path in
            ["/properties/identifier/uniqueName", "/properties/sharingProfile/communityGalleryInfo/publicNames/0"]
        {
            let name = |body: &Value| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
            if let (Some(recorded), Some(own)) = (name(one.answer()), name(&got.body)) {
                self.names.push((recorded, own));
            }
        }
    }

    fn rename(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (recorded, own)| text.replace(recorded, own))
    }

    /// The URL with the instance that stands for the recorded one.
    fn map_instances(&mut self, url: &str) -> String {
        let (Some(set), Some((before, rest))) = (scale_set(url), url.split_once("/virtualMachines/")) else {
            return url.to_owned();
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        if &rest[..end] == "%2A" {
            return url.to_owned();
        }
        format!("{before}/virtualMachines/{}{}", self.instance(&set, &rest[..end]), &rest[end..])
    }

    /// The counterpart of a recorded instance: Azure's numbers have gaps, because it creates more instances than it keeps.
    fn instance(&mut self, set: &str, recorded: &str) -> String {
        let known = self.instances.entry(set.to_owned()).or_default();
        if let Some((_, own)) = known.iter().find(|(one, _)| one == recorded) {
            return own.clone();
        }
        let list = self.client.get(&format!("{set}/virtualMachines"), "2024-11-01");
        let items = list.body["value"].as_array().cloned().unwrap_or_default();
        let ids = items.iter().filter_map(|item| item["instanceId"].as_str());
        let free = ids.into_iter().find(|id| known.iter().all(|(_, own)| own != id)).unwrap_or(recorded).to_owned();
        known.push((recorded.to_owned(), free.clone()));
        free
    }

    /// The recorded answer without the resources of others, which a list of a whole subscription shows. Unlike elsewhere, names of groups in
    /// such a list are in upper case and end in random text instead of `000001`.
    fn without_others(&self, one: &Interaction) -> Value {
        let mut answer = one.answer().clone();
        let in_group = one.path().to_ascii_lowercase().contains("/resourcegroups/");
        if let (false, Some(Value::Array(items))) = (in_group, answer.get_mut("value")) {
            let stored: Vec<String> = self.client.sim.stored().keys().map(|id| id.to_ascii_lowercase()).collect();
            let is_known = |id: &str| {
                let id = id.to_ascii_lowercase();
                stored
                    .iter()
                    .filter_map(|known| known.split_once("000001"))
                    .any(|(group, rest)| id.strip_prefix(group).is_some_and(|id| id.ends_with(rest)))
            };
            items.retain(|item| item["id"].as_str().is_none_or(is_known));
        }
        answer
    }

    fn compare(&mut self, one: &Interaction, got: &Got, index: usize) {
        self.compared += 1;
        let expected = self.without_others(one);
        let mut differ = |difference: String| {
            self.found.push(Difference { request: one.kind(), difference, seen_in: format!("{} {index}", self.file) });
        };
        if one.status != got.status {
            differ(format!("status {} instead of {}", status(got.status, &got.body), status(one.status, one.answer())));
            return;
        }
        let code = |body: &Value| body["error"]["code"].as_str().map(str::to_owned);
        if code(one.answer()) != code(&got.body) {
            differ(format!("error {:?} instead of {:?}", code(&got.body), code(one.answer())));
        }
        let (recorded, own) = (state_of(one.answer()), state_of(&got.body));
        if recorded != own {
            differ(format!("state {own:?} instead of {recorded:?}"));
        }
        let (recorded, own) = (headers_of(&one.headers), headers_of(&got_headers(got)));
        for name in recorded.symmetric_difference(&own) {
            differ(format!("{} header {name}", if recorded.contains(name) { "missing" } else { "additional" }));
        }
        let (recorded, own) = (shape(&expected), shape(&got.body));
        for (path, kinds) in &recorded {
            match own.get(path) {
                None => differ(format!("missing {path}")),
                Some(own) if own.is_disjoint(kinds) => differ(format!("{path} is {own:?} instead of {kinds:?}")),
                Some(_) => {}
            }
        }
        for path in own.keys().filter(|path| !recorded.contains_key(*path)) {
            differ(format!("additional {path}"));
        }
    }
}

fn status(status: u16, body: &Value) -> String {
    match body["error"]["code"].as_str() {
        Some(code) => format!("{status} {code}"),
        None => status.to_string(),
    }
}

/// The state of a resource or of an operation.
fn state_of(body: &Value) -> Option<&str> {
    body["properties"]["provisioningState"].as_str().or_else(|| body["status"].as_str())
}

/// The scale set of a path, without the rest.
pub(super) fn scale_set(path: &str) -> Option<String> {
    let path = path.split('?').next()?;
    let parts: Vec<&str> = path.split('/').collect();
    let at = parts.iter().position(|part| part.eq_ignore_ascii_case("virtualMachineScaleSets"))?;
    Some(parts.get(..at + 2)?.join("/"))
}

fn got_headers(got: &Got) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &got.headers {
        let all = headers.entry(name.to_string()).or_default();
        if !all.is_empty() {
            all.push(',');
        }
        all.push_str(value.to_str().expect("text"));
    }
    headers
}

/// What the recorded headers have in common with those of another answer of the same kind: form instead of value.
fn headers_of(headers: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for (name, value) in headers {
        match name.as_str() {
            "azure-asyncoperation" | "location" => {
                let parameters: Vec<&str> = value
                    .split_once('?')
                    .map(|(_, query)| query.split('&').map(|pair| pair.split('=').next().unwrap_or(pair)).collect())
                    .unwrap_or_default();
                let place = value.split('?').next().unwrap_or_default();
                let place: Vec<&str> = place.split('/').rev().skip(1).take(1).collect();
                let lengths = ["t", "s", "h"].map(|name| query(value, name).map(str::len));
                assert!(URL_LENGTH.contains(&value.len()), "a status URL has {} characters: {value}", value.len());
                forms.insert(format!("{name}: {}?{} {lengths:?}", place.join("/"), parameters.join("&")));
            }
            "etag" => {
                let counter = value.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                let small =
                    counter.is_some_and(|text| text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit()));
                forms.insert(format!("etag: {}", if small { "\"N\"" } else { value }));
            }
            "x-ms-ratelimit-remaining-resource" => {
                let families = value.split(',').map(|pair| pair.split(';').next().unwrap_or(pair));
                forms.extend(families.map(|family| format!("{name}: {family}")));
            }
            "azure-asyncnotification" => {
                forms.insert(format!("{name}: {value}"));
            }
            _ => {}
        }
    }
    forms
}

#[tokio::test(start_paused = true)]
async fn recorded_requests_get_the_recorded_answers() {
    let (mut found, mut compared) = (Vec::new(), 0);
    for (file, recorded) in &data::all() {
        let has_wait = |one: &Interaction| one.headers.contains_key("retry-after");
        assert!(!recorded.iter().any(has_wait), "{file} has `Retry-After`, which is not compared");
        let (differences, count) = Replay::new(file).run(recorded).await;
        found.extend(differences);
        compared += count;
    }
    let errors = judge(&found, &rows());
    assert!(errors.is_empty(), "{} differences:\n{}", errors.len(), errors.join("\n"));
    assert!(compared > 800, "only {compared} answers were compared");
}
