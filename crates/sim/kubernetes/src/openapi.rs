//! The parts of OpenAPI that clients check before they write: the paths, and that the server supports `dryRun` and `fieldValidation`. It
//! describes no types, except those of custom resources.

use serde_json::{Map, Value, json};

use crate::custom::Definitions;
use crate::discovery::resources_of;
use crate::resource::{Resource, VERSION};

/// The index of the documents.
pub(crate) fn index(groups: &[(&str, Vec<&str>)]) -> Value {
    let others = groups
        .iter()
        .flat_map(|(group, versions)| versions.iter().map(move |version| format!("apis/{group}/{version}")));
    let paths: Map<String, Value> = std::iter::once(format!("api/{VERSION}"))
        .chain(others)
        .map(|path| {
            let address = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
            (path, address)
        })
        .collect();
    json!({"paths": paths})
}

pub(crate) fn document(definitions: &Definitions, group: &str, version: &str) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in resources_of(definitions, group, version) {
        let base = base(resource);
        let kind = json!({"group": group, "version": version, "kind": resource.kind});
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
        let mut schema = match definitions.of(resource) {
            Some(definition) => definition.schema.clone(),
            None => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        };
        schema["x-kubernetes-group-version-kind"] = json!([kind]);
        schemas.insert(schema_name(resource), schema);
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.33.0"}, "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn base(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    let space = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
    format!("/{root}/{}/{space}{}", resource.api_version(), resource.plural)
}

fn schema_name(resource: &Resource) -> String {
    let group = if resource.group.is_empty() { "core" } else { resource.group };
    format!("{group}.{}.{}", resource.version, resource.kind)
}

fn parameter(name: &str, location: &str) -> Value {
    json!({"name": name, "in": location, "required": location == "path", "schema": {"type": "string", "uniqueItems": true}})
}
