//! Rendering of all targets.

use std::collections::BTreeSet;

use kiln_aks_formats::anc::Host;
use kiln_aks_formats::{from_base64, nbv};
use kiln_bootstrap::render::{Target, aks_node_config, node_config, node_config_from_aks, render};
use kiln_bootstrap::{AksVariables, Bootstrapper, Field, KubeadmJoin, Resolved, Source, SourceKind, launch, resolve};
use kiln_node_config::NodeConfig;
use serde_json::{Value, json};

use crate::common::{TOKEN, highest, inputs, required, source};

#[test]
fn order_of_sources_does_not_change_the_output() {
    let mut sources: Vec<Source> = required().into_iter().map(|(name, value)| highest(name, value)).collect();
    sources.push(highest("labels", json!({"b": "2", "a": "1"})));
    let forward = resolve(&sources);
    sources.reverse();
    let backward = resolve(&sources);
    for target in Target::ALL {
        assert_eq!(render(&forward, target).unwrap(), render(&backward, target).unwrap(), "{}", target.as_str());
    }
}

#[test]
fn source_of_highest_precedence_wins_and_explain_lists_overridden_values() {
    let mut sources: Vec<Source> = required().into_iter().map(|(name, value)| highest(name, value)).collect();
    sources.retain(|source| source.assignments[0].field != "vnetSubnetId");
    for (kind, subnet) in [
        (SourceKind::NodeClass, "class"),
        (SourceKind::Detected, "found"),
        (SourceKind::Settings, "set"),
        (SourceKind::Environment, "env"),
    ] {
        sources.push(source(kind, "vnetSubnetId", json!(crate::common::SUBNET.replace("aks-subnet", subnet))));
    }
    let resolved = resolve(&sources);
    let lines = resolved.explain();
    let line = lines.iter().find(|line| line.field == "vnetSubnetId").unwrap();
    assert_eq!((line.kind.as_str(), line.position.as_str()), ("node class", "node class vnetSubnetId"));
    let kinds: Vec<_> = line.overrode.iter().map(|overridden| overridden.kind.as_str()).collect();
    assert_eq!(kinds, ["settings", "environment", "detected"]);
    let computed = lines.iter().find(|line| line.field == "Subnet").unwrap();
    assert_eq!(
        (computed.value.as_str().unwrap(), computed.kind.as_str(), computed.position.as_str()),
        ("class", "computed", "vnetSubnetId")
    );
    assert_eq!(lines.len(), Field::all().len());
}

#[test]
fn hardcoded_values_have_a_reason() {
    let lines = inputs(&[]).explain();
    let kind = |name: &str| lines.iter().find(|line| line.field == name).unwrap().kind.clone();
    assert_eq!(kind("MobyVersion"), "hardcoded (unused)");
    assert_eq!(kind("IsKata"), "hardcoded (unsupported)");
    assert_eq!(kind("CloudProviderBackoff"), "hardcoded (static)");
    assert_eq!(kind("HTTPProxyURLs"), "hardcoded (default)");
    assert_eq!(kind("KubeletFlags"), "computed");
}

#[test]
fn missing_fields_are_listed_with_their_allowed_sources() {
    let resolved = resolve(&[]);
    let error = resolved.variables().unwrap_err().to_string();
    assert!(
        error.starts_with(
            "required fields are not set: `tenantId` (allowed sources: environment, settings), `subscriptionId`"
        ),
        "{error}"
    );
    assert!(resolved.explain().iter().any(|line| line.value.is_null()));
}

