//! Answers that the real Azure gave: each of a kind that kiln reads is read, also without its optional fields.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use kiln_azure::{Azure, Error};
use kiln_types::{
    Canary, CanaryName, DefinitionName, Factory, ImageCatalog, Instance, InstanceId, OperationHandle, PoolName,
    ResourceGroup, Tags, VersionNumber,
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::script::{ARM, Script, azure, on};

/// A kind of answer that kiln reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ScaleSet,
    ScaleSets,
    Instance,
    Instances,
    Disk,
    Snapshot,
    Gallery,
    Definition,
    Version,
    Versions,
    CommunityVersion,
    Operation,
    Error,
}

const ALL: [Kind; 13] = [
    Kind::ScaleSet,
    Kind::ScaleSets,
    Kind::Instance,
    Kind::Instances,
    Kind::Disk,
    Kind::Snapshot,
    Kind::Gallery,
    Kind::Definition,
    Kind::Version,
    Kind::Versions,
    Kind::CommunityVersion,
    Kind::Operation,
    Kind::Error,
];

/// Types and actions that kiln never requests.
const UNUSED: [&str; 15] = [
    "images",
    "snapshots",
    "galleries",
    "galleries/images",
    "sharedgalleries",
    "osupgradehistory",
    "publicipaddresses",
    "instanceview",
    "skus",
    "networkinterfaces",
    "roledefinitions",
    "roleassignments",
    "begingetaccess",
    "endgetaccess",
    "share",
];

#[derive(Deserialize)]
struct Interaction {
    method: String,
    uri: String,
    status: u16,
    #[serde(default)]
    body: Value,
}

#[derive(Debug, Clone)]
struct Answer {
    file: String,
    kind: Kind,
    /// The URL without its query, in lower case.
    path: String,
    status: u16,
    body: Value,
}

fn answers() -> &'static [Answer] {
    static ANSWERS: OnceLock<Vec<Answer>> = OnceLock::new();
    ANSWERS.get_or_init(|| {
        let folder = testkit::recordings::golden().join("azure-recordings");
        let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        let mut answers = Vec::new();
        for path in files {
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            let all: Vec<Interaction> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            for Interaction { method, uri, status, body } in all {
                let path = uri.split('?').next().unwrap().to_ascii_lowercase();
                let kind = if status >= 400 { Some(Kind::Error) } else { kind(&path, &body) };
                match kind {
                    Some(kind) => answers.push(Answer { file: file.clone(), kind, path, status, body }),
                    None => assert!(is_unused(&path, &body), "{file}: {method} {path} has no reader"),
                }
            }
        }
        answers
    })
}

/// The part of a path below the provider: types and names in turn.
fn parts(path: &str) -> Vec<&str> {
    path.split_once("/providers/").map_or(Vec::new(), |(_, below)| below.split('/').skip(1).collect())
}

fn kind(path: &str, body: &Value) -> Option<Kind> {
    if !body.is_object() {
        return None;
    }
    Some(match parts(path).as_slice() {
        ["virtualmachinescalesets"] | ["virtualmachinescalesets", _] if body.get("value").is_some() => Kind::ScaleSets,
        ["virtualmachinescalesets", _] => Kind::ScaleSet,
        ["virtualmachinescalesets", _, "virtualmachines"] => Kind::Instances,
        ["virtualmachinescalesets", _, "virtualmachines", _] => Kind::Instance,
        ["disks", _] => Kind::Disk,
        ["snapshots", _] => Kind::Snapshot,
        ["galleries", _] => Kind::Gallery,
        ["galleries", _, "images", _] => Kind::Definition,
        ["galleries", _, "images", _, "versions"] => Kind::Versions,
        ["galleries", _, "images", _, "versions", _] => Kind::Version,
        ["locations", _, "communitygalleries", _, "images", _, "versions", _] => Kind::CommunityVersion,
        ["locations", _, "operations" | "diskoperations" | "capsoperations", _] => Kind::Operation,
        _ => return None,
    })
}

fn is_unused(path: &str, body: &Value) -> bool {
    let parts = parts(path);
    let types: Vec<&str> = parts.iter().step_by(2).copied().collect();
    // The answer to an action or a deletion has no body.
    body.is_null()
        || body == ""
        || UNUSED.contains(&types.join("/").as_str())
        || parts.iter().any(|part| UNUSED.contains(part))
}

fn pool() -> PoolName {
    "pool".parse().unwrap()
}

fn definition() -> DefinitionName {
    DefinitionName { gallery: "gallery".parse().unwrap(), definition: "definition".into() }
}

fn number() -> VersionNumber {
    "1.0.0".parse().unwrap()
}

