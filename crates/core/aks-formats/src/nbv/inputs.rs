//! The resolved inputs of a node, and the variables that follow from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::field::Field;
use super::variables::{ValueError, Variables};
use super::{kubelet, labels, rules};
use crate::containerd::{Containerd, Layout};
use crate::names::{BadSubnetId, SubnetId};
use crate::{Arch, KubernetesVersion, Secret, sysctl, to_base64};

/// Everything that the variables depend on, already decided: a flat document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    #[serde(default)]
    pub arch: Arch,
    /// The version of Kubernetes.
    pub kubernetes_version: KubernetesVersion,
    /// The cluster's certificates, base64.
    pub ca_bundle: String,
    /// The host name of the API server.
    pub api_server_name: String,
    /// The token that the node joins with.
    pub bootstrap_token: Secret,
    pub tenant_id: String,
    pub subscription_id: String,
    pub location: String,
    /// The resource group of the nodes.
    pub resource_group: String,
    /// The client id of the identity that kubelet uses.
    #[serde(default)]
    pub kubelet_identity_client_id: String,
    /// The network plugin that the node sets up: `none` or `azure`.
    pub network_plugin: String,
    /// The network policy.
    #[serde(default)]
    pub network_policy: String,
    /// The security group.
    #[serde(default)]
    pub nsg_name: String,
    /// The route table.
    #[serde(default)]
    pub route_table: String,
    /// The id of the subnet.
    pub subnet_id: String,
    /// Labels of the node.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints of the node, as `key=value:Effect`.
    #[serde(default)]
    pub taints: Vec<String>,
    /// Flags of the kubelet that win over the version's.
    #[serde(default)]
    pub kubelet_config_flags: BTreeMap<String, String>,
    #[serde(flatten)]
    pub gpu: Gpu,
    /// Other fields that somebody chose, by their names in the contract. Some of them are secret.
    #[serde(default)]
    pub overrides: BTreeMap<String, Secret>,
    /// Certificates to trust besides the system's, base64 each.
    #[serde(default)]
    pub custom_ca_certs: Vec<String>,
    /// Kernel settings over those that every node gets, by the kernel's names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
}

/// A node's GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// Whether there is one of NVIDIA's.
    pub gpu_node: bool,
    /// Whether the image installs its driver; where it does not, the node is treated as one without.
    pub gpu_driver_install: bool,
    /// The version of the driver.
    pub gpu_driver_version: String,
    /// The line of drivers.
    pub gpu_driver_type: String,
    /// The suffix of the driver's image.
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

/// Inputs that make no variables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The subnet is none.
    #[error("subnet_id: {0}")]
    Subnet(#[from] BadSubnetId),
    /// A value does not suit its field.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// No such field.
    #[error("overrides: {0}")]
    UnknownField(#[from] super::UnknownField),
    /// The field follows from others.
    #[error("overrides: {0} is computed and cannot be set")]
    Computed(Field),
    /// A flag's value has a space; the node splits flags at spaces.
    #[error("the kubelet flag {flag} has a value with white space, at which the node would split it")]
    SpaceInFlag { flag: String },
}

impl Inputs {
    /// All variables.
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
        for (field, text) in self.given() {
            variables.set(field, text)?;
        }
        for (field, text) in self.computed(&variables)? {
            variables.set(field, text)?;
        }
        Ok(variables)
    }

    fn given(&self) -> [(Field, String); 10] {
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

    /// The bytes of the contract while nobody asks for more.
    fn sysctl_file(&self) -> String {
        if self.sysctls.is_empty() {
            return sysctl::nbv_file();
        }
        sysctl::anc_file(&self.sysctls.iter().map(|(name, text)| (name.as_str(), text.clone())).collect())
    }

    /// The kubelet's flags, in three steps: the version's, the taints, what was chosen.
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

/// The fields that [`Inputs::variables`] derives: an override of one would be lost without a word.
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
    fn the_fields_that_are_listed_as_derived_are_those_that_are() {
        let inputs = inputs();
        let mut derived: Vec<Field> = inputs.given().into_iter().map(|(field, _)| field).collect();
        derived.extend(inputs.computed(&Variables::default()).unwrap().into_iter().map(|(field, _)| field));
        assert_eq!(derived, COMPUTED_HERE);
    }

    #[test]
    fn a_gpu_whose_driver_is_not_installed_counts_as_none() {
        let gpu = Gpu { gpu_node: true, gpu_driver_version: "1".to_owned(), ..Gpu::default() };
        let with = Inputs { gpu: gpu.clone(), ..inputs() }.variables().unwrap();
        assert_eq!((with.get(Field::GPUNode), with.get(Field::GPUDriverVersion)), ("true", "1"));
        let without = Inputs { gpu: Gpu { gpu_driver_install: false, ..gpu }, ..inputs() }.variables().unwrap();
        assert_eq!(without, inputs().variables().unwrap());
    }

    #[test]
    fn an_override_of_a_derived_field_is_refused_and_one_of_another_is_taken() {
        let with = |name: &str, text: &str| {
            Inputs { overrides: BTreeMap::from([(name.to_owned(), Secret::new(text))]), ..inputs() }.variables()
        };
        assert_eq!(with("DisableSSH", "true").unwrap().get(Field::DisableSSH), "true");
        assert_eq!(with("KubeletFlags", "x"), Err(InputError::Computed(Field::KubeletFlags)));
        assert!(matches!(with("Nonsense", "x"), Err(InputError::UnknownField(_))));
        assert!(matches!(with("DisableSSH", "maybe"), Err(InputError::Value(_))));
    }

    #[test]
    fn kernel_settings_are_the_contracts_until_somebody_asks_for_more() {
        let file = |sysctls: &[(&str, &str)]| {
            let sysctls = sysctls.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            let variables = Inputs { sysctls, ..inputs() }.variables().unwrap();
            String::from_utf8(crate::from_base64(variables.get(Field::SysctlContent)).unwrap()).unwrap()
        };
        assert_eq!(file(&[]), sysctl::nbv_file());
        let asked = file(&[("vm.swappiness", "1"), ("net.core.somaxconn", "5")]);
        assert!(asked.contains("vm.swappiness=1\n") && asked.contains("net.core.somaxconn=5\n"), "{asked}");
        assert!(asked.contains("net.core.message_cost=40\n"), "{asked}");
    }

    #[test]
    fn a_flag_that_the_node_would_split_is_refused() {
        let flags = BTreeMap::from([("--node-ip".to_owned(), "a b".to_owned())]);
        let error = Inputs { kubelet_config_flags: flags, ..inputs() }.variables().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the kubelet flag --node-ip has a value with white space, at which the node would split it"
        );
    }
}
