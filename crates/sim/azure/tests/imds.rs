//! The metadata service as VMs and their agents use it.

mod edges;

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use edges::{Got, HOST, NODE, arm, faulty, parse_world, request, sim, sim_with, start, subscriptions, token};
use jiff::SignedDuration;
use kiln_sim_azure::{Options, Sim, Speed, WorldSpec};
use serde_json::{Value, json};
use testkit::openapi::{Exchange, require_specs};

const METADATA: (&str, &str) = ("Metadata", "true");

fn ask(sim: &Sim, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
    let path = format!("/vm/{NODE}{path}");
    Got::from_response(sim.imds(None, &request(method, &path, headers, body)).answer().expect("an answer"))
}

fn get(sim: &Sim, path: &str) -> Got {
    ask(sim, "GET", path, &[METADATA], "")
}

fn from(sim: &Sim, peer: &str, path: &str) -> Got {
    let peer: IpAddr = peer.parse().expect("an address");
    Got::from_response(sim.imds(Some(peer), &request("GET", path, &[METADATA], "")).answer().expect("an answer"))
}

fn instance_path(sim: &Sim, number: u32) -> String {
    let spec = sim.spec();
    format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Compute/virtualMachineScaleSets/{}/virtualMachines/{number}",
        spec.subscription_id, spec.resource_group, spec.pools[0].name
    )
}

#[test]
fn vm_is_identified_by_its_address() {
    let sim = sim();
    let path = "/metadata/instance/compute/osProfile/computerName?api-version=2021-02-01&format=text";
    assert_eq!(from(&sim, "10.240.0.1", path).text, NODE);
    assert_ne!(from(&sim, "10.240.0.2", path).text, NODE);
    // An IPv4-mapped address, as a dual-stack listener sees it.
    assert_eq!(from(&sim, "::ffff:10.240.0.1", path).text, NODE);
}

#[test]
fn vm_is_identified_by_its_vm_name_or_computer_name_in_the_path() {
    let sim = sim();
    for name in [NODE, "k8s-agentpool1-26100436-vmss_0", "K8S-AGENTPOOL1-26100436-VMSS_0"] {
        let path =
            format!("/vm/{name}/metadata/instance/compute/osProfile/computerName?api-version=2021-02-01&format=text");
        assert_eq!(from(&sim, "127.0.0.1", &path).text, NODE, "{name}");
    }
}

#[test]
fn error_explains_how_to_select_a_vm() {
    let sim = sim();
    let got = from(&sim, "127.0.0.1", "/metadata/instance?api-version=2021-02-01");
    assert_eq!(got.status, 404);
    let message = got.body["error"].as_str().expect("text");
    assert!(message.contains("127.0.0.1") && message.contains(&format!("/vm/{NODE}/metadata/instance")), "{message}");
    let got = from(&sim, "127.0.0.1", "/vm/unknown/metadata/instance?api-version=2021-02-01");
    assert!(got.status == 404 && got.text.contains("`unknown`"), "{}", got.text);
}

