//! Refused runs change nothing.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kiln_engine::{AutoRequest, Context, PARALLEL, PoolOutcome, RunEnd, auto_update, resume, update};
use kiln_prototype::donor::DonorRules;
use kiln_prototype::journal::Outcome;
use kiln_prototype::run::RunOptions;
use kiln_sim_azure::{ContentsSpec, PoolSpec, Speed};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::breakpoint::Breakpoint;
use crate::world::{World, WorldBuilder, node, pool_name, request};

fn instant() -> WorldBuilder {
    WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }
}

fn contents(change: impl FnOnce(&mut ContentsSpec)) -> impl FnOnce(&mut PoolSpec) {
    move |pool| {
        let mut contents = ContentsSpec::default();
        change(&mut contents);
        pool.instances.insert(1, contents);
    }
}

/// Everything in the cluster that a run could write, except heartbeats.
async fn cluster_state(world: &World) -> Vec<String> {
    let client = Client::new(world.server.service(), "kiln-system");
    let all = ListParams::default();
    let mut all_objects = Vec::new();
    let nodes: Api<Node> = Api::all(client.clone());
    for node in nodes.list(&all).await.unwrap() {
        let spec = serde_json::to_string(&node.spec).unwrap();
        all_objects.push(format!("{:?} {:?} {spec}", node.metadata.name, node.metadata.annotations));
    }
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    all_objects.extend(maps.list(&all).await.unwrap().into_iter().map(|map| format!("map {:?}", map.metadata.name)));
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    all_objects
        .extend(secrets.list(&all).await.unwrap().into_iter().map(|map| format!("secret {:?}", map.metadata.name)));
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::default_namespaced(client);
    all_objects
        .extend(leases.list(&all).await.unwrap().into_iter().map(|lease| format!("lease {:?}", lease.metadata.name)));
    all_objects
}

async fn assert_refused(world: &World, words: &str) {
    let before = cluster_state(world).await;
    let report = Box::pin(update(&world.quiet(), &request(1))).await.unwrap();
    let RunEnd::Refused(reasons) = &report.end else { panic!("{words}: {}", report.end) };
    assert!(reasons.iter().any(|reason| reason.contains(words)), "{words}: {reasons:?}");
    assert_eq!(world.wire.writes(), Vec::<String>::new(), "{words}");
    assert_eq!(cluster_state(world).await, before, "{words}");
}

