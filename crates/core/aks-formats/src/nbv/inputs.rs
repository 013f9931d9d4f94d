//! Resolved inputs of a node and the variables computed from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::field::Field;
use super::variables::{ValueError, Variables};
use super::{kubelet, labels, rules};
use crate::containerd::{Containerd, Layout};
use crate::names::{BadSubnetId, SubnetId};
use crate::{Arch, KubernetesVersion, Secret, sysctl, to_base64};

/// Resolved inputs of the variables, as one flat document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    #[serde(default)]
    pub arch: Arch,
    pub kubernetes_version: KubernetesVersion,
    /// In base64.
    pub ca_bundle: String,
    /// Host name of the API server.
    pub api_server_name: String,
    pub bootstrap_token: Secret,
    pub tenant_id: String,
    pub subscription_id: String,
    pub location: String,
    /// Resource group of the nodes.
    pub resource_group: String,
    #[serde(default)]
    pub kubelet_identity_client_id: String,
    /// Network plugin that the node itself configures: `none` or `azure`.
    pub network_plugin: String,
    #[serde(default)]
    pub network_policy: String,
    #[serde(default)]
    pub nsg_name: String,
    #[serde(default)]
    pub route_table: String,
    pub subnet_id: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// As `key=value:Effect`.
    #[serde(default)]
    pub taints: Vec<String>,
    /// kubelet flags that override those of the Kubernetes version.
    #[serde(default)]
    pub kubelet_config_flags: BTreeMap<String, String>,
    #[serde(flatten)]
    pub gpu: Gpu,
    /// Other fields by name. Some of them are secret.
    #[serde(default)]
    pub overrides: BTreeMap<String, Secret>,
    /// Additional certificate authorities to trust, each in base64.
    #[serde(default)]
    pub custom_ca_certs: Vec<String>,
    /// Sysctls by kernel name that override the defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
}

/// GPU of a node and its driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// Whether the node has an NVIDIA GPU.
    pub gpu_node: bool,
    /// Whether the image installs the driver. Without driver installation, the node counts as a node without GPU.
    pub gpu_driver_install: bool,
    pub gpu_driver_version: String,
    /// Driver series.
    pub gpu_driver_type: String,
    /// Suffix of the tag of the driver's container image.
    pub gpu_image_sha: String,
}

impl Default for Gpu {
    fn default() -> Self {
        Self {
            gpu_node: false,
            gpu_driver_install: true,
            gpu_driver_version: String::new(),
            gpu_driver_type: String::new(),
            gpu_image_sha: String::new(),
        }
    }
}

/// Inputs from which no variables can be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("subnet_id: {0}")]
    Subnet(#[from] BadSubnetId),
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error("overrides: {0}")]
    UnknownField(#[from] super::UnknownField),
    #[error("overrides: {0} is computed and cannot be set")]
    Computed(Field),
    #[error("kubelet flag `{flag}` contains whitespace, at which the node would split it")]
    SpaceInFlag { flag: String },
}

impl Inputs {
    /// Computes all variables.
    pub fn variables(&self) -> Result<Variables, InputError> {
        let mut variables = Variables::default();
        for (name, text) in &self.overrides {
            let field: Field = name.parse()?;
            if COMPUTED_HERE.contains(&field) {
                return Err(InputError::Computed(field));
            }
            variables.set(field, text.expose())?;
        }
        variables.set_certificates(self.custom_ca_certs.clone())?;
        for (field, text) in self.copied() {
            variables.set(field, text)?;
        }
        for (field, text) in self.computed(&variables)? {
            variables.set(field, text)?;
        }
        Ok(variables)
    }

    fn copied(&self) -> [(Field, String); 10] {
        [
            (Field::TenantID, self.tenant_id.clone()),
            (Field::SubscriptionID, self.subscription_id.clone()),
            (Field::ResourceGroup, self.resource_group.clone()),
            (Field::Location, self.location.clone()),
            (Field::NetworkPolicy, self.network_policy.clone()),
            (Field::UserAssignedIdentityID, self.kubelet_identity_client_id.clone()),
            (Field::APIServerName, self.api_server_name.clone()),
            (Field::TLSBootstrapToken, self.bootstrap_token.expose().to_owned()),
            (Field::KubeCACrt, self.ca_bundle.clone()),
            (Field::NetworkSecurityGroup, self.nsg_name.clone()),
        ]
    }

