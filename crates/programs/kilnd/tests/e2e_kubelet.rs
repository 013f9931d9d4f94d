//! A real kubelet and a real containerd in a real cluster, configured only by kilnd.

mod booted;

use booted::ONE;
use booted::cloud::Cloud;
use booted::cluster::{Cluster, real};
use booted::document::Document;
use booted::stage::{Stage, pods};
use serde_json::{Value, json};
use testkit::nspawn::Machine;

/// A node that has joined and is ready, with generation 1 committed.
fn joined(name: &str) -> (Machine, Cloud, Cluster) {
    let mut machine = real(name).build();
    let (cloud, cluster) = (Cloud::start(&machine), Cluster::start(&machine));
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", cluster.ovf_env());
    machine.boot();
    machine.wait_until("the node is ready", |_| cluster.is_ready().then_some(()));
    Stage::wait_committed(&machine, 1);
    (machine, cloud, cluster)
}

fn process(machine: &Machine, unit: &str) -> String {
    machine.property(unit, "MainPID")
}

#[test]
fn node_joins_by_tls_bootstrap_and_stays_ready_through_updates() {
    let (mut machine, cloud, cluster) = joined("joins");
    let joined = cluster.node().expect("a node");
    let kubelet = process(&machine, "kubelet.service");
    let label = |document: Document| document.with("/spec/kubelet/labels", json!({"example.com/team": "blue"}));
    cloud.set_user_data(&label(cluster.document(2)));
    Stage::wait_committed(&machine, 2);
    machine.wait_until("the label is on the node", |_| {
        (cluster.node()?["metadata"]["labels"]["example.com/team"] == "blue").then_some(())
    });
    assert!(cluster.is_ready(), "after a label");

    let mirror = |document: Document| {
        let mirrors = json!([{"host": "docker.io", "mirrors": ["https://mirror.example.com"]}]);
        label(document).with("/spec/registries", mirrors)
    };
    cloud.set_user_data(&mirror(cluster.document(3)));
    Stage::wait_committed(&machine, 3);
    assert!(cluster.is_ready(), "after a mirror");
    let hosts = machine.shell("cat /etc/kiln/current/certs.d/docker.io/hosts.toml").stdout;
    assert!(hosts.contains("https://mirror.example.com"), "{hosts}");
    assert_eq!(process(&machine, "kubelet.service"), kubelet, "neither a label nor a mirror restarts it");

    let more = |document: Document| mirror(document).with("/spec/kubelet/configuration/maxPods", json!(37));
    cloud.set_user_data(&more(cluster.document(4)));
    Stage::wait_committed(&machine, 4);
    // Both are reported by the restarted kubelet.
    machine.wait_until("the node has room for 37 pods and is ready", |_| {
        let node = cluster.node()?;
        (node["status"]["capacity"]["pods"] == "37" && ready(&node)["status"] == "True").then_some(())
    });
    let restarted = process(&machine, "kubelet.service");
    assert_ne!(restarted, kubelet);

    let runtime = process(&machine, "containerd.service");
    // An idle kubelet reports its status every five minutes, a starting one at once.
    let before = ready(&cluster.node().expect("a node"));
    cloud.set_user_data(&more(cluster.document(5)).with("/spec/kubelet/flags", json!({"--v": "3"})));
    Stage::wait_committed(&machine, 5);
    assert_ne!(process(&machine, "kubelet.service"), restarted);
    machine.wait_until("the kubelet with the new flag reports the node as ready", |_| {
        let now = ready(&cluster.node()?);
        (now["status"] == "True" && now["lastHeartbeatTime"] != before["lastHeartbeatTime"]).then_some(())
    });
    let line = machine.shell("tr '\\0' ' ' </proc/$(systemctl show --value -p MainPID kubelet.service)/cmdline").stdout;
    assert!(line.contains("--v=3"), "{line}");
    assert_eq!(process(&machine, "containerd.service"), runtime, "only the changed service restarts");

    let node = cluster.node().expect("a node");
    assert_eq!(node["metadata"]["uid"], joined["metadata"]["uid"], "the Node object is the same");
    assert!(cluster.is_ready());
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.34.4");
    let configured = |condition: &Value| condition["type"] == "KilnConfigured" && condition["status"] == "True";
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(conditions.iter().any(configured), "{conditions:?}");
    // The join token is in no file that others can read. The brackets prevent the search from matching its own command line.
    let found = machine.shell(
        "journalctl --no-pager | grep -c 0123456789abcde[f] || true
         grep -rl 0123456789abcde[f] /etc /run /var/lib/kiln 2>/dev/null | xargs -r stat -c '%a %n' | grep -v '^600' || true
         cat /proc/[0-9]*/cmdline | grep -c 0123456789abcde[f] || true",
    );
    assert_eq!(found.stdout, "0\n0\n");
    // Nor is it in a file of root's, except the copy of the custom data, which the prototype operation needs.
    machine.wait_until("the join token is removed", |machine| {
        let found = machine.run(&["grep", "-rl", "0123456789abcdef", "/etc", "/var/lib/kiln", "/var/lib/kubelet"]);
        found.stdout.is_empty().then_some(())
    });
    assert!(!machine.exists("/etc/kiln/current/bootstrap-kubeconfig"));
    machine.reboot();
    let before = ready(&node);
    machine.wait_until("the kubelet reports without the token", |_| {
        let now = ready(&cluster.node()?);
        (now["status"] == "True" && now["lastHeartbeatTime"] != before["lastHeartbeatTime"]).then_some(())
    });
    assert!(!machine.exists("/etc/kiln/current/bootstrap-kubeconfig"), "a reboot does not write it again");
}

