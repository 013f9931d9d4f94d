//! Launches in an embedded Azure: the number of requests, and the handling of faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{Cloud, Identity, Login, ServicePrincipal};
use kiln_azure::wire::InProcess;
use kiln_azure::{Azure, AzureOptions};
use kiln_bootstrap::images::Cache;
use kiln_bootstrap::{AksVariables, Resolved, Source, SourceKind, SourcePosition, resolve};
use kiln_engine::launch::{LaunchState, Unobserved, choose, collect, create, delete, list, template};
use kiln_sim_azure::{FaultPlan, Options, Sim, WorldSpec};
use kiln_types::{MachineName, Secret};

const ENDPOINT: &str = "https://sim.localhost:8443";
const WALL: &str = "2026-11-15T12:00:00Z";
const GROUP: &str =
    "/subscriptions/c3b5a9e2-7d18-4b6f-a1c4-9e8d7f6a5b02/resourceGroups/kubernetes-westus2-17813/providers";

const WORLD: &str = "
pools: []
communityImages:
- gallery: AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2
  definition: 2204containerd
  versions: [{version: 1.0.0, published: 2026-01-01T00:00:00Z}]
";

struct World {
    azure: Azure,
    requests: Arc<AtomicUsize>,
    sim: Sim,
}

impl World {
    fn new(faults: &str) -> Self {
        let spec = WorldSpec::parse("world", WORLD).unwrap();
        let faults = FaultPlan::parse("faults", faults).unwrap();
        let sim = Sim::new(spec.clone(), Options { faults, ..Options::instant(WALL.parse().unwrap()) }).unwrap();
        let requests: Arc<AtomicUsize> = Arc::default();
        let (counter, azure) = (requests.clone(), sim.clone());
        let http: Arc<dyn azure_core::http::HttpClient> = Arc::new(InProcess::new(move |request| {
            counter.fetch_add(1, Ordering::Relaxed);
            azure.arm(request).answer()
        }));
        let cloud = Cloud::custom("embedded", ENDPOINT, ENDPOINT, ENDPOINT).unwrap();
        let identity = Identity::ServicePrincipal(ServicePrincipal {
            tenant: spec.tenant_id.clone(),
            client_id: spec.clients[0].client_id.clone(),
            secret: Secret::new(spec.clients[0].client_secret.clone()),
        });
        let credential = Login { cloud: cloud.clone(), identity }.credential(&http).unwrap();
        let scope = Scope::new(&spec.subscription_id, &spec.resource_group).unwrap();
        let options = AzureOptions { cloud, credential, http, jitter: Jitter::none(), recorder: None };
        Self { azure: Azure::new(scope, options), requests, sim }
    }

    /// Returns the number of requests since the last call.
    fn take_request_count(&self) -> usize {
        self.requests.swap(0, Ordering::Relaxed)
    }

    fn resource_count(&self) -> usize {
        self.sim.stored().len()
    }
}