#[test]
fn variables_and_aks_node_config_agree() {
    let resolved = inputs(&[
        ("taints", json!(["a=b:NoSchedule"])),
        ("labels", json!({"team": "a"})),
        ("vmSize", json!("standard_nc6s_v3")),
    ]);
    let variables = resolved.variables().unwrap().environment();
    let config = aks_node_config(&resolved).unwrap();
    assert_eq!(config.missing(), Vec::<&str>::new());
    let again = kiln_aks_formats::anc::parse(config.to_json().expose().as_bytes());
    assert_eq!((again.error, &again.config), (None, &config));
    let controller = config.environment(&Host::default());
    let differ: BTreeSet<&str> = variables
        .iter()
        .filter(|(name, text)| controller.get(*name).is_some_and(|other| other != *text))
        .map(|(name, _)| name.as_str())
        .collect();
    // The node controller reads drivers from the image, writes its own files, and uses a lower-case load balancer SKU.
    let known = [
        "CONTAINERD_CONFIG_CONTENT",
        "CSE_TIMEOUT",
        "DHCPV6_CONFIG_FILEPATH",
        "DHCPV6_SERVICE_FILEPATH",
        "GPU_DRIVER_VERSION",
        "GPU_IMAGE_SHA",
        "LOAD_BALANCER_SKU",
        "SYSCTL_CONTENT",
    ];
    assert_eq!(differ, BTreeSet::from(known));
}

#[test]
fn node_config_contains_the_inputs() {
    let resolved = inputs(&[
        ("taints", json!(["dedicated=gpu:NoSchedule"])),
        ("labels", json!({"team": "a", "node-restriction.kubernetes.io/x": "no"})),
        ("maxPods", json!(50)),
        ("SwapFileSizeMB", json!(1024)),
        ("HTTPSProxyURLs", json!("http://proxy.example:3128")),
        ("NoProxyURLs", json!("10.0.0.0/8,localhost")),
        ("kubelet.failSwapOn", json!("false")),
    ]);
    let config = node_config(&resolved, 7).unwrap();
    let again = NodeConfig::parse(config.to_json().as_bytes()).unwrap();
    assert_eq!(again, config);
    assert_eq!(config.metadata.generation, 7);
    let spec = &config.spec;
    assert_eq!(spec.cluster.endpoint, "https://test-cluster.hcp.eastus.azmk8s.io:443");
    assert_eq!(
        (&spec.kubelet.configuration["maxPods"], &spec.kubelet.configuration["failSwapOn"]),
        (&json!(50), &json!(false))
    );
    assert_eq!(spec.kubelet.labels["team"], "a");
    assert!(!spec.kubelet.labels.contains_key("node-restriction.kubernetes.io/x"));
    assert_eq!((spec.kubelet.taints[0].key.as_str(), spec.os.swap.size_mib), ("dedicated", 1024));
    assert_eq!(spec.os.proxy.no_proxy, ["10.0.0.0/8", "localhost"]);
    assert_eq!(spec.platform.users[0].name, "azureuser");
}

/// Changing an input changes the `NodeConfig` field that the table lists for it.
#[test]
fn inputs_change_the_node_config_field_of_their_table_row() {
    let base = node_config(&inputs(&[("kubelet.allowedUnsafeSysctls", json!(["a"]))]), 1).unwrap();
    for field in Field::all().iter().filter(|field| field.is_input() && !field.secret) {
        let Some(path) = field.config else { continue };
        let value = match field.name {
            "kubernetesVersion" => json!("1.34.1"),
            "caBundle" | "HTTPProxyTrustedCA" => {
                json!(kiln_aks_formats::to_base64("-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n"))
            }
            "customCaCerts" => json!([crate::common::ca()]),
            "clusterEndpoint" => json!("https://other.example"),
            "credentialFrom" => json!("attestedIdentity"),
            "networkPlugin" => json!("none"),
            "networkPluginMode" => json!(""),
            "networkDataplane" => json!("azure"),
            "dnsServiceIp" => json!("10.1.0.10"),
            "taints" | "startupTaints" => json!(["a:NoSchedule"]),
            "sshPublicKey" => json!("ssh-ed25519 BBBB you"),
            "THPEnabled" | "THPDefrag" => json!("madvise"),
            "kubelet.cpuCFSQuota" | "kubelet.failSwapOn" => json!("false"),
            "kubelet.cpuCFSQuotaPeriod" => json!("200ms"),
            "MessageOfTheDay" => json!("aGVsbG8="),
            "HTTPProxyURLs" | "HTTPSProxyURLs" => json!("http://proxy.example:3128"),
            "sysctls" => json!({"vm.swappiness": "1"}),
            "blockMetadata" | "blockWireServer" => json!(false),
            _ => match field.value_type {
                kiln_bootstrap::ValueType::Text => json!("other"),
                kiln_bootstrap::ValueType::Bool => json!(true),
                kiln_bootstrap::ValueType::Int => json!(42),
                kiln_bootstrap::ValueType::List => json!(["other"]),
                kiln_bootstrap::ValueType::Map => json!({"other": "x"}),
            },
        };
        let name: &'static str = field.name;
        let moved = node_config(&inputs(&[("kubelet.allowedUnsafeSysctls", json!(["a"])), (name, value)]), 1)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let changes = kiln_node_config::changes::between(&base, &moved);
        // In overlay mode an agent configures the network, so the plugin name stays the same; mode and labels change.
        let found = changes.iter().any(|change| change.path.starts_with(path));
        assert!(found || name == "networkPlugin" && !changes.is_empty(), "{name} should change {path}: {changes:?}");
    }
}

