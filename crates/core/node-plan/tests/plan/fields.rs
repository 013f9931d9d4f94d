//! Every field of a document does something on a node, or says why not.

use std::fmt::Write as _;

use kiln_node_config::{Effect, NodeConfig, reference};
use kiln_node_plan::{Desired, Facts, Image, Plan, Request, Step, layout};
use serde_json::{Value, json};

use crate::support::{Machine, PEM, config, facts};

/// Fields that change nothing on a node, with the reason.
const NOTHING: [(&str, &str); 15] = [
    ("metadata.name", "for people"),
    ("metadata.generation", "says which document wins"),
    ("metadata.annotations", "notes that no node reads"),
    ("spec.cluster.name", "for people"),
    ("spec.network.dataplane", "an agent in the cluster brings it"),
    ("spec.health.gates", "read by kilnd when a generation is on trial"),
    ("spec.health.gates[].name", "read by kilnd when a generation is on trial"),
    ("spec.health.gates[].kind", "read by kilnd when a generation is on trial"),
    ("spec.health.gates[].target", "read by kilnd when a generation is on trial"),
    ("spec.health.withinSeconds", "read by kilnd when a generation is on trial"),
    ("spec.update.upTo", "decides what a node does by itself"),
    ("spec.update.pollSeconds", "read by kilnd while it waits"),
    ("spec.update.spreadSeconds", "read by kilnd while it waits"),
    ("spec.update.paused", "decides what a node does by itself"),
    ("spec.credentialFrom", "see its fields"),
];