#[test]
fn instance_metadata_has_vm_scale_set_image_and_network() {
    let sim = sim();
    let got = get(&sim, "/metadata/instance?api-version=2023-07-01");
    assert_eq!(got.status, 200, "{}", got.text);
    let (compute, spec) = (&got.body["compute"], sim.spec());
    let set = instance_path(&sim, 0).replace("/virtualMachines/0", "");
    for (field, value) in [
        ("name", "k8s-agentpool1-26100436-vmss_0"),
        ("resourceGroupName", &spec.resource_group),
        ("subscriptionId", &spec.subscription_id),
        ("resourceId", &instance_path(&sim, 0)),
        ("location", "westus2"),
        ("vmSize", "Standard_D2s_v3"),
        ("vmScaleSetName", &spec.pools[0].name),
        ("publisher", "Canonical"),
        ("offer", "UbuntuServer"),
        ("osType", "Linux"),
        ("tags", "creationSource:aksengine-k8s-agentpool1;poolName:agentpool1"),
    ] {
        assert_eq!(compute[field], value, "{field}");
    }
    assert_eq!(compute["virtualMachineScaleSet"]["id"], set);
    assert_eq!(compute["tagsList"][1], json!({"name": "poolName", "value": "agentpool1"}));
    let bearer = format!("Bearer {}", token(&sim));
    let arm_view = arm(
        &sim,
        "GET",
        &format!("{}?api-version=2024-03-01", instance_path(&sim, 0)),
        &[("authorization", &bearer)],
        "",
    );
    assert_eq!(compute["vmId"], arm_view.body["properties"]["vmId"]);
    assert_eq!(
        compute["storageProfile"]["osDisk"]["managedDisk"]["id"],
        arm_view.body["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"]
    );
    assert_eq!(got.body["network"]["interface"][0]["ipv4"]["ipAddress"][0]["privateIpAddress"], "10.240.0.1");
    assert_eq!(got.body["network"]["interface"][0]["macAddress"], "000D3AF00001");
}

mod recordings {
    use super::*;

    #[test]
    fn responses_conform_to_the_published_specification() {
        let specs = require_specs();
        let sim = sim();
        let token = format!("/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://{HOST}");
        for path in [
            "/metadata/versions",
            "/metadata/instance?api-version=2023-07-01",
            "/metadata/identity/info?api-version=2018-02-01",
            &token,
            "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://nowhere.example",
            "/metadata/attested/document?api-version=2021-02-01",
        ] {
            let got = get(&sim, path);
            let exchange = Exchange {
                method: "GET".into(),
                url: path.into(),
                request: None,
                status: got.status,
                response: Some(got.body),
            };
            let findings = specs.check(&exchange);
            assert!(findings.is_empty(), "{path}: {findings:?}");
        }
    }
}

#[test]
fn leaves_are_text_and_branches_are_documents_or_name_lists() {
    let sim = sim();
    let at = |path: &str| get(&sim, &format!("/metadata/instance{path}"));
    let leaf = at("/compute/location?api-version=2021-02-01&format=text");
    assert_eq!((leaf.text.as_str(), leaf.header("content-type")), ("westus2", "text/plain; charset=utf-8"));
    assert_eq!(at("/compute/location?api-version=2021-02-01").status, 400);
    assert_eq!(at("?api-version=2021-02-01&format=text").text, "compute/\nnetwork/\n");
    assert_eq!(at("/network/interface?api-version=2021-02-01&format=text").text, "0/\n");
    assert_eq!(
        at("/network/interface/0/ipv4/subnet/0?api-version=2021-02-01").body,
        json!({"address": "10.240.0.0", "prefix": "16"})
    );
    assert_eq!(at("/compute?api-version=2021-02-01&format=xml").status, 400);
    // Names are case-sensitive.
    assert_eq!(at("/compute/Location?api-version=2021-02-01&format=text").status, 404);
    assert_eq!(at("/network/interface/1?api-version=2021-02-01").status, 404);
    // azure-init requests fields that do not exist.
    assert_eq!(at("?api-version=2023-11-15&extended=true").status, 200);
}

#[test]
fn fields_appear_with_their_api_version() {
    let sim = sim();
    let field = |version: &str, field: &str| {
        get(&sim, &format!("/metadata/instance?api-version={version}")).body["compute"].get(field).cloned()
    };
    assert_eq!(field("2020-12-01", "userData"), None);
    assert_eq!(field("2021-01-01", "userData"), Some(json!("")));
    assert_eq!(field("2017-08-01", "vmScaleSetName"), None);
    assert!(field("2017-12-01", "vmScaleSetName").is_some());
    assert!(field("2017-03-01", "vmId").is_some());
}

#[test]
fn custom_data_is_never_in_the_metadata() {
    let sim = sim();
    let bytes = base64::engine::general_purpose::STANDARD
        .encode(sim.spec().pools[0].custom_data.as_deref().expect("custom data"));
    let got = get(&sim, "/metadata/instance?api-version=2025-04-07");
    assert!(!got.text.contains(&bytes) && !got.text.contains("customData"));
}

