//! What a canary gets of its pool, and what it says about its version.

use kiln_engine::{AutoRequest, PARALLEL, PoolOutcome, RunEnd, auto_update, update};
use kiln_kubernetes::LOAD_BALANCER_LABEL;
use kiln_prototype::donor::DonorRules;
use kiln_prototype::journal::Outcome;
use kiln_prototype::step::Step;
use kiln_sim_azure::{ContentsSpec, Defect, Speed};
use kiln_types::Factory;
use kiln_types::tags::REJECTED_TAG;
use serde_json::{Value, json};

use crate::breakpoint::Breakpoint;
use crate::world::{POOL, World, WorldBuilder, node, pool_name, request};

const NODE_CONFIG: &str =
    r#"{"apiVersion":"kiln.dev/v1alpha1","kind":"NodeConfig","metadata":{"generation":1},"spec":{}}"#;

fn instant() -> WorldBuilder {
    WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }
}

/// A private subnet: machines have outbound access only by way of a load balancer. Its pool `out` has an outbound rule, and its pool
/// `both` also receives connections.
fn behind_a_load_balancer(pools: &[&str]) -> WorldBuilder {
    let mut builder = instant();
    let group = format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Network",
        builder.spec.subscription_id, builder.spec.resource_group
    );
    let prefix = serde_json::to_value(builder.spec.address_prefix).unwrap();
    let rule = |pool: &str| {
        json!({"name": pool, "properties": {
            "backendAddressPool": {"id": format!("{group}/loadBalancers/lb/backendAddressPools/{pool}")},
            "disableOutboundSnat": true,
        }})
    };
    let balancer = json!({"location": builder.spec.location, "properties": {
        "frontendIPConfigurations": [{"name": "f", "properties": {"publicIPAddress": {"id": "/ip"}}}],
        "outboundRules": [rule("out"), rule("both")],
        "loadBalancingRules": [rule("both")],
    }});
    let subnet = json!({"properties": {"addressPrefix": prefix, "defaultOutboundAccess": false}});
    for (path, body) in [
        ("Microsoft.Network/virtualNetworks/k8s-vnet/subnets/k8s-subnet", subnet),
        ("Microsoft.Network/loadBalancers/lb", balancer),
    ] {
        builder.spec.resources.push(serde_json::from_value(json!({"path": path, "body": body})).unwrap());
    }
    let network = network(&group, pools);
    builder.pool(|pool| pool.properties.clone_from(network.as_object().unwrap()))
}

/// The properties of a scale set in these pools of the load balancer.
fn network(group: &str, pools: &[&str]) -> Value {
    let pools: Vec<Value> = pools
        .iter()
        .map(|pool| json!({"id": format!("{group}/loadBalancers/lb/backendAddressPools/{pool}")}))
        .collect();
    json!({"virtualMachineProfile": {"networkProfile": {"networkInterfaceConfigurations": [{
        "name": "nic", "properties": {"primary": true, "ipConfigurations": [{"name": "ip", "properties": {
            "subnet": {"id": format!("{group}/virtualNetworks/k8s-vnet/subnets/k8s-subnet")},
            "loadBalancerBackendAddressPools": pools,
        }}]},
    }]}}})
}

async fn run(world: &World) -> RunEnd {
    Box::pin(update(&world.quiet(), &request(1))).await.unwrap().end
}

fn assert_completed(end: &RunEnd) {
    assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{end}");
}

async fn is_rejected(world: &World) -> bool {
    let definition = world.azure().find_definition(&definition(world)).await.unwrap().unwrap();
    definition.tags.contains_key(REJECTED_TAG)
}

fn definition(world: &World) -> kiln_types::DefinitionName {
    kiln_prototype::names::definition(&world.sim.spec().resource_group, &pool_name()).unwrap()
}

/// Stops a run before it deletes its canary, for a check.
async fn with_canary(world: &World, request: &kiln_engine::RunRequest, check: impl AsyncFnOnce(&World)) -> RunEnd {
    let breakpoint = Breakpoint::before(|step| step == Step::DeleteCanary);
    let context = world.process(breakpoint.clone());
    let checking = async {
        breakpoint.reached().await;
        check(world).await;
        breakpoint.pass();
    };
    let (report, ()) = tokio::join!(Box::pin(update(&context, request)), checking);
    report.unwrap().end
}

#[tokio::test(start_paused = true)]
async fn canary_keeps_the_outbound_pool_and_is_in_no_inbound_pool() {
    let world = behind_a_load_balancer(&["both", "out"]).start().await;
    let end = with_canary(&world, &request(1), async |world| {
        let stored = world.sim.stored();
        let is_canary = |id: &str| {
            id.rsplit_once('/')
                .is_some_and(|(set, name)| set.ends_with("ScaleSets") && name.starts_with("kiln-canary-"))
        };
        let (_, canary) = stored.iter().find(|(id, _)| is_canary(id)).unwrap();
        let text = canary["properties"]["virtualMachineProfile"]["networkProfile"].to_string();
        assert!(text.contains("backendAddressPools/out") && !text.contains("backendAddressPools/both"), "{text}");
    })
    .await;
    assert_completed(&end);
    world.state().await.assert_nothing_held();
}