/// Each other field: a document and one in which it is different.
#[expect(clippy::too_many_lines, reason = "a table with a row per field")]
fn rows() -> Vec<(&'static str, Value, Value)> {
    let other_pem = PEM.replace("MA==", "MQ==");
    let taint = |key: &str, value: &str, effect: &str| json!({"kubelet": {"taints": [{"key": key, "value": value, "effect": effect}]}});
    let provider = |over: Value| {
        let mut provider = json!({"name": "acr", "matchImages": ["*.azurecr.io"]});
        provider.as_object_mut().expect("an object").extend(over.as_object().expect("an object").clone());
        json!({"kubelet": {"credentialProviders": [provider]}})
    };
    let registry = |over: Value| {
        let mut registry = json!({"host": "docker.io", "mirrors": ["https://m.example"]});
        registry.as_object_mut().expect("an object").extend(over.as_object().expect("an object").clone());
        json!({"registries": [registry]})
    };
    let user = |over: Value| {
        let mut user = json!({"name": "ann", "sshKeys": ["ssh-ed25519 AAAA ann"]});
        user.as_object_mut().expect("an object").extend(over.as_object().expect("an object").clone());
        json!({"platform": {"users": [user]}})
    };
    let file = |over: Value| {
        let mut file = json!({"path": "/etc/motd"});
        file.as_object_mut().expect("an object").extend(over.as_object().expect("an object").clone());
        json!({"files": [file]})
    };
    let unit = |over: Value| {
        let mut unit = json!({"name": "agent.service"});
        unit.as_object_mut().expect("an object").extend(over.as_object().expect("an object").clone());
        json!({"units": [unit]})
    };
    let identity = |over: Value| {
        let mut from = json!({"kind": "managedIdentity"});
        from.as_object_mut().expect("an object").extend(over.as_object().expect("an object").clone());
        json!({"credentialFrom": from})
    };
    let bridge = |policy: &str| json!({"network": {"plugin": "bridge", "policy": policy}, "kubelet": {"configuration": {"podCIDR": "10.1.0.0/24"}}});
    let disk = |over: Value| {
        let mut disk = json!({"mountPath": "/mnt"});
        disk.as_object_mut().expect("an object").extend(over.as_object().expect("an object").clone());
        json!({"platform": {"temporaryDisk": disk}})
    };
    let nothing = || json!({});
    vec![
        ("spec.cluster.endpoint", nothing(), json!({"cluster": {"endpoint": "https://b.example"}})),
        ("spec.cluster.certificateAuthority", nothing(), json!({"cluster": {"certificateAuthority": other_pem}})),
        ("spec.cluster.dns.serviceIps", nothing(), json!({"cluster": {"dns": {"serviceIps": ["10.0.0.10"]}}})),
        ("spec.cluster.dns.domain", nothing(), json!({"cluster": {"dns": {"domain": "cluster.local"}}})),
        ("spec.cluster.dns.search", nothing(), json!({"cluster": {"dns": {"search": ["corp.example"]}}})),
        ("spec.kubelet.version", nothing(), json!({"kubelet": {"version": "1.33.8"}})),
        ("spec.kubelet.configuration", nothing(), json!({"kubelet": {"configuration": {"maxPods": 30}}})),
        ("spec.kubelet.flags", nothing(), json!({"kubelet": {"flags": {"--v": "4"}}})),
        ("spec.kubelet.labels", nothing(), json!({"kubelet": {"labels": {"team": "a"}}})),
        ("spec.kubelet.taints", nothing(), taint("a", "b", "NoSchedule")),
        ("spec.kubelet.taints[].key", taint("a", "b", "NoSchedule"), taint("c", "b", "NoSchedule")),
        ("spec.kubelet.taints[].value", taint("a", "b", "NoSchedule"), taint("a", "c", "NoSchedule")),
        ("spec.kubelet.taints[].effect", taint("a", "b", "NoSchedule"), taint("a", "b", "NoExecute")),
        ("spec.kubelet.credentialProviders", nothing(), provider(json!({}))),
        ("spec.kubelet.credentialProviders[].name", provider(json!({})), provider(json!({"name": "b"}))),
        (
            "spec.kubelet.credentialProviders[].matchImages",
            provider(json!({})),
            provider(json!({"matchImages": ["b"]})),
        ),
        (
            "spec.kubelet.credentialProviders[].cacheDuration",
            provider(json!({})),
            provider(json!({"cacheDuration": "1m"})),
        ),
        ("spec.kubelet.credentialProviders[].apiVersion", provider(json!({})), provider(json!({"apiVersion": "x/v2"}))),
        ("spec.kubelet.credentialProviders[].args", provider(json!({})), provider(json!({"args": ["/a"]}))),
        ("spec.kubelet.credentialProviders[].env", provider(json!({})), provider(json!({"env": {"A": "b"}}))),
        ("spec.kubelet.nodeIp", nothing(), json!({"kubelet": {"nodeIp": "10.0.0.4"}})),
        ("spec.kubelet.root", nothing(), json!({"kubelet": {"root": "/data/kubelet"}})),
        ("spec.runtime.version", json!({"runtime": {"version": "1.7.27"}}), json!({"runtime": {"version": "2.1.0"}})),
        ("spec.runtime.defaultRuntime", nothing(), json!({"runtime": {"defaultRuntime": "nvidia-container-runtime"}})),
        ("spec.runtime.sandboxImage", nothing(), json!({"runtime": {"sandboxImage": "pause:9"}})),
        ("spec.runtime.systemdCgroup", nothing(), json!({"runtime": {"systemdCgroup": false}})),
        (
            "spec.runtime.configuration",
            nothing(),
            json!({"runtime": {"configuration": {"metrics": {"address": "127.0.0.1:1"}}}}),
        ),
        ("spec.runtime.root", nothing(), json!({"runtime": {"root": "/data/containerd"}})),
        ("spec.registries", nothing(), registry(json!({}))),
        ("spec.registries[].host", registry(json!({})), registry(json!({"host": "quay.io"}))),
        ("spec.registries[].mirrors", registry(json!({})), registry(json!({"mirrors": ["https://n.example"]}))),
        ("spec.registries[].fallBack", registry(json!({})), registry(json!({"fallBack": false}))),
        ("spec.registries[].certificateAuthority", registry(json!({})), registry(json!({"certificateAuthority": PEM}))),
        ("spec.network.plugin", nothing(), json!({"network": {"plugin": "azure"}})),
        (
            "spec.network.mode",
            json!({"network": {"plugin": "azure"}}),
            json!({"network": {"plugin": "azure", "mode": "bridge"}}),
        ),
        ("spec.network.policy", bridge(""), bridge("calico")),
        ("spec.network.mtu", nothing(), json!({"network": {"mtu": 1400}})),
        ("spec.network.blockMetadata", nothing(), json!({"network": {"blockMetadata": true}})),
        ("spec.os.sysctl", nothing(), json!({"os": {"sysctl": {"vm.swappiness": "1"}}})),
        ("spec.os.swap.sizeMib", nothing(), json!({"os": {"swap": {"sizeMib": 64}}})),
        ("spec.os.hugePages.transparent", nothing(), json!({"os": {"hugePages": {"transparent": "never"}}})),
        ("spec.os.hugePages.defrag", nothing(), json!({"os": {"hugePages": {"defrag": "never"}}})),
        ("spec.os.hugePages.pages2mi", nothing(), json!({"os": {"hugePages": {"pages2mi": 8}}})),
        ("spec.os.hugePages.pages1gi", nothing(), json!({"os": {"hugePages": {"pages1gi": 1}}})),
        ("spec.os.limits", nothing(), json!({"os": {"limits": {"LimitNOFILE": "9"}}})),
        ("spec.os.time.servers", nothing(), json!({"os": {"time": {"servers": ["time.example"]}}})),
        ("spec.os.time.zone", nothing(), json!({"os": {"time": {"zone": "Europe/Berlin"}}})),
        ("spec.os.proxy.http", nothing(), json!({"os": {"proxy": {"http": "http://p:1"}}})),
        ("spec.os.proxy.https", nothing(), json!({"os": {"proxy": {"https": "http://p:1"}}})),
        ("spec.os.proxy.noProxy", nothing(), json!({"os": {"proxy": {"noProxy": ["10.0.0.0/8"]}}})),
        ("spec.os.proxy.certificateAuthority", nothing(), json!({"os": {"proxy": {"certificateAuthority": PEM}}})),
        ("spec.os.certificateAuthorities", nothing(), json!({"os": {"certificateAuthorities": [PEM]}})),
        ("spec.os.kernelArguments", nothing(), json!({"os": {"kernelArguments": ["quiet"]}})),
        ("spec.os.kernelModules", nothing(), json!({"os": {"kernelModules": ["br_netfilter"]}})),
        ("spec.platform.hostName", nothing(), json!({"platform": {"hostName": "other"}})),
        ("spec.platform.users", nothing(), user(json!({}))),
        ("spec.platform.users[].name", user(json!({})), user(json!({"name": "bob"}))),
        ("spec.platform.users[].sshKeys", user(json!({})), user(json!({"sshKeys": ["ssh-ed25519 BBBB ann"]}))),
        ("spec.platform.users[].groups", user(json!({})), user(json!({"groups": ["adm"]}))),
        ("spec.platform.users[].shell", user(json!({})), user(json!({"shell": "/bin/sh"}))),
        ("spec.platform.users[].sudo", user(json!({})), user(json!({"sudo": true}))),
        ("spec.platform.growRoot", nothing(), json!({"platform": {"growRoot": true}})),
        ("spec.platform.temporaryDisk.mountPath", nothing(), disk(json!({}))),
        ("spec.platform.temporaryDisk.filesystem", disk(json!({})), disk(json!({"filesystem": "xfs"}))),
        ("spec.platform.temporaryDisk.kubeletRoot", disk(json!({})), disk(json!({"kubeletRoot": true}))),
        ("spec.platform.reportReady", nothing(), json!({"platform": {"reportReady": true}})),
        ("spec.files", nothing(), file(json!({"content": "a"}))),
        ("spec.files[].path", file(json!({})), file(json!({"path": "/etc/issue"}))),
        ("spec.files[].content", file(json!({})), file(json!({"content": "b"}))),
        ("spec.files[].contentBase64", file(json!({})), file(json!({"contentBase64": "AAE="}))),
        (
            "spec.files[].mode",
            file(json!({"restarts": ["kubelet.service"]})),
            file(json!({"restarts": ["kubelet.service"], "mode": "0600"})),
        ),
        ("spec.files[].owner", file(json!({})), file(json!({"owner": "ann"}))),
        ("spec.files[].group", file(json!({})), file(json!({"group": "adm"}))),
        ("spec.files[].restarts", file(json!({})), file(json!({"restarts": ["a.service"]}))),
        ("spec.files[].reloads", file(json!({})), file(json!({"reloads": ["a.service"]}))),
        ("spec.units", nothing(), unit(json!({"content": "[Unit]\n"}))),
        (
            "spec.units[].name",
            unit(json!({"content": "[Unit]\n"})),
            unit(json!({"name": "b.service", "content": "[Unit]\n"})),
        ),
        ("spec.units[].content", unit(json!({})), unit(json!({"content": "[Unit]\n"}))),
        ("spec.units[].dropIns", unit(json!({})), unit(json!({"dropIns": [{"name": "a.conf", "content": "x"}]}))),
        (
            "spec.units[].dropIns[].name",
            unit(json!({"dropIns": [{"name": "a.conf", "content": "x"}]})),
            unit(json!({"dropIns": [{"name": "b.conf", "content": "x"}]})),
        ),
        (
            "spec.units[].dropIns[].content",
            unit(json!({"dropIns": [{"name": "a.conf", "content": "x"}]})),
            unit(json!({"dropIns": [{"name": "a.conf", "content": "y"}]})),
        ),
        ("spec.units[].enabled", unit(json!({})), unit(json!({"enabled": true}))),
        ("spec.units[].masked", unit(json!({})), unit(json!({"masked": true}))),
        ("spec.credentialFrom.kind", nothing(), identity(json!({}))),
        ("spec.credentialFrom.name", identity(json!({})), identity(json!({"name": "client-id"}))),
        ("spec.credentialFrom.endpoint", identity(json!({})), identity(json!({"endpoint": "api://x"}))),
    ]
}

