//! Environment variables that the node controller derives from a configuration: 164, and one per custom certificate.

use std::collections::BTreeMap;

use super::components::GpuDrivers;
use super::config::Configuration;
use super::direct::direct;
use super::enums::{BootstrappingAuthMethod, KubeletDisk};
use super::localdns::corefile;
use super::system::UlimitConfig;
use super::text::{sku, vm_type};
use super::wire::{AsJson, FieldNames};
use crate::containerd::{Containerd, Layout};
use crate::go::number::float;
use crate::nbv::labels::pairs;
use crate::{KubernetesVersion, gpu, sysctl, to_base64};

/// Facts about the host that the environment depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Empty if unknown.
    pub containerd_version: String,
    /// GPU drivers in the image's `components.json`.
    pub drivers: GpuDrivers,
}

/// Limits and defaults of the node controller, in seconds and rules.
const MIN_TIMEOUT: i32 = 1;
const MAX_TIMEOUT: i32 = 21_600;
const DEFAULT_TIMEOUT: i32 = 900;
const DEFAULT_RULES: i32 = 148;

const KUBENET: &str = r#"{
  "cniVersion": "0.3.1",
  "name": "kubenet",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cbr0",
      "mtu": 1500,
      "addIf": "eth0",
      "isGateway": true,
      "ipMasq": false,
      "promiscMode": true,
      "hairpinMode": false,
      "ipam": {
        "type": "host-local",
        "ranges": [{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}],
        "routes": [{{range $i, $route := .Routes}}{{if $i}}, {{end}}{"dst": "{{$route}}"}{{end}}]
      }
    },
    {
      "type": "portmap",
      "capabilities": {"portMappings": true},
      "externalSetMarkChain": "KUBE-MARK-MASQ"
    }
  ]
}
"#;

impl Configuration {
    /// Returns the environment variables, which may contain secrets.
    pub fn environment(&self, host: &Host) -> BTreeMap<String, String> {
        let tables = [
            direct(self),
            self.cluster_rows(),
            self.machine_rows(host),
            self.system_rows(),
            self.kubelet_rows(host),
            self.dns_rows(),
            FIXED.iter().map(|(name, text)| (*name, (*text).to_owned())).collect(),
        ];
        let certificates = self.custom_ca_certs.iter().enumerate();
        let certificates =
            certificates.map(|(index, text)| (format!("CUSTOM_CA_CERT_{index}"), without_newlines(text)));
        tables.into_iter().flatten().map(|(name, text)| (name.to_owned(), text)).chain(certificates).collect()
    }

    fn cluster_rows(&self) -> Vec<(&'static str, String)> {
        let cluster = self.cluster_config.clone().unwrap_or_default();
        let balancer = cluster.load_balancer_config.clone().unwrap_or_default();
        let provider = cluster.cloud_provider_config.clone().unwrap_or_default();
        let network = self.network_config.clone().unwrap_or_default();
        let join = self.bootstrapping_config.clone().unwrap_or_default();
        let mode = if provider.backoff_mode.is_empty() { "v2".to_owned() } else { provider.backoff_mode };
        vec![
            ("CLOUDPROVIDER_BACKOFF", provider.backoff.unwrap_or(true).to_string()),
            ("CLOUDPROVIDER_BACKOFF_MODE", mode),
            ("CLOUDPROVIDER_BACKOFF_RETRIES", provider.backoff_retries.unwrap_or(6).to_string()),
            ("CLOUDPROVIDER_BACKOFF_EXPONENT", float(provider.backoff_exponent.unwrap_or(0.0))),
            ("CLOUDPROVIDER_BACKOFF_DURATION", provider.backoff_duration.unwrap_or(5).to_string()),
            ("CLOUDPROVIDER_BACKOFF_JITTER", float(provider.backoff_jitter.unwrap_or(0.0))),
            ("CLOUDPROVIDER_RATELIMIT", provider.rate_limit.unwrap_or(true).to_string()),
            ("CLOUDPROVIDER_RATELIMIT_QPS", float(provider.rate_limit_qps.unwrap_or(10.0))),
            ("CLOUDPROVIDER_RATELIMIT_QPS_WRITE", float(provider.rate_limit_qps_write.unwrap_or(10.0))),
            ("CLOUDPROVIDER_RATELIMIT_BUCKET", provider.rate_limit_bucket.unwrap_or(100).to_string()),
            ("CLOUDPROVIDER_RATELIMIT_BUCKET_WRITE", provider.rate_limit_bucket_write.unwrap_or(100).to_string()),
            ("VM_TYPE", vm_type(cluster.vm_type).to_owned()),
            ("LOAD_BALANCER_SKU", sku(balancer.load_balancer_sku).to_owned()),
            (
                "EXCLUDE_MASTER_FROM_STANDARD_LB",
                balancer.exclude_master_from_standard_load_balancer.unwrap_or(true).to_string(),
            ),
            (
                "MAXIMUM_LOADBALANCER_RULE_COUNT",
                balancer.max_load_balancer_rule_count.unwrap_or(DEFAULT_RULES).to_string(),
            ),
            ("NETWORK_PLUGIN", network.network_plugin.as_str().to_owned()),
            ("NETWORK_POLICY", network.network_policy.as_str().to_owned()),
            ("ENSURE_NO_DUPE_PROMISCUOUS_BRIDGE", self.needs_no_dupe_promiscuous_bridge().to_string()),
            (
                "ENABLE_SECURE_TLS_BOOTSTRAPPING",
                (join.bootstrapping_auth_method == BootstrappingAuthMethod::SecureTlsBootstrapping).to_string(),
            ),
            ("TARGET_CLOUD", self.target_cloud().to_owned()),
            ("TARGET_ENVIRONMENT", self.target_environment().to_owned()),
            ("ARM_RESOURCE_ENDPOINT", self.arm_resource_endpoint()),
            ("IS_CUSTOM_CLOUD", self.is_custom_cloud().to_string()),
            ("AZURE_ENVIRONMENT_FILEPATH", self.azure_environment_filepath()),
            (
                "REPO_DEPOT_ENDPOINT",
                self.custom_cloud_config.as_ref().map_or_else(String::new, |cloud| cloud.repo_depot_endpoint.clone()),
            ),
        ]
    }

