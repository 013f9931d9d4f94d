//! Every parser of the three crates against damaged documents. `KILN_FUZZ_ROUNDS` makes it longer; a failure names its round, and
//! the same round damages the same way again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kiln_api::NodeConfig;
use kiln_bootstrap::{Document, resolve, sources};
use kiln_contracts::anc::{self, GpuDrivers, Host, hotfix};
use kiln_contracts::nbv::Inputs;

/// Quick enough for every run; minutes are for those who ask.
const ROUNDS: u64 = 400;

/// A small generator: the damage must be the same on every machine.
struct Damage(u64);

impl Damage {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (below.max(1) as u64)).expect("below a usize")
    }

    /// One to four wounds.
    fn wound(&mut self, seeds: &[&str]) -> Vec<u8> {
        const WORDS: [&str; 16] = [
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
                    let word = WORDS[self.next(WORDS.len())];
                    bytes.splice(from..from, word.bytes());
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

fn hunt(name: &str, seeds: &[&str], target: impl Fn(&[u8])) {
    let rounds = std::env::var("KILN_FUZZ_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    for seed in seeds {
        target(seed.as_bytes());
    }
    for round in 1..=rounds {
        let bytes = Damage(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).wound(seeds);
        let survived = catch_unwind(AssertUnwindSafe(|| target(&bytes))).is_ok();
        assert!(survived, "{name}: round {round}: {:?}", String::from_utf8_lossy(&bytes));
    }
}

const AKS: &str = r#"{"version": "v1", "cluster_config": {"vm_type": 2, "location": "eastus", "cloud_provider_config": {"backoff_exponent": 1.5}},
  "kubelet_config": {"kubelet_flags": {"--a": "b"}, "enable_kubelet_config_file": true, "kubelet_config_file_config": {"featureGates": {"x": true}}},
  "custom_linux_os_config": {"sysctl_config": {"net_ipv4_ip_local_port_range": "1 65535"}}, "custom_ca_certs": ["a"], "is_vhd": null,
  "local_dns_profile": {"enable_local_dns": true, "vnet_dns_overrides": {".": {"health_check": {"duration": "1s"}}}}}"#;

#[test]
fn a_damaged_aks_node_config_is_read_as_far_as_it_goes_and_writes_what_it_reads() {
    hunt("AKSNodeConfig", &[AKS, "{}"], |bytes| {
        let parsed = anc::parse(bytes);
        let again = anc::parse(parsed.config.to_json().expose().as_bytes());
        assert_eq!((again.problem, again.config), (None, parsed.config.clone()));
        assert!(parsed.config.environment(&Host::default()).len() >= 164);
    });
}

const CONFIG: &str = include_str!("../../api/tests/example.json");

#[test]
fn a_damaged_node_config_is_refused_or_reads_back_the_same() {
    hunt("NodeConfig", &[CONFIG], |bytes| {
        if let Ok(config) = NodeConfig::parse(bytes) {
            let again = NodeConfig::parse(config.to_json().as_bytes()).expect("what is written is read");
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

#[test]
fn damaged_sources_are_refused_or_resolved() {
    hunt("sources", &[SETTINGS, MAP, POOL, CLASS], |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let Ok(document) = Document::read("f", text) else { return };
        let mut layers = Vec::new();
        layers.extend(sources::settings(&document));
        layers.extend(sources::node_pool(&document));
        layers.extend(sources::node_claim(&document));
        layers.extend(sources::node_class(&document, "amd64").unwrap_or_default());
        let resolved = resolve(&layers);
        assert!(resolved.explain().len() > 180);
        let _ = resolved.check();
    });
}

const INPUTS: &str = r#"{"kubernetes_version": "1.33.7", "ca_bundle": "Q0E=", "api_server_name": "a", "bootstrap_token": "t", "tenant_id": "t",
  "subscription_id": "s", "location": "l", "resource_group": "g", "network_plugin": "none", "labels": {"a": "b"}, "taints": ["a:NoSchedule"],
  "subnet_id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/x", "overrides": {"DisableSSH": "true"}}"#;

#[test]
fn damaged_inputs_are_refused_or_make_a_script() {
    hunt("inputs", &[INPUTS], |bytes| {
        if let Ok(inputs) = serde_json::from_slice::<Inputs>(bytes)
            && let Ok(variables) = inputs.variables()
        {
            let script = variables.script().expect("no variable holds a NUL byte");
            assert!(script.expose().starts_with("#!/bin/bash\n"));
        }
    });
}

#[test]
fn damaged_lists_of_components_and_pointers_are_refused_or_read() {
    let components =
        r#"{"GPUContainerImages": [{"downloadURL": "m/aks-gpu-grid:*", "gpuVersion": {"latestVersion": "1.2-3"}}]}"#;
    let pointer = r#"{"version": "202604.01.1", "hotfixes": {"202604.01": "202604.01.1"}}"#;
    hunt("components", &[components, pointer], |bytes| {
        let _ = GpuDrivers::from_components(bytes).map(|drivers| drivers.version("standard_nv6ads_a10_v5"));
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = hotfix::Pointer::read(text).map(|pointer| pointer.for_build("202604.01.0"));
            let _ = hotfix::should_upgrade(text, "202604.01.1");
        }
    });
}
