//! Each role action that the prototype operation needs can be denied separately.

#[expect(dead_code, reason = "each test binary uses a part")]
mod edges;

use edges::{Got, arm, parse_world, sim_with, token};
use kiln_sim_azure::Sim;
use serde_json::json;

const SET: &str = "Microsoft.Compute/virtualMachineScaleSets/k8s-agentpool1-26100436-vmss";
const COMPUTE: &str = "2024-03-01";
const GALLERY: &str = "2023-07-03";
const DISK: &str = "2023-10-02";

/// An embedded Azure whose first client has every permission except this one.
fn without(action: &str) -> Sim {
    sim_with(parse_world(&format!("clients: [{{clientId: app, clientSecret: s, notActions: ['{action}']}}]")))
}

fn ask(sim: &Sim, method: &str, path: &str, version: &str, body: &str) -> Got {
    let spec = sim.spec();
    let group = format!("/subscriptions/{}/resourceGroups/{}/providers", spec.subscription_id, spec.resource_group);
    let bearer = format!("Bearer {}", token(sim));
    let path = format!("{group}/{path}?api-version={version}");
    arm(sim, method, &path, &[("authorization", &bearer), ("content-type", "application/json")], body)
}

/// Checks that a client without the action is rejected with an error that names it, and that a client with it is not.
fn assert_deniable(action: &str, method: &str, path: &str, version: &str, body: &str) {
    let denied = ask(&without(action), method, path, version, body);
    assert_eq!(
        (denied.status, denied.body["error"]["code"].as_str()),
        (403, Some("AuthorizationFailed")),
        "{action}: {}",
        denied.text
    );
    let message = denied.body["error"]["message"].as_str().expect("text").to_ascii_lowercase();
    assert!(message.contains(&format!("action '{}'", action.to_ascii_lowercase())), "{action}: {message}");
    let granted = ask(&without("Microsoft.Nothing/*"), method, path, version, body);
    assert_ne!(granted.status, 403, "{action}: {}", granted.text);
}

#[test]
fn each_action_on_images_snapshots_and_disks_can_be_denied() {
    let galleries = "Microsoft.Compute/galleries/SIG_x";
    let images = format!("{galleries}/images/definition");
    let versions = format!("{images}/versions/1.0.0");
    let snapshot = "Microsoft.Compute/snapshots/s";
    for (action, method, path, version) in [
        ("Microsoft.Compute/galleries/read", "GET", galleries, GALLERY),
        ("Microsoft.Compute/galleries/write", "PUT", galleries, GALLERY),
        ("Microsoft.Compute/galleries/images/read", "GET", &images, GALLERY),
        ("Microsoft.Compute/galleries/images/write", "PUT", &images, GALLERY),
        ("Microsoft.Compute/galleries/images/versions/read", "GET", &versions, GALLERY),
        ("Microsoft.Compute/galleries/images/versions/write", "PUT", &versions, GALLERY),
        ("Microsoft.Compute/galleries/images/versions/delete", "DELETE", &versions, GALLERY),
        ("Microsoft.Compute/snapshots/read", "GET", snapshot, DISK),
        ("Microsoft.Compute/snapshots/write", "PUT", snapshot, DISK),
        ("Microsoft.Compute/snapshots/delete", "DELETE", snapshot, DISK),
        ("Microsoft.Compute/disks/read", "GET", "Microsoft.Compute/disks", DISK),
        ("Microsoft.Compute/disks/beginGetAccess/action", "POST", "Microsoft.Compute/disks/d/beginGetAccess", DISK),
    ] {
        assert_deniable(action, method, path, version, "");
    }
}

#[test]
fn each_action_on_scale_sets_and_their_instances_can_be_denied() {
    let vm = format!("{SET}/virtualMachines/0");
    let extension = format!("{SET}/extensions/vmssCSE");
    let sets = "Microsoft.Compute/virtualMachineScaleSets";
    for (action, method, path) in [
        ("read", "GET", SET.to_owned()),
        ("write", "PATCH", SET.to_owned()),
        ("delete", "DELETE", SET.to_owned()),
        ("powerOff/action", "POST", format!("{SET}/powerOff")),
        ("start/action", "POST", format!("{SET}/start")),
        ("virtualMachines/read", "GET", vm.clone()),
        ("virtualMachines/read", "GET", format!("{SET}/virtualMachines")),
        ("virtualMachines/write", "PUT", vm.clone()),
        ("virtualMachines/delete", "DELETE", vm.clone()),
        ("virtualMachines/powerOff/action", "POST", format!("{vm}/powerOff")),
        ("virtualMachines/start/action", "POST", format!("{vm}/start")),
        ("extensions/read", "GET", extension.clone()),
        ("extensions/delete", "DELETE", extension),
    ] {
        assert_deniable(&format!("{sets}/{action}"), method, &path, COMPUTE, "");
    }
}