#[test]
fn header_method_and_version_are_checked() {
    let sim = sim();
    let path = "/metadata/instance?api-version=2021-02-01";
    let error = |got: Got| (got.status, got.body["error"].as_str().unwrap_or_default().to_owned());
    assert_eq!(
        error(ask(&sim, "GET", path, &[], "")),
        (400, "Bad request. Required metadata header not specified".to_owned())
    );
    assert_eq!(ask(&sim, "GET", path, &[("Metadata", "false")], "").status, 400);
    assert_eq!(ask(&sim, "GET", path, &[("metadata", "True")], "").status, 200);
    assert_eq!(ask(&sim, "GET", path, &[METADATA, ("X-Forwarded-For", "10.0.0.1")], "").status, 400);
    for method in ["POST", "PUT", "DELETE", "HEAD"] {
        let got = ask(&sim, method, path, &[METADATA], "");
        assert_eq!((got.status, got.header("allow")), (405, "GET"), "{method}");
    }
    let missing = get(&sim, "/metadata/instance");
    assert_eq!(missing.status, 400);
    assert_eq!(missing.body["newest-versions"], json!(["2025-04-07", "2023-11-15", "2023-07-01"]));
    assert_eq!(get(&sim, "/metadata/instance?api-version=2021-02-30").status, 400);
    assert_eq!(get(&sim, "/metadata/elsewhere?api-version=2021-02-01").status, 404);
    assert_eq!(get(&sim, "/metadata/instances?api-version=2021-02-01").status, 404);
}

#[test]
fn versions_are_listed_without_header_and_api_version() {
    let got = ask(&sim(), "GET", "/metadata/versions", &[], "");
    assert_eq!(got.status, 200);
    assert!(got.body["apiVersions"].as_array().expect("a list").contains(&json!("2021-02-01")));
}

#[test]
fn next_read_has_the_user_data_of_an_instance_update() {
    let sim = sim();
    let path = "/metadata/instance/compute/userData?api-version=2021-01-01&format=text";
    assert_eq!(get(&sim, path).text, "");
    let bearer = format!("Bearer {}", token(&sim));
    let write = |data: &str| {
        let body = json!({"location": "westus2", "properties": {"userData": data}}).to_string();
        arm(
            &sim,
            "PUT",
            &format!("{}?api-version=2024-03-01", instance_path(&sim, 0)),
            &[("authorization", &bearer)],
            &body,
        )
    };
    let put = write("Zmlyc3Q=");
    assert!(put.status < 300, "{}", put.text);
    assert_eq!(get(&sim, path).text, "Zmlyc3Q=");
    assert!(write("c2Vjb25k").status < 300);
    assert_eq!(get(&sim, path).text, "c2Vjb25k");
    assert_eq!(from(&sim, "10.240.0.2", path).text, "", "other VMs keep their user data");
}

#[test]
fn managed_identity_token_is_valid_for_arm() {
    let sim = sim();
    let got = get(&sim, &format!("/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://{HOST}"));
    assert_eq!(got.status, 200, "{}", got.text);
    for field in ["expires_in", "expires_on", "ext_expires_in", "not_before"] {
        assert!(
            got.body[field].as_str().and_then(|text| text.parse::<i64>().ok()).is_some(),
            "{field} is a number in a text: {}",
            got.text
        );
    }
    assert_eq!(got.body["client_id"], sim.spec().identity.client_id);
    let access = got.body["access_token"].as_str().expect("a token");
    assert_eq!(subscriptions(&sim, access).status, 200);
    let claims: Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(access.split('.').nth(1).expect("claims")).expect("base64"))
            .expect("JSON");
    assert_eq!(claims["tid"], sim.spec().tenant_id);
    assert_eq!(claims["xms_mirid"], instance_path(&sim, 0).replace("/virtualMachines/0", ""));
    assert_eq!(
        get(&sim, "/metadata/identity/info?api-version=2018-02-01").body,
        json!({"tenantId": sim.spec().tenant_id})
    );
}

