//! Fuzz tests: mutates valid documents and feeds them to every parser of the three crates. `KILN_FUZZ_ROUNDS` sets the number of
//! mutations per parser. A failure reports its round; the same round always produces the same mutation.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kiln_aks_formats::anc::{self, GpuDrivers, Host, hotfix};
use kiln_aks_formats::nbv::Inputs;
use kiln_aks_formats::shell;
use kiln_bootstrap::compare::{Side, compare};
use kiln_bootstrap::drift::Record;
use kiln_bootstrap::review::{FileKind, review};
use kiln_bootstrap::{Document, resolve, sources};
use kiln_node_config::NodeConfig;
use test_deps::Tier;

/// About half a second per parser in a debug build; the full tier spends up to a minute per parser.
const ROUNDS: u64 = 1_000;
const FULL_ROUNDS: u64 = 60_000;

fn rounds() -> u64 {
    let rounds = std::env::var("KILN_FUZZ_ROUNDS").ok();
    let by_tier =
        || if std::env::var(Tier::VARIABLE).ok().as_deref() == Some(Tier::Full.name()) { FULL_ROUNDS } else { ROUNDS };
    rounds.map_or_else(by_tier, |text| text.parse().expect("KILN_FUZZ_ROUNDS is a number"))
}

/// Xorshift generator, so that mutations are the same on every machine.
struct Mutator(u64);

impl Mutator {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (below.max(1) as u64)).expect("below a usize")
    }

    /// Applies one to four mutations to a random seed document.
    fn mutate(&mut self, seeds: &[&str]) -> Vec<u8> {
        const TOKENS: [&str; 16] = [
            "null",
            "{}",
            "[]",
            "\"\"",
            "-1",
            "1e999",
            "99999999999999999999",
            "true",
            "&a *a",
            "<<: *a",
            "\u{feff}",
            "\0",
            "\\u0000",
            "\n---\n",
            "!!binary",
            "ö",
        ];
        let mut bytes = seeds[self.next(seeds.len())].as_bytes().to_vec();
        for _ in 0..=self.next(4) {
            let (from, to) = (self.next(bytes.len() + 1), self.next(bytes.len() + 1));
            let (from, to) = (from.min(to), from.max(to));
            match self.next(6) {
                0 if from < bytes.len() => bytes[from] ^= 1 << self.next(8),
                1 => drop(bytes.drain(from..to.min(from + 24))),
                2 => {
                    let copy = bytes[from..to.min(from + 40)].to_vec();
                    bytes.splice(to..to, copy);
                }
                3 => {
                    let token = TOKENS[self.next(TOKENS.len())];
                    bytes.splice(from..from, token.bytes());
                }
                4 => bytes.truncate(to),
                _ => {
                    let other = seeds[self.next(seeds.len())].as_bytes();
                    let at = self.next(other.len() + 1);
                    bytes.splice(from..to, other[at..(at + 30).min(other.len())].iter().copied());
                }
            }
        }
        bytes
    }
}

fn fuzz(name: &str, seeds: &[&str], target: impl Fn(&[u8])) {
    for seed in seeds {
        target(seed.as_bytes());
    }
    for round in 1..=rounds() {
        let bytes = Mutator(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).mutate(seeds);
        let survived = catch_unwind(AssertUnwindSafe(|| target(&bytes))).is_ok();
        assert!(survived, "{name}: round {round}: {:?}", String::from_utf8_lossy(&bytes));
    }
}

const AKS: &str = r#"{"version": "v1", "cluster_config": {"vm_type": 2, "location": "eastus", "cloud_provider_config": {"backoff_exponent": 1.5}},
  "kubelet_config": {"kubelet_flags": {"--a": "b"}, "enable_kubelet_config_file": true, "kubelet_config_file_config": {"featureGates": {"x": true}}},
  "custom_linux_os_config": {"sysctl_config": {"net_ipv4_ip_local_port_range": "1 65535"}}, "custom_ca_certs": ["a"], "is_vhd": null,
  "local_dns_profile": {"enable_local_dns": true, "vnet_dns_overrides": {".": {"health_check": {"duration": "1s"}}}}}"#;

