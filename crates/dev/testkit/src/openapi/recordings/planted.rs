//! Valid exchanges, and the same exchanges with one mistake each.

use serde_json::{Value, json};

use super::super::{Exchange, Kind, Side, require_specs};

const GROUP: &str = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg1";

fn compute(rest: &str) -> String {
    format!("{GROUP}/providers/Microsoft.Compute/{rest}")
}

/// The creation of a snapshot, with its immediate response.
fn snapshot() -> Exchange {
    Exchange {
        method: "PUT".to_owned(),
        url: compute("snapshots/s1?api-version=2025-01-02"),
        request: Some(json!({
            "location": "westeurope",
            "sku": { "name": "Standard_LRS" },
            "tags": { "run": "r1" },
            "properties": { "creationData": { "createOption": "Copy", "sourceResourceId": compute("disks/d1") } },
        })),
        status: 202,
        response: Some(json!({
            "id": compute("snapshots/s1"),
            "name": "s1",
            "type": "Microsoft.Compute/snapshots",
            "location": "westeurope",
            "properties": {
                "provisioningState": "Updating",
                "creationData": { "createOption": "Copy", "sourceResourceId": compute("disks/d1") },
            },
        })),
    }
}

/// An image change of a scale set. The response contains an extension with arbitrary settings.
fn scale_set() -> Exchange {
    let reference = json!({ "id": compute("galleries/SIG_rg1/images/i1/versions/2026.01.01"), "sku": null });
    Exchange {
        method: "PATCH".to_owned(),
        url: compute("virtualMachineScaleSets/pool1?api-version=2024-11-01"),
        request: Some(json!({
            "properties": { "virtualMachineProfile": { "storageProfile": { "imageReference": reference } } },
        })),
        status: 200,
        response: Some(json!({
            "id": compute("virtualMachineScaleSets/pool1"),
            "name": "pool1",
            "type": "Microsoft.Compute/virtualMachineScaleSets",
            "location": "westeurope",
            "etag": "\"2\"",
            "sku": { "name": "Standard_D2s_v3", "tier": "Standard", "capacity": 10 },
            "properties": {
                "upgradePolicy": { "mode": "Manual" },
                "provisioningState": "Succeeded",
                "virtualMachineProfile": { "extensionProfile": { "extensions": [{
                    "name": "script",
                    "properties": {
                        "publisher": "Microsoft.Azure.Extensions",
                        "type": "CustomScript",
                        "typeHandlerVersion": "2.1",
                        "settings": { "anything": { "at": ["all"] } },
                    },
                }] } },
            },
        })),
    }
}

/// Writes `value` at a JSON pointer and adds the last member if it is missing.
fn put(body: &mut Option<Value>, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let parent = body.as_mut().and_then(|body| body.pointer_mut(parent)).expect("the parent exists");
    parent.as_object_mut().expect("the parent is an object").insert(name.to_owned(), value);
}

fn remove(body: &mut Option<Value>, pointer: &str) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let parent = body.as_mut().and_then(|body| body.pointer_mut(parent)).expect("the parent exists");
    parent.as_object_mut().expect("the parent is an object").remove(name).expect("the member exists");
}

#[track_caller]
fn assert_found(exchange: &Exchange, expected: &[(Side, Kind, &str)]) {
    let findings = require_specs().check(exchange);
    let found: Vec<_> = findings.iter().map(|finding| (finding.side, finding.kind, finding.pointer.as_str())).collect();
    assert_eq!(found, expected, "{findings:#?}");
}

#[test]
fn valid_exchanges_have_no_findings() {
    assert_found(&snapshot(), &[]);
    assert_found(&scale_set(), &[]);
}

#[test]
fn wrong_type_in_a_response_is_found() {
    let mut exchange = snapshot();
    put(&mut exchange.response, "/properties/diskSizeGB", json!("30"));
    assert_found(&exchange, &[(Side::Response, Kind::Schema, "/properties/diskSizeGB")]);
}

#[test]
fn wrong_type_in_a_request_is_found() {
    let mut exchange = snapshot();
    put(&mut exchange.request, "/tags", json!(["run"]));
    assert_found(&exchange, &[(Side::Request, Kind::Schema, "/tags")]);
}

#[test]
fn unknown_property_deep_in_a_request_is_found() {
    let mut exchange = scale_set();
    let place = "/properties/virtualMachineProfile/storageProfile/imageReference/version2";
    put(&mut exchange.request, place, json!("latest"));
    assert_found(&exchange, &[(Side::Request, Kind::UnknownProperty, place)]);
}

