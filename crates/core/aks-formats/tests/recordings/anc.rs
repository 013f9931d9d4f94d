//! Recordings of `AKSNodeConfig`.

use std::collections::BTreeMap;

use kiln_aks_formats::anc::{self, Configuration, GpuDrivers, Host, LoadBalancerSku, hotfix};
use kiln_aks_formats::{containerd, from_base64, gpu, to_base64};
use serde_json::{Value, json};

use super::{cases, files_in, read, recorded, text};

fn parse(value: &Value) -> Configuration {
    if value.is_null() {
        return Configuration::default();
    }
    let parsed = anc::parse(value.to_string().as_bytes());
    assert_eq!(parsed.error, None, "{value}");
    parsed.config
}

fn environment(value: &Value) -> BTreeMap<String, String> {
    parse(value).environment(&Host::default())
}

#[test]
fn environment_matches_the_recordings() {
    for path in files_in("anc-buildcse", ".input.json") {
        let input = read(&path);
        let expected =
            read(&path.with_file_name(path.file_name().unwrap().to_string_lossy().replace(".input.", ".expected.")));
        let version = containerd::parse_version(text(&expected["host"]["containerd --version"])).unwrap();
        let host = Host { containerd_version: version, drivers: GpuDrivers::default() };
        let environment = parse(&input).environment(&host);
        let decoded = |name: &str| String::from_utf8(from_base64(&environment[name]).unwrap()).unwrap();
        let entries = |key: &str| expected[key].as_object().cloned().unwrap_or_default();
        let file_name = path.display();
        for (name, value) in entries("env_equals").into_iter().chain(entries("env_equals_legacy")) {
            assert_eq!(environment.get(&name).map(String::as_str), value.as_str(), "{file_name}: {name}");
        }
        for (name, value) in entries("env_base64_decoded_equals") {
            assert_eq!(decoded(&name), text(&value), "{file_name}: {name}");
        }
        for (name, lines) in entries("env_base64_decoded_contains") {
            let file = decoded(&name);
            for line in lines.as_array().unwrap() {
                assert!(file.lines().any(|have| have == text(line)), "{file_name}: {name} lacks {line}");
            }
        }
        for (name, difference) in entries("known_legacy_differences") {
            let value = &environment[&name];
            assert!(value.starts_with(text(&difference["from_config"])), "{file_name}: {name}");
        }
    }
}

#[test]
fn documents_of_other_versions_are_accepted() {
    let plain = recorded("anc-compat-test_aksnodeconfig.json");
    let unexpected = recorded("anc-compat-test_aksnodeconfig_fields_unexpected.json");
    let config = parse(&plain);
    assert_eq!(config, parse(&unexpected));
    let written: Value = serde_json::from_str(config.to_json().expose()).unwrap();
    assert_eq!(written, plain);
    let mut missing = unexpected;
    missing.as_object_mut().unwrap().remove("is_vhd");
    missing["cluster_config"]["load_balancer_config"] = json!({});
    let config = parse(&missing);
    let balancer = config.cluster_config.unwrap().load_balancer_config.unwrap();
    assert_eq!((config.is_vhd, balancer.exclude_master_from_standard_load_balancer), (None, None));
    assert_eq!(balancer.load_balancer_sku, LoadBalancerSku::Unspecified);
}

#[test]
fn containerd_file_matches_the_recordings() {
    for case in cases("anc-containerd-version-output.json") {
        assert_eq!(containerd::parse_version(text(&case["output"])).unwrap_or_default(), text(&case["want"]), "{case}");
    }
    // The recorded calls for containerd 1 ignore the argument `noGpu`.
    for case in cases("anc-helper-containerd-v1.json") {
        let config = parse(&case["args"]["aksnodeconfig"]);
        assert_eq!(to_base64(anc::containerd_file(&config, "1.7.22", false)), text(&case["want"]), "{}", case["name"]);
    }
    for case in cases("anc-helper-containerd-v2.json") {
        let config = parse(&case["args"]["aksnodeconfig"]);
        let version = config.containerd_config.as_ref().unwrap().containerd_version.clone();
        let no_gpu = case["args"]["noGpu"] == true;
        assert_eq!(to_base64(anc::containerd_file(&config, &version, no_gpu)), text(&case["want"]), "{}", case["name"]);
    }
}

