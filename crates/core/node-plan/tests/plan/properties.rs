//! Properties of all plans.

use kiln_node_config::NodeConfig;
use kiln_node_plan::{Desired, Plan, Step};
use kiln_types::json::merge_patch;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::support::{Machine, PEM, config};

/// A part of a document, varied by a number.
fn part(which: usize, n: u64) -> Value {
    let text = n.to_string();
    match which {
        0 => json!({"kubelet": {"configuration": {"maxPods": 30 + n}}}),
        1 => json!({"kubelet": {"flags": {"--v": text}}}),
        2 => json!({"kubelet": {"labels": {"team": format!("t{n}"), "node-role.kubernetes.io/x": text}}}),
        3 => json!({"kubelet": {"taints": [{"key": "a", "value": text, "effect": "NoSchedule"}]}}),
        4 => json!({"files": [{"path": "/etc/motd", "content": text, "mode": if n == 1 { "0600" } else { "0644" }}]}),
        5 => {
            json!({"files": [{"path": "/etc/motd", "content": "x"}, {"path": "/etc/new", "content": text, "owner": "ann"}]})
        }
        6 => json!({"os": {"sysctl": {"vm.swappiness": text}}}),
        7 => json!({"os": {"hugePages": {"transparent": if n == 0 { "never" } else { "madvise" }, "pages2mi": n}}}),
        8 => json!({"os": {"limits": {"LimitNOFILE": text}}}),
        9 => {
            json!({"os": {"time": {"servers": [format!("time{n}.example")], "zone": if n == 0 { "UTC" } else { "Europe/Berlin" }}}})
        }
        10 => {
            json!({"os": {"proxy": {"https": format!("http://proxy:{n}")}, "certificateAuthorities": [PEM.replace("MA", &format!("M{n}"))]}})
        }
        11 => json!({"registries": [{"host": "docker.io", "mirrors": [format!("https://m{n}.example")]}]}),
        12 => json!({"units": [{"name": "agent.service", "content": format!("# {n}\n"), "enabled": n == 0}]}),
        13 => {
            json!({"units": [{"name": "noisy.service", "masked": true}, {"name": "agent.service", "dropIns": [{"name": "a.conf", "content": text}]}]})
        }
        14 => json!({"platform": {"users": [{"name": "ann", "sshKeys": [format!("ssh-ed25519 A{n} ann")]}]}}),
        15 => json!({"platform": {"temporaryDisk": {"mountPath": "/mnt"}}, "os": {"swap": {"sizeMib": n}}}),
        16 => {
            let plugin = if n == 1 { "bridge" } else { "azure" };
            json!({"network": {"plugin": plugin, "mtu": 1400 + n, "blockMetadata": n == 0, "blockWireServer": n == 2}})
        }
        17 => json!({"os": {"kernelModules": ["br_netfilter"], "kernelArguments": [format!("a={n}")]}}),
        18 => json!({"kubelet": {"configuration": {"cpuManagerPolicy": "static", "reservedSystemCPUs": text}}}),
        _ => {
            json!({"runtime": {"version": if n == 0 { "1.7.27" } else { "2.1.0" }, "sandboxImage": format!("pause:{n}")}})
        }
    }
}

fn document() -> impl Strategy<Value = NodeConfig> {
    let parts = subsequence((0..20).collect::<Vec<usize>>(), 0..8);
    (parts, proptest::collection::vec(0..3_u64, 8)).prop_map(|(parts, numbers)| {
        let mut over = json!({});
        for (which, n) in parts.into_iter().zip(numbers) {
            merge_patch(&mut over, &part(which, n));
        }
        config(over)
    })
}