#[test]
fn mutated_aks_node_config_survives_a_round_trip() {
    fuzz("AKSNodeConfig", &[AKS, "{}"], |bytes| {
        let parsed = anc::parse(bytes);
        let again = anc::parse(parsed.config.to_json().expose().as_bytes());
        assert_eq!((again.error, again.config), (None, parsed.config.clone()));
        assert!(parsed.config.environment(&Host::default()).len() >= 164);
    });
}

const CONFIG: &str = include_str!("../../node-config/tests/example.json");

#[test]
fn mutated_node_config_is_rejected_or_survives_a_round_trip() {
    fuzz("NodeConfig", &[CONFIG], |bytes| {
        if let Ok(config) = NodeConfig::parse(bytes) {
            let again = NodeConfig::parse(config.to_json().as_bytes()).expect("serialized documents parse");
            assert_eq!((again.to_json(), again.hash()), (config.to_json(), config.hash()));
        }
    });
}

const SETTINGS: &str =
    "tenantId: t\nadditionalTags: {a: b}\nclusterEndpoint: https://a.example\nHTTPProxyURLs: x\ncustomCaCerts: [a]\n";
const MAP: &str = "kind: ConfigMap\ndata:\n  azure.clusterID: '46593302'\n  azure.tags: '{\"a\": \"b\"}'\n";
const POOL: &str = "kind: NodePool\nmetadata: {name: a, annotations: {x: y}}\nspec:\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      \
                    taints: [{key: a, effect: NoSchedule}]\n      requirements: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]\n";
const CLASS: &str = "kind: AKSNodeClass\nmetadata: {annotations: {bootstrap.kiln.dev/DisableSSH: 'true'}}\nspec: {maxPods: 50, kubelet: \
                     {cpuCFSQuotaPeriod: 100ms, allowedUnsafeSysctls: [a]}, gpu: {mode: None}}\nstatus: {kubernetesVersion: 1.33.7}\n";

const CLAIM: &str = "kind: NodeClaim\nmetadata: {name: c, labels: {a: b}}\nspec:\n  taints: [{key: a, value: b, effect: NoExecute}]\n  requirements: [{key: topology.kubernetes.io/zone, \
                     operator: In, values: [eastus-1]}]\nstatus: {nodeName: n, providerID: x, imageID: y}\n";
const SYSTEM: &str = "kind: AKSNodeClass\nspec:\n  linuxOSConfig: {swapFileSize: 1Gi, sysctls: {vmSwappiness: 1, netIpv4IpLocalPortRange: 1 65535}}\n  localDNS: {mode: Required, \
                      vnetDNSOverrides: [{zone: ., cacheDuration: 1h}]}\n";

/// Parses mutated documents as a source, then resolves, explains, checks and derives their values.
fn fuzz_source(name: &str, seeds: &[&str], read: impl Fn(&Document) -> Vec<kiln_bootstrap::Source>) {
    fuzz(name, seeds, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let Ok(document) = Document::read("f", text) else { return };
        let resolved = resolve(&read(&document));
        assert!(resolved.explain().len() > 180);
        let _ = resolved.check();
        let _ = resolved.variables();
    });
}

#[test]
fn mutated_settings_are_rejected_or_resolved() {
    fuzz_source("settings", &[SETTINGS, MAP], |document| sources::settings(document).into_iter().collect());
}

#[test]
fn mutated_pools_are_rejected_or_resolved() {
    fuzz_source("NodePool", &[POOL], |document| sources::node_pool(document).into_iter().collect());
}

#[test]
fn mutated_claims_are_rejected_or_resolved() {
    fuzz_source("NodeClaim", &[CLAIM], |document| sources::node_claim(document).into_iter().collect());
}

#[test]
fn mutated_classes_are_rejected_or_resolved() {
    fuzz_source("AKSNodeClass", &[CLASS, SYSTEM], |document| {
        sources::node_class(document, "amd64").unwrap_or_default()
    });
}

#[test]
fn mutated_arguments_are_rejected_or_resolved() {
    let seeds = [
        "maxPods=30",
        "labels=a=b,c=d",
        "taints=a:NoSchedule",
        "bootstrapToken=hunter2",
        "DisableSSH=true",
        "sysctls=vm.swappiness=1",
    ];
    fuzz("--set", &seeds, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        match sources::arguments(&[text.to_owned()]) {
            Ok(sources) => drop(resolve(&sources).explain()),
            // Without `=`, the whole argument may be a secret.
            Err(error) if !text.contains('=') => {
                assert_eq!(error.to_string(), "`--set` number 1: expected `name=value`");
            }
            Err(error) => assert!(!text.starts_with("bootstrapToken=") || !error.to_string().contains("hunter2")),
        }
    });
}