#[test]
fn identity_is_selected_by_client_object_or_resource_id() {
    let identity = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/nodes";
    let sim = sim_with(parse_world("pools: [{name: p, capacity: 1}]"));
    let ask = |query: &str| {
        let path = format!(
            "/vm/p_0/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://management.azure.com/{query}"
        );
        from(&sim, "127.0.0.1", &path)
    };
    let spec = sim.spec();
    assert_eq!(ask(&format!("&client_id={}", spec.identity.client_id)).status, 200);
    assert_eq!(ask(&format!("&object_id={}", spec.identity.object_id)).body["object_id"], spec.identity.object_id);
    let set = instance_path(&sim, 0).replace("/virtualMachines/0", "");
    assert_eq!(ask(&format!("&msi_res_id={set}")).body["msi_res_id"], set);
    for wrong in ["&client_id=unknown", "&object_id=unknown", &format!("&msi_res_id={identity}")] {
        let got = ask(wrong);
        assert_eq!((got.status, got.body["error"].as_str()), (400, Some("invalid_request")), "{wrong}");
        assert_eq!(got.body["error_description"], "Identity not found", "{wrong}");
    }
    let both = format!("&client_id={}&object_id={}", spec.identity.client_id, spec.identity.object_id);
    assert_eq!(ask(&both).status, 400, "only one selector is allowed");
    let body = json!({"identity": {"type": "UserAssigned", "userAssignedIdentities": {identity: {}}}}).to_string();
    let bearer = format!("Bearer {}", token(&sim));
    let patched = arm(&sim, "PATCH", &format!("{set}?api-version=2024-03-01"), &[("authorization", &bearer)], &body);
    assert!(patched.status < 300, "{}", patched.text);
    assert_eq!(ask(&format!("&msi_res_id={identity}")).status, 200, "the identity is now assigned");
}

#[test]
fn identity_errors_have_code_and_description() {
    let sim = sim();
    let path = "/metadata/identity/oauth2/token?api-version=2018-02-01";
    for (got, status, word) in [
        (get(&sim, path), 400, "invalid_request"),
        (get(&sim, &format!("{path}&resource=https://nowhere.example")), 400, "invalid_request"),
        (ask(&sim, "GET", &format!("{path}&resource=https://{HOST}"), &[], ""), 400, "invalid_request"),
        (ask(&sim, "POST", path, &[METADATA], ""), 405, "method_not_allowed"),
        (get(&sim, "/metadata/identity/oauth2/token?api-version=2017-08-01&resource=x"), 400, "invalid_request"),
    ] {
        assert_eq!((got.status, got.body["error"].as_str()), (status, Some(word)), "{}", got.text);
        assert!(got.body["error_description"].is_string(), "{}", got.text);
    }
}

#[test]
fn attested_documents_are_not_supported() {
    let got = get(&sim(), "/metadata/attested/document?api-version=2021-02-01&nonce=1");
    assert!(got.status == 404 && got.text.contains("cannot sign attested documents"), "{}", got.text);
}

#[test]
fn gone_and_throttled_responses_can_be_injected() {
    let sim = faulty(
        "faults:\n- {kind: imds-gone, name: '*/instance*', times: 2}\n- {kind: imds-throttled, name: '*/identity/*'}\n",
    );
    let instance = || get(&sim, "/metadata/instance?api-version=2021-02-01");
    assert_eq!([instance().status, instance().status, instance().status], [410, 410, 200]);
    let identity =
        || get(&sim, &format!("/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://{HOST}"));
    let throttled = identity();
    assert_eq!((throttled.status, throttled.body["error"].as_str()), (429, Some("too_many_requests")));
    assert_eq!(throttled.header("retry-after"), "1");
    assert_eq!(identity().status, 200);
}