#[test]
fn reading_the_status_of_an_operation_can_be_denied() {
    let path = |sim: &Sim, list: &str| {
        format!(
            "/subscriptions/{}/providers/Microsoft.Compute/locations/westus2/{list}/1?api-version={COMPUTE}",
            sim.spec().subscription_id
        )
    };
    let status = |sim: &Sim, list: &str| {
        arm(sim, "GET", &path(sim, list), &[("authorization", &format!("Bearer {}", token(sim)))], "").status
    };
    for list in ["operations", "DiskOperations", "capsOperations"] {
        assert_eq!(status(&without(&format!("Microsoft.Compute/locations/{list}/read")), list), 403);
        assert_eq!(status(&without("Microsoft.Nothing/*"), list), 404);
    }
}

#[test]
fn each_linked_action_can_be_denied() {
    let linked = |kind: &str| format!("/subscriptions/s/resourceGroups/g/providers/{kind}");
    let identity = linked("Microsoft.ManagedIdentity/userAssignedIdentities/i");
    let body = json!({
        "location": "westus2",
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {identity: {}}},
        "properties": {"virtualMachineProfile": {"networkProfile": {"networkInterfaceConfigurations": [{"name": "nic", "properties": {
            "networkSecurityGroup": {"id": linked("Microsoft.Network/networkSecurityGroups/n")},
            "ipConfigurations": [{"name": "ip", "properties": {
                "subnet": {"id": linked("Microsoft.Network/virtualNetworks/v/subnets/s")},
                "applicationSecurityGroups": [{"id": linked("Microsoft.Network/applicationSecurityGroups/a")}],
                "loadBalancerBackendAddressPools": [{"id": linked("Microsoft.Network/loadBalancers/l/backendAddressPools/b")}],
            }}],
        }}]}}},
    })
    .to_string();
    for action in [
        "Microsoft.Network/virtualNetworks/subnets/join/action",
        "Microsoft.Network/networkSecurityGroups/join/action",
        "Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action",
        "Microsoft.Network/loadBalancers/backendAddressPools/join/action",
        "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
    ] {
        let denied = ask(&without(action), "PATCH", SET, COMPUTE, &body);
        assert_eq!(
            (denied.status, denied.body["error"]["code"].as_str()),
            (403, Some("LinkedAuthorizationFailed")),
            "{action}: {}",
            denied.text
        );
        assert!(denied.text.contains(action), "{action}: {}", denied.text);
    }
    let granted = ask(&without("Microsoft.Nothing/*"), "PATCH", SET, COMPUTE, &body);
    assert_ne!(granted.status, 403, "{}", granted.text);
}

#[test]
fn empty_role_can_log_in_but_not_read() {
    let sim = sim_with(parse_world("clients: [{clientId: app, clientSecret: s, actions: []}]"));
    assert_eq!(ask(&sim, "GET", SET, COMPUTE, "").status, 403);
}

#[test]
fn managed_identity_has_its_own_roles() {
    let sim = sim_with(parse_world("identity: {notActions: ['Microsoft.Compute/virtualMachineScaleSets/write']}"));
    let path = format!(
        "/vm/{}/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://{}",
        edges::NODE,
        edges::HOST
    );
    let got = Got::from_response(
        sim.imds(None, &edges::request("GET", &path, &[("metadata", "true")], "")).answer().expect("an answer"),
    );
    let bearer = format!("Bearer {}", got.body["access_token"].as_str().expect("a token"));
    let spec = sim.spec();
    let path = format!(
        "/subscriptions/{}/resourceGroups/{}/providers/{SET}?api-version={COMPUTE}",
        spec.subscription_id, spec.resource_group
    );
    assert_eq!(arm(&sim, "GET", &path, &[("authorization", &bearer)], "").status, 200);
    assert_eq!(arm(&sim, "PATCH", &path, &[("authorization", &bearer)], "{}").status, 403);
}