#[tokio::test(start_paused = true)]
async fn version_of_a_canary_without_outbound_access_is_not_proven_and_a_later_night_tests_it() {
    // The only pool with outbound access receives connections too, so the canary must not be in it.
    let world = behind_a_load_balancer(&["both"]).start().await;
    let before = world.state().await;
    let end = run(&world).await;
    let RunEnd::Closed(Outcome::Failed { step: Step::AwaitCanary, failure }) = &end else { panic!("{end}") };
    assert!(failure.message.contains("is not proven") && failure.message.contains("booted"), "{failure}");
    let after = world.state().await;
    after.assert_nothing_held();
    assert_eq!(after.image, before.image);
    assert!(!is_rejected(&world).await);

    // The network is fixed. The patch of the donor is older than the version, which is not proven, so the next run is not skipped.
    let spec = world.sim.spec();
    let group = format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Network",
        spec.subscription_id, spec.resource_group
    );
    world.sim.change_scale_set(POOL, &json!({"properties": network(&group, &["both", "out"])})).unwrap();
    world.annotate(&node(1), "patched", "2026-11-14").await;
    let mut rules = DonorRules::new("reboot", "patched");
    rules.minimum_ready = "0".parse().unwrap();
    let options = request(1).options;
    let auto =
        AutoRequest { pools: Vec::new(), rules, options, dry_run: false, max_skipped_nights: 14, parallel: PARALLEL };
    let reports = Box::pin(auto_update(&world.quiet(), &auto)).await.unwrap();
    let PoolOutcome::Ran(report) = &reports[0].outcome else { panic!("{reports:#?}") };
    assert_completed(&report.end);
    assert_eq!(world.state().await.versions.len(), 1, "the version of the first run was tested again");
}

#[tokio::test(start_paused = true)]
async fn canary_that_is_never_seen_booting_leaves_its_version_not_proven() {
    let world = instant()
        .pool(|pool| {
            let defects = Some([Defect::CloneNeverBoots].into());
            pool.instances.insert(1, ContentsSpec { defects, ..ContentsSpec::default() });
        })
        .start()
        .await;
    let end = run(&world).await;
    let RunEnd::Closed(Outcome::Failed { step: Step::AwaitCanary, failure }) = &end else { panic!("{end}") };
    assert!(failure.message.contains("was not seen booting"), "{failure}");
    assert!(!is_rejected(&world).await);
    world.state().await.assert_nothing_held();
}

#[tokio::test(start_paused = true)]
async fn canary_of_a_pool_with_user_data_gets_it() {
    let world = instant().pool(|pool| pool.user_data = Some(NODE_CONFIG.to_owned())).start().await;
    assert_completed(&run(&world).await);
    world.sim.scale(POOL, 4).unwrap();
    world.until_ready().await;
}

#[tokio::test(start_paused = true)]
async fn node_config_in_custom_data_is_kept_for_the_canary_and_new_nodes() {
    let world = instant()
        .pool(|pool| {
            pool.custom_data = Some(NODE_CONFIG.to_owned());
            pool.extensions.clear();
        })
        .start()
        .await;
    assert_completed(&run(&world).await);
    world.sim.scale(POOL, 4).unwrap();
    world.until_ready().await;
    let clone = world.machines().into_iter().find(|machine| machine.computer_name == node(3).as_str()).unwrap();
    assert!(clone.image.as_deref().unwrap().ends_with("/2026.11.15"), "{:?}", clone.image);
    assert_eq!(clone.custom_data.unwrap().expose(), NODE_CONFIG.as_bytes());
}

#[tokio::test(start_paused = true)]
async fn canary_has_the_tags_of_pool_and_run_and_its_node_is_in_no_load_balancer() {
    let world = instant().pool(|pool| _ = pool.tags.insert("team".to_owned(), "ml".to_owned())).start().await;
    let mut request = request(1);
    request.options.tags.insert("cost-centre".to_owned(), "7".to_owned());
    let end = with_canary(&world, &request, async |world| {
        let all = world.azure().pools().await.unwrap();
        let canary = all.iter().find(|pool| pool.name.as_str().starts_with("kiln-canary-")).unwrap();
        let tag = |name: &str| canary.tags.get(name).map(String::as_str);
        assert_eq!((tag("team"), tag("cost-centre")), (Some("ml"), Some("7")), "{:?}", canary.tags);
        let nodes = world.cluster().all_nodes().await.unwrap();
        let node = nodes.iter().find(|node| node.name.as_str().starts_with("kiln-canary-")).unwrap();
        assert!(node.cordoned && node.labels.contains_key(LOAD_BALANCER_LABEL), "{node:?}");
    })
    .await;
    assert_completed(&end);
}