fn decoded(custom_data: &str) -> String {
    String::from_utf8(from_base64(custom_data).unwrap()).unwrap()
}

#[test]
fn kubeadm_join_trusts_only_the_given_certificates() {
    let resolved = inputs(&[("taints", json!(["a=b:NoSchedule"])), ("maxPods", json!(50))]);
    let text = decoded(KubeadmJoin.custom_data(&resolved).unwrap().expose());
    let config: Value = serde_json::from_str(text.strip_prefix("#cloud-config\n").unwrap()).unwrap();
    let file = |index: usize| -> Value {
        serde_json::from_str(&decoded(config["write_files"][index]["content"].as_str().unwrap())).unwrap()
    };
    assert_eq!(file(0)["clusters"][0]["cluster"]["certificate-authority-data"], crate::common::ca());
    let join = file(1);
    assert_eq!(
        (&join["apiVersion"], &join["discovery"]["tlsBootstrapToken"]),
        (&json!("kubeadm.k8s.io/v1beta4"), &json!(TOKEN))
    );
    assert_eq!(join["nodeRegistration"]["taints"], json!([{"key": "a", "value": "b", "effect": "NoSchedule"}]));
    let arguments = join["nodeRegistration"]["kubeletExtraArgs"].as_array().unwrap();
    assert!(arguments.contains(&json!({"name": "max-pods", "value": "50"})));
    assert!(!text.contains("unsafeSkipCAVerification"));
    let older = inputs(&[("kubernetesVersion", json!("1.30.2"))]);
    let text = decoded(KubeadmJoin.custom_data(&older).unwrap().expose());
    assert!(decoded(serde_json::from_str::<Value>(text.strip_prefix("#cloud-config\n").unwrap()).unwrap()["write_files"][1]["content"].as_str().unwrap()).contains("v1beta3"));
}

#[test]
fn launch_template_contains_custom_data_image_and_tags() {
    let resolved: Resolved = inputs(&[
        ("additionalTags", json!({"team": "x", "env": "a"})),
        ("tags", json!({"env": "b", "a/b": "c"})),
        ("nodePoolName", json!("pool")),
        ("zone", json!("eastus-2")),
        ("capacityType", json!("spot")),
        ("trustedLaunch", json!(true)),
    ]);
    let template = launch::template(&resolved, &AksVariables).unwrap();
    assert_eq!(template, launch::template(&resolved, &AksVariables).unwrap());
    let tags: Vec<(&str, &str)> = template.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        tags,
        [
            ("a_b", "c"),
            ("compute.aks.billing", "linux"),
            ("env", "b"),
            ("karpenter.azure.com_cluster", "test-cluster"),
            ("karpenter.sh_nodepool", "pool"),
            (launch::OWNER_TAG, "test-cluster"),
            ("team", "x"),
        ]
    );
    let spec = launch::machine(&resolved, &template, "vm-1".parse().unwrap()).unwrap();
    assert_eq!(
        (spec.zone.as_deref(), spec.priority, spec.disk.size_gib),
        (Some("2"), kiln_types::Priority::Spot, Some(128))
    );
    assert_eq!(spec.custom_data.expose(), resolved.variables().unwrap().script().unwrap().expose());
    assert_eq!(spec.security_type, kiln_types::SecurityType::TrustedLaunch);
}