    fn computed(&self, variables: &Variables) -> Result<Vec<(Field, String)>, InputError> {
        let subnet: SubnetId = self.subnet_id.parse()?;
        let gpu = self.gpu.gpu_node && self.gpu.gpu_driver_install;
        let when_gpu = |text: &str| if gpu { text.to_owned() } else { String::new() };
        let containerd = Containerd {
            layout: Layout::One,
            oom_score: 0,
            root: String::new(),
            sandbox_image: kubelet::PAUSE_IMAGE.to_owned(),
            cdi: false,
            nvidia: gpu,
            systemd_cgroup: variables.is_true(Field::NeedsCgroupV2),
            kubenet: variables.is_true(Field::EnsureNoDupePromiscuousBridge),
            registry_folder: true,
            streaming: false,
        };
        let (version, arch) = (&self.kubernetes_version, self.arch);
        Ok(vec![
            (Field::KubernetesVersion, version.to_string()),
            (Field::KubeBinaryURL, rules::kube_binary_url(version, arch)),
            (Field::CredentialProviderDownloadURL, rules::credential_provider_url(version, arch)),
            (Field::VNETCNILinuxPluginsURL, rules::azure_cni_url(arch)),
            (Field::CNIPluginsURL, rules::cni_plugins_url(arch)),
            (Field::Subnet, subnet.subnet),
            (Field::VirtualNetwork, subnet.network),
            (Field::VirtualNetworkResourceGroup, subnet.resource_group),
            (Field::RouteTable, self.route_table.clone()),
            (Field::NetworkPlugin, self.network_plugin.clone()),
            (Field::GPUNode, gpu.to_string()),
            (Field::ConfigGPUDriverIfNeeded, gpu.to_string()),
            (Field::GPUDriverVersion, when_gpu(&self.gpu.gpu_driver_version)),
            (Field::GPUDriverType, when_gpu(&self.gpu.gpu_driver_type)),
            (Field::GPUImageSHA, when_gpu(&self.gpu.gpu_image_sha)),
            (Field::SysctlContent, to_base64(self.sysctl_file())),
            (Field::KubeletFlags, kubelet::joined(&self.kubelet_flags()?)),
            (Field::KubeletNodeLabels, labels::kubelet_labels(&self.labels)),
            (Field::ContainerdConfigContent, to_base64(containerd.file())),
        ])
    }

    /// Returns the sysctl file, byte-exact with AKS if no sysctls are set.
    fn sysctl_file(&self) -> String {
        if self.sysctls.is_empty() {
            return sysctl::nbv_file();
        }
        sysctl::anc_file(&self.sysctls.iter().map(|(name, text)| (name.as_str(), text.clone())).collect())
    }

    /// Returns the kubelet flags: those of the Kubernetes version, overridden by taints, overridden by explicit flags.
    pub fn kubelet_flags(&self) -> Result<BTreeMap<String, String>, InputError> {
        let mut flags = kubelet::base_flags(&self.kubernetes_version);
        if !self.taints.is_empty() {
            flags.insert("--register-with-taints".to_owned(), self.taints.join(","));
        }
        flags.extend(self.kubelet_config_flags.clone());
        match flags
            .iter()
            .find(|(flag, value)| flag.contains(char::is_whitespace) || value.contains(char::is_whitespace))
        {
            Some((flag, _)) => Err(InputError::SpaceInFlag { flag: flag.clone() }),
            None => Ok(flags),
        }
    }
}