/// The Ready condition of a node.
fn ready(node: &Value) -> Value {
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap_or_default()
}

/// NodeConfigs that make a node unhealthy, each with the part it breaks.
fn broken(cluster: &Cluster, first: u64) -> Vec<(&'static str, u64, Document)> {
    let hosts = json!([{"path": "/etc/hosts", "content": "127.0.0.1 localhost\n"}]);
    let network =
        json!([{"path": "/etc/cni/net.d/10-none.conflist", "content": "{}", "restarts": ["containerd.service"]}]);
    let other = rcgen::generate_simple_self_signed(vec!["other".to_owned()]).expect("a certificate").cert.pem();
    let numbered = |index: u64| cluster.document(first + index);
    let breakages = [
        ("name resolution", "/spec/files", hosts),
        ("the certificate authority", "/spec/cluster/certificateAuthority", json!(other)),
        ("the runtime", "/spec/runtime/configuration/oom_score", json!("much")),
        ("cgroups", "/spec/kubelet/flags", json!({"--cgroup-root": "/nowhere"})),
        ("the pod network", "/spec/files", network),
    ];
    breakages
        .into_iter()
        .enumerate()
        .map(|(index, (what, path, value))| {
            let index = u64::try_from(index).unwrap_or_default();
            // Long enough for a healthy kubelet, and no longer, because each of these runs into the timeout.
            let document = numbered(index).with(path, value).with("/spec/health/withinSeconds", json!(80));
            (what, first + index, document.with("/spec/kubelet/configuration/maxPods", json!(50 + index)))
        })
        .collect()
}

fn rejected(machine: &Machine) -> Vec<u64> {
    let state = Stage::json(machine, "/var/lib/kiln/state.json");
    let rejected = state["rejected"].as_array().cloned().unwrap_or_default();
    rejected.iter().filter_map(|entry| entry["number"].as_u64()).collect()
}

#[track_caller]
fn assert_reverted(machine: &Machine, cloud: &Cloud, what: &str, number: u64, document: &Document) {
    cloud.set_user_data(document);
    machine.wait_until(&format!("the document that breaks {what} was reverted"), |machine| {
        rejected(machine).contains(&number).then_some(())
    });
    machine.wait_until("kubelet runs with the previous configuration", |machine| {
        let is_previous = pods(machine).is_none() && machine.property("kubelet.service", "ActiveState") == "active";
        (is_previous && machine.property("containerd.service", "ActiveState") == "active").then_some(())
    });
    assert_eq!(Stage::committed(machine), Some(1), "{what}");
}

#[test]
fn documents_that_break_a_node_are_reverted() {
    let (machine, cloud, cluster) = joined("breaks");
    for (what, number, document) in broken(&cluster, 2) {
        assert_reverted(&machine, &cloud, what, number, &document);
        machine.wait_until("the node is ready again", |_| cluster.is_ready().then_some(()));
    }
    assert_eq!(
        machine.read("/etc/hosts").as_deref(),
        Some("127.0.0.1 localhost kubernetes\n"),
        "the original file is restored"
    );
    check_cgroup_driver_change(&machine, &cloud, &cluster);
}