#[test]
fn tags_that_differ_only_in_case_are_rejected() {
    let error = launch::tags(&inputs(&[("tags", json!({"Env": "a", "env": "b"}))])).unwrap_err();
    assert_eq!(error.to_string(), "tags `Env` and `env` differ only in case");
    assert!(launch::tags(&inputs(&[("tags", json!({"a<b": "x"}))])).is_err());
    assert!(launch::template(&inputs(&[("imageId", json!(""))]), &AksVariables).is_err());
}

#[test]
fn every_settable_variable_reaches_the_script() {
    for field in nbv::Field::ALL {
        let row = Field::named(field.name()).unwrap();
        if !row.is_input() {
            continue;
        }
        let (value, text) = match row.value_type {
            kiln_bootstrap::ValueType::Text => (json!("x y"), "x y"),
            kiln_bootstrap::ValueType::Bool => (json!(true), "true"),
            kiln_bootstrap::ValueType::Int => (json!(7), "7"),
            _ => continue,
        };
        let variables = inputs(&[(row.name, value)]).variables().unwrap();
        assert_eq!(variables.get(field), text, "{field}");
    }
}

#[test]
fn aks_node_config_converts_to_the_same_node_config_as_its_inputs() {
    let resolved = inputs(&[
        ("taints", json!(["a=b:NoSchedule", "c:NoExecute"])),
        ("labels", json!({"team": "a"})),
        ("SwapFileSizeMB", json!(512)),
        ("ShouldConfigSwapFile", json!(true)),
        ("kubelet.failSwapOn", json!("false")),
        ("NoProxyURLs", json!("localhost")),
        ("HTTPProxyURLs", json!("http://proxy:3128")),
        ("customCaCerts", json!([crate::common::ca()])),
    ]);
    let direct = node_config(&resolved, 3).unwrap();
    let config = aks_node_config(&resolved).unwrap();
    let through = node_config_from_aks(&config, 3).unwrap();
    assert!(!through.to_json().contains("0123456789abcdef"));
    let (a, b) = (&direct.spec, &through.spec);
    assert_eq!(
        (&a.kubelet.taints, &a.kubelet.labels, &a.kubelet.version),
        (&b.kubelet.taints, &b.kubelet.labels, &b.kubelet.version)
    );
    assert_eq!(
        (&a.os, &a.cluster.dns, &a.cluster.certificate_authority),
        (&b.os, &b.cluster.dns, &b.cluster.certificate_authority)
    );
    assert_eq!((&a.runtime, &a.credential_from), (&b.runtime, &b.credential_from));
    assert_eq!(b.kubelet.flags["--max-pods"], "250");
    assert!(!b.kubelet.flags.contains_key("--register-with-taints"));
}

#[test]
fn invalid_values_are_not_rendered() {
    let error = render(&inputs(&[("networkPlugin", json!("kubenet"))]), Target::NbvScript).unwrap_err().to_string();
    assert_eq!(
        error,
        "settings networkPlugin: `networkPlugin`: unsupported value `kubenet`; expected one of `azure`, `none`"
    );
    assert!(AksVariables.custom_data(&inputs(&[("maxPods", json!(1000))])).is_err());
}