/// A client whose requests all get this answer, one for each method.
fn client(methods: &[&'static str], status: u16, body: &Value) -> Azure {
    azure(&Script::new(methods.iter().map(|method| on(method, "").answers(status, body))))
}

fn list(body: &Value) -> Value {
    json!({ "value": [body] })
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The backend pools of a scale set, by id. kiln reads their load balancers before it creates a canary.
fn backend_pools(scale_set: &Value) -> Vec<&str> {
    let network = &scale_set["properties"]["virtualMachineProfile"]["networkProfile"];
    let addresses = items(&network["networkInterfaceConfigurations"])
        .flat_map(|interface| items(&interface["properties"]["ipConfigurations"]));
    let pools = addresses.flat_map(|address| items(&address["properties"]["loadBalancerBackendAddressPools"]));
    pools.filter_map(|pool| pool["id"].as_str()).collect()
}

/// A load balancer with an outbound rule for a backend pool. The recordings have none.
fn outbound_balancer(pool: &str) -> Value {
    json!({"properties": {"outboundRules": [{"properties": {"backendAddressPool": {"id": pool}}}]}})
}

/// Reads an answer in all the ways in which kiln reads answers of this kind.
async fn read(answer: &Answer) -> Result<(), Error> {
    let Answer { kind, path, status, body, .. } = answer;
    let get = || client(&["GET"], 200, body);
    match kind {
        Kind::ScaleSet => {
            get().describe_pool(&pool()).await?;
            get().describe_linked(&pool()).await?;
            client(&["GET"], 200, &list(body)).placements().await?;
            if body["properties"]["orchestrationMode"] != json!("Flexible") {
                let canary = Canary {
                    name: CanaryName::from_run("r1").unwrap(),
                    pool: pool(),
                    definition: definition(),
                    number: number(),
                    size: None,
                    zone: None,
                    custom_data: None,
                    tags: Tags::new(),
                    bootstrap: None,
                };
                let balancers = backend_pools(body).into_iter().map(|pool| {
                    let balancer = pool.split("/backendAddressPools/").next().unwrap();
                    on("GET", balancer).answers(200, &outbound_balancer(pool))
                });
                let first = std::iter::once(on("GET", "").answers(200, body));
                let script = Script::new(first.chain(balancers).chain([on("PUT", "").answers(200, body)]));
                azure(&script).create_canary(&canary).await?;
                script.assert_finished();
            }
        }
        Kind::ScaleSets => drop(get().pools().await?),
        Kind::Instance => drop(get().describe_instance(&pool(), &"0".parse().unwrap()).await?),
        Kind::Instances => drop(get().instances(&pool()).await?),
        Kind::Disk => drop(get().os_disk(&donor()).await?),
        Kind::Snapshot => drop(get().find_snapshot(&"snapshot".parse().unwrap()).await?),
        Kind::Gallery => drop(get().find_gallery(&definition().gallery).await?),
        Kind::Definition => drop(get().find_definition(&definition()).await?),
        Kind::Versions => {
            let items = body["value"].as_array().unwrap();
            let script = std::iter::once(on("GET", "/versions").answers(200, body))
                .chain(items.iter().map(|item| on("GET", "").answers(200, item)));
            azure(&Script::new(script)).versions(&definition()).await?;
        }
        Kind::Version => {
            let script = [on("GET", "/versions").answers(200, &list(body)), on("GET", "").answers(200, body)];
            azure(&Script::new(script)).versions(&definition()).await?;
            let id = "/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/galleries/g/images/i";
            client(&["GET"], 200, &list(body)).definition_versions("westus", id).await?;
            client(&["GET", "PATCH"], 200, body).set_excluded(&definition(), &number(), true).await?;
        }
        Kind::CommunityVersion => drop(client(&["GET"], 200, &list(body)).community_versions("l", "g", "i").await?),
        Kind::Operation => {
            let url = path.replacen("https://management.azure.com", ARM, 1);
            // The result URL has the path of the status URL and returns the result itself.
            let field = if body.get("status").is_some() { "operation_url" } else { "location" };
            let handle = json!({"kind": "write", "resource": "/r", "api": "compute", (field): url}).to_string();
            get().observe(&OperationHandle::new(handle)).await?;
        }
        Kind::Error => {
            // A retryable error is requested again.
            let methods = ["GET"; 12];
            match client(&methods, *status, body).describe_pool(&pool()).await {
                Err(error) if error.detail().is_some_and(|detail| !detail.code.starts_with("Http")) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    Ok(())
}

fn donor() -> Instance {
    let id: InstanceId = "0".parse().unwrap();
    Instance {
        id,
        node_name: "node".into(),
        vm_id: String::new(),
        power: kiln_types::PowerState::Running,
        agent_ready: true,
        provisioning: kiln_types::Provisioning::Succeeded,
        protection: kiln_types::Protection::default(),
        runs: kiln_types::ImageSource::Other(String::new()),
        latest_model: true,
        os_disk: Some("/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/disks/d".into()),
        revision: None,
        zones: Vec::new(),
        tags: Tags::new(),
    }
}

fn explain(error: &Error) -> String {
    kiln_types::error_chain::to_line(error)
}

#[tokio::test(start_paused = true)]
async fn every_recorded_answer_of_a_known_kind_is_read() {
    let mut read_ones: BTreeMap<Kind, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for answer in answers() {
        match read(answer).await {
            Ok(()) => *read_ones.entry(answer.kind).or_default() += 1,
            Err(error) => {
                failures.push(format!("{}: {:?} {}: {}", answer.file, answer.kind, answer.path, explain(&error)));
            }
        }
    }
    assert!(failures.is_empty(), "{} unreadable answers:\n{}", failures.len(), failures.join("\n"));
    let missing: Vec<Kind> = ALL.into_iter().filter(|kind| !read_ones.contains_key(kind)).collect();
    assert_eq!(missing, [], "no recorded answer of these kinds");
}

/// Fields that every answer of Azure has: what names the resource or the item, and what Azure's specification requires of it.
const REQUIRED: [&str; 14] = [
    "id",
    "name",
    "location",
    "value",
    "instanceId",
    "region",
    "status",
    "error",
    "code",
    "identifier",
    "publisher",
    "offer",
    "sku",
    "properties",
];

/// Members whose children kiln does not look into, or requires as they are.
fn is_removable(parent: &str, key: &str, kind: Kind) -> bool {
    let required = match key {
        // Only of the resource itself, or of an item that is known by it. A reference may be empty.
        "id" => parent.is_empty(),
        "publisher" | "offer" | "sku" => parent == "identifier",
        // kiln matches instances to nodes by this name and refuses to guess it.
        "osProfile" | "computerName" => matches!(kind, Kind::Instance | Kind::Instances),
        _ => REQUIRED.contains(&key),
    };
    !required
}

/// The paths of all optional members.
fn optional(value: &Value, kind: Kind, parent: &str, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                if is_removable(parent, key, kind) {
                    found.push(path.clone());
                }
                optional(value, kind, key, &path, found);
            }
        }
        Value::Array(items) => {
            // The items of a list are resources.
            let parent = if parent == "value" { "" } else { parent };
            items
                .iter()
                .enumerate()
                .for_each(|(at, item)| optional(item, kind, parent, &format!("{path}/{at}"), found));
        }
        _ => {}
    }
}

fn remove(value: &mut Value, path: &str) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    if let Some(Value::Object(members)) = value.pointer_mut(parent) {
        members.remove(&key.replace("~1", "/").replace("~0", "~"));
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(future)
}

/// One optional field at a time, of one answer of each shape.
#[tokio::test(start_paused = true)]
async fn answers_are_read_without_any_one_optional_field() {
    let mut tried: std::collections::BTreeSet<(Kind, String)> = std::collections::BTreeSet::new();
    let mut failures = Vec::new();
    for answer in answers() {
        let mut paths = Vec::new();
        optional(&answer.body, answer.kind, "", "", &mut paths);
        for path in paths {
            // The same field of another item is the same case.
            let shape = path
                .split('/')
                .map(|part| if part.parse::<usize>().is_ok() { "*" } else { part })
                .collect::<Vec<_>>()
                .join("/");
            if !tried.insert((answer.kind, shape.clone())) {
                continue;
            }
            let mut smaller = answer.clone();
            remove(&mut smaller.body, &path);
            if let Err(error) = read(&smaller).await {
                failures.push(format!("{:?} without {shape}: {}", answer.kind, explain(&error)));
            }
        }
    }
    assert!(failures.is_empty(), "{} unreadable answers:\n{}", failures.len(), failures.join("\n"));
    assert!(tried.len() > 300, "only {} fields were removed", tried.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any set of optional fields.
    #[test]
    fn answers_are_read_without_optional_fields(
        which in any::<prop::sample::Index>(),
        dropped in prop::collection::vec(any::<prop::sample::Index>(), 1..12),
    ) {
        let mut answer = which.get(answers()).clone();
        for field in dropped {
            let mut paths = Vec::new();
            optional(&answer.body, answer.kind, "", "", &mut paths);
            if paths.is_empty() {
                break;
            }
            let path: &String = field.get(&paths);
            remove(&mut answer.body, path);
        }
        let result = block_on(read(&answer));
        prop_assert!(result.is_ok(), "{} {:?}: {} in {}", answer.file, answer.kind, explain(&result.unwrap_err()), answer.body);
    }
}