    /// `ENSURE_NO_DUPE_PROMISCUOUS_BRIDGE`.
    pub fn needs_no_dupe_promiscuous_bridge(&self) -> bool {
        self.network_config.as_ref().is_some_and(|network| {
            crate::nbv::rules::no_duplicate_promiscuous_bridge(
                network.network_plugin.as_str(),
                network.network_policy.as_str(),
            )
        })
    }

    fn machine_rows(&self, host: &Host) -> Vec<(&'static str, String)> {
        let gpu_config = self.gpu_config.clone().unwrap_or_default();
        let size = &self.vm_size;
        vec![
            ("IS_VHD", self.is_vhd.unwrap_or(true).to_string()),
            ("GPU_NODE", gpu_config.enable_nvidia.unwrap_or(false).to_string()),
            ("SGX_NODE", is_sgx(size).to_string()),
            ("MIG_NODE", (!gpu_config.gpu_instance_profile.is_empty()).to_string()),
            ("NVIDIA_MIG_PROFILE_LAYOUT", gpu_config.mig_profile_layout.join(",")),
            ("GPU_NEEDS_FABRIC_MANAGER", gpu::needs_fabric_manager(size).to_string()),
            ("GPU_DRIVER_VERSION", host.drivers.version(size)),
            ("GPU_IMAGE_SHA", host.drivers.image_sha(size)),
            ("GPU_DRIVER_TYPE", gpu::driver_kind(size).to_string()),
        ]
    }

    fn system_rows(&self) -> Vec<(&'static str, String)> {
        let os = self.custom_linux_os_config.clone().unwrap_or_default();
        let proxy = self.http_proxy_config.clone().unwrap_or_default();
        let search = self.custom_search_domain_config.clone().unwrap_or_default();
        let searches = ![search.domain_name.is_empty(), search.realm_user.is_empty(), search.realm_password.is_empty()]
            .contains(&true);
        let huge_pages = !os.transparent_hugepage_support.is_empty() || !os.transparent_defrag.is_empty();
        let admin = if self.linux_admin_username.is_empty() { "azureuser" } else { &self.linux_admin_username };
        let timeout = self.cse_timeout.filter(|seconds| (MIN_TIMEOUT..=MAX_TIMEOUT).contains(seconds));
        vec![
            ("ADMINUSER", admin.to_owned()),
            ("DISABLE_SSH", (!self.enable_ssh.unwrap_or(true)).to_string()),
            ("SHOULD_CONFIGURE_HTTP_PROXY", proxy.is_configured().to_string()),
            ("SHOULD_CONFIGURE_HTTP_PROXY_CA", (!proxy.proxy_trusted_ca.is_empty()).to_string()),
            ("HTTP_PROXY_TRUSTED_CA", without_newlines(&proxy.proxy_trusted_ca)),
            ("NO_PROXY_URLS", proxy.no_proxy_entries.join(",")),
            ("PROXY_VARS", proxy.exports()),
            ("SHOULD_CONFIGURE_CUSTOM_CA_TRUST", (!self.custom_ca_certs.is_empty()).to_string()),
            ("CUSTOM_CA_TRUST_COUNT", self.custom_ca_certs.len().to_string()),
            ("SHOULD_CONFIG_SWAP_FILE", (os.enable_swap_config && os.swap_file_size > 0).to_string()),
            ("SHOULD_CONFIG_TRANSPARENT_HUGE_PAGE", huge_pages.to_string()),
            ("SHOULD_CONFIG_CONTAINERD_ULIMITS", os.ulimit_config.is_some().to_string()),
            ("CONTAINERD_ULIMITS", os.ulimit_config.as_ref().map_or_else(String::new, UlimitConfig::content)),
            ("SYSCTL_CONTENT", to_base64(sysctl::anc_file(&os.sysctl_config.unwrap_or_default().kernel_settings()))),
            ("HAS_CUSTOM_SEARCH_DOMAIN", searches.to_string()),
            ("CSE_TIMEOUT", format!("{}s", timeout.unwrap_or(DEFAULT_TIMEOUT))),
        ]
    }