#[test]
fn unknown_property_in_an_array_of_a_response_is_found() {
    let mut exchange = scale_set();
    let place = "/properties/virtualMachineProfile/extensionProfile/extensions/0/properties/handler";
    put(&mut exchange.response, place, json!("2.1"));
    assert_found(&exchange, &[(Side::Response, Kind::UnknownProperty, place)]);
}

#[test]
fn property_in_the_wrong_case_is_found_with_its_spelling() {
    let mut exchange = snapshot();
    put(&mut exchange.response, "/properties/ProvisioningState", json!("Updating"));
    assert_found(&exchange, &[(Side::Response, Kind::UnknownProperty, "/properties/ProvisioningState")]);
    let line = require_specs().check(&exchange)[0].to_string();
    assert_eq!(
        line,
        "Snapshots_CreateOrUpdate response at /properties/ProvisioningState: \
         unknown property `ProvisioningState`; did you mean `provisioningState`?"
    );
}

#[test]
fn read_only_property_in_a_request_is_found() {
    let mut exchange = snapshot();
    put(&mut exchange.request, "/properties/provisioningState", json!("Succeeded"));
    assert_found(&exchange, &[(Side::Request, Kind::ReadOnly, "/properties/provisioningState")]);
}

#[test]
fn id_name_and_type_in_a_request_are_found() {
    let mut exchange = snapshot();
    put(&mut exchange.request, "/id", json!(compute("snapshots/s1")));
    put(&mut exchange.request, "/name", json!("s1"));
    put(&mut exchange.request, "/type", json!("Microsoft.Compute/snapshots"));
    let found = ["/id", "/name", "/type"].map(|place| (Side::Request, Kind::ReadOnly, place));
    assert_found(&exchange, &found);
}

#[test]
fn missing_required_property_is_found_on_both_sides() {
    let mut exchange = snapshot();
    remove(&mut exchange.request, "/location");
    remove(&mut exchange.response, "/properties/creationData/createOption");
    assert_found(
        &exchange,
        &[(Side::Request, Kind::Schema, ""), (Side::Response, Kind::Schema, "/properties/creationData")],
    );
}

#[test]
fn value_outside_a_closed_enumeration_is_found() {
    let mut exchange = scale_set();
    put(&mut exchange.response, "/properties/upgradePolicy/mode", json!("Manually"));
    assert_found(&exchange, &[(Side::Response, Kind::Schema, "/properties/upgradePolicy/mode")]);
}

#[test]
fn open_enumeration_accepts_new_values_but_not_wrong_case() {
    let mut exchange = snapshot();
    put(&mut exchange.request, "/properties/creationData/createOption", json!("CopyFromTheFuture"));
    assert_found(&exchange, &[]);
    put(&mut exchange.request, "/properties/creationData/createOption", json!("copy"));
    assert_found(&exchange, &[(Side::Request, Kind::Schema, "/properties/creationData/createOption")]);
}

#[test]
fn undeclared_status_is_found() {
    let mut exchange = snapshot();
    exchange.status = 201;
    assert_found(&exchange, &[(Side::Response, Kind::UndeclaredStatus, "")]);
}

#[test]
fn error_is_checked_against_the_declared_response() {
    let mut exchange = scale_set();
    exchange.status = 409;
    exchange.response = Some(json!({ "error": { "code": "Conflict", "message": "busy" } }));
    assert_found(&exchange, &[]);
    exchange.response = Some(json!({ "code": "Conflict", "message": "busy" }));
    let bare = ["/code", "/message"].map(|place| (Side::Response, Kind::UnknownProperty, place));
    assert_found(&exchange, &bare);
}

#[test]
fn undeclared_error_is_checked_against_the_common_error_response() {
    let mut exchange = snapshot();
    exchange.status = 409;
    exchange.response = Some(json!({ "error": { "code": "Conflict", "message": "busy", "details": [] } }));
    assert_found(&exchange, &[]);
    exchange.response = Some(json!({ "error": { "code": 409 } }));
    assert_found(&exchange, &[(Side::Response, Kind::Schema, "/error/code")]);
}

#[test]
fn unknown_path_is_found_unless_the_caller_lists_it() {
    let mut exchange = snapshot();
    exchange.url = format!("{GROUP}/providers/Microsoft.Network/networkInterfaces/n1?api-version=2024-01-01");
    assert_found(&exchange, &[(Side::Request, Kind::UnknownPath, "")]);
    let specs = require_specs().clone().without_spec(["/{scope*}/providers/microsoft.network/{rest*}"]);
    assert_eq!(specs.check(&exchange), []);
}

