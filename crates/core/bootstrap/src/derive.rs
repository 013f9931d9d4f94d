//! Values computed from the inputs: variables, labels, kubelet settings.

use std::collections::BTreeMap;

use kiln_aks_formats::nbv::kubelet::KubeletSettings;
use kiln_aks_formats::nbv::{self, InputError, Inputs, Variables, rules};
use kiln_aks_formats::{Arch, BadVersion, KubernetesVersion, Secret, gpu, names};

use crate::family::Family;
use crate::field::Field;
use crate::provenance::SourceKind;
use crate::resolve::Resolved;

/// Inputs from which no node configuration can be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DeriveError {
    #[error("required fields are not set: {}", missing_text(.0))]
    Missing(Vec<&'static str>),
    #[error("kubernetesVersion: {0}")]
    Version(#[from] BadVersion),
    #[error("{field}: unsupported value `{value}`; expected {expected}")]
    Choice { field: &'static str, value: String, expected: &'static str },
    #[error("clusterEndpoint: `{0}` has no host")]
    Endpoint(String),
    #[error(transparent)]
    Input(#[from] InputError),
}

fn missing_text(fields: &[&'static str]) -> String {
    let each = fields.iter().map(|name| {
        let kinds = Field::named(name)
            .map_or(String::new(), |f| f.kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
        format!("`{name}` (allowed sources: {kinds})")
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Prefix of the labels that AKS components read.
const PREFIX: &str = "kubernetes.azure.com";

/// Inputs that the Node Bootstrapping Variables require.
const NEEDED: [&str; 9] = [
    "tenantId",
    "subscriptionId",
    "resourceGroup",
    "location",
    "clusterEndpoint",
    "kubernetesVersion",
    "caBundle",
    "bootstrapToken",
    "vnetSubnetId",
];

impl Resolved {
    /// Returns the fields of `needed` that are not set.
    pub fn missing(&self, needed: &[&'static str]) -> Vec<&'static str> {
        needed.iter().copied().filter(|name| self.text(name).is_empty()).collect()
    }

    /// Returns the Kubernetes version.
    pub fn version(&self) -> Result<KubernetesVersion, DeriveError> {
        Ok(self.text("kubernetesVersion").parse()?)
    }

    /// Returns the CPU architecture.
    pub fn arch(&self) -> Result<Arch, DeriveError> {
        let value = self.text("arch");
        let expected = "`amd64` or `arm64`";
        value.parse().map_err(|_| DeriveError::Choice { field: "arch", value: value.to_owned(), expected })
    }

    /// Returns the image family.
    pub fn family(&self) -> Result<Family, DeriveError> {
        Family::resolve(self)
    }

    /// Returns the maximum number of pods per node.
    pub fn max_pods(&self) -> i64 {
        match self.number("maxPods") {
            0 => rules::default_max_pods(self.text("networkPlugin"), self.text("networkPluginMode")).into(),
            chosen => chosen,
        }
    }

    /// Computes all variables.
    pub fn variables(&self) -> Result<Variables, DeriveError> {
        let missing = self.missing(&NEEDED);
        if !missing.is_empty() {
            return Err(DeriveError::Missing(missing));
        }
        Ok(self.inputs()?.variables()?)
    }

    /// Returns the inputs in the form from which aks-formats computes the variables.
    pub fn inputs(&self) -> Result<Inputs, DeriveError> {
        let endpoint = self.text("clusterEndpoint");
        let text = |name: &str| self.text(name).to_owned();
        Ok(Inputs {
            arch: self.arch()?,
            kubernetes_version: self.version()?,
            ca_bundle: text("caBundle"),
            api_server_name: rules::api_server_name(endpoint)
                .ok_or_else(|| DeriveError::Endpoint(endpoint.to_owned()))?,
            bootstrap_token: Secret::new(self.text("bootstrapToken")),
            tenant_id: text("tenantId"),
            subscription_id: text("subscriptionId"),
            location: text("location"),
            resource_group: text("resourceGroup"),
            kubelet_identity_client_id: text("kubeletIdentityClientId"),
            network_plugin: rules::network_plugin_of_node(
                self.text("networkPlugin"),
                self.text("networkPluginMode"),
                self.text("networkDataplane"),
            )
            .to_owned(),
            network_policy: text("networkPolicy"),
            nsg_name: text("securityGroup"),
            route_table: names::route_table(self.text("clusterId")),
            subnet_id: text("vnetSubnetId"),
            labels: self.node_labels()?,
            taints: [self.list("taints"), self.list("startupTaints")].concat(),
            kubelet_config_flags: self.kubelet_settings().flags(),
            gpu: self.gpu(),
            overrides: self.overrides(),
            custom_ca_certs: self.list("customCaCerts"),
            sysctls: self.map("sysctls"),
        })
    }

    /// Returns the variables that sources set explicitly, and two that are computed from other inputs.
    fn overrides(&self) -> BTreeMap<String, Secret> {
        let chosen = Field::all().iter().filter(|field| field.variable.is_some()).filter_map(|field| {
            let value = self.get(field.name).filter(|value| !matches!(value.kind, SourceKind::Hardcoded(_)))?;
            let text = value.value.as_str().map_or_else(|| value.value.to_string(), str::to_owned);
            Some((field.name.to_owned(), Secret::new(text)))
        });
        let trusts = !self.list("customCaCerts").is_empty();
        chosen
            .chain([
                (nbv::Field::AdminUsername.name().to_owned(), Secret::new(self.text("adminUsername"))),
                (nbv::Field::ShouldConfigureCustomCATrust.name().to_owned(), Secret::new(trusts.to_string())),
            ])
            .collect()
    }

    fn gpu(&self) -> nbv::Gpu {
        let size = self.text("vmSize");
        if !gpu::installs_driver(size) {
            return nbv::Gpu::default();
        }
        let driver = gpu::driver(size);
        nbv::Gpu {
            gpu_node: true,
            gpu_driver_install: self.text("gpuMode") != "None",
            gpu_driver_version: driver.version,
            gpu_driver_type: driver.kind.to_string(),
            gpu_image_sha: driver.image_sha,
        }
    }

    /// Returns the kubelet settings.
    pub fn kubelet_settings(&self) -> KubeletSettings {
        let text = |name: &str| Some(self.text(name).to_owned()).filter(|text| !text.is_empty());
        let small = |name: &str| i32::try_from(self.number(name)).ok();
        KubeletSettings {
            cpu_manager_policy: text("kubelet.cpuManagerPolicy"),
            cpu_cfs_quota: self.text("kubelet.cpuCFSQuota").parse().ok(),
            cpu_cfs_quota_period: self.text("kubelet.cpuCFSQuotaPeriod").parse().ok(),
            image_gc_high_threshold_percent: small("kubelet.imageGCHighThresholdPercent"),
            image_gc_low_threshold_percent: small("kubelet.imageGCLowThresholdPercent"),
            topology_manager_policy: text("kubelet.topologyManagerPolicy"),
            allowed_unsafe_sysctls: self.list("kubelet.allowedUnsafeSysctls"),
            container_log_max_size: text("kubelet.containerLogMaxSize"),
            container_log_max_files: small("kubelet.containerLogMaxFiles").filter(|files| *files > 0),
            pod_pids_limit: Some(self.number("kubelet.podPidsLimit")),
            fail_swap_on: self.text("kubelet.failSwapOn").parse().ok(),
            max_pods: i32::try_from(self.max_pods()).ok(),
            cluster_dns_service_ip: text("dnsServiceIp"),
            ..KubeletSettings::default()
        }
    }

    /// Returns the labels that AKS components read, overridden by the labels of the pool.
    pub fn node_labels(&self) -> Result<BTreeMap<String, String>, DeriveError> {
        let (version, family) = (self.version()?, self.family()?);
        let priority = if self.text("capacityType") == "spot" { "spot" } else { "regular" };
        let local_dns = if self.text("localDnsMode") == "Required" { "enabled" } else { "disabled" };
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        let mut add = |name: &str, value: &str| {
            labels.insert(format!("{PREFIX}/{name}"), value.to_owned());
        };
        add("role", "agent");
        add("cluster", &names::resource_group_label(self.text("resourceGroup")));
        add("kubelet-identity-client-id", self.text("kubeletIdentityClientId"));
        add("mode", "user");
        add("scalesetpriority", priority);
        add("priority", priority);
        add("os-sku", family.os_sku());
        add("os-sku-requested", self.text("imageFamily"));
        add("os-sku-effective", family.name());
        add("localdns-state", local_dns);
        if self.text("fipsMode") == "FIPS" {
            add("fips_enabled", "true");
        }
        if self.is_true("artifactStreaming") && self.arch()? != Arch::Arm64 {
            add("artifactstreaming-enabled", "true");
        }
        if (self.text("networkPlugin"), self.text("networkPluginMode")) == ("azure", "overlay") {
            let subnet = self.text("vnetSubnetId").rsplit('/').next().unwrap_or_default();
            add("network-subnet", subnet);
            add("nodenetwork-vnetguid", self.text("vnetGuid"));
            add("azure-cni-overlay", "true");
            add("podnetwork-type", "overlay");
            add("network-stateless-cni", &version.at_least(34).to_string());
        }
        if self.text("networkDataplane") == "cilium" {
            add("ebpf-dataplane", "cilium");
        }
        labels.insert("karpenter.sh/do-not-sync-taints".to_owned(), "true".to_owned());
        labels.extend(self.map("labels"));
        labels.extend(self.map("requirementLabels"));
        for (label, field) in crate::sources::REQUIREMENT_FIELDS {
            if let Some(required) = self.get(field).filter(|value| value.kind == SourceKind::NodePool) {
                labels.insert(label.to_owned(), required.value.as_str().unwrap_or_default().to_owned());
            }
        }
        Ok(labels)
    }
}
