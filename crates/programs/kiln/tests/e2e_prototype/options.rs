//! The options of `update`, `rollback` and `refresh`, each with its effect on Azure or the cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};
use testkit::Finished;

use crate::world::{COMMAND, POOL, SMALL, World, kiln, node};

const TOMORROW: &str = "2026-11-17T01:00:00Z";

fn update<'a>(donor: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["update", "--target-node", donor], more].concat()
}

/// Everything that a command printed.
fn said(finished: &Finished) -> String {
    format!("{}{}", finished.stdout, finished.stderr)
}

/// The steps of the last run.
fn steps(world: &World) -> Vec<String> {
    let history = world.exits_with(0, &["history", "--steps", "--output", "json"]).json();
    let steps = history["pools"][0]["runs"][0]["steps"].as_array().expect("steps").clone();
    steps.iter().map(|step| step["step"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn version_has_the_tags_replicas_regions_and_keys_that_were_requested() {
    let world = World::instant(SMALL);
    let keys = format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Compute/diskEncryptionSets/keys",
        world.sim.key("subscriptionId"),
        world.sim.key("resourceGroup")
    );
    let donor = World::donor();
    let more = ["--tags", "team=ml", "cost=42", "--replicas", "4", "--target-regions", "eastus=2", "westeurope"];
    let unknown = world.exits_with(1, &update(&donor, &["--target-regions", "eastus", "atlantis"]));
    assert!(said(&unknown).contains("unknown regions: atlantis"), "{unknown}");
    let keyed = world.exits_with(1, &update(&donor, &["--disk-encryption-set", &keys, "--target-regions", "eastus"]));
    assert!(said(&keyed).contains("exists in one region only"), "{keyed}");
    assert_eq!(world.journal(), "", "nothing was changed");

    world.exits_with(0, &update(&donor, &more));
    let version = world.version("2026.11.16");
    assert_eq!((&version["tags"]["team"], &version["tags"]["cost"]), (&json!("ml"), &json!("42")));
    let regions = version["properties"]["publishingProfile"]["targetRegions"].as_array().expect("regions").clone();
    let read = |region: &Value| (region["name"].clone(), region["regionalReplicaCount"].clone());
    let expected =
        [("West US 2", 4), ("East US", 2), ("West Europe", 4)].map(|(name, count)| (json!(name), json!(count)));
    assert_eq!(regions.iter().map(read).collect::<Vec<_>>(), expected);

    world.exits_with(0, &update(&donor, &["--disk-encryption-set", &keys, "--now", TOMORROW]));
    let version = world.version("2026.11.17");
    let encryption = &version["properties"]["publishingProfile"]["targetRegions"][0]["encryption"];
    assert_eq!(encryption["osDiskImage"]["diskEncryptionSetId"], json!(keys));
}

#[test]
fn gallery_in_another_subscription_is_used_by_every_command() {
    let other = "11111111-2222-4333-8444-555555555555";
    let world = World::instant(&format!("{SMALL}moreSubscriptions: [{other}]\n"));
    world.arm("PUT", &format!("/subscriptions/{other}/resourceGroups/images"), &json!({"location": "westus2"}));
    let place = ["--gallery-resource-group", "images", "--gallery-subscription", other];
    let donor = World::donor();
    let first = world.run(&update(&donor, &place));
    let model = world.model();
    assert_eq!(first.code, Some(0), "{model} {first}");
    let image = model["storageProfile"]["imageReference"]["id"].as_str().expect("an id");
    assert!(image.starts_with(&format!("/subscriptions/{other}/resourceGroups/images/")), "{image}");
    let status = world.exits_with(0, &[&["status", "--output", "json"], &place[..]].concat()).json();
    assert_eq!(status["pools"][0]["newNodes"]["of"], "2026.11.16", "{status}");
    world.exits_with(0, &[&update(&donor, &["--now", TOMORROW])[..], &place].concat());
    world.exits_with(0, &[&["rollback", "--now", TOMORROW], &place[..]].concat());
    let access = world.exits_with(0, &[&["check-access"], &place[..]].concat());
    assert!(access.stdout.contains(&format!("Microsoft.Compute/galleries/write at {other}/images")), "{access}");

    let alone = world.exits_with(2, &["status", "--gallery-subscription", other]);
    assert!(alone.stderr.contains("--gallery-resource-group"), "{alone}");
}

#[test]
fn open_run_is_only_resumed_with_its_own_gallery() {
    let world = World::start(SMALL, "", "2000");
    world.arm(
        "PUT",
        &format!("/subscriptions/{}/resourceGroups/images", world.sim.key("subscriptionId")),
        &json!({"location": "westus2"}),
    );
    let donor = World::donor();
    let place = ["--gallery-resource-group", "images"];
    let running = world.spawn(&[&update(&donor, &[])[..], &place].concat());
    world.wait_until("the run has begun", || world.journal().contains("hold-node"));
    running.kill();
    let refused = world.exits_with(1, &["resume"]);
    assert!(said(&refused).contains("hint: use `--gallery-resource-group images --gallery-subscription"), "{refused}");
    world.exits_with(0, &[&["resume"], &place[..]].concat());
    world.assert_not_held(&donor);
}

#[test]
fn recording_has_every_answer_of_azure_without_names_and_secrets() {
    let world = World::instant(SMALL);
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("recordings").display().to_string();
    let donor = World::donor();
    world.exits_with(0, &update(&donor, &["--record", &path, "--tags", "owner=alice"]));
    let files: Vec<_> = std::fs::read_dir(&path).expect("a folder").map(|file| file.expect("a file").path()).collect();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let text = std::fs::read_to_string(file).expect("a recording");
    let secrets = [world.sim.key("clientSecret"), COMMAND, "am9pbiB0aGUgY2x1c3Rlcg", "alice"];
    for planted in
        [world.sim.key("subscriptionId"), world.sim.key("resourceGroup"), POOL, &donor].iter().chain(&secrets)
    {
        assert!(!text.to_lowercase().contains(&planted.to_lowercase()), "{planted} is in the recording");
    }
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for line in &lines {
        let keys: BTreeSet<&str> = line.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(["body", "headers", "method", "request", "status", "uri"]));
    }
    let count = |method: &str, kind: &str| {
        let is_kind = |line: &&Value| {
            line["method"] == method && line["uri"].as_str().is_some_and(|uri| uri.contains(&format!("/{kind}/")))
        };
        lines.iter().filter(is_kind).count()
    };
    assert!(
        count("PUT", "snapshots") == 1
            && count("PUT", "versions") >= 1
            && count("PATCH", "virtualMachineScaleSets") >= 1
    );
    let handle = lines.iter().find_map(|line| line["headers"]["azure-asyncoperation"].as_str()).expect("a handle");
    assert!((3_000..3_400).contains(&handle.len()), "{handle}");

    let refused = world.exits_with(2, &update(&donor, &["--record", "/proc/none", "--now", TOMORROW]));
    assert!(refused.stderr.contains("cannot create the recording `/proc/none/azure-"), "{refused}");
}

/// A pod that the simulated kubelet ends with an exit code.
fn pod(exit_code: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: {{sim.kiln.dev/exit-code: \"{exit_code}\"}}\n\
         spec:\n  containers: [{{name: dns, image: busybox, command: [nslookup, kubernetes]}}]\n"
    )
}

#[test]
fn version_is_rejected_by_its_smoke_test_and_the_canary_is_kept_until_gc() {
    let world = World::instant(SMALL);
    let donor = World::donor();
    let bad = world.file("bad.yaml", "kind: Job\n");
    let refused = world.exits_with(2, &update(&donor, &["--smoke-test", &bad]));
    assert!(said(&refused).contains("bad.yaml") && said(&refused).contains("`kind: Pod`"), "{refused}");

    let failing = world.file("failing.yaml", &pod("3"));
    let more = [
        "--smoke-test",
        &failing,
        "--keep-canary-on-failure",
        "--canary-size",
        "Standard_D4s_v3",
        "--canary-zone",
        "2",
    ];
    let rejected = world.exits_with(1, &update(&donor, &more));
    assert!(said(&rejected).contains("the smoke test failed"), "{rejected}");
    world.assert_not_held(&donor);
    let sets = world.scale_sets();
    let canary = sets.iter().find(|name| name.starts_with("kiln-canary-")).expect("a kept canary");
    let model = world.arm("GET", &format!("virtualMachineScaleSets/{canary}"), &Value::Null);
    assert_eq!((&model["sku"]["name"], &model["zones"]), (&json!("Standard_D4s_v3"), &json!(["2"])));
    world.get::<Pod>(&format!("{canary}-smoke-test"));

    let listed = world.exits_with(0, &["gc"]);
    assert!(listed.stdout.contains(&format!("would delete canary `{canary}`")), "{listed}");
    assert!(listed.stdout.contains("nothing was changed"), "{listed}");
    let deleted = world.exits_with(0, &["gc", "--yes", "--output", "json"]).json();
    assert_eq!(deleted["orphans"][0]["kind"], "canary", "{deleted}");
    assert_eq!(world.scale_sets(), [POOL]);
    let pods: Vec<String> = world.pods();
    assert!(!pods.iter().any(|name| name.ends_with("smoke-test")), "{pods:?}");
    let clean = world.exits_with(0, &["gc", "--yes"]);
    assert!(clean.stdout.contains("belongs to an open run"), "{clean}");
}

#[test]
fn canary_passes_its_smoke_test_and_stays_ready_for_the_soak() {
    let world = World::instant(SMALL);
    let passing = world.file("passing.yaml", &pod("0"));
    let soak = ["--smoke-test", &passing, "--soak", "10m", "--clock-rate", "60"];
    let done = world.exits_with(0, &update(&World::donor(), &[&soak[..], &["--log-level", "DEBUG"]].concat()));
    let waits = done.stderr.matches("the canary has been Ready for ").count();
    assert!((1..5).contains(&waits), "a soak is a few pauses, not a loop: {done}");
    assert_eq!(world.scale_sets(), [POOL], "the canary is deleted");
    assert!(!world.pods().iter().any(|name| name.ends_with("smoke-test")));
}

#[test]
fn gc_deletes_an_old_snapshot_and_a_tag_of_a_lost_run() {
    let world = World::instant(SMALL);
    let donor = World::donor();
    // A run of the day before could not create its version, so that its snapshot is left.
    let fault = "faults: [{kind: quota-exceeded, method: PUT, type: 'Microsoft.Compute/galleries/images/versions'}]\n";
    let failing = World::start(SMALL, fault, "instant");
    failing.exits_with(1, &update(&donor, &[]));
    let kept = failing.exits_with(0, &["gc"]);
    assert!(kept.stdout.contains("belongs to an open run"), "the snapshot of today: {kept}");
    let old = failing.exits_with(0, &["gc", "--yes", "--now", TOMORROW]);
    assert!(old.stdout.contains(&format!("deleted snapshot `snapshot_{POOL}`")), "{old}");
    drop(failing);

    let tagged = json!({"tags": {"kiln-run": "lost"}});
    world.arm("PATCH", &format!("virtualMachineScaleSets/{POOL}"), &tagged);
    let blocked = world.exits_with(1, &update(&donor, &[]));
    assert!(said(&blocked).contains("kiln-run=lost"), "{blocked}");
    let freed = world.exits_with(0, &["gc", "--yes"]);
    assert!(freed.stdout.contains("left by run lost"), "{freed}");
    world.exits_with(0, &update(&donor, &["--replace-today"]));
}

#[test]
fn node_of_a_lost_run_is_released() {
    let world = World::start(SMALL, "", "60");
    let donor = World::donor();
    let free = world.exits_with(0, &["release", &donor]);
    assert!(free.stdout.contains("is not held by kiln"), "{free}");
    let running = world.spawn(&update(&donor, &[]));
    world.wait_until("the donor is stopped", || {
        let view =
            world.arm("GET", &format!("virtualMachineScaleSets/{POOL}/virtualMachines/0/instanceView"), &Value::Null);
        view["statuses"].as_array().is_some_and(|all| all.iter().any(|one| one["code"] == "PowerState/stopped"))
    });
    running.kill();
    let open = world.exits_with(1, &["release", &donor]);
    assert!(open.stderr.contains("hint: continue the run with `kiln prototype resume`"), "{open}");
    world.delete_journal();
    let released = world.exits_with(0, &["release", &donor]);
    for line in ["started the machine", "restored the node's cordon and annotations", "note: instance 0"] {
        assert!(released.stdout.contains(line), "{line}: {released}");
    }
    world.assert_not_held(&donor);
}

#[test]
fn model_is_pinned_to_the_version_and_the_canary_is_skipped_on_request() {
    let world = World::instant(SMALL);
    world.exits_with(0, &update(&World::donor(), &["--pin", "--no-canary"]));
    let model = world.model();
    let image = model["storageProfile"]["imageReference"]["id"].as_str().expect("an id");
    assert!(image.ends_with("/versions/2026.11.16"), "{image}");
    let steps = steps(&world);
    assert!(steps.contains(&"include".to_owned()) && !steps.contains(&"create-canary".to_owned()), "{steps:?}");
}

#[test]
fn donor_is_deallocated_only_on_request() {
    let fault =
        "faults: [{kind: quota-exceeded, type: 'Microsoft.Compute/virtualMachineScaleSets*', action: deallocate}]\n";
    let world = World::start(SMALL, fault, "instant");
    let donor = World::donor();
    world.exits_with(0, &update(&donor, &[]));
    let failed = world.exits_with(1, &update(&donor, &["--deallocate", "--now", TOMORROW]));
    assert!(said(&failed).contains("failed at power-off"), "{failed}");
    world.assert_not_held(&donor);
}

#[test]
fn live_run_never_stops_the_donor() {
    let world = World::instant(SMALL);
    let donor = World::donor();
    let boot = |world: &World| world.node(&donor).status.and_then(|status| status.node_info).expect("info").boot_id;
    let before = boot(&world);
    world.exits_with(0, &update(&donor, &["--live"]));
    assert_eq!(boot(&world), before);
    let steps = steps(&world);
    assert!(steps.contains(&"live-snapshot".to_owned()), "{steps:?}");
    assert!(!steps.iter().any(|step| step == "drain" || step == "power-off"), "{steps:?}");
}

#[test]
fn history_is_limited_and_a_version_of_today_is_replaced_only_on_request() {
    let world = World::instant(SMALL);
    let donor = World::donor();
    for day in 16..=18 {
        let now = format!("2026-11-{day}T01:00:00Z");
        world.exits_with(0, &update(&donor, &["--max-history", "2", "--now", &now]));
    }
    let numbers = |now: &str| {
        let status = world.exits_with(0, &["status", "--output", "json", "--now", now]).json();
        let all = status["pools"][0]["versions"].as_array().expect("versions").clone();
        all.iter().map(|version| version["number"].as_str().expect("a number").to_owned()).collect::<Vec<_>>()
    };
    let now = "2026-11-18T02:00:00Z";
    assert_eq!(numbers(now), ["2026.11.18", "2026.11.17"]);
    world.exits_with(0, &["rollback", "--now", now, "--reason", "test", "--delete"]);
    assert_eq!(numbers(now), ["2026.11.17"], "--delete");
    world.exits_with(0, &["rollback", "--unpause", "--now", now]);

    let consents = ["--now", now, "--allow-rejected-patch"];
    let again = world.exits_with(1, &update(&node(1), &consents));
    assert!(said(&again).contains("`--replace-today`") && said(&again).contains("failed at survey"), "{again}");
    world.exits_with(0, &update(&node(1), &[&consents[..], &["--replace-today"]].concat()));
    assert_eq!(numbers(now), ["2026.11.18", "2026.11.17"]);
}

#[test]
fn each_consent_waives_its_own_blocker() {
    let managed = SMALL.replace("  capacity: 3", "  tags: {aks-managed-poolName: np1}\n  capacity: 3");
    let single = SMALL.replace("  capacity: 3", "  capacity: 1");
    for (text, flag, words) in [
        (managed.as_str(), "--allow-managed-pool", "AKS"),
        (single.as_str(), "--allow-empty-pool", "has one node"),
        (SMALL, "--no-original", "protected settings"),
    ] {
        let world = World::instant(text);
        let donor = World::donor();
        let none = world.file("none.json", "{}");
        let refused = world.exits_with(1, &update(&donor, &["--protected-settings", &none]));
        if flag == "--no-original" {
            assert!(said(&refused).contains(words), "{refused}");
        } else {
            let refused = world.exits_with(1, &update(&donor, &[]));
            assert!(said(&refused).contains(words), "{flag}: {refused}");
        }
        let plan = world.exits_with(0, &["plan", "--target-node", &donor, flag]);
        assert!(plan.stdout.contains(flag), "the plan lists the consent: {plan}");
        world.exits_with(0, &update(&donor, &[flag]));
    }
}

#[test]
fn protected_settings_come_from_a_secret() {
    let world = World::instant(SMALL);
    let settings = json!({"commandToExecute": COMMAND}).to_string();
    world.create::<Secret>(&json!({"metadata": {"name": "settings"}, "stringData": {"vmssCSE": settings}}));
    let from = ["--protected-settings-secret", "default/settings"];
    let donor = World::donor();
    let missing = world.exits_with(1, &update(&donor, &["--protected-settings-secret", "default/unknown"]));
    assert!(said(&missing).contains("default/unknown"), "{missing}");
    world.exits_with(0, &update(&donor, &from));
    assert!(world.model()["extensionProfile"]["extensions"].as_array().is_none_or(Vec::is_empty));
    world.exits_with(0, &[&["rollback", "--to", "original", "--target-vmss", POOL], &from[..]].concat());
    assert_eq!(world.model()["extensionProfile"]["extensions"][0]["name"], "vmssCSE");
}

#[test]
fn pool_keeps_its_recipe_if_clones_join_by_it() {
    let joined = "contents: {joinCredential: {kind: nodeCertificate, path: /etc/kubernetes/kubelet.conf}}";
    let world = World::instant(&SMALL.replace("  capacity: 3", &format!("  {joined}\n  capacity: 3")));
    let donor = World::donor();
    // These messages contain `join the cluster`, as the custom data does, so they are not searched for secrets.
    let run = |more: &[&str]| testkit::run(world.command(&update(&donor, more)), Duration::from_mins(4));
    let certificate = run(&["--join", "certificate"]);
    assert_eq!(certificate.code, Some(1), "{certificate}");
    assert!(said(&certificate).contains("names the certificate of its own node"), "{certificate}");
    let no_secret = run(&["--join", "recipe"]);
    assert!(said(&no_secret).contains("--canary-secret"), "{no_secret}");
    let script = json!({"commandToExecute": COMMAND}).to_string();
    let data = json!({"customData": "#cloud-config\nruncmd: [join]\n", "protectedSettings": script});
    world.create::<Secret>(&json!({"metadata": {"name": "recipe"}, "stringData": data}));
    world.exits_with(0, &update(&donor, &["--join", "recipe", "--canary-secret", "recipe"]));
    assert_eq!(world.model()["extensionProfile"]["extensions"][0]["name"], "vmssCSE", "the script stays");
}

#[test]
fn pod_that_its_budget_keeps_is_deleted_only_by_force() {
    let world = World::instant(SMALL);
    let donor = World::donor();
    world.create::<Pod>(&json!({
        "metadata": {"name": "guarded", "labels": {"app": "guarded"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "guarded", "uid": "5e1f", "controller": true},
        ]},
        "spec": {"nodeName": donor, "containers": [{"name": "main", "image": "pause:3.9"}]},
    }));
    world.create::<PodDisruptionBudget>(&json!({
        "metadata": {"name": "guarded"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }));
    world.wait_until("the budget counts the pod", || {
        let budget: PodDisruptionBudget = world.get("guarded");
        budget.status.is_some_and(|status| status.current_healthy == 1)
    });
    let failed = world.exits_with(1, &update(&donor, &["--grace-period", "1"]));
    assert!(said(&failed).contains("guarded"), "{failed}");
    world.assert_not_held(&donor);
    world.exits_with(0, &update(&donor, &["--grace-period", "1", "--force"]));
    assert!(!world.pods().contains(&"guarded".to_owned()), "{:?}", world.pods());
}

#[test]
fn refresh_deletes_a_pod_without_a_controller_only_by_force() {
    let world = World::instant(SMALL);
    world.exits_with(0, &update(&World::donor(), &[]));
    world.create::<Pod>(&json!({
        "metadata": {"name": "bare"},
        "spec": {"nodeName": node(1), "containers": [{"name": "main", "image": "pause:3.9"}]},
    }));
    let refresh = ["refresh", "--target-vmss", POOL, "--grace-period", "1"];
    let failed = world.exits_with(1, &refresh);
    assert!(said(&failed).contains("bare"), "{failed}");
    world.exits_with(0, &[&refresh[..], &["--force"]].concat());
    assert!(!world.pods().contains(&"bare".to_owned()), "{:?}", world.pods());
}

#[test]
fn settings_of_cluster_and_pods_are_used() {
    let world = World::instant(SMALL);
    world.create_cluster::<Namespace>(&json!({"metadata": {"name": "kiln"}}));
    world.create_in::<Secret>("kiln", &json!({"metadata": {"name": "pull"}, "type": "Opaque"}));
    let pods = world.watch_pods();
    let donor = World::donor();
    let kubeconfig = world.sim.key("kubeconfig");
    let read = kube::config::Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let context = &read.current_context.expect("a context");
    let (group, subscription) = (world.sim.key("resourceGroup"), world.sim.key("subscriptionId"));
    let more = [
        "--namespace",
        "kiln",
        "--pod-image",
        "registry.example/kiln:1",
        "--pod-pull-secret",
        "pull",
        "--context",
        context,
        "--kubeconfig",
        kubeconfig,
        "--resource-group",
        group,
        "--subscription",
        subscription,
    ];
    world.exits_with(0, &update(&donor, &more));
    assert_eq!(world.journal(), "", "the journal is in the other namespace");
    let seen = pods.lock().expect("not poisoned").clone();
    let inspecting = seen.iter().find(|pod| pod.metadata.namespace.as_deref() == Some("kiln")).expect("a pod");
    let spec = inspecting.spec.clone().expect("a spec");
    assert_eq!(spec.containers[0].image.as_deref(), Some("registry.example/kiln:1"));
    assert_eq!(spec.image_pull_secrets.expect("secrets")[0].name, "pull");
    let unknown = world.exits_with(2, &["status", "--context", "unknown"]);
    assert!(said(&unknown).contains("unknown"), "{unknown}");
}

#[test]
fn node_of_a_flexible_scale_set_is_refused_with_the_reason() {
    let world = World::instant(SMALL);
    // The name would be that of an instance of the pool.
    let name = format!("{POOL}00000z");
    let machine = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/flex_1a2b3c";
    world.create_cluster::<Node>(&json!({
        "metadata": {"name": name}, "spec": {"providerID": format!("azure://{machine}")},
    }));
    let refused = world.exits_with(1, &update(&name, &[]));
    assert!(said(&refused).contains("Flexible scale sets and standalone machines are not supported"), "{refused}");
    assert_eq!(world.journal(), "");
}

/// The options that no test of this folder has to use.
const NOT_USED: [&str; 5] = ["help", "local", "version", "now", "clock-rate"];

#[test]
fn every_option_of_update_rollback_and_refresh_is_used_by_a_test() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e_prototype");
    let sources: String = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| std::fs::read_to_string(path).expect("a source"))
        .collect();
    let mut unused = BTreeSet::new();
    for verb in ["update", "rollback", "refresh"] {
        let help = kiln().run(&["prototype", verb, "--help"]).success().stdout;
        let options = help.lines().filter_map(|line| line.trim_start().split("--").nth(1));
        for option in options.map(|rest| rest.split([' ', '[', '=', ',', '\n']).next().unwrap_or_default()) {
            let is_listed = help.lines().any(|line| {
                let line = line.trim_start();
                line.starts_with(&format!("--{option}"))
                    || line.get(4..).is_some_and(|rest| rest.starts_with(&format!("--{option}")))
            });
            let is_used = sources.contains(&format!("\"--{option}\"")) || sources.contains(&format!("\"--{option}="));
            if is_listed && !option.is_empty() && !is_used && !NOT_USED.contains(&option) {
                unused.insert(format!("{verb} --{option}"));
            }
        }
    }
    assert_eq!(unused, BTreeSet::new(), "write a test for each of these options");
}
