//! Credentials and settings from options, the environment and `azure.json`.

use serde_json::json;

use crate::world::{SMALL, World};

#[test]
fn azure_json_supplies_credentials_and_resource_group_in_a_pod() {
    let world = World::instant(SMALL);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("azure.json");
    let stack = folder.path().join("azurestackcloud.json");
    let key = |name: &str| world.sim.key(name).to_owned();
    std::fs::write(
        &file,
        json!({
            "cloud": "AzureStackCloud", "tenantId": key("tenantId"), "subscriptionId": key("subscriptionId"),
            "resourceGroup": key("resourceGroup"), "aadClientId": key("clientId"), "aadClientSecret": key("clientSecret"),
        })
        .to_string(),
    )
    .expect("written");
    let arm = key("arm");
    let endpoints = json!({
        "name": "AzureStackCloud", "activeDirectoryEndpoint": arm, "resourceManagerEndpoint": arm,
        "serviceManagementEndpoint": arm,
    });
    std::fs::write(&stack, endpoints.to_string()).expect("written");
    let path = file.to_str().expect("UTF-8").to_owned();
    let kubeconfig = key("kubeconfig");
    let status_with = |path: &str, more: &[&str]| {
        let arguments = ["status", "--in-cluster", "--azure-json", path, "--kubeconfig", &kubeconfig];
        let mut command = world.command(&[&arguments[..], more].concat());
        for name in [
            "KILN_ARM_ENDPOINT",
            "AZURE_CLIENT_ID",
            "AZURE_CLIENT_SECRET",
            "AZURE_TENANT_ID",
            "AZURE_SUBSCRIPTION_ID",
            "AZURE_RESOURCE_GROUP",
            "AZURE_AUTHORITY_HOST",
        ] {
            command.env_remove(name);
        }
        testkit::run(command, std::time::Duration::from_mins(1))
    };
    let status = |path: &str| status_with(path, &[]);
    let finished = status(&path).success();
    assert!(finished.stdout.starts_with("pool: k8s-agentpool1-26100436-vmss in westus2\n"), "{finished}");
    // The endpoints may be elsewhere.
    let elsewhere = folder.path().join("endpoints.json");
    std::fs::rename(&stack, &elsewhere).expect("renamed");
    assert_eq!(status(&path).code, Some(2), "without the endpoints");
    let moved = status_with(&path, &["--azure-stack", elsewhere.to_str().expect("UTF-8")]).success();
    assert_eq!(moved.stdout, finished.stdout);
    let missing = status("/nowhere/azure.json");
    assert_eq!(missing.code, Some(2), "{missing}");
    assert!(missing.stderr.contains("/nowhere/azure.json"), "{missing}");
    assert!(missing.stderr.contains("--managed-identity"), "{missing}");
    assert!(!format!("{}{}", finished.stdout, finished.stderr).contains(world.sim.key("clientSecret")));
}

/// In a private network, because a kiln that ignored the address of the test would log in at the real metadata service of a cloud VM.
#[test]
fn managed_identity_logs_in_without_azure_json() {
    testkit::private().inside(log_in_with_a_managed_identity);
}

fn log_in_with_a_managed_identity() {
    let world = World::instant(SMALL);
    let node = world.sim.key("imds").trim_end_matches('/').to_owned() + "/vm/k8s-agentpool1-26100436-vmss000000";
    let (kubeconfig, group, subscription) =
        (world.sim.key("kubeconfig"), world.sim.key("resourceGroup"), world.sim.key("subscriptionId"));
    let status = |identity: &str| {
        let arguments = [
            "status",
            "--in-cluster",
            "--azure-json",
            "/nowhere/azure.json",
            "--kubeconfig",
            kubeconfig,
            identity,
            "--resource-group",
            group,
            "--subscription",
            subscription,
        ];
        let mut command = world.command(&arguments);
        for name in ["AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID", "AZURE_AUTHORITY_HOST"] {
            command.env_remove(name);
        }
        command.env("AZURE_POD_IDENTITY_AUTHORITY_HOST", &node);
        testkit::run(command, std::time::Duration::from_mins(1))
    };
    let client_id = "--managed-identity=0b7f41f1-7c0e-4d39-9b45-2f43a6f6a403";
    for identity in ["--managed-identity", client_id] {
        let finished = status(identity).success();
        assert!(finished.stdout.starts_with("pool: k8s-agentpool1-26100436-vmss in westus2\n"), "{finished}");
    }
    let unknown = status("--managed-identity=11111111-2222-4333-8444-555555555555");
    assert_eq!(unknown.code, Some(1), "{unknown}");
    assert!(unknown.stderr.contains("cannot log in"), "{unknown}");
}

#[test]
fn missing_settings_are_named_with_option_and_variable() {
    let world = World::instant(SMALL);
    for (variable, named) in [
        ("AZURE_RESOURCE_GROUP", "--resource-group"),
        ("AZURE_SUBSCRIPTION_ID", "--subscription"),
        ("AZURE_TENANT_ID", "AZURE_TENANT_ID"),
    ] {
        let mut command = world.command(&["status"]);
        command.env_remove(variable);
        let finished = testkit::run(command, std::time::Duration::from_mins(1));
        assert_eq!(finished.code, Some(2), "{variable}: {finished}");
        assert!(finished.stderr.contains(named) && finished.stderr.contains(variable), "{finished}");
    }
    let other = world.exits_with(2, &["status", "--target-vmss", "unknown"]);
    assert!(other.stderr.contains("existing scale sets: `k8s-agentpool1-26100436-vmss`"), "{other}");
    let node = world.exits_with(1, &["update", "--target-node", "unknown"]);
    assert!(node.stderr.contains("`unknown`"), "{node}");
}