fn inputs() -> Resolved {
    let mut settings = Source::new(SourceKind::Settings);
    let subnet = format!("{GROUP}/Microsoft.Network/virtualNetworks/k8s-vnet/subnets/k8s-subnet");
    for (field, value) in [
        ("tenantId", "t"),
        ("subscriptionId", "c3b5a9e2-7d18-4b6f-a1c4-9e8d7f6a5b02"),
        ("resourceGroup", "kubernetes-westus2-17813"),
        ("location", "westus2"),
        ("clusterName", "my-cluster"),
        ("clusterEndpoint", "https://my-cluster.example:443"),
        ("kubernetesVersion", "1.33.7"),
        ("caBundle", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="),
        ("bootstrapToken", "abcdef.0123456789abcdef"),
        ("vnetSubnetId", subnet.as_str()),
        ("sshPublicKey", "ssh-ed25519 AAAA me"),
    ] {
        settings.set(field, value.into(), SourcePosition::Program).unwrap();
    }
    let mut pool = Source::new(SourceKind::NodePool);
    pool.set("vmSize", "Standard_D2s_v3".into(), SourcePosition::Program).unwrap();
    resolve(&[settings, pool])
}

fn name() -> MachineName {
    "node-1".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn image_list_is_cached_and_a_machine_needs_few_requests() {
    let world = World::new("");
    let (inputs, mut cache) = (inputs(), Cache::default());
    let image = choose(&world.azure, &inputs, &mut cache, 0).await.unwrap();
    // The first definition of the family has no version here; the second one has.
    assert!(image.id.ends_with("/images/2204containerd/versions/1.0.0"), "{image:?}");
    assert!(image.by.ends_with("/images/2204containerd/versions"), "{image:?}");
    world.take_request_count();
    let again = choose(&world.azure, &inputs, &mut cache, 60).await.unwrap();
    assert_eq!((again.id == image.id, world.take_request_count()), (true, 0));

    let made = template(&inputs, &AksVariables, &image.id).unwrap();
    let before = world.resource_count();
    create(&world.azure, &inputs, &made, name(), WALL.parse().unwrap(), &Unobserved).await.unwrap();
    assert!(world.take_request_count() <= 20, "reads, two writes with their polls, one tag, one read");
    assert_eq!(list(&world.azure, "my-cluster").await.unwrap().len(), 1);
    assert!(delete(&world.azure, "my-cluster", &name()).await.unwrap());
    assert_eq!(world.resource_count(), before);
    assert!(!delete(&world.azure, "my-cluster", &name()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn machine_that_azure_cannot_create_is_collected_with_its_interface() {
    for kind in ["allocation-failed", "quota-exceeded"] {
        let world = World::new(&format!(
            "faults: [{{kind: {kind}, method: PUT, type: Microsoft.Compute/virtualMachines, times: 99}}]"
        ));
        let (inputs, before) = (inputs(), world.resource_count());
        let image = choose(&world.azure, &inputs, &mut Cache::default(), 0).await.unwrap();
        let made = template(&inputs, &AksVariables, &image.id).unwrap();
        let error = create(&world.azure, &inputs, &made, name(), WALL.parse().unwrap(), &Unobserved).await.unwrap_err();
        assert!(!error.to_string().contains("abcdef"), "{error}");
        assert!(world.resource_count() > before, "{kind}: nothing is left to collect");
        let patience = Duration::from_mins(30);
        let soon = collect(&world.azure, "my-cluster", "2026-11-15T12:29:59Z".parse().unwrap(), patience, false).await;
        assert!(soon.unwrap().kept.iter().all(|kept| kept.launch == LaunchState::Recent));
        assert!(world.resource_count() > before);
        let later = collect(&world.azure, "my-cluster", "2026-11-15T12:30:00Z".parse().unwrap(), patience, false).await;
        assert_eq!(later.unwrap().removed.len(), 1, "{kind}");
        assert_eq!(world.resource_count(), before, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_responses_do_not_create_a_second_machine() {
    for target in ["Microsoft.Network/networkInterfaces", "Microsoft.Compute/virtualMachines"] {
        for method in ["PUT", "PATCH"] {
            let world =
                World::new(&format!("faults: [{{kind: reset-after-processing, method: {method}, type: {target}}}]"));
            let inputs = inputs();
            let image = choose(&world.azure, &inputs, &mut Cache::default(), 0).await.unwrap();
            let made = template(&inputs, &AksVariables, &image.id).unwrap();
            create(&world.azure, &inputs, &made, name(), WALL.parse().unwrap(), &Unobserved).await.unwrap();
            let machines = list(&world.azure, "my-cluster").await.unwrap();
            assert_eq!((machines.len(), machines[0].parts.len()), (1, 3), "{method} {target}");
            let kept =
                collect(&world.azure, "my-cluster", "2027-01-01T00:00:00Z".parse().unwrap(), Duration::ZERO, false)
                    .await;
            assert_eq!(kept.unwrap().removed, [], "{method} {target}");
        }
    }
}
