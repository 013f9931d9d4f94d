//! Every field of a document has an effect on a node, or a reason why not.

use std::fmt::Write as _;

use kiln_node_config::{Effect, NodeConfig, reference};
use kiln_node_plan::{Desired, Facts, Image, Plan, Request, Step, layout};
use serde_json::{Value, json};

use crate::support::{Machine, PEM, config, facts};

/// Fields that change nothing on a node, with the reason.
const NOTHING: [(&str, &str); 16] = [
    ("metadata.name", "informational"),
    ("metadata.generation", "the document with the highest generation wins"),
    ("metadata.annotations", "informational"),
    ("spec.cluster.name", "informational"),
    ("spec.network.dataplane", "installed by an agent in the cluster"),
    ("spec.network.policy", "installed by an agent in the cluster"),
    ("spec.health.gates", "used by kilnd during a trial"),
    ("spec.health.gates[].name", "used by kilnd during a trial"),
    ("spec.health.gates[].kind", "used by kilnd during a trial"),
    ("spec.health.gates[].target", "used by kilnd during a trial"),
    ("spec.health.withinSeconds", "used by kilnd during a trial"),
    ("spec.update.upTo", "limits what the node changes by itself"),
    ("spec.update.pollSeconds", "used by `kilnd watch`"),
    ("spec.update.spreadSeconds", "used by `kilnd watch`"),
    ("spec.update.paused", "limits what the node changes by itself"),
    ("spec.credentialFrom", "see its fields"),
];

/// For each other field: two documents that differ in it.
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
        ("spec.network.mtu", nothing(), json!({"network": {"mtu": 1400}})),
        ("spec.network.blockMetadata", nothing(), json!({"network": {"blockMetadata": true}})),
        ("spec.network.blockWireServer", nothing(), json!({"network": {"blockWireServer": true}})),
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

/// A machine whose image has several versions of each program.
fn machine() -> Facts {
    let kubelets = ["1.33.7", "1.33.8"].map(|version| (version.to_owned(), format!("/opt/kubelet-{version}")));
    let runtimes = ["1.7.27", "2.1.0"].map(|version| (version.to_owned(), format!("/opt/containerd-{version}")));
    Facts {
        image: Image { kubelets: kubelets.into(), runtimes: runtimes.into(), ..Image::default() },
        joined: true,
        ..facts()
    }
}

/// The desired state without the document itself.
fn desired(config: &NodeConfig) -> Desired {
    let mut desired = Desired::render(config, &machine()).expect("compatible");
    desired.files.retain(|file| file.path != layout::DOCUMENT);
    desired
}

#[test]
fn every_field_changes_the_desired_state_or_is_listed_as_informational() {
    let rows = rows();
    for row in reference::rows() {
        let tested = rows.iter().filter(|(path, ..)| *path == row.path).count();
        let nothing = NOTHING.iter().filter(|(path, _)| *path == row.path).count();
        assert_eq!(tested + nothing, 1, "{} needs exactly one row", row.path);
    }
    for (path, from, to) in rows {
        assert!(reference::rows().iter().any(|row| row.path == path), "{path} is not a field");
        let (from, to) = (config(from), config(to));
        assert_ne!(desired(&from), desired(&to), "{path} changes nothing");
    }
}

#[test]
fn effect_of_a_change_is_at_most_the_documented_effect() {
    for (path, from, to) in rows() {
        let row = reference::rows().into_iter().find(|row| row.path == path).expect("a field");
        let (from, to) = (config(from), config(to));
        let mut machine = Machine { facts: machine(), ..Machine::default() };
        machine.apply(None, &from);
        let plan = machine.plan(Some(&from), &to);
        assert!(plan.effect <= row.effect.max(Effect::None), "{path}: {} exceeds {}", plan.effect, row.effect);
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
                plan.requests.iter().any(|request| matches!(request, Request::Labels { .. } | Request::Taints { .. })),
                "{path}"
            );
        }
    }
}

/// The paths and services that a plan changes.
fn touched(plan: &Plan) -> (Vec<String>, Vec<String>) {
    let (mut writes, mut services) = (Vec::new(), Vec::new());
    for step in plan.steps.iter().chain(&plan.deferred) {
        match step {
            Step::BackUp { .. } | Step::WriteGeneration | Step::SwitchGeneration => {}
            Step::WriteFile(file) => writes.push(format!("`{}`", file.path)),
            Step::EditFile { path, .. } => writes.push(format!("a block in `{path}`")),
            Step::SetKernel(setting) => writes.push(format!("`{}`", setting.path)),
            Step::RestoreFile { path, .. } => writes.push(format!("`{path}` (restored)")),
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

/// The reference page, generated from the plan of each change.
fn page() -> String {
    let mut out = String::from(
        "# Effects of each field\n\n\
         This page is generated: it shows the plan that `kilnd` makes on a running node when one field changes. Relative \
         paths are in the\ngeneration's folder, below `/etc/kiln/current`. Other files are restored to their state before \
         kiln when a later document does not\nneed them. The effects are described in \
         [NodeConfig](node-config.md#effects).\n\n\
         | field | effect | writes | services | requests |\n|---|---|---|---|---|\n",
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
        let requests: Vec<String> = plan.requests.iter().map(ToString::to_string).collect();
        let (writes, services, requests) = (writes.join(", "), services.join(", "), requests.join(", "));
        let _ = writeln!(out, "| `{path}` | {} | {writes} | {services} | {requests} |", plan.effect);
    }
    out.push_str("\n## Fields without an effect on the node\n\n| field | reason |\n|---|---|\n");
    for (path, why) in NOTHING {
        let _ = writeln!(out, "| `{path}` | {why} |");
    }
    out
}

#[test]
fn effects_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/effects.md");
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(path, page()).expect("written");
    }
    let have = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(have, page(), "{path} is out of date: run the test with KILN_BLESS=1 and read the diff");
}

#[test]
fn restart_effects_restart_a_service() {
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