    fn kubelet_rows(&self, host: &Host) -> Vec<(&'static str, String)> {
        let kubelet = self.kubelet_config.clone().unwrap_or_default();
        let file = kubelet.kubelet_config_file_config.clone().filter(|_| kubelet.enable_kubelet_config_file);
        let drops_timeout = self.version_at_least(34);
        let mut flags = kubelet.kubelet_flags;
        if drops_timeout {
            flags.remove("--streaming-connection-idle-timeout");
        }
        let file = file.map(|mut file| {
            if drops_timeout {
                file.streaming_connection_idle_timeout.clear();
            }
            let text = serde_json::to_string_pretty(&AsJson(&file, FieldNames::Camel))
                .expect("string keys and finite numbers");
            to_base64(text)
        });
        let containerd = |no_gpu| to_base64(containerd_file(self, &host.containerd_version, no_gpu));
        vec![
            ("KUBELET_FLAGS", pairs(&flags, " ")),
            ("KUBELET_NODE_LABELS", pairs(&kubelet.kubelet_node_labels, ",")),
            ("KUBELET_CONFIG_FILE_CONTENT", file.unwrap_or_default()),
            ("HAS_KUBELET_DISK_TYPE", (kubelet.kubelet_disk_type == KubeletDisk::TempDisk).to_string()),
            ("CONTAINERD_CONFIG_CONTENT", containerd(false)),
            ("CONTAINERD_CONFIG_NO_GPU_CONTENT", containerd(true)),
            ("KUBENET_TEMPLATE", to_base64(KUBENET)),
        ]
    }

    fn dns_rows(&self) -> Vec<(&'static str, String)> {
        vec![
            ("SHOULD_ENABLE_LOCALDNS", self.enables_local_dns().to_string()),
            ("SHOULD_ENABLE_HOSTS_PLUGIN", self.enables_hosts_plugin().to_string()),
            ("LOCALDNS_CPU_LIMIT", self.local_dns_cpu_limit()),
            ("LOCALDNS_MEMORY_LIMIT", self.local_dns_memory_limit()),
            ("LOCALDNS_CRITICAL_FQDNS", self.local_dns_critical_fqdns()),
            ("LOCALDNS_HOSTS_PLUGIN_REFRESH_INTERVAL_IN_SECONDS", self.local_dns_refresh_interval()),
            ("LOCALDNS_GENERATED_COREFILE", to_base64(corefile(self, false))),
            ("LOCALDNS_COREFILE_BASE", to_base64(corefile(self, false))),
            ("LOCALDNS_COREFILE_WITH_HOSTS", to_base64(corefile(self, true))),
        ]
    }

    fn version_at_least(&self, minor: u32) -> bool {
        self.kubernetes_version.parse::<KubernetesVersion>().is_ok_and(|version| version.at_least(minor))
    }
}

/// Variables with the same value on every node.
const FIXED: [(&str, &str); 9] = [
    ("CSE_HELPERS_FILEPATH", "/opt/azure/containers/provision_source.sh"),
    ("CSE_DISTRO_HELPERS_FILEPATH", "/opt/azure/containers/provision_source_distro.sh"),
    ("CSE_INSTALL_FILEPATH", "/opt/azure/containers/provision_installs.sh"),
    ("CSE_DISTRO_INSTALL_FILEPATH", "/opt/azure/containers/provision_installs_distro.sh"),
    ("CSE_CONFIG_FILEPATH", "/opt/azure/containers/provision_configs.sh"),
    ("CUSTOM_SEARCH_DOMAIN_FILEPATH", "/opt/azure/containers/setup-custom-search-domains.sh"),
    ("DHCPV6_SERVICE_FILEPATH", "/etc/systemd/system/dhcpv6.service"),
    ("DHCPV6_CONFIG_FILEPATH", "/opt/azure/containers/enable-dhcpv6.sh"),
    ("INIT_AKS_CLOUD_FILEPATH", "/opt/azure/containers/init-aks-cloud.sh"),
];

