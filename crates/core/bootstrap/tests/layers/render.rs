//! What inputs become.

use std::collections::BTreeSet;

use kiln_aks_formats::anc::Host;
use kiln_aks_formats::{from_base64, nbv};
use kiln_bootstrap::render::{Target, aks_node_config, node_config, node_config_from_aks, render};
use kiln_bootstrap::{AksVariables, Bootstrapper, Field, Kind, KubeadmJoin, Layer, Resolved, launch, resolve};
use kiln_node_config::NodeConfig;
use serde_json::{Value, json};

use crate::common::{TOKEN, inputs, layer, least, strongest};

#[test]
fn the_same_layers_in_another_order_give_the_same_bytes() {
    let mut layers: Vec<Layer> = least().into_iter().map(|(name, value)| strongest(name, value)).collect();
    layers.push(strongest("labels", json!({"b": "2", "a": "1"})));
    let forward = resolve(&layers);
    layers.reverse();
    let backward = resolve(&layers);
    for target in Target::ALL {
        assert_eq!(render(&forward, target).unwrap(), render(&backward, target).unwrap(), "{}", target.as_str());
    }
}

#[test]
fn of_several_sources_the_strongest_wins_and_explains_what_it_overrode() {
    let mut layers: Vec<Layer> = least().into_iter().map(|(name, value)| strongest(name, value)).collect();
    layers.retain(|layer| layer.assignments[0].field != "vnetSubnetId");
    for (kind, subnet) in
        [(Kind::NodeClass, "class"), (Kind::Detected, "found"), (Kind::Settings, "set"), (Kind::Environment, "env")]
    {
        layers.push(layer(kind, "vnetSubnetId", json!(crate::common::SUBNET.replace("aks-subnet", subnet))));
    }
    let resolved = resolve(&layers);
    let lines = resolved.explain();
    let line = lines.iter().find(|line| line.field == "vnetSubnetId").unwrap();
    assert_eq!((line.kind.as_str(), line.place.as_str()), ("node class", "node class vnetSubnetId"));
    let kinds: Vec<_> = line.overrode.iter().map(|lost| lost.kind.as_str()).collect();
    assert_eq!(kinds, ["settings", "environment", "detected"]);
    let computed = lines.iter().find(|line| line.field == "Subnet").unwrap();
    assert_eq!(
        (computed.value.as_str().unwrap(), computed.kind.as_str(), computed.place.as_str()),
        ("class", "computed", "vnetSubnetId")
    );
    assert_eq!(lines.len(), Field::all().len());
}

#[test]
fn hardcoded_values_say_why_they_stand_in_the_program() {
    let lines = inputs(&[]).explain();
    let kind = |name: &str| lines.iter().find(|line| line.field == name).unwrap().kind.clone();
    assert_eq!(kind("MobyVersion"), "hardcoded (unused)");
    assert_eq!(kind("IsKata"), "hardcoded (unsupported)");
    assert_eq!(kind("CloudProviderBackoff"), "hardcoded (static)");
    assert_eq!(kind("HTTPProxyURLs"), "hardcoded (default)");
    assert_eq!(kind("KubeletFlags"), "computed");
}

#[test]
fn what_is_missing_is_named_with_the_sources_that_may_set_it() {
    let resolved = resolve(&[]);
    let error = resolved.variables().unwrap_err().to_string();
    assert!(error.starts_with("nobody set `tenantId` (environment, settings), `subscriptionId`"), "{error}");
    assert!(resolved.explain().iter().any(|line| line.value.is_null()));
}

#[test]
fn both_contracts_of_aks_say_the_same_where_both_say_it() {
    let resolved = inputs(&[
        ("taints", json!(["a=b:NoSchedule"])),
        ("labels", json!({"team": "a"})),
        ("vmSize", json!("standard_nc6s_v3")),
    ]);
    let variables = resolved.variables().unwrap().environment();
    let config = aks_node_config(&resolved).unwrap();
    assert_eq!(config.missing(), Vec::<&str>::new());
    let again = kiln_aks_formats::anc::parse(config.to_json().expose().as_bytes());
    assert_eq!((again.problem, &again.config), (None, &config));
    let controller = config.environment(&Host::default());
    let differ: BTreeSet<&str> = variables
        .iter()
        .filter(|(name, text)| controller.get(*name).is_some_and(|other| other != *text))
        .map(|(name, _)| name.as_str())
        .collect();
    // The controller finds drivers on the image, writes its own files, and knows the balancer in lower case.
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
fn a_node_config_says_what_the_inputs_say() {
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

/// What is carried by the document according to the table is really there: it moves when the input moves.
#[test]
fn every_field_that_a_node_config_is_said_to_carry_moves_it() {
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
            _ => match field.form {
                kiln_bootstrap::Form::Text => json!("other"),
                kiln_bootstrap::Form::Bool => json!(true),
                kiln_bootstrap::Form::Int => json!(42),
                kiln_bootstrap::Form::List => json!(["other"]),
                kiln_bootstrap::Form::Map => json!({"other": "x"}),
            },
        };
        let name: &'static str = field.name;
        let moved = node_config(&inputs(&[("kubelet.allowedUnsafeSysctls", json!(["a"])), (name, value)]), 1)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let changes = kiln_node_config::changes::between(&base, &moved);
        // With the overlay an agent sets up the network, whatever the plugin is called; its mode and labels move.
        let there = changes.iter().any(|change| change.path.starts_with(path));
        assert!(there || name == "networkPlugin" && !changes.is_empty(), "{name} moves {path}: {changes:?}");
    }
}