/// An image with several of everything.
fn machine() -> Facts {
    let kubelets = ["1.33.7", "1.33.8"].map(|version| (version.to_owned(), format!("/opt/kubelet-{version}")));
    let runtimes = ["1.7.27", "2.1.0"].map(|version| (version.to_owned(), format!("/opt/containerd-{version}")));
    Facts {
        image: Image { kubelets: kubelets.into(), runtimes: runtimes.into(), ..Image::default() },
        joined: true,
        ..facts()
    }
}

/// What is desired, but for the document itself.
fn desired(config: &NodeConfig) -> Desired {
    let mut desired = Desired::render(config, &machine()).expect("fits");
    desired.files.retain(|file| file.path != layout::DOCUMENT);
    desired
}

#[test]
fn every_field_does_something_or_says_why_not() {
    let rows = rows();
    for row in reference::rows() {
        let tested = rows.iter().filter(|(path, ..)| *path == row.path).count();
        let nothing = NOTHING.iter().filter(|(path, _)| *path == row.path).count();
        assert_eq!(tested + nothing, 1, "{} needs one row here", row.path);
    }
    for (path, from, to) in rows {
        assert!(reference::rows().iter().any(|row| row.path == path), "{path} is no field");
        let (from, to) = (config(from), config(to));
        assert_ne!(desired(&from), desired(&to), "{path} changes nothing");
    }
}