#[tokio::test(start_paused = true)]
async fn run_with_a_blocker_is_refused_and_changes_nothing() {
    let properties =
        |value: serde_json::Value| move |pool: &mut PoolSpec| pool.properties = value.as_object().unwrap().clone();
    let place = |line: &str| vec![kiln_types::FileLine { path: "/etc/x".to_owned(), line: line.to_owned() }];
    let full = kiln_types::DiskUse { size_bytes: 100 << 30, used_bytes: 95 << 30 };
    let unknown = kiln_types::JoinCredential::Unknown { why: "not known here".to_owned() };
    let cases: Vec<(WorldBuilder, &str)> = vec![
        (instant().pool(|pool| pool.upgrade_policy = "Automatic".to_owned()), "upgrade policy"),
        (instant().pool(properties(json!({"automaticRepairsPolicy": {"enabled": true}}))), "automatic repairs"),
        (
            instant().pool(|pool| drop(pool.tags.insert("aks-managed-poolName".to_owned(), "p".to_owned()))),
            "AKS manages",
        ),
        (
            instant().pool(properties(json!({"virtualMachineProfile": {"storageProfile": {"osDisk": {
                "createOption": "FromImage", "diffDiskSettings": {"option": "Local"},
            }}}}))),
            "ephemeral",
        ),
        (
            instant().pool(|pool| drop(pool.node_labels.insert("kubernetes.io/os".to_owned(), "windows".to_owned()))),
            "runs Windows",
        ),
        (instant().pool(contents(|contents| contents.disk = Some(full))), "disk is free"),
        (
            instant().pool(contents(|contents| contents.fstab = Some("UUID=1 /data ext4 defaults 0 2\n".to_owned()))),
            "/data",
        ),
        (instant().pool(contents(|contents| contents.static_addresses = Some(place("address 10.0.0.4")))), "/etc/x"),
        (instant().pool(contents(|contents| contents.literal_host_names = Some(place("node1")))), "/etc/x"),
        (instant().pool(contents(|contents| contents.join_credential = Some(unknown))), "not known here"),
        (instant().pool(|pool| pool.custom_data = None), "original recipe"),
    ];
    for (builder, words) in cases {
        assert_refused(&builder.start().await, words).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pool_of_one_missing_permission_and_own_node_are_refused() {
    let mut builder = instant();
    builder.spec.pools[0].capacity = 2;
    let world = builder.start().await;
    world.sim.delete_machine(node(0).as_str()).unwrap();
    world.sim.scale(pool_name().as_str(), 1).unwrap();
    assert_refused(&world, "has one node").await;

    let mut builder = instant();
    builder.spec.clients[0].not_actions = vec!["Microsoft.Compute/snapshots/write".to_owned()];
    assert_refused(&builder.start().await, "Microsoft.Compute/snapshots/write").await;

    let world = instant().start().await;
    let own = Context { own_node: Some(node(1)), ..world.quiet() };
    let report = Box::pin(update(&own, &request(1))).await.unwrap();
    assert!(matches!(&report.end, RunEnd::Refused(_)), "{}", report.end);
    assert_eq!(world.wire.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn all_pools_run_at_once_and_pools_with_blockers_are_skipped() {
    let mut builder = WorldBuilder::quick();
    let mut second = builder.spec.pools[0].clone();
    second.name = "k8s-other-26100436-vmss".to_owned();
    second.upgrade_policy = "Automatic".to_owned();
    builder.spec.pools.push(second);
    let world = builder.start().await;
    let client = Client::new(world.server.service(), "default");
    let nodes: Api<Node> = Api::all(client);
    for name in nodes.list(&ListParams::default()).await.unwrap().into_iter().filter_map(|node| node.metadata.name) {
        let patch = json!({"metadata": {"annotations": {"patched": "2026-11-14"}}});
        nodes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
    let mut rules = DonorRules::new("reboot", "patched");
    rules.minimum_ready = "0".parse().unwrap();
    let mut request = AutoRequest {
        pools: Vec::new(),
        rules,
        options: RunOptions::default(),
        dry_run: true,
        max_skipped_nights: 14,
        parallel: PARALLEL,
    };
    let dry = Box::pin(auto_update(&world.quiet(), &request)).await.unwrap();
    assert!(dry.iter().all(|report| matches!(report.outcome, PoolOutcome::WouldClone(_))), "{dry:#?}");
    assert_eq!(world.wire.writes(), Vec::<String>::new(), "a dry run changes nothing");

    request.dry_run = false;
    let reports = Box::pin(auto_update(&world.quiet(), &request)).await.unwrap();
    assert!(reports.iter().all(|report| report.outcome.is_success()), "{reports:#?}");
    let (fit, unfit) = (&reports[0], &reports[1]);
    let PoolOutcome::Ran(report) = &fit.outcome else { panic!("{fit:#?}") };
    assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
    let PoolOutcome::Skipped(reasons) = &unfit.outcome else { panic!("{unfit:#?}") };
    assert!(reasons[0].contains("upgrade policy"), "{reasons:?}");

    // The image has the patch now, so there is nothing to do.
    let again = Box::pin(auto_update(&world.quiet(), &request)).await.unwrap();
    assert!(matches!(again[0].outcome, PoolOutcome::Skipped(_)), "{again:#?}");
}

#[tokio::test(start_paused = true)]
async fn second_donor_is_tried_if_the_first_is_refused() {
    let mut builder = WorldBuilder::quick();
    let place = vec![kiln_types::FileLine { path: "/etc/x".to_owned(), line: "address 10.0.0.4".to_owned() }];
    builder.spec.pools[0].instances.entry(0).or_default().static_addresses = Some(place);
    let world = builder.start().await;
    let nodes: Api<Node> = Api::all(Client::new(world.server.service(), "default"));
    for number in [0, 1] {
        let patch = json!({"metadata": {"annotations": {"patched": "2026-11-14"}}});
        nodes.patch(node(number).as_str(), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
    let mut rules = DonorRules::new("reboot", "patched");
    rules.minimum_ready = "0".parse().unwrap();
    let options = RunOptions::default();
    let request =
        AutoRequest { pools: Vec::new(), rules, options, dry_run: false, max_skipped_nights: 14, parallel: PARALLEL };
    let reports = Box::pin(auto_update(&world.quiet(), &request)).await.unwrap();
    let PoolOutcome::Ran(run) = &reports[0].outcome else { panic!("{reports:#?}") };
    assert!(matches!(run.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", run.end);
    assert_eq!(run.node, node(1));
    let [(refused, reasons)] = &reports[0].refused[..] else { panic!("{reports:#?}") };
    assert!(*refused == node(0) && reasons[0].contains("/etc/x"), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn resumed_run_has_exactly_the_consents_it_was_started_with() {
    for allow_empty_pool in [false, true] {
        let world = instant().pool(|pool| pool.capacity = 2).start().await;
        let mut request = request(1);
        request.options.allow_empty_pool = allow_empty_pool;
        let breakpoint = Breakpoint::nth(1);
        let process = world.process(breakpoint.clone());
        tokio::select! {
            report = Box::pin(update(&process, &request)) => panic!("{:?}", report.map(|report| report.end)),
            () = breakpoint.reached() => {}
        }
        world.sim.delete_machine(node(0).as_str()).unwrap();
        world.sim.scale(pool_name().as_str(), 1).unwrap();
        let report = Box::pin(resume(&world.quiet(), &pool_name())).await.unwrap();
        match &report.end {
            RunEnd::Refused(blockers) => {
                assert!(!allow_empty_pool && blockers[0].contains("has one node"), "{allow_empty_pool}: {blockers:?}");
            }
            end => {
                let completed = matches!(end, RunEnd::Closed(Outcome::Completed { .. }));
                assert!(allow_empty_pool && completed, "{allow_empty_pool}: {end}");
            }
        }
        world.state().await.assert_nothing_held();
    }
}