fn decoded(custom_data: &str) -> String {
    String::from_utf8(from_base64(custom_data).unwrap()).unwrap()
}

#[test]
fn a_second_bootstrapper_joins_by_kubeadm_and_trusts_only_the_given_certificates() {
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
fn a_launch_template_is_custom_data_image_and_tags() {
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
fn tags_that_azure_would_take_for_one_are_refused() {
    let error = launch::tags(&inputs(&[("tags", json!({"Env": "a", "env": "b"}))])).unwrap_err();
    assert_eq!(error.to_string(), "tags `Env` and `env` differ only in case");
    assert!(launch::tags(&inputs(&[("tags", json!({"a<b": "x"}))])).is_err());
    assert!(launch::template(&inputs(&[("imageId", json!(""))]), &AksVariables).is_err());
}

#[test]
fn an_override_of_any_settable_variable_reaches_the_script() {
    for field in nbv::Field::ALL {
        let row = Field::named(field.name()).unwrap();
        if !row.is_input() {
            continue;
        }
        let (value, text) = match row.form {
            kiln_bootstrap::Form::Text => (json!("x y"), "x y"),
            kiln_bootstrap::Form::Bool => (json!(true), "true"),
            kiln_bootstrap::Form::Int => (json!(7), "7"),
            _ => continue,
        };
        let variables = inputs(&[(row.name, value)]).variables().unwrap();
        assert_eq!(variables.get(field), text, "{field}");
    }
}

#[test]
fn the_controllers_configuration_becomes_the_document_that_the_same_inputs_become() {
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
fn values_that_cannot_be_are_not_rendered() {
    let error = render(&inputs(&[("networkPlugin", json!("kubenet"))]), Target::NbvScript).unwrap_err().to_string();
    assert_eq!(error, "settings networkPlugin: `networkPlugin`: `kubenet` is none of azure, none");
    assert!(AksVariables.custom_data(&inputs(&[("maxPods", json!(1000))])).is_err());
}

/// The class's settings of the system and of the node's own DNS reach every document that has a place for them.
#[test]
fn a_classs_system_settings_reach_every_target_that_has_a_place_for_them() {
    let class = "kind: AKSNodeClass\nspec:\n  kubelet: {failSwapOn: false}\n  linuxOSConfig:\n    swapFileSize: 512Mi\n    transparentHugePageEnabled: madvise\n    sysctls: \
                 {vmSwappiness: 10, netCoreSomaxconn: 99}\n";
    let with = |class: &str| {
        let mut layers: Vec<Layer> = least().into_iter().map(|(name, value)| strongest(name, value)).collect();
        layers.extend(
            kiln_bootstrap::sources::node_class(&kiln_bootstrap::Document::read("c", class).unwrap(), "amd64").unwrap(),
        );
        resolve(&layers)
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
    assert_eq!(
        file,
        decoded(&anc.environment(&Host::default())["SYSCTL_CONTENT"]),
        "both contracts write the same file"
    );
}

#[test]
fn a_node_with_its_own_dns_gets_it_from_the_node_controller_and_a_node_config_says_that_it_cannot() {
    let class = "kind: AKSNodeClass\nspec:\n  localDNS:\n    mode: Required\n    vnetDNSOverrides: [{zone: ., protocol: ForceTCP, cacheDuration: 1h, forwardDestination: VnetDNS}]\n    \
                 kubeDNSOverrides: [{zone: cluster.local, protocol: PreferUDP, forwardDestination: ClusterCoreDNS}]\n";
    let mut layers: Vec<Layer> = least().into_iter().map(|(name, value)| strongest(name, value)).collect();
    let document = kiln_bootstrap::Document::read("c.yaml", class).unwrap();
    layers.extend(kiln_bootstrap::sources::node_class(&document, "amd64").unwrap());
    let inputs = resolve(&layers);
    inputs.check().unwrap();
    let profile = aks_node_config(&inputs).unwrap().local_dns_profile.unwrap();
    assert!(profile.enable_local_dns);
    assert_eq!(profile.vnet_dns_overrides["."].protocol, "ForceTCP");
    assert_eq!(profile.vnet_dns_overrides["."].cache_duration_in_seconds, Some(3600));
    assert_eq!(profile.kube_dns_overrides["cluster.local"].forward_destination, "ClusterCoreDNS");
    let error = node_config(&inputs, 1).unwrap_err().to_string();
    assert_eq!(error, "c.yaml:4:11: at `spec.localDNS.mode`: a NodeConfig has no place for `localDnsMode`");
}

#[test]
fn a_kernel_setting_that_aks_has_no_field_for_is_refused_there_and_taken_elsewhere() {
    let inputs = inputs(&[("sysctls", json!({"kernel.panic": "10"}))]);
    let error = aks_node_config(&inputs).unwrap_err().to_string();
    assert_eq!(error, "sysctls: `kernel.panic`: AKS has no field for this kernel setting");
    assert_eq!(node_config(&inputs, 1).unwrap().spec.os.sysctl["kernel.panic"], "10");
}
