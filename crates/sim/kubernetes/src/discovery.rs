//! Discovery, version, health, and the minimal OpenAPI documents that clients need.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::call::Call;
use crate::custom::Definitions;
use crate::error::{ApiError, Result};
use crate::openapi;
use crate::resource::{GROUPS, RESOURCES, Resource, Subresource, VERSION, group_version};
use crate::response;

/// The served API version, which is that of the k8s-openapi types.
const API: (&str, &str) = ("1", "33");

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The groups besides the core group, each with its versions, the preferred one first.
fn groups(definitions: &Definitions) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<_> = GROUPS.iter().map(|group| (*group, vec![VERSION])).collect();
    groups.extend(definitions.groups());
    groups
}

/// Handles paths outside resources.
pub(crate) fn handle(definitions: &Definitions, call: &Call<'_>, path: &str) -> Result<Response<Bytes>> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let groups = groups(definitions);
    let find = |group: &str| groups.iter().find(|(name, _)| *name == group);
    let serves = |group: &str, version: &str| find(group).is_some_and(|(_, versions)| versions.contains(&version));
    let body = match segments.as_slice() {
        ["version"] => version(),
        ["healthz" | "livez" | "readyz", ..] => return Ok(text("ok")),
        ["api"] if aggregated(call) => return Ok(aggregate(definitions, &[("", vec![VERSION])])),
        ["apis"] if aggregated(call) => return Ok(aggregate(definitions, &groups)),
        ["api"] => {
            json!({"kind": "APIVersions", "versions": [VERSION], "serverAddressByClientCIDRs": []})
        }
        ["apis"] => {
            let groups: Vec<Value> = groups.iter().map(|(group, versions)| describe(group, versions)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["api", VERSION] => resources(definitions, "", VERSION),
        ["apis", group] if let Some((group, versions)) = find(group) => {
            let mut group = describe(group, versions);
            group["kind"] = json!("APIGroup");
            group["apiVersion"] = json!("v1");
            group
        }
        ["apis", group, version] if serves(group, version) => resources(definitions, group, version),
        ["openapi", "v3"] => openapi::index(&groups),
        ["openapi", "v3", "api", VERSION] => openapi::document(definitions, "", VERSION),
        ["openapi", "v3", "apis", group, version] if serves(group, version) => {
            openapi::document(definitions, group, version)
        }
        // Clients request it as protobuf, and try version 3 first.
        ["openapi", "v2"] => return Err(ApiError::not_acceptable()),
        [] => {
            json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]})
        }
        _ => return Err(ApiError::no_such_path()),
    };
    if !matches!(*call.method, Method::GET | Method::HEAD) {
        return Err(ApiError::method_of_path());
    }
    Ok(response::json(StatusCode::OK, &body))
}

fn text(text: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(text.as_bytes()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn version() -> Value {
    let (major, minor) = API;
    json!({
        "major": major, "minor": minor, "gitVersion": format!("v{major}.{minor}.0+kiln"), "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

fn describe(group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": group_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "preferredVersion": versions[0], "versions": versions})
}

/// The resources of a version of a group.
pub(crate) fn resources_of(
    definitions: &Definitions,
    group: &str,
    version: &str,
) -> impl Iterator<Item = &'static Resource> {
    let custom = definitions.served().map(|definition| definition.resource);
    RESOURCES.iter().chain(custom).filter(move |resource| resource.group == group && resource.version == version)
}

/// Group, kind and verbs of a subresource.
fn subresource(resource: &Resource, sub: Subresource) -> (&'static str, &'static str, &'static [&'static str]) {
    match sub {
        Subresource::Status => (resource.group, resource.kind, &["get", "patch", "update"]),
        Subresource::Binding => ("", "Binding", &["create"]),
        Subresource::Eviction => ("policy", "Eviction", &["create"]),
    }
}

fn resources(definitions: &Definitions, group: &str, version: &str) -> Value {
    let mut list = Vec::new();
    for resource in resources_of(definitions, group, version) {
        let mut one = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": VERBS, "storageVersionHash": "",
        });
        if !resource.short.is_empty() {
            one["shortNames"] = json!(resource.short);
        }
        if !resource.categories.is_empty() {
            one["categories"] = json!(resource.categories);
        }
        list.push(one);
        for sub in resource.subresources {
            let (group, kind, verbs) = subresource(resource, *sub);
            let mut one = json!({
                "name": format!("{}/{}", resource.plural, sub.name()), "singularName": "",
                "namespaced": resource.namespaced, "kind": kind, "verbs": verbs,
            });
            if group != resource.group {
                one["group"] = json!(group);
                one["version"] = json!(VERSION);
            }
            list.push(one);
        }
    }
    if group == "authorization.k8s.io" {
        list.push(json!({
            "name": "selfsubjectaccessreviews", "singularName": "selfsubjectaccessreview", "namespaced": false,
            "kind": "SelfSubjectAccessReview", "verbs": ["create"],
        }));
    }
    let group_version = group_version(group, version);
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list})
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether the client accepts aggregated discovery.
fn aggregated(call: &Call<'_>) -> bool {
    call.accept.split(',').any(|one| one.trim() == AGGREGATED)
}

fn aggregate(definitions: &Definitions, groups: &[(&str, Vec<&str>)]) -> Response<Bytes> {
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> =
                versions.iter().map(|version| aggregated_version(definitions, group, version)).collect();
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let mut response = response::json(StatusCode::OK, &body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    response
}

fn aggregated_version(definitions: &Definitions, group: &str, version: &str) -> Value {
    let mut list: Vec<Value> = resources_of(definitions, group, version).map(aggregated_resource).collect();
    if group == "authorization.k8s.io" {
        let kind = json!({"group": group, "version": VERSION, "kind": "SelfSubjectAccessReview"});
        list.push(json!({
            "resource": "selfsubjectaccessreviews", "singularResource": "selfsubjectaccessreview",
            "scope": "Cluster", "responseKind": kind, "verbs": ["create"],
        }));
    }
    json!({"version": version, "freshness": "Current", "resources": list})
}

fn aggregated_resource(resource: &'static Resource) -> Value {
    let kind = |group: &str, kind: &str| {
        let version = if group == resource.group { resource.version } else { VERSION };
        json!({"group": group, "version": version, "kind": kind})
    };
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|sub| {
            let (group, name, verbs) = subresource(resource, *sub);
            json!({"subresource": sub.name(), "responseKind": kind(group, name), "verbs": verbs})
        })
        .collect();
    let mut one = json!({
        "resource": resource.plural, "singularResource": resource.singular, "verbs": VERBS,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": kind(resource.group, resource.kind),
    });
    for (field, value) in [
        ("shortNames", json!(resource.short)),
        ("categories", json!(resource.categories)),
        ("subresources", json!(subresources)),
    ] {
        if value.as_array().is_some_and(|list| !list.is_empty()) {
            one[field] = value;
        }
    }
    one
}
