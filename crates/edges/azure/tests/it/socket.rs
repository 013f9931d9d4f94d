//! The real HTTP client over loopback sockets and TLS.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{Identity, Login, LoginError, ManagedIdentity, ServicePrincipal, discover};
use kiln_azure::wire::{HttpOptions, http_client};
use kiln_azure::{Azure, AzureOptions};
use kiln_sim_azure::serve::{Listen, Sockets};
use kiln_sim_azure::tls::Tls;
use kiln_sim_azure::{Options, Sim, WorldSpec};
use kiln_types::{Factory, Secret};

#[test]
fn cloud_with_private_ca_needs_the_ca_file() {
    // With a managed identity, so that it also queries the metadata service.
    testkit::private().inside(|| tokio::runtime::Runtime::new().unwrap().block_on(connects_only_with_the_ca_file()));
}

#[expect(clippy::disallowed_methods, reason = "the TLS library validates certificates by the wall clock")]
async fn connects_only_with_the_ca_file() {
    let dir = tempfile::tempdir().unwrap();
    let now = Timestamp::now();
    let tls = Tls::open(dir.path(), &[], now).unwrap();
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let sockets = Sockets::bind(Listen { arm: any, imds: any, wire: any }).await.unwrap();
    let addresses = sockets.addresses;
    let sim = Sim::new(WorldSpec::default(), Options::instant(now)).unwrap();
    let spec = sim.spec();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(sockets.serve(sim.clone(), tls.config.clone(), None, async {
        let _ = stopped.await;
    }));

    let arm = format!("https://localhost:{}/", addresses.arm.port()).parse().unwrap();
    let metadata = format!("http://{}/vm/{}000000", addresses.imds, spec.pools[0].name);
    let options = HttpOptions { ca_file: None, metadata_base: Some(metadata.parse().unwrap()) };
    let distrustful = http_client(&options).unwrap();
    let error = discover(distrustful.as_ref(), &arm).await.unwrap_err();
    assert!(matches!(error, LoginError::Discovery { .. }), "{error}");

    let http = http_client(&HttpOptions { ca_file: Some(tls.ca_file), ..options }).unwrap();
    let cloud = discover(http.as_ref(), &arm).await.unwrap();
    let principal = Identity::ServicePrincipal(ServicePrincipal {
        tenant: spec.tenant_id.clone(),
        client_id: spec.clients[0].client_id.clone(),
        secret: Secret::new(spec.clients[0].client_secret.clone()),
    });
    for identity in [principal, Identity::Managed(ManagedIdentity::System)] {
        let kind = identity.kind();
        let credential = Login { cloud: cloud.clone(), identity }.credential(&http).unwrap();
        let scope = Scope::new(&spec.subscription_id, &spec.resource_group).unwrap();
        let options = AzureOptions {
            cloud: cloud.clone(),
            credential,
            http: http.clone(),
            jitter: Jitter::none(),
            recorder: None,
        };
        let pools = Azure::new(scope, options).pools().await.unwrap();
        assert_eq!(pools.len(), 1, "{kind}");
    }

    stop.send(()).unwrap();
    drop(http);
    server.await.unwrap();
}