#[test]
fn a_field_costs_no_more_than_it_says() {
    for (path, from, to) in rows() {
        let row = reference::rows().into_iter().find(|row| row.path == path).expect("a field");
        let (from, to) = (config(from), config(to));
        let mut machine = Machine { facts: machine(), ..Machine::default() };
        machine.apply(None, &from);
        let plan = machine.plan(Some(&from), &to);
        assert!(plan.effect <= row.effect.max(Effect::None), "{path}: {} is more than {}", plan.effect, row.effect);
        let services: Vec<String> = plan
            .steps
            .iter()
            .chain(&plan.deferred)
            .filter(|step| matches!(step, Step::Restart { .. } | Step::Stop { .. } | Step::Reload { .. }))
            .map(ToString::to_string)
            .collect();
        let vital = services.iter().any(|step| step.contains("kubelet.service") || step.contains("containerd.service"));
        match row.effect {
            Effect::None | Effect::Cluster => assert!(services.is_empty(), "{path}: {services:?}"),
            Effect::Reload => assert!(!vital, "{path}: {services:?}"),
            _ => {}
        }
        if row.effect == Effect::Cluster {
            assert!(
                plan.requests.iter().any(|ask| matches!(ask, Request::Labels { .. } | Request::Taints { .. })),
                "{path}"
            );
        }
    }
}