#[test]
fn listed_path_with_a_specification_is_still_checked() {
    let mut exchange = snapshot();
    exchange.status = 201;
    assert_eq!(require_specs().clone().without_spec(["/{all*}"]).check(&exchange).len(), 1);
}

#[test]
fn unknown_method_is_found() {
    let mut exchange = snapshot();
    exchange.method = "POST".to_owned();
    assert_found(&exchange, &[(Side::Request, Kind::UnknownMethod, "")]);
}

#[test]
fn paths_are_case_insensitive() {
    let mut exchange = snapshot();
    exchange.url = exchange.url.replace("resourceGroups", "resourcegroups").replace("snapshots", "SnapShots");
    assert_found(&exchange, &[]);
}

#[test]
fn missing_api_version_is_found() {
    let mut exchange = snapshot();
    exchange.url = compute("snapshots/s1");
    assert_found(&exchange, &[(Side::Request, Kind::Parameter, "")]);
}

#[test]
fn unknown_or_malformed_query_parameter_is_found() {
    let mut exchange = scale_set();
    exchange.url += "&expand=userData";
    assert_found(&exchange, &[(Side::Request, Kind::Parameter, "")]);
    let power_off = Exchange {
        method: "POST".to_owned(),
        url: compute("virtualMachineScaleSets/pool1/poweroff?api-version=2024-11-01&skipShutdown=perhaps"),
        request: Some(json!({ "instanceIds": ["0"] })),
        status: 202,
        response: None,
    };
    assert_found(&power_off, &[(Side::Request, Kind::Parameter, "")]);
}

#[test]
fn invalid_name_in_the_path_is_found() {
    let mut group = Exchange {
        method: "GET".to_owned(),
        url: format!("{GROUP}?api-version=2024-11-01"),
        request: None,
        status: 200,
        response: Some(json!({ "id": GROUP, "name": "rg1", "location": "westeurope" })),
    };
    assert_found(&group, &[]);
    group.url = group.url.replace("rg1", "rg%20one");
    assert_found(&group, &[(Side::Request, Kind::Parameter, "")]);
}

#[test]
fn unexpected_and_missing_bodies_are_found() {
    let mut exchange = snapshot();
    exchange.request = None;
    exchange.response = None;
    assert_found(&exchange, &[(Side::Request, Kind::Body, ""), (Side::Response, Kind::Body, "")]);
    exchange.method = "DELETE".to_owned();
    exchange.request = Some(json!({}));
    exchange.response = Some(json!({}));
    assert_found(&exchange, &[(Side::Request, Kind::Body, ""), (Side::Response, Kind::Body, "")]);
}

#[test]
fn null_is_valid_in_a_patch_only() {
    let mut exchange = snapshot();
    put(&mut exchange.request, "/sku/name", Value::Null);
    assert_found(&exchange, &[(Side::Request, Kind::Schema, "/sku/name")]);
}

#[test]
fn next_link_may_contain_a_skip_token() {
    let list = Exchange {
        method: "GET".to_owned(),
        url: compute("virtualMachineScaleSets/pool1/virtualMachines?api-version=2024-11-01&%24skipToken=abc"),
        request: None,
        status: 200,
        response: Some(json!({ "value": [] })),
    };
    assert_found(&list, &[]);
    let mut single = scale_set();
    single.url += "&$skiptoken=abc";
    assert_found(&single, &[(Side::Request, Kind::Parameter, "")]);
}

#[test]
fn metadata_service_is_checked_with_its_required_header() {
    let instance = Exchange {
        method: "GET".to_owned(),
        url: "http://169.254.169.254/metadata/instance?api-version=2021-02-01".to_owned(),
        request: None,
        status: 200,
        response: Some(json!({ "compute": { "name": "vm0", "vmId": "x" } })),
    };
    assert_found(&instance, &[]);
    let specs = require_specs();
    assert_eq!(specs.check_headers(&instance, [("metadata", "true")]), []);
    let without = specs.check_headers(&instance, [("accept", "*/*")]);
    assert_eq!(without.len(), 1, "{without:?}");
    let false_value = specs.check_headers(&instance, [("Metadata", "false")]);
    assert_eq!(false_value.len(), 1, "{false_value:?}");
}

#[test]
fn findings_do_not_contain_values() {
    let mut exchange = scale_set();
    put(&mut exchange.response, "/sku/capacity", json!("planted-secret\nsecond line"));
    assert_found(&exchange, &[(Side::Response, Kind::Schema, "/sku/capacity")]);
    let line = require_specs().check(&exchange)[0].to_string();
    assert!(!line.contains("planted-secret") && !line.contains('\n'), "{line}");
}