/// Changing the cgroup driver loses every pod, so the node only requests it. Different drivers for kubelet and runtime are rejected before
/// anything changes. A change that the cluster allows is put on trial: reverted if the node is unhealthy, committed otherwise.
fn check_cgroup_driver_change(machine: &Machine, cloud: &Cloud, cluster: &Cluster) {
    let processes = || (process(machine, "kubelet.service"), process(machine, "containerd.service"));
    let before = processes();
    let in_use = || Stage::json(machine, "/etc/kiln/current/kubelet.json")["cgroupDriver"].clone();
    let unchanged = || {
        assert_eq!(Stage::committed(machine), Some(1));
        assert_eq!(processes(), before, "nothing was restarted");
        assert_eq!(in_use(), "cgroupfs");
        assert!(cluster.is_ready());
    };
    let driver = "/spec/kubelet/configuration/cgroupDriver";
    let both = |number| cluster.document(number).with(driver, json!("systemd"));
    cloud.set_user_data(&both(30).with("/spec/runtime/systemdCgroup", json!(true)));
    machine.wait_until("a drain is requested", |machine| {
        let status = Stage::json(machine, "/run/kiln/status.json");
        let pending = status["pending"].as_array().cloned().unwrap_or_default();
        let is_requested = |line: &Value| line.as_str().is_some_and(|line| line.starts_with("drain: generation 30 "));
        pending.iter().any(is_requested).then_some(())
    });
    unchanged();
    cloud.set_user_data(&both(31));
    machine.wait_until("different drivers for kubelet and runtime are rejected", |machine| {
        let status = Stage::json(machine, "/run/kiln/status.json");
        status["failures"].to_string().contains("no pod would start").then_some(())
    });
    unchanged();
    let allow = |document: &Document| {
        let hash = kiln_node_config::NodeConfig::parse(&document.bytes()).expect("a document").hash();
        let annotations = json!({"kiln.dev/node-config-allow": hash});
        cluster.apply(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "annotations": annotations},
        }));
    };
    let pair = |number| {
        let pair = both(number).with("/spec/runtime/systemdCgroup", json!(true));
        pair.with("/spec/health/withinSeconds", json!(80))
    };
    let bad = pair(32).with("/spec/kubelet/flags", json!({"--cgroup-root": "/nowhere"}));
    allow(&bad);
    assert_reverted(machine, cloud, "cgroups with another driver", 32, &bad);
    assert_eq!(in_use(), "cgroupfs");
    machine.wait_until("the node is ready again", |_| cluster.is_ready().then_some(()));
    allow(&pair(33));
    cloud.set_user_data(&pair(33));
    Stage::wait_committed(machine, 33);
    assert_eq!(in_use(), "systemd");
}

/// The recorded reason of a revert.
fn reason(machine: &Machine, number: u64) -> String {
    let state = Stage::json(machine, "/var/lib/kiln/state.json");
    let rejected = state["rejected"].as_array().cloned().unwrap_or_default();
    let entry = rejected.iter().find(|entry| entry["number"] == number).cloned().unwrap_or_default();
    entry["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn local_failures_are_reverted_without_an_api_server_and_nothing_else_is() {
    let (machine, cloud, cluster) = joined("alone");
    cluster.stop();
    // What is broken on the node itself is reverted. What only the API server could report looks like its absence.
    let local =
        [("the runtime", "containerd.service"), ("cgroups", "kubelet: cannot reach `http://127.0.0.1:10248/healthz`")];
    for (what, number, document) in broken(&cluster, 2) {
        let Some((_, expected)) = local.iter().find(|(local, _)| *local == what) else { continue };
        assert_reverted(&machine, &cloud, what, number, &document);
        let reason = reason(&machine, number);
        assert!(reason.contains(expected), "{what}: {reason}");
    }
    // A good document is not reverted, although the default gates need a ready node. A newer one may replace it.
    let good = |number: u64, pods: u32| {
        let document = cluster.document(number).with("/spec/health/withinSeconds", json!(80));
        document.with("/spec/kubelet/configuration/maxPods", json!(pods))
    };
    cloud.set_user_data(&good(20, 60));
    machine.wait_until("generation 20 is on trial", |machine| (pods(machine) == Some(60)).then_some(()));
    let gates = json!([
        {"name": "kubelet", "kind": "kubeletHealthy"},
        {"name": "runtime", "kind": "unitActive", "target": "containerd.service"},
    ]);
    cloud.set_user_data(&good(21, 61).with("/spec/health/gates", gates.clone()));
    Stage::wait_committed(&machine, 21);
    assert_eq!(pods(&machine), Some(61));
    assert!(!rejected(&machine).contains(&20), "{}", reason(&machine, 20));
    // Failures that these gates detect are still reverted.
    let flags = json!({"--cgroup-root": "/nowhere"});
    cloud.set_user_data(&good(22, 62).with("/spec/health/gates", gates).with("/spec/kubelet/flags", flags));
    machine.wait_until("the document that breaks kubelet was reverted", |machine| {
        (rejected(machine).contains(&22) && pods(machine) == Some(61)).then_some(())
    });
    assert!(reason(&machine, 22).contains("kubelet: "), "{}", reason(&machine, 22));
}