/// What a change of a field writes, sets and restarts.
fn touched(plan: &Plan) -> (Vec<String>, Vec<String>) {
    let (mut writes, mut services) = (Vec::new(), Vec::new());
    for step in plan.steps.iter().chain(&plan.deferred) {
        match step {
            Step::BackUp { .. } | Step::WriteGeneration | Step::SwitchGeneration => {}
            Step::WriteFile(file) => writes.push(format!("`{}`", file.path)),
            Step::EditFile { path, .. } => writes.push(format!("part of `{path}`")),
            Step::SetKernel(setting) => writes.push(format!("`{}`", setting.path)),
            Step::RestoreFile { path, .. } => writes.push(format!("`{path}` as it was")),
            Step::Stop { .. }
            | Step::Start { .. }
            | Step::Reload { .. }
            | Step::Restart { .. }
            | Step::DaemonReload => {
                services.push(step.to_string());
            }
            other => writes.push(other.to_string()),
        }
    }
    (writes, services)
}

/// The page, in Markdown: what the plan of each change really holds.
fn page() -> String {
    let mut out = String::from(
        "# What a change of each field does\n\n\
         This page is generated from the plans that `kilnd` makes for one change of each field on a running node. \
         Files without a\nslash at their front are in the generation's folder, below `/etc/kiln/current`; the others are put \
         back to what stood there before\nkiln when a later document does not ask for them. What an effect means: \
         [NodeConfig](node-config.md#effects).\n\n\
         | field | effect | writes | services | asks the cluster for |\n|---|---|---|---|---|\n",
    );
    for (path, from, to) in rows() {
        let (from, to) = (config(from), config(to));
        let mut machine = Machine { facts: machine(), ..Machine::default() };
        machine.apply(None, &from);
        let plan = machine.plan(Some(&from), &to);
        let (before, after) = (desired(&from), desired(&to));
        let changed = |file: &&kiln_node_plan::DesiredFile| before.file(&file.path) != Some(*file);
        let own = after.files.iter().filter(changed).map(|file| format!("`{}`", file.path));
        let (writes, services) = touched(&plan);
        let writes: Vec<String> = own.chain(writes).collect();
        let asks: Vec<String> = plan.requests.iter().map(ToString::to_string).collect();
        let (writes, services, asks) = (writes.join(", "), services.join(", "), asks.join(", "));
        let _ = writeln!(out, "| `{path}` | {} | {writes} | {services} | {asks} |", plan.effect);
    }
    out.push_str("\n## Fields that change nothing on a node\n\n| field | why |\n|---|---|\n");
    for (path, why) in NOTHING {
        let _ = writeln!(out, "| `{path}` | {why} |");
    }
    out
}

#[test]
fn the_committed_page_says_what_each_field_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/effects.md");
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(path, page()).expect("written");
    }
    let have = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(have, page(), "{path} is out of date: run the test with KILN_BLESS=1 and read the diff");
}

#[test]
fn a_change_of_the_kubelet_or_the_runtime_restarts_it() {
    for (path, from, to) in rows() {
        let row = reference::rows().into_iter().find(|row| row.path == path).expect("a field");
        if row.effect != Effect::Restart || path.starts_with("spec.units") || path.starts_with("spec.files") {
            continue;
        }
        let (from, to) = (config(from), config(to));
        let mut machine = Machine { facts: machine(), ..Machine::default() };
        machine.apply(None, &from);
        let plan: Plan = machine.plan(Some(&from), &to);
        assert!(plan.steps.iter().any(|step| matches!(step, Step::Restart { .. })), "{path}: {:?}", plan.steps);
    }
}
