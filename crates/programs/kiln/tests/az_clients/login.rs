//! Login.

use crate::azure::Azure;
use crate::session::{POOL, Session};

#[test]
fn az_logs_in_as_a_service_principal() {
    let session = Session::new(Azure::default());
    let refused = session.log_in("wrong");
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.stderr.contains("AADSTS7000215"), "{refused}");
    let accounts = session.log_in(session.key("clientSecret")).success().json();
    assert_eq!(accounts[0]["id"], session.key("subscriptionId"));
    assert_eq!(accounts[0]["user"]["type"], "servicePrincipal");
    let account = session.run(&["account", "show"]).success().json();
    assert_eq!(account["tenantId"], session.key("tenantId"));
    let cloud = session.run(&["cloud", "show"]).success().json();
    assert_eq!(cloud["endpoints"]["resourceManager"], session.key("arm"));
    let groups = session.run(&["group", "list", "--query", "[].name", "--output", "json"]).success().json();
    assert_eq!(groups[0], session.key("resourceGroup"));
    let _ = session.run(&["logout"]).success();
    let rejected = session.run(&["account", "show"]);
    assert_eq!(rejected.code, Some(1), "{rejected}");
}

#[test]
fn az_logs_in_with_a_managed_identity() {
    // `az` queries a metadata service.
    testkit::private().inside(log_in_with_managed_identity);
}

fn log_in_with_managed_identity() {
    let session = Session::new(Azure::default());
    let host = format!("{}/vm/{POOL}000000", session.key("imds"));
    let variables = [("AZURE_POD_IDENTITY_AUTHORITY_HOST", host.as_str())];
    let accounts = session.run_with(&["login", "--identity"], &variables).success().json();
    assert_eq!(accounts[0]["user"]["name"], "systemAssignedIdentity");
    assert_eq!(accounts[0]["id"], session.key("subscriptionId"));
    let group = session.key("resourceGroup");
    let pool = session.run_with(&["vmss", "show", "--name", POOL, "--resource-group", group], &variables);
    assert_eq!(pool.success().json()["name"], POOL);
    let other = session.run_with(&["login", "--identity", "--client-id", "unknown"], &variables);
    assert_ne!(other.code, Some(0), "{other}");
}