#[test]
fn gpu_drivers_match_the_recordings() {
    let components = recorded("anc-gpu-components-input.json");
    let drivers = GpuDrivers::from_components(components.to_string().as_bytes()).unwrap();
    for case in cases("anc-gpu-driver-type.json") {
        assert_eq!(gpu::driver_kind(text(&case["size"])).to_string(), text(&case["want"]));
    }
    for case in cases("anc-gpu-driver-version.json") {
        assert_eq!(drivers.version(text(&case["size"])), text(&case["want"]), "{case}");
    }
    for case in cases("anc-gpu-image-sha.json") {
        assert_eq!(drivers.image_sha(text(&case["size"])), text(&case["want"]), "{case}");
    }
    for case in cases("anc-gpu-fabric-manager.json") {
        assert_eq!(gpu::needs_fabric_manager(text(&case["size"])), case["want"], "{case}");
    }
}

/// Compares one variable of the document in each recorded case.
fn check(file: &str, variable: &str, document: fn(&Value) -> Value) {
    for case in cases(file) {
        let want = case["want"].as_str().map_or_else(|| case["want"].to_string(), str::to_owned);
        assert_eq!(environment(&document(&case))[variable], want, "{file}: {}", case["name"]);
    }
}

#[test]
fn single_variables_match_the_recordings() {
    check(
        "anc-helper-admin-username.json",
        "ADMINUSER",
        |case| json!({"linux_admin_username": case["args"]["username"]}),
    );
    check("anc-helper-arm-endpoint.json", "ARM_RESOURCE_ENDPOINT", |case| case["v"].clone());
    check("anc-helper-azure-env-filepath.json", "AZURE_ENVIRONMENT_FILEPATH", |case| case["args"]["v"].clone());
    check(
        "anc-helper-custom-ca.json",
        "SHOULD_CONFIGURE_CUSTOM_CA_TRUST",
        |case| json!({"custom_ca_certs": case["args"]["customCACerts"]}),
    );
    check(
        "anc-helper-http-proxy.json",
        "SHOULD_CONFIGURE_HTTP_PROXY",
        |case| json!({"http_proxy_config": case["args"]["httpProxyConfig"]}),
    );
    check("anc-helper-localdns-enable.json", "SHOULD_ENABLE_LOCALDNS", |case| case["args"]["aksnodeconfig"].clone());
    check("anc-helper-localdns-hosts.json", "SHOULD_ENABLE_HOSTS_PLUGIN", |case| case["args"]["aksnodeconfig"].clone());
    check(
        "anc-helper-network-policy.json",
        "NETWORK_POLICY",
        |case| json!({"network_config": {"network_policy": case["enum"]}}),
    );
    check(
        "anc-helper-promiscuous-bridge.json",
        "ENSURE_NO_DUPE_PROMISCUOUS_BRIDGE",
        |case| json!({"network_config": case["args"]["nc"]}),
    );
    check("anc-helper-sgx.json", "SGX_NODE", |case| json!({"vm_size": case["args"]["vmSize"]}));
    check("anc-helper-target-cloud.json", "TARGET_CLOUD", |case| case["args"]["v"].clone());
    check("anc-helper-target-environment.json", "TARGET_ENVIRONMENT", |case| case["args"]["v"].clone());
    check(
        "anc-helper-ulimit.json",
        "CONTAINERD_ULIMITS",
        |case| json!({"custom_linux_os_config": {"ulimit_config": case["args"]["u"]}}),
    );
}

