//! Who may log in, with what, and what a role lets them do.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::azure::Azure;

/// The least that a prototype run needs.
const ROLE: [&str; 29] = [
    "Microsoft.Compute/disks/beginGetAccess/action",
    "Microsoft.Compute/disks/read",
    "Microsoft.Compute/galleries/images/read",
    "Microsoft.Compute/galleries/images/versions/delete",
    "Microsoft.Compute/galleries/images/versions/read",
    "Microsoft.Compute/galleries/images/versions/write",
    "Microsoft.Compute/galleries/images/write",
    "Microsoft.Compute/galleries/read",
    "Microsoft.Compute/galleries/write",
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

/// A world with a client that may do everything, and for each action one that may do everything else; and who is denied what.
fn denying() -> (String, Value) {
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
fn plays_denying(scenario: &str) {
    let (world, facts) = denying();
    Azure::default().world(&world).start().plays("identity", scenario, &[("KILN_FACTS", &facts.to_string())]);
}

#[test]
fn a_service_principal_or_workload_logs_in_and_a_wrong_one_does_not() {
    let world = "clients:\n- {clientId: app, clientSecret: s, federatedTokens: [service-account-token]}\n";
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("token").display().to_string();
    let azure = Azure::default().world(world).start();
    azure.plays("identity", "service_principals_log_in", &[("KILN_TOKEN_FILE", &file)]);
}

#[test]
fn a_machine_logs_in_with_its_managed_identity() {
    let world = "identity: {clientId: of-the-nodes, notActions: ['*/delete']}\n";
    let facts = json!({"identity": "of-the-nodes"}).to_string();
    // It asks a metadata service.
    testkit::private().inside(|| {
        Azure::default().world(world).start().plays("identity", "machines_log_in", &[("KILN_FACTS", &facts)]);
    });
}

#[test]
fn missing_wrong_and_foreign_tokens_are_told_apart() {
    let foreign = "11111111-2222-4333-8444-555555555555";
    let world = format!("foreignSubscriptions: [{{subscriptionId: {foreign}, tenantId: other-tenant}}]\n");
    let facts = json!({"foreign": foreign}).to_string();
    Azure::default().world(&world).start().plays("identity", "bad_tokens_are_told_apart", &[("KILN_FACTS", &facts)]);
}

#[test]
fn a_token_that_is_too_old_is_refused() {
    Azure::default().world("tokenLifetime: 3\n").plays("identity", "tokens_expire");
}

#[test]
fn each_action_of_the_role_can_be_denied() {
    plays_denying("each_action_can_be_denied");
}

#[test]
fn a_write_needs_rights_on_what_it_refers_to() {
    plays_denying("links_can_be_denied");
}

#[test]
fn a_client_can_ask_what_it_may_do() {
    plays_denying("permissions_can_be_asked_for");
}