/// Renders containerd's configuration file. `no_gpu` omits NVIDIA's runtime.
pub fn containerd_file(config: &Configuration, containerd_version: &str, no_gpu: bool) -> String {
    let layout = Layout::for_version(containerd_version);
    let nvidia = config.gpu_config.as_ref().and_then(|gpu| gpu.enable_nvidia).unwrap_or(false);
    Containerd {
        layout,
        oom_score: -999,
        root: config.kubelet_config.as_ref().map_or_else(String::new, |kubelet| kubelet.container_data_dir.clone()),
        sandbox_image: config
            .kube_binary_config
            .as_ref()
            .map_or_else(String::new, |binaries| binaries.pod_infra_container_image_url.clone()),
        cdi: !no_gpu,
        nvidia: nvidia && !no_gpu,
        systemd_cgroup: layout == Layout::Two || config.needs_cgroupv2.unwrap_or(false),
        kubenet: config.needs_no_dupe_promiscuous_bridge(),
        registry_folder: config.version_at_least(22),
        streaming: config.enable_artifact_streaming,
    }
    .file()
}

fn without_newlines(text: &str) -> String {
    text.replace(['\n', '\r'], "")
}

/// Whether the size supports SGX. The node controller knows only these two sizes.
fn is_sgx(size: &str) -> bool {
    matches!(size, "Standard_DC2s" | "Standard_DC4s")
}

#[cfg(test)]
mod tests {
    use super::super::document::parse;
    use super::*;

    #[test]
    fn empty_configuration_sets_164_variables() {
        let environment = parse(br#"{"version": "v1"}"#).config.environment(&Host::default());
        assert_eq!(environment.len(), 164);
        assert_eq!((environment["IS_VHD"].as_str(), environment["DISABLE_SSH"].as_str()), ("true", "false"));
        assert_eq!(environment["MAXIMUM_LOADBALANCER_RULE_COUNT"], "148");
    }

    #[test]
    fn timeout_out_of_range_becomes_the_default() {
        let timeout = |text: &str| {
            parse(format!("{{\"cse_timeout\": {text}}}").as_bytes()).config.environment(&Host::default())["CSE_TIMEOUT"]
                .clone()
        };
        assert_eq!([timeout("0"), timeout("21601"), timeout("21600"), timeout("1")], ["900s", "900s", "21600s", "1s"]);
    }

    #[test]
    fn kubelet_file_has_camel_case_names_and_omits_fields_removed_in_1_34() {
        let file = |version: &str| {
            let json = format!(
                "{{\"kubernetes_version\": \"{version}\", \"kubelet_config\": {{\"enable_kubelet_config_file\": true, \
                 \"kubelet_flags\": {{\"--streaming-connection-idle-timeout\": \"4h\"}}, \"kubelet_config_file_config\": \
                 {{\"cluster_dns\": [\"10.0.0.10\"], \"serverTLSBootstrap\": true, \"streaming_connection_idle_timeout\": \"4h\"}}}}}}"
            );
            let environment = parse(json.as_bytes()).config.environment(&Host::default());
            let file = crate::from_base64(&environment["KUBELET_CONFIG_FILE_CONTENT"]).unwrap();
            (serde_json::from_slice::<serde_json::Value>(&file).unwrap(), environment["KUBELET_FLAGS"].clone())
        };
        let (old, flags) = file("1.33.0");
        assert_eq!(old["clusterDNS"][0], "10.0.0.10");
        assert_eq!(old["streamingConnectionIdleTimeout"], "4h");
        assert_eq!(flags, "--streaming-connection-idle-timeout=4h");
        let (new, flags) = file("1.34.0");
        assert_eq!((new.get("streamingConnectionIdleTimeout"), flags.as_str()), (None, ""));
        assert_eq!(new["serverTLSBootstrap"], true);
    }

    #[test]
    fn proxies_are_exported_with_escaped_quotes() {
        let config =
            parse(br#"{"http_proxy_config": {"http_proxy": "http://p/$(id)\"", "no_proxy_entries": ["a", "b"]}}"#)
                .config;
        let environment = config.environment(&Host::default());
        assert_eq!(environment["PROXY_VARS"], r#"export NO_PROXY="a,b"; export http_proxy="http://p/\$(id)\"";"#);
        assert_eq!(environment["SHOULD_CONFIGURE_HTTP_PROXY"], "true");
    }

    #[test]
    fn newlines_are_removed_from_certificates() {
        let environment = parse(br#"{"custom_ca_certs": ["a\nb", "c"]}"#).config.environment(&Host::default());
        assert_eq!(
            (environment["CUSTOM_CA_CERT_0"].as_str(), environment["CUSTOM_CA_TRUST_COUNT"].as_str()),
            ("ab", "2")
        );
    }
}