/// A machine with kernel settings and some of the files that documents write.
fn machine() -> impl Strategy<Value = Machine> {
    let paths = [
        "/etc/motd",
        "/etc/new",
        "/etc/sysctl.d/90-kiln.conf",
        "/etc/systemd/system/agent.service",
        "/etc/cni/net.d/10-kiln.conflist",
    ];
    let some = subsequence(paths.to_vec(), 0..paths.len());
    (some, select(vec!["before", "x", "1"]), select(vec![0o600, 0o644])).prop_map(|(some, text, mode)| {
        let mut machine = Machine::default();
        for path in some {
            machine.write(path, text, mode);
        }
        machine.write("/etc/fstab", "UUID=1 / ext4 defaults 0 1\n", 0o644);
        machine.write("/etc/ssl/certs/ca-certificates.crt", "# many\n", 0o644);
        for (path, value) in [
            ("/proc/sys/vm/swappiness", "60"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "always"),
            ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0"),
            ("/sys/class/net/eth0/mtu", "1500"),
            ("/proc/sys/net/ipv4/ip_forward", "0"),
            ("/proc/sys/net/bridge/bridge-nf-call-iptables", "0"),
            ("/proc/sys/net/bridge/bridge-nf-call-ip6tables", "0"),
        ] {
            machine.settings.insert(path.to_owned(), value.to_owned());
        }
        machine
    })
}

/// The paths that a plan changes.
fn paths(plan: &Plan) -> Vec<String> {
    let path = |step: &Step| match step {
        Step::WriteFile(file) => Some(file.path.clone()),
        Step::BackUp { path }
        | Step::RestoreFile { path, .. }
        | Step::EditFile { path, .. }
        | Step::DeleteFile { path } => Some(path.clone()),
        Step::SetKernel(setting) => Some(setting.path.clone()),
        _ => None,
    };
    plan.steps.iter().chain(&plan.deferred).filter_map(path).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn executed_plan_leaves_nothing_to_do(mut machine in machine(), a in document(), b in document()) {
        machine.apply(None, &a);
        prop_assert!(machine.plan(Some(&a), &a).is_empty(), "{:?}", machine.plan(Some(&a), &a).steps);
        machine.apply(Some(&a), &b);
        prop_assert!(machine.plan(Some(&b), &b).is_empty(), "{:?}", machine.plan(Some(&b), &b).steps);
    }

    #[test]
    fn applying_and_rolling_back_restores_everything(mut machine in machine(), a in document(), b in document()) {
        machine.apply(None, &a);
        let before = machine.outside();
        machine.apply(Some(&a), &b);
        machine.apply(Some(&b), &a);
        prop_assert_eq!(machine.outside(), before);
    }

    #[test]
    fn state_before_kiln_is_restored_after_any_sequence_of_documents(
        mut machine in machine(), documents in proptest::collection::vec(document(), 1..4),
    ) {
        let empty = config(json!({}));
        let mut untouched = machine.clone();
        untouched.apply(None, &empty);
        let mut in_force: Option<&NodeConfig> = None;
        for document in documents.iter().chain([&empty]) {
            machine.apply(in_force, document);
            in_force = Some(document);
        }
        prop_assert_eq!(machine.outside(), untouched.outside());
    }

    #[test]
    fn interrupted_plan_can_be_finished_or_undone(
        mut machine in machine(), a in document(), b in document(), cut in any::<prop::sample::Index>(),
    ) {
        machine.apply(None, &a);
        let before = machine.outside();
        let mut whole = machine.clone();
        whole.apply(Some(&a), &b);
        let plan = machine.plan(Some(&a), &b);
        let desired = Desired::render(&b, &machine.facts).expect("compatible");
        let steps: Vec<&Step> = plan.steps.iter().chain(&plan.deferred).collect();
        for step in &steps[..cut.index(steps.len() + 1)] {
            machine.execute(step, &plan, &desired);
        }
        // The next run knows the document that the link points at.
        let in_force = if machine.is_at(&b) { &b } else { &a };
        let (mut forward, mut back) = (machine.clone(), machine);
        forward.apply(Some(in_force), &b);
        prop_assert_eq!(forward.outside(), whole.outside());
        back.apply(Some(in_force), &a);
        prop_assert_eq!(back.outside(), before);
    }

    #[test]
    fn plans_change_only_permitted_paths(mut machine in machine(), a in document(), b in document()) {
        let first = machine.apply(None, &a);
        let second = machine.apply(Some(&a), &b);
        for path in paths(&first).into_iter().chain(paths(&second)) {
            let permitted = ["/etc/", "/usr/local/share/ca-certificates/", "/proc/sys/", "/sys/", "/var/lib/kubelet/"];
            prop_assert!(permitted.iter().any(|folder| path.starts_with(folder)), "{}", path);
            prop_assert!(!path.contains("/../") && !path.starts_with("/etc/kiln"), "{}", path);
        }
    }
}
