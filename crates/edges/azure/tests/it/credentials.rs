//! Each way to log in, with `azure_identity`'s own credentials, against the embedded Azure.

use kiln_azure::login::{
    AzureJson, Environment, Identity, Login, LoginChoice, ManagedIdentity, ServicePrincipal, choose, discover,
};
use kiln_sim_azure::{Speed, WorldSpec};
use kiln_types::{ErrorClass, Factory, FactoryError, Secret};

use crate::embedded::{ENDPOINT, Embedded};

fn world() -> Embedded {
    Embedded::new(WorldSpec::default(), Speed::Instant, "")
}

#[tokio::test(start_paused = true)]
async fn a_service_principal_logs_in() {
    let world = world();
    assert_eq!(world.azure().pools().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_managed_identity_logs_in_through_the_machines_metadata_service() {
    let world = world();
    let azure = world.azure_as(Identity::Managed(ManagedIdentity::System));
    assert_eq!(azure.pools().await.unwrap().len(), 1);
    let named = ManagedIdentity::ClientId(world.sim.spec().identity.client_id.clone());
    assert_eq!(world.azure_as(Identity::Managed(named)).pools().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_workload_identity_logs_in_with_its_service_accounts_token() {
    let dir = tempfile::tempdir().unwrap();
    let token_file = dir.path().join("token");
    std::fs::write(&token_file, "service-account-token").unwrap();
    let mut spec = WorldSpec::default();
    spec.clients[0].federated_tokens.push("service-account-token".into());
    let (tenant, client_id) = (spec.tenant_id.clone(), spec.clients[0].client_id.clone());
    let world = Embedded::new(spec, Speed::Instant, "");
    let variables = [
        (Environment::TENANT_ID, tenant),
        (Environment::CLIENT_ID, client_id),
        (Environment::FEDERATED_TOKEN_FILE, token_file.to_str().unwrap().to_owned()),
    ];
    let login =
        choose(&LoginChoice::Automatic, None, Some(Embedded::cloud()), &variables.into_iter().collect()).unwrap();
    assert_eq!(world.azure_as(login.identity).pools().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_azure_json_logs_in_as_a_principal_and_as_the_machine() {
    let world = world();
    let spec = world.sim.spec();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("azure.json");
    for (client, secret) in
        [(spec.clients[0].client_id.as_str(), spec.clients[0].client_secret.as_str()), ("msi", "msi")]
    {
        let json = serde_json::json!({
            "cloud": "AzurePublicCloud", "tenantId": spec.tenant_id, "subscriptionId": spec.subscription_id,
            "resourceGroup": spec.resource_group, "aadClientId": client, "aadClientSecret": secret
        });
        std::fs::write(&path, json.to_string()).unwrap();
        let read = AzureJson::read(&path, None).unwrap();
        assert_eq!(world.azure_as(read.identity).pools().await.unwrap().len(), 1, "{client}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_embedded_azure_tells_its_endpoints() {
    let world = world();
    let cloud = discover(world.http().as_ref(), &ENDPOINT.parse().unwrap()).await.unwrap();
    assert_eq!(cloud.arm.as_str(), "https://sim.localhost:8443/");
    assert_eq!(cloud.authority.scheme(), "https");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_secret_is_an_authentication_error_with_entras_code_and_without_the_secret() {
    let world = world();
    let Identity::ServicePrincipal(principal) = world.principal() else { unreachable!() };
    let wrong = ServicePrincipal { secret: Secret::new("hunter2-wrong"), ..principal };
    let error = world.azure_as(Identity::ServicePrincipal(wrong)).pools().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Authentication);
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("AADSTS7000215"), "{shown}");
    assert!(!shown.contains("hunter2-wrong"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_told_apart_and_names_the_action() {
    let mut spec = WorldSpec::default();
    spec.clients[0].not_actions.push("Microsoft.Compute/virtualMachineScaleSets/read".into());
    let world = Embedded::new(spec, Speed::Instant, "");
    let error = world.azure().pools().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Permission);
    assert!(error.to_string().contains("Microsoft.Compute/virtualMachineScaleSets/read"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn nothing_that_can_be_printed_shows_a_secret_or_a_token() {
    let world = world();
    let secret = world.sim.spec().clients[0].client_secret.clone();
    let login = Login { cloud: Embedded::cloud(), identity: world.principal() };
    let credential = login.credential(&world.http()).unwrap();
    let azure = world.azure();
    azure.pools().await.unwrap();
    let variables: Environment = [(Environment::CLIENT_SECRET, secret.clone())].into_iter().collect();
    let shown = format!("{login:?} {credential:?} {azure:?} {variables:?} {:?}", world.judge.seen());
    assert!(shown.contains("ServicePrincipal") && shown.contains(Environment::CLIENT_SECRET), "{shown}");
    assert!(!shown.contains(&secret), "{shown}");
    // Every token of the embedded Azure is a JWT, which begins so.
    assert!(!shown.contains("eyJ"), "{shown}");
}
