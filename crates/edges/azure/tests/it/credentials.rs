//! Each login method, with the credentials of `azure_identity`, against the embedded Azure.

use kiln_azure::login::{
    AzureJson, Environment, Identity, Login, LoginChoice, ManagedIdentity, ServicePrincipal, choose, discover,
};
use kiln_sim_azure::{Speed, WorldSpec};
use kiln_types::{ErrorClass, Factory, FactoryError, Secret};

use crate::embedded::{ENDPOINT, Embedded};

fn default_azure() -> Embedded {
    Embedded::new(WorldSpec::default(), Speed::Instant, "")
}

#[tokio::test(start_paused = true)]
async fn service_principal_logs_in() {
    let embedded = default_azure();
    assert_eq!(embedded.azure().pools().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn managed_identity_logs_in_through_the_metadata_service() {
    let embedded = default_azure();
    let azure = embedded.azure_as(Identity::Managed(ManagedIdentity::System));
    assert_eq!(azure.pools().await.unwrap().len(), 1);
    let named = ManagedIdentity::ClientId(embedded.sim.spec().identity.client_id.clone());
    assert_eq!(embedded.azure_as(Identity::Managed(named)).pools().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn workload_identity_logs_in_with_a_service_account_token() {
    let dir = tempfile::tempdir().unwrap();
    let token_file = dir.path().join("token");
    std::fs::write(&token_file, "service-account-token").unwrap();
    let mut spec = WorldSpec::default();
    spec.clients[0].federated_tokens.push("service-account-token".into());
    let (tenant, client_id) = (spec.tenant_id.clone(), spec.clients[0].client_id.clone());
    let embedded = Embedded::new(spec, Speed::Instant, "");
    let variables = [
        (Environment::TENANT_ID, tenant),
        (Environment::CLIENT_ID, client_id),
        (Environment::FEDERATED_TOKEN_FILE, token_file.to_str().unwrap().to_owned()),
    ];
    let login =
        choose(&LoginChoice::Automatic, None, Some(Embedded::cloud()), &variables.into_iter().collect()).unwrap();
    assert_eq!(embedded.azure_as(login.identity).pools().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn azure_json_logs_in_as_service_principal_and_as_managed_identity() {
    let embedded = default_azure();
    let spec = embedded.sim.spec();
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
        assert_eq!(embedded.azure_as(read.identity).pools().await.unwrap().len(), 1, "{client}");
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_the_embedded_azure_are_discovered() {
    let embedded = default_azure();
    let cloud = discover(embedded.http().as_ref(), &ENDPOINT.parse().unwrap()).await.unwrap();
    assert_eq!(cloud.arm.as_str(), "https://sim.localhost:8443/");
    assert_eq!(cloud.authority.scheme(), "https");
}

#[tokio::test(start_paused = true)]
async fn wrong_secret_is_an_authentication_error_without_the_secret() {
    let embedded = default_azure();
    let Identity::ServicePrincipal(principal) = embedded.principal() else { unreachable!() };
    let wrong = ServicePrincipal { secret: Secret::new("hunter2-wrong"), ..principal };
    let error = embedded.azure_as(Identity::ServicePrincipal(wrong)).pools().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Authentication);
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("AADSTS7000215"), "{shown}");
    assert!(!shown.contains("hunter2-wrong"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn missing_permission_error_names_the_action() {
    let mut spec = WorldSpec::default();
    spec.clients[0].not_actions.push("Microsoft.Compute/virtualMachineScaleSets/read".into());
    let embedded = Embedded::new(spec, Speed::Instant, "");
    let error = embedded.azure().pools().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Permission);
    assert!(error.to_string().contains("Microsoft.Compute/virtualMachineScaleSets/read"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn debug_output_contains_no_secret_or_token() {
    let embedded = default_azure();
    let secret = embedded.sim.spec().clients[0].client_secret.clone();
    let login = Login { cloud: Embedded::cloud(), identity: embedded.principal() };
    let credential = login.credential(&embedded.http()).unwrap();
    let azure = embedded.azure();
    azure.pools().await.unwrap();
    let variables: Environment = [(Environment::CLIENT_SECRET, secret.clone())].into_iter().collect();
    let shown = format!("{login:?} {credential:?} {azure:?} {variables:?} {:?}", embedded.checker.exchanges());
    assert!(shown.contains("ServicePrincipal") && shown.contains(Environment::CLIENT_SECRET), "{shown}");
    assert!(!shown.contains(&secret), "{shown}");
    // Tokens of the embedded Azure are JWTs, which start like this.
    assert!(!shown.contains("eyJ"), "{shown}");
}
