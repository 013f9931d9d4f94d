//! The parts of OpenAPI that clients check before they write: the paths, and that the server supports `dryRun` and `fieldValidation`. It
//! describes no types.

use serde_json::{Map, Value, json};

use crate::resource::{GROUPS, RESOURCES, Resource, VERSION, group_version};

/// The index of the documents.
pub(crate) fn index() -> Value {
    let paths: Map<String, Value> = std::iter::once("")
        .chain(GROUPS)
        .map(|group| {
            let path = match group {
                "" => format!("api/{VERSION}"),
                group => format!("apis/{group}/{VERSION}"),
            };
            let address = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
            (path, address)
        })
        .collect();
    json!({"paths": paths})
}

pub(crate) fn document(group: &str) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in RESOURCES.iter().filter(|resource| resource.group == group) {
        let base = base(resource);
        let kind = json!({"group": group, "version": VERSION, "kind": resource.kind});
        let reference = json!({"$ref": format!("#/components/schemas/{}", schema_name(resource))});
        let content = json!({"application/json": {"schema": reference}});
        let operation = |action: &str, parameters: &[&str]| {
            json!({
                "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind,
                "parameters": parameters.iter().map(|name| parameter(name, "query")).collect::<Vec<_>>(),
                "responses": {"200": {"description": "OK", "content": content}},
            })
        };
        let write = ["dryRun", "fieldManager", "fieldValidation"];
        paths.insert(
            base.clone(),
            json!({
                "get": operation("list", &["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"]),
                "post": operation("post", &write),
                "delete": operation("deletecollection", &["dryRun", "fieldSelector", "labelSelector"]),
            }),
        );
        paths.insert(
            format!("{base}/{{name}}"),
            json!({
                "get": operation("get", &[]), "put": operation("put", &write), "patch": operation("patch", &write),
                "delete": operation("delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"]),
                "parameters": [parameter("name", "path")],
            }),
        );
        schemas.insert(
            schema_name(resource),
            json!({
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "x-kubernetes-group-version-kind": [kind],
            }),
        );
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.33.0"}, "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn base(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    let space = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
    format!("/{root}/{}/{space}{}", group_version(resource.group), resource.plural)
}

fn schema_name(resource: &Resource) -> String {
    let group = if resource.group.is_empty() { "core" } else { resource.group };
    format!("{group}.{VERSION}.{}", resource.kind)
}

fn parameter(name: &str, location: &str) -> Value {
    json!({"name": name, "in": location, "required": location == "path", "schema": {"type": "string", "uniqueItems": true}})
}