#[test]
fn os_settings_of_a_class_reach_every_target() {
    let class = "kind: AKSNodeClass\nspec:\n  kubelet: {failSwapOn: false}\n  linuxOSConfig:\n    swapFileSize: 512Mi\n    transparentHugePageEnabled: madvise\n    sysctls: \
                 {vmSwappiness: 10, netCoreSomaxconn: 99}\n";
    let with = |class: &str| {
        let mut sources: Vec<Source> = required().into_iter().map(|(name, value)| highest(name, value)).collect();
        sources.extend(
            kiln_bootstrap::sources::node_class(&kiln_bootstrap::Document::read("c", class).unwrap(), "amd64").unwrap(),
        );
        resolve(&sources)
    };
    let inputs = with(class);
    inputs.check().unwrap();
    let config = node_config(&inputs, 1).unwrap().spec;
    assert_eq!((config.os.swap.size_mib, config.os.huge_pages.transparent.as_str()), (512, "madvise"));
    let sysctl = (config.os.sysctl["vm.swappiness"].as_str(), config.os.sysctl["net.core.somaxconn"].as_str());
    assert_eq!(sysctl, ("10", "99"));
    let anc = aks_node_config(&inputs).unwrap();
    let os = anc.custom_linux_os_config.clone().unwrap();
    assert_eq!((os.enable_swap_config, os.swap_file_size), (true, 512));
    assert_eq!(os.sysctl_config.unwrap().vm_swappiness, Some(10));
    let variables = inputs.variables().unwrap();
    assert_eq!(variables.get(nbv::Field::SwapFileSizeMB), "512");
    assert!(variables.is_true(nbv::Field::ShouldConfigSwapFile));
    let file = decoded(variables.get(nbv::Field::SysctlContent));
    assert!(file.contains("vm.swappiness=10\n") && file.contains("net.core.somaxconn=99\n"), "{file}");
    assert_eq!(file, decoded(&anc.environment(&Host::default())["SYSCTL_CONTENT"]), "both formats write the same file");
}

#[test]
fn local_dns_is_rendered_to_aks_node_config_and_rejected_for_node_config() {
    let class = "kind: AKSNodeClass\nspec:\n  localDNS:\n    mode: Required\n    vnetDNSOverrides: [{zone: ., protocol: ForceTCP, cacheDuration: 1h, forwardDestination: VnetDNS}]\n    \
                 kubeDNSOverrides: [{zone: cluster.local, protocol: PreferUDP, forwardDestination: ClusterCoreDNS}]\n";
    let mut sources: Vec<Source> = required().into_iter().map(|(name, value)| highest(name, value)).collect();
    let document = kiln_bootstrap::Document::read("c.yaml", class).unwrap();
    sources.extend(kiln_bootstrap::sources::node_class(&document, "amd64").unwrap());
    let inputs = resolve(&sources);
    inputs.check().unwrap();
    let profile = aks_node_config(&inputs).unwrap().local_dns_profile.unwrap();
    assert!(profile.enable_local_dns);
    assert_eq!(profile.vnet_dns_overrides["."].protocol, "ForceTCP");
    assert_eq!(profile.vnet_dns_overrides["."].cache_duration_in_seconds, Some(3600));
    assert_eq!(profile.kube_dns_overrides["cluster.local"].forward_destination, "ClusterCoreDNS");
    let error = node_config(&inputs, 1).unwrap_err().to_string();
    assert_eq!(error, "c.yaml:4:11: at `spec.localDNS.mode`: a NodeConfig cannot contain `localDnsMode`");
}

#[test]
fn unsupported_sysctl_is_rejected_only_for_aks_node_config() {
    let inputs = inputs(&[("sysctls", json!({"kernel.panic": "10"}))]);
    let error = aks_node_config(&inputs).unwrap_err().to_string();
    assert_eq!(error, "sysctls: `kernel.panic`: AKS does not support this sysctl");
    assert_eq!(node_config(&inputs, 1).unwrap().spec.os.sysctl["kernel.panic"], "10");
}
