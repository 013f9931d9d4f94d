//! Features that the published specifications use rarely, tested with specifications written for this purpose.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A folder with one specification, in the layout of the published specifications.
fn folder(version: &str, specification: &Value) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(&folder, &format!("zoo/stable/{version}/zoo.json"), specification);
    folder
}

fn write(folder: &TempDir, path: &str, content: &Value) {
    let path = folder.path().join(path);
    fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("the folder can be made");
    fs::write(path, content.to_string()).expect("the file can be written");
}

/// `PUT`, `PATCH` and `GET` of `/animals/{name}` with `animal` as the body on both sides.
fn zoo(animal: &Value) -> Value {
    let body = json!({ "name": "animal", "in": "body", "required": true, "schema": animal });
    let write = json!({ "operationId": "Write", "parameters": [body], "responses": { "200": { "schema": animal } } });
    let read = json!({ "operationId": "Read", "responses": { "200": { "schema": animal } } });
    json!({
        "swagger": "2.0",
        "paths": { "/animals/{name}": { "put": write, "patch": write, "get": read } },
        "definitions": {
            "Animal": {
                "discriminator": "kind",
                "required": ["kind"],
                "properties": { "kind": { "type": "string" } },
            },
            "Bird": {
                "x-ms-discriminator-value": "bird",
                "allOf": [{ "$ref": "#/definitions/Animal" }],
                "required": ["wings"],
                "properties": { "wings": { "type": "integer" } },
            },
            "Owl": {
                "allOf": [{ "$ref": "#/definitions/Bird" }],
                "properties": { "hours": { "type": "string" } },
            },
        },
    })
}

fn load(animal: &Value) -> Specs {
    Specs::load(folder("2024-01-01", &zoo(animal)).path()).expect("the specification is sound")
}

fn sent(specs: &Specs, method: &str, body: Value) -> Vec<(Kind, String)> {
    let exchange = Exchange {
        method: method.to_owned(),
        url: "/animals/a".to_owned(),
        request: Some(body),
        status: 200,
        response: None,
    };
    on_side(specs.check(&exchange), Side::Request)
}

fn returned(specs: &Specs, body: Value) -> Vec<(Kind, String)> {
    let exchange = Exchange {
        method: "GET".to_owned(),
        url: "/animals/a".to_owned(),
        request: None,
        status: 200,
        response: Some(body),
    };
    on_side(specs.check(&exchange), Side::Response)
}

fn on_side(findings: Vec<Finding>, side: Side) -> Vec<(Kind, String)> {
    let matching = findings.into_iter().filter(|finding| finding.side == side);
    matching.map(|finding| (finding.kind, finding.pointer)).collect()
}

fn at(kind: Kind, pointer: &str) -> Vec<(Kind, String)> {
    vec![(kind, pointer.to_owned())]
}

#[test]
fn discriminator_selects_the_properties_of_its_variant() {
    let specs = load(&json!({ "$ref": "#/definitions/Animal" }));
    assert_eq!(returned(&specs, json!({ "kind": "bird", "wings": 2 })), []);
    assert_eq!(returned(&specs, json!({ "kind": "Owl", "wings": 2, "hours": "late" })), []);
    let hours = returned(&specs, json!({ "kind": "bird", "wings": 2, "hours": "late" }));
    assert_eq!(hours, at(Kind::UnknownProperty, "/hours"));
    let unknown = returned(&specs, json!({ "kind": "fish", "wings": 2 }));
    assert_eq!(unknown, at(Kind::UnknownProperty, "/wings"));
}

#[test]
fn discriminator_selects_the_rules_of_its_variant() {
    let specs = load(&json!({ "type": "array", "items": { "$ref": "#/definitions/Animal" } }));
    assert_eq!(returned(&specs, json!([{ "kind": "fish" }])), []);
    let wingless = returned(&specs, json!([{ "kind": "bird" }]));
    assert_eq!(wingless, at(Kind::Schema, "/0"));
}

#[test]
fn required_read_only_property_is_not_required_in_requests() {
    let specs = load(&json!({ "required": ["id"], "properties": { "id": { "type": "string", "readOnly": true } } }));
    assert_eq!(sent(&specs, "PUT", json!({})), []);
    assert_eq!(returned(&specs, json!({})), at(Kind::Schema, ""));
}

#[test]
fn mutability_restricts_who_may_send_a_property_and_when() {
    let specs = load(&json!({ "properties": {
        "born": { "type": "string", "x-ms-mutability": ["create", "read"] },
        "age": { "type": "integer", "x-ms-mutability": ["read"] },
        "password": { "type": "string", "x-ms-mutability": ["create", "update"] },
    } }));
    assert_eq!(sent(&specs, "PUT", json!({ "born": "2020", "password": "x" })), []);
    assert_eq!(sent(&specs, "PATCH", json!({ "born": "2020" })), at(Kind::ReadOnly, "/born"));
    assert_eq!(sent(&specs, "PUT", json!({ "age": 3 })), at(Kind::ReadOnly, "/age"));
    assert_eq!(returned(&specs, json!({ "born": "2020", "age": 3 })), []);
    assert_eq!(returned(&specs, json!({ "password": "x" })), at(Kind::WriteOnly, "/password"));
}

#[test]
fn null_is_valid_only_for_nullable_properties() {
    let specs = load(&json!({ "properties": {
        "cage": { "type": "string", "x-nullable": true },
        "food": { "type": "string" },
    } }));
    assert_eq!(returned(&specs, json!({ "cage": null })), []);
    assert_eq!(returned(&specs, json!({ "food": null })), at(Kind::Schema, "/food"));
}