/// Fields that [`Inputs::variables`] computes. An override of one of them is rejected, because it would be lost.
const COMPUTED_HERE: [Field; 29] = [
    Field::TenantID,
    Field::SubscriptionID,
    Field::ResourceGroup,
    Field::Location,
    Field::NetworkPolicy,
    Field::UserAssignedIdentityID,
    Field::APIServerName,
    Field::TLSBootstrapToken,
    Field::KubeCACrt,
    Field::NetworkSecurityGroup,
    Field::KubernetesVersion,
    Field::KubeBinaryURL,
    Field::CredentialProviderDownloadURL,
    Field::VNETCNILinuxPluginsURL,
    Field::CNIPluginsURL,
    Field::Subnet,
    Field::VirtualNetwork,
    Field::VirtualNetworkResourceGroup,
    Field::RouteTable,
    Field::NetworkPlugin,
    Field::GPUNode,
    Field::ConfigGPUDriverIfNeeded,
    Field::GPUDriverVersion,
    Field::GPUDriverType,
    Field::GPUImageSHA,
    Field::SysctlContent,
    Field::KubeletFlags,
    Field::KubeletNodeLabels,
    Field::ContainerdConfigContent,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> Inputs {
        serde_json::from_str(
            r#"{"kubernetes_version": "1.33.7", "ca_bundle": "Q0E=", "api_server_name": "a.example", "bootstrap_token": "abcdef.0123456789abcdef",
                "tenant_id": "t", "subscription_id": "s", "location": "eastus", "resource_group": "g", "network_plugin": "none",
                "subnet_id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/sub"}"#,
        )
        .unwrap()
    }

    #[test]
    fn list_of_computed_fields_is_complete() {
        let inputs = inputs();
        let mut derived: Vec<Field> = inputs.copied().into_iter().map(|(field, _)| field).collect();
        derived.extend(inputs.computed(&Variables::default()).unwrap().into_iter().map(|(field, _)| field));
        assert_eq!(derived, COMPUTED_HERE);
    }

    #[test]
    fn gpu_without_driver_installation_counts_as_no_gpu() {
        let gpu = Gpu { gpu_node: true, gpu_driver_version: "1".to_owned(), ..Gpu::default() };
        let with = Inputs { gpu: gpu.clone(), ..inputs() }.variables().unwrap();
        assert_eq!((with.get(Field::GPUNode), with.get(Field::GPUDriverVersion)), ("true", "1"));
        let without = Inputs { gpu: Gpu { gpu_driver_install: false, ..gpu }, ..inputs() }.variables().unwrap();
        assert_eq!(without, inputs().variables().unwrap());
    }

    #[test]
    fn computed_fields_cannot_be_overridden() {
        let with = |name: &str, text: &str| {
            Inputs { overrides: BTreeMap::from([(name.to_owned(), Secret::new(text))]), ..inputs() }.variables()
        };
        assert_eq!(with("DisableSSH", "true").unwrap().get(Field::DisableSSH), "true");
        assert_eq!(with("KubeletFlags", "x"), Err(InputError::Computed(Field::KubeletFlags)));
        assert!(matches!(with("Nonsense", "x"), Err(InputError::UnknownField(_))));
        assert!(matches!(with("DisableSSH", "maybe"), Err(InputError::Value(_))));
    }

    #[test]
    fn sysctl_file_has_defaults_until_sysctls_are_set() {
        let file = |sysctls: &[(&str, &str)]| {
            let sysctls = sysctls.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            let variables = Inputs { sysctls, ..inputs() }.variables().unwrap();
            String::from_utf8(crate::from_base64(variables.get(Field::SysctlContent)).unwrap()).unwrap()
        };
        assert_eq!(file(&[]), sysctl::nbv_file());
        let extended = file(&[("vm.swappiness", "1"), ("net.core.somaxconn", "5")]);
        assert!(extended.contains("vm.swappiness=1\n") && extended.contains("net.core.somaxconn=5\n"), "{extended}");
        assert!(extended.contains("net.core.message_cost=40\n"), "{extended}");
    }

    #[test]
    fn flag_with_whitespace_is_rejected() {
        let flags = BTreeMap::from([("--node-ip".to_owned(), "a b".to_owned())]);
        let error = Inputs { kubelet_config_flags: flags, ..inputs() }.variables().unwrap_err();
        assert_eq!(error.to_string(), "kubelet flag `--node-ip` contains whitespace, at which the node would split it");
    }
}