#[test]
fn joined_maps_and_lists_match_the_recordings() {
    for file in ["anc-helper-sorted-pairs-int.json", "anc-helper-sorted-pairs-str.json"] {
        for case in cases(file) {
            let map = case["args"]["m"].as_object().unwrap().iter();
            let map =
                map.map(|(key, value)| (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
            let joined = kiln_aks_formats::nbv::labels::pairs(&map.collect(), text(&case["args"]["delimiter"]));
            assert_eq!(joined, text(&case["want"]));
        }
    }
    for case in cases("anc-helper-string-array.json").into_iter().filter(|case| case["args"]["delimiter"] == ",") {
        let layout = environment(&json!({"gpu_config": {"mig_profile_layout": case["args"]["arr"]}}));
        assert_eq!(layout["NVIDIA_MIG_PROFILE_LAYOUT"], text(&case["want"]));
    }
}

#[test]
fn local_dns_configuration_matches_the_recordings() {
    for case in cases("anc-helper-localdns-corefile.json") {
        let file = anc::corefile(&parse(&case["args"]["aksnodeconfig"]), case["args"]["includeHostsPlugin"] == true);
        if case.get("wantContains").is_some() {
            assert_eq!(file, "", "{}", case["name"]);
        }
        if let Some(absent) = case["wantNotContains"].as_str() {
            assert!(!file.is_empty() && !file.contains(absent), "{}", case["name"]);
        }
    }
    for case in cases("anc-helper-localdns-health.json") {
        let zone =
            json!({".": {"health_check": case["healthCheck"], "failfast_all_unhealthy_upstreams": case["failfast"]}});
        let overrides = if case["kubeDNS"] == true { "kube_dns_overrides" } else { "vnet_dns_overrides" };
        let config = parse(&json!({"local_dns_profile": {"enable_local_dns": true, overrides: zone}}));
        let file = anc::corefile(&config, false);
        if let Some(present) = case["wantContains"].as_str() {
            assert!(file.contains(present), "{}", case["name"]);
        }
        for absent in case["wantNotContains"].as_array().into_iter().flatten() {
            assert!(!file.contains(text(absent)), "{}: {absent}", case["name"]);
        }
    }
}

#[test]
fn hotfix_decisions_match_the_recordings() {
    for case in cases("anc-hotfix-base.json") {
        assert_eq!(
            hotfix::day(text(&case["version"])).ok(),
            (case["wantErr"] == false).then(|| text(&case["want"]).to_owned())
        );
    }
    for case in cases("anc-hotfix-should-upgrade.json") {
        let decision = hotfix::should_upgrade(text(&case["current"]), text(&case["hotfix"]));
        assert_eq!(decision.ok(), (case["wantErr"] == false).then(|| case["want"] == true), "{case}");
    }
    let file = recorded("anc-hotfix-resolve.json");
    for case in file["read_cases"].as_array().unwrap() {
        let read = hotfix::Pointer::read(text(&case["file"]));
        match case.get("config") {
            Some(config) => assert_eq!(read.unwrap(), serde_json::from_value(config.clone()).unwrap()),
            None => assert!(read.is_err(), "{case}"),
        }
    }
    for case in file["resolve_cases"].as_array().unwrap() {
        let pointer: hotfix::Pointer = serde_json::from_value(case["config"].clone()).unwrap();
        assert_eq!(pointer.for_build(text(&case["current"])), text(&case["want"]), "{case}");
    }
}

#[test]
fn streaming_timeout_is_removed_since_1_34() {
    for case in cases("anc-streaming-timeout-gate.json") {
        let environment = environment(&json!({
            "kubernetes_version": case["k8sVersion"],
            "kubelet_config": {
                "enable_kubelet_config_file": true,
                "kubelet_flags": {"--streaming-connection-idle-timeout": "4h"},
                "kubelet_config_file_config": {"streaming_connection_idle_timeout": "4h"},
            },
        }));
        let file = String::from_utf8(from_base64(&environment["KUBELET_CONFIG_FILE_CONTENT"]).unwrap()).unwrap();
        assert_eq!(file.contains("streamingConnectionIdleTimeout"), case["expectInConfig"] == true);
        assert_eq!(environment["KUBELET_FLAGS"].contains("streaming"), case["expectInConfig"] == true);
    }
}