#[test]
fn object_without_named_properties_is_free_unless_it_forbids_others() {
    let free = load(&json!({ "type": "object" }));
    assert_eq!(returned(&free, json!({ "any": { "thing": 1 } })), []);
    let typed = load(&json!({ "additionalProperties": { "properties": { "size": { "type": "integer" } } } }));
    assert_eq!(returned(&typed, json!({ "any": { "size": 1 } })), []);
    assert_eq!(returned(&typed, json!({ "a/b": { "colour": 1 } })), at(Kind::UnknownProperty, "/a~1b/colour"));
    let closed = load(&json!({ "type": "object", "additionalProperties": false }));
    assert!(returned(&closed, json!({ "any": 1 })).contains(&(Kind::UnknownProperty, "/any".to_owned())));
}

#[test]
fn formats_unknown_to_json_schema_are_ignored() {
    let specs = load(&json!({ "properties": {
        "key": { "type": "string", "format": "byte" },
        "count": { "type": "integer", "format": "int32" },
        "id": { "type": "string", "format": "arm-id" },
    } }));
    assert_eq!(returned(&specs, json!({ "key": "-", "count": 1, "id": "-" })), []);
}

#[test]
fn file_bodies_are_not_checked() {
    let specs = load(&json!({ "type": "file" }));
    assert_eq!(returned(&specs, json!({ "any": 1 })), []);
}

#[test]
fn recursive_schema_is_walked_to_the_depth_of_the_value() {
    let mut specification = zoo(&json!({ "$ref": "./parts.json#/definitions/Node" }));
    specification["definitions"] = json!({});
    let folder = folder("2024-01-01", &specification);
    let node = json!({ "properties": { "child": { "$ref": "#/definitions/Node" } } });
    write(&folder, "zoo/stable/2024-01-01/parts.json", &json!({ "definitions": { "Node": node } }));
    let specs = Specs::load(folder.path()).expect("the specification is sound");
    let deep = returned(&specs, json!({ "child": { "child": { "leaf": 1 } } }));
    assert_eq!(deep, at(Kind::UnknownProperty, "/child/child/leaf"));
}

#[test]
fn path_with_more_fixed_segments_wins() {
    let mut specification = zoo(&json!({ "properties": { "fur": {} } }));
    let king =
        json!({ "operationId": "King", "responses": { "200": { "schema": { "properties": { "crown": {} } } } } });
    // One path sorts before `{name}` and one after it: the parsed file is in alphabetical order.
    specification["paths"]["/animals/a"] = json!({ "get": king });
    specification["paths"]["/{kind}/a"] = specification["paths"]["/animals/{name}"].clone();
    let specs = Specs::load(folder("2024-01-01", &specification).path()).expect("the specification is sound");
    assert_eq!(returned(&specs, json!({ "crown": 1 })), []);
    assert_eq!(returned(&specs, json!({ "fur": 1 })), at(Kind::UnknownProperty, "/fur"));
    assert_eq!(sent(&specs, "PUT", json!({ "fur": 1 })), []);
}

#[test]
fn other_api_versions_are_checked_against_the_stored_one() {
    let mut specification = zoo(&json!({}));
    let version =
        json!({ "name": "api-version", "in": "query", "required": true, "type": "string", "enum": ["2024-01-01"] });
    specification["paths"]["/animals/{name}"]["get"]["parameters"] = json!([version]);
    let specs = Specs::load(folder("2024-01-01", &specification).path()).expect("the specification is sound");
    let exchange = Exchange {
        method: "GET".to_owned(),
        url: "/animals/a?api-version=2026-04-01".to_owned(),
        request: None,
        status: 200,
        response: Some(json!({})),
    };
    assert_eq!(specs.check(&exchange), []);
}

#[test]
fn newest_version_is_loaded() {
    let folder = folder("2023-01-01", &zoo(&json!({ "properties": { "old": {} } })));
    write(&folder, "zoo/stable/2024-01-01/zoo.json", &zoo(&json!({ "properties": { "new": {} } })));
    let specs = Specs::load(folder.path()).expect("the specification is sound");
    assert_eq!(returned(&specs, json!({ "new": 1 })), []);
    assert_eq!(returned(&specs, json!({ "old": 1 })), at(Kind::UnknownProperty, "/old"));
}

#[test]
fn examples_folder_is_not_loaded() {
    let folder = folder("2024-01-01", &zoo(&json!({})));
    write(&folder, "zoo/examples/stable/2024-01-01/zoo.json", &json!("not a specification"));
    fs::write(folder.path().join("zoo/examples/stable/2024-01-01/broken.json"), "{").expect("the file can be written");
    assert!(Specs::load(folder.path()).is_ok());
}

#[test]
fn error_for_a_dangling_reference_names_file_and_reference() {
    let folder = folder("2024-01-01", &zoo(&json!({ "$ref": "#/definitions/Unicorn" })));
    let error = Specs::load(folder.path()).err().expect("there is no unicorn").to_string();
    assert!(error.contains("zoo.json") && error.contains("#/definitions/Unicorn"), "{error}");
}

#[test]
fn error_for_a_missing_or_broken_file_names_the_file() {
    let folder = folder("2024-01-01", &zoo(&json!({ "$ref": "./parts.json#/definitions/Node" })));
    let absent = Specs::load(folder.path()).err().expect("the file is absent");
    assert!(matches!(&absent, Error::Read { path, .. } if path.ends_with("2024-01-01/parts.json")), "{absent}");
    fs::write(folder.path().join("zoo/stable/2024-01-01/parts.json"), "{").expect("the file can be written");
    let broken = Specs::load(folder.path()).err().expect("the file is broken");
    assert!(matches!(&broken, Error::Json { path, .. } if path.ends_with("2024-01-01/parts.json")), "{broken}");
}
