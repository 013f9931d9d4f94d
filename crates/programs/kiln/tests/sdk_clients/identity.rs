//! Logins and roles.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::azure::Azure;

/// The actions that a prototype run needs.
const ROLE: [&str; 31] = [
    "Microsoft.Compute/disks/beginGetAccess/action",
    "Microsoft.Compute/disks/read",
    "Microsoft.Compute/galleries/images/read",
    "Microsoft.Compute/galleries/images/versions/delete",
    "Microsoft.Compute/galleries/images/versions/read",
    "Microsoft.Compute/galleries/images/versions/write",
    "Microsoft.Compute/galleries/images/write",
    "Microsoft.Compute/galleries/read",
    "Microsoft.Compute/galleries/write",
    "Microsoft.Compute/locations/capsOperations/read",
    "Microsoft.Compute/locations/diskOperations/read",
    "Microsoft.Compute/locations/operations/read",
    "Microsoft.Compute/snapshots/delete",
    "Microsoft.Compute/snapshots/read",
    "Microsoft.Compute/snapshots/write",
    "Microsoft.Compute/virtualMachineScaleSets/delete",
    "Microsoft.Compute/virtualMachineScaleSets/extensions/delete",
    "Microsoft.Compute/virtualMachineScaleSets/extensions/read",
    "Microsoft.Compute/virtualMachineScaleSets/powerOff/action",
    "Microsoft.Compute/virtualMachineScaleSets/read",
    "Microsoft.Compute/virtualMachineScaleSets/start/action",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/delete",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/powerOff/action",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/start/action",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/write",
    "Microsoft.Compute/virtualMachineScaleSets/write",
    "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
    "Microsoft.Network/loadBalancers/backendAddressPools/join/action",
    "Microsoft.Network/networkSecurityGroups/join/action",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
];

/// Returns a world file with a client that has every permission and, for each action, one that has every other permission; and the client
/// id for each denied action.
fn world_with_denied_actions() -> (String, Value) {
    let mut world = "clients:\n- {clientId: all, clientSecret: s}\n".to_owned();
    let mut denied = Map::new();
    for (number, action) in ROLE.iter().enumerate() {
        let client = format!("without-{number}");
        writeln!(world, "- {{clientId: {client}, clientSecret: s, notActions: ['{action}']}}").unwrap();
        denied.insert((*action).to_owned(), json!(client));
    }
    (world, json!({"denied": denied}))
}

#[track_caller]
fn run_with_denied_actions(scenario: &str) {
    let (world, facts) = world_with_denied_actions();
    Azure::default().world(&world).start().plays("identity", scenario, &[("KILN_FACTS", &facts.to_string())]);
}

#[test]
fn service_principal_and_workload_log_in() {
    let world = "clients:\n- {clientId: app, clientSecret: s, federatedTokens: [service-account-token]}\n";
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("token").display().to_string();
    let azure = Azure::default().world(world).start();
    azure.plays("identity", "service_principals_log_in", &[("KILN_TOKEN_FILE", &file)]);
}

#[test]
fn vm_logs_in_with_its_managed_identity() {
    let world = "identity: {clientId: of-the-nodes, notActions: ['*/delete']}\n";
    let facts = json!({"identity": "of-the-nodes"}).to_string();
    // The SDK queries a metadata service.
    testkit::private().inside(|| {
        Azure::default().world(world).start().plays("identity", "machines_log_in", &[("KILN_FACTS", &facts)]);
    });
}

#[test]
fn missing_invalid_and_foreign_tokens_have_different_errors() {
    let foreign = "11111111-2222-4333-8444-555555555555";
    let world = format!("foreignSubscriptions: [{{subscriptionId: {foreign}, tenantId: other-tenant}}]\n");
    let facts = json!({"foreign": foreign}).to_string();
    Azure::default().world(&world).start().plays(
        "identity",
        "bad_tokens_have_different_errors",
        &[("KILN_FACTS", &facts)],
    );
}

#[test]
fn expired_token_is_rejected() {
    Azure::default().world("tokenLifetime: 3\n").plays("identity", "tokens_expire");
}

#[test]
fn each_action_of_the_role_can_be_denied() {
    run_with_denied_actions("each_action_can_be_denied");
}

#[test]
fn write_needs_permissions_on_linked_resources() {
    run_with_denied_actions("links_can_be_denied");
}

#[test]
fn client_can_list_its_permissions() {
    run_with_denied_actions("permissions_can_be_listed");
}