#[test]
fn findings_of_mutated_files_have_positions_inside_the_file() {
    let seeds = [SETTINGS, MAP, POOL, CLASS, CLAIM, SYSTEM, AKS, CONFIG, INPUTS, COMPONENTS, "{\"A_B\": \"c\"}"];
    fuzz("check", &seeds, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let lines = text.split(['\n', '\r']).count() as u64 + 1;
        for finding in review("f", text, None).findings {
            assert!(finding.line >= 1 && finding.line <= lines && finding.column >= 1, "{finding}");
        }
        for kind in [FileKind::Record, FileKind::Values, FileKind::AksNodeConfig, FileKind::NodeConfig] {
            let _ = review("f", text, Some(kind));
        }
    });
}

#[test]
fn mutated_records_and_configurations_are_rejected_or_compared() {
    let record = r#"{"inputs": {"maxPods": {"value": 30, "kind": "nodeClass", "position": {"variable": "X"}}}, "variables": {"KubeletFlags": "a"}, "hash": "h"}"#;
    let whole: Record = serde_json::from_str(record).unwrap();
    fuzz("record", &[record], |bytes| {
        let Ok(read) = serde_json::from_slice::<Record>(bytes) else { return };
        let _ = whole.drift(&read);
        let _ = compare(&Side::Record(Box::new(whole.clone())), &Side::Record(Box::new(read)));
    });
    let config = anc::parse(AKS.as_bytes()).config;
    fuzz("diff", &[AKS], |bytes| {
        let read = anc::parse(bytes).config;
        let sides = [config.clone(), read].map(|config| Side::AksNodeConfig(Box::new(config)));
        let there = compare(&sides[0], &sides[1]).unwrap();
        let back = compare(&sides[1], &sides[0]).unwrap();
        assert_eq!(there.len(), back.len());
    });
}

#[test]
fn mutated_scripts_are_rejected_or_survive_a_round_trip() {
    fuzz("script", &["A='b'\nC_1='it'\\''s'\n", "A='\n'\n"], |bytes| {
        let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        let Some(read) = text.and_then(shell::assignments) else { return };
        let again =
            read.iter().map(|(name, text)| shell::assignment(name, text).expect("the input contains no NUL byte"));
        let again = again.collect::<String>();
        assert_eq!(shell::assignments(&again), Some(read));
    });
}

const INPUTS: &str = r#"{"kubernetes_version": "1.33.7", "ca_bundle": "Q0E=", "api_server_name": "a", "bootstrap_token": "t", "tenant_id": "t",
  "subscription_id": "s", "location": "l", "resource_group": "g", "network_plugin": "none", "labels": {"a": "b"}, "taints": ["a:NoSchedule"],
  "subnet_id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/x", "overrides": {"DisableSSH": "true"}}"#;

#[test]
fn mutated_inputs_are_rejected_or_rendered() {
    fuzz("inputs", &[INPUTS], |bytes| {
        if let Ok(inputs) = serde_json::from_slice::<Inputs>(bytes)
            && let Ok(variables) = inputs.variables()
        {
            let script = variables.script().expect("no variable contains a NUL byte");
            assert!(script.expose().starts_with("#!/bin/bash\n"));
        }
    });
}

const COMPONENTS: &str =
    r#"{"GPUContainerImages": [{"downloadURL": "m/aks-gpu-grid:*", "gpuVersion": {"latestVersion": "1.2-3"}}]}"#;

#[test]
fn mutated_components_and_hotfix_pointers_do_not_panic() {
    let components = COMPONENTS;
    let pointer = r#"{"version": "202604.01.1", "hotfixes": {"202604.01": "202604.01.1"}}"#;
    fuzz("components", &[components, pointer], |bytes| {
        let _ = GpuDrivers::from_components(bytes).map(|drivers| drivers.version("standard_nv6ads_a10_v5"));
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = hotfix::Pointer::read(text).map(|pointer| pointer.for_build("202604.01.0"));
            let _ = hotfix::should_upgrade(text, "202604.01.1");
        }
    });
}