#[tokio::test(start_paused = true)]
async fn five_requests_per_second_are_allowed_with_throttling() {
    let sim = sim_with(parse_world("throttling: true"));
    let status = || get(&sim, "/metadata/versions").status;
    assert_eq!([(); 6].map(|()| status()), [200, 200, 200, 200, 200, 429]);
    let other = "/vm/k8s-agentpool1-26100436-vmss000001/metadata/versions";
    assert_eq!(from(&sim, "127.0.0.1", other).status, 200, "each VM has its own limit");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(status(), 200);
    let unlimited = edges::sim();
    assert!((0..50).all(|_| get(&unlimited, "/metadata/versions").status == 200));
}

const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";

#[test]
fn scheduled_event_is_listed_and_can_be_approved() {
    let sim = sim();
    assert_eq!(get(&sim, EVENTS).body, json!({"DocumentIncarnation": 0, "Events": []}));
    let planned = ask(&sim, "POST", "/kiln/events", &[], r#"{"EventType": "Preempt"}"#);
    assert_eq!(planned.status, 200, "{}", planned.text);
    let seen = get(&sim, EVENTS).body;
    assert_eq!(seen["DocumentIncarnation"], 1);
    let event = &seen["Events"][0];
    assert_eq!(
        (&event["EventType"], &event["EventStatus"], &event["ResourceType"]),
        (&json!("Preempt"), &json!("Scheduled"), &json!("VirtualMachine"))
    );
    assert_eq!(event["Resources"], json!(["k8s-agentpool1-26100436-vmss_0"]));
    assert_eq!(event["NotBefore"], "Sun, 15 Nov 2026 12:00:30 GMT");

    let consent = json!({"StartRequests": [{"EventId": event["EventId"]}]}).to_string();
    assert_eq!(ask(&sim, "POST", EVENTS, &[METADATA], &consent).status, 200);
    let seen = get(&sim, EVENTS).body;
    assert_eq!((&seen["DocumentIncarnation"], &seen["Events"][0]["EventStatus"]), (&json!(2), &json!("Started")));
    // Approving it again changes nothing.
    assert_eq!(ask(&sim, "POST", EVENTS, &[METADATA], &consent).status, 200);
    assert_eq!(get(&sim, EVENTS).body["DocumentIncarnation"], 2);

    assert_eq!(ask(&sim, "DELETE", "/kiln/events", &[], "").status, 200);
    assert_eq!(get(&sim, EVENTS).body, json!({"DocumentIncarnation": 3, "Events": []}));
}

#[tokio::test(start_paused = true)]
async fn event_starts_when_its_notice_has_passed() {
    let sim = Sim::new(WorldSpec::default(), Options { speed: Speed::Factor(60.0), ..Options::instant(start()) })
        .expect("a simulation");
    ask(&sim, "POST", "/kiln/events", &[], r#"{"EventType": "Freeze"}"#);
    let status = || get(&sim, EVENTS).body["Events"][0]["EventStatus"].clone();
    tokio::time::advance(std::time::Duration::from_secs(14)).await;
    assert_eq!(status(), "Scheduled");
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    assert_eq!(status(), "Started");
    assert!(sim.now() >= start() + SignedDuration::from_mins(15));
}

#[test]
fn invalid_approvals_and_events_are_rejected() {
    let sim = sim();
    for body in ["", "{}", r#"{"StartRequests": [{"EventId": "none"}]}"#, r#"{"StartRequests": [1]}"#] {
        assert_eq!(ask(&sim, "POST", EVENTS, &[METADATA], body).status, 400, "{body}");
    }
    assert_eq!(ask(&sim, "POST", "/kiln/events", &[], r#"{"EventType": "Explode"}"#).status, 400);
    assert_eq!(ask(&sim, "PUT", EVENTS, &[METADATA], "").status, 405);
    // Guests have no access to control requests.
    let own =
        sim.imds(Some("10.240.0.1".parse().expect("an address")), &request("DELETE", "/kiln/events", &[METADATA], ""));
    assert_eq!(Got::from_response(own.answer().expect("an answer")).status, 404);
}
