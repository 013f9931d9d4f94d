//! Conversion of an `AKSNodeConfig` to a `NodeConfig`.

use kiln_aks_formats::anc::{BootstrappingAuthMethod, Configuration};
use kiln_aks_formats::sysctl;
use kiln_node_config::NodeConfig;
use kiln_node_config::spec::{
    Cluster, CredentialFrom, CredentialKind, Dns, HugePages, Kubelet, Network, Os, Platform, Proxy, Runtime, Spec,
    Swap, Taint, User,
};

use super::node_config::{pem, proxy_url, taint};
use crate::bootstrapper::RenderError;
use crate::provenance::SourcePosition;

/// Converts a configuration to a `NodeConfig` of the given generation. Secrets are not copied; `credentialFrom` names where to get them.
pub fn node_config_from_aks(config: &Configuration, generation: u64) -> Result<NodeConfig, RenderError> {
    reject_secrets(config)?;
    let mut document = NodeConfig::default();
    document.metadata.generation = generation;
    let network = config.network_config.clone().unwrap_or_default();
    let gpu = config.gpu_config.clone().unwrap_or_default();
    document.spec = Spec {
        cluster: cluster(config)?,
        kubelet: kubelet(config)?,
        runtime: Runtime {
            version: config.containerd_config.clone().unwrap_or_default().containerd_version,
            default_runtime: if gpu.enable_nvidia == Some(true) { "nvidia-container-runtime" } else { "runc" }
                .to_owned(),
            sandbox_image: config.kube_binary_config.clone().unwrap_or_default().pod_infra_container_image_url,
            systemd_cgroup: config.needs_cgroupv2,
            root: config.kubelet_config.clone().unwrap_or_default().container_data_dir,
            ..Runtime::default()
        },
        network: Network {
            plugin: network.network_plugin.as_str().to_owned(),
            policy: network.network_policy.as_str().to_owned(),
            // As for every new document, unless the configuration says otherwise. AKS itself blocks the wire server on its nodes.
            block_metadata: Some(
                config.imds_restriction_config.as_ref().is_none_or(|imds| imds.enable_imds_restriction),
            ),
            block_wire_server: Some(true),
            ..Network::default()
        },
        os: os(config)?,
        platform: Platform {
            users: vec![User { name: admin(config).to_owned(), sudo: true, ..User::default() }],
            grow_root: Some(true),
            ..Platform::default()
        },
        credential_from: credential_from(config),
        ..Spec::default()
    };
    document.check()?;
    Ok(document)
}

/// Placeholders for "no secret": AKS writes `msi`, plain or in base64, for managed identities.
const NO_SECRET: [&str; 3] = ["", "msi", "bXNp"];

/// Rejects secrets that would be lost silently. The token is replaced by `credentialFrom`, and proxies are checked when they are written.
fn reject_secrets(config: &Configuration) -> Result<(), RenderError> {
    let principal = config.auth_config.as_ref().map(|auth| &auth.service_principal_secret);
    let realm = config.custom_search_domain_config.as_ref().map(|search| &search.realm_password);
    let key = config.kubelet_config.as_ref().map(|kubelet| &kubelet.kubelet_client_key);
    let secrets = [
        ("auth_config.service_principal_secret", principal),
        ("custom_search_domain_config.realm_password", realm),
        ("kubelet_config.kubelet_client_key", key),
    ];
    for (path, secret) in secrets {
        if secret.is_some_and(|secret| !NO_SECRET.contains(&secret.expose())) {
            let field = path.rsplit('.').next().unwrap_or(path).to_owned();
            let position = SourcePosition::Fields(vec![path.to_owned()]);
            return Err(RenderError::Secret { field, position, target: "a NodeConfig" });
        }
    }
    Ok(())
}

fn admin(config: &Configuration) -> &str {
    if config.linux_admin_username.is_empty() { "azureuser" } else { &config.linux_admin_username }
}

fn cluster(config: &Configuration) -> Result<Cluster, RenderError> {
    let server = config.api_server_config.clone().unwrap_or_default().api_server_name;
    let network = config.cluster_config.clone().unwrap_or_default().cluster_network_config.unwrap_or_default();
    let flags = config.kubelet_config.clone().unwrap_or_default().kubelet_flags;
    let given = |flag: &str| flags.get(flag).cloned().unwrap_or_default();
    let dns = if network.core_dns_service_ip.is_empty() { given("--cluster-dns") } else { network.core_dns_service_ip };
    let list = |text: &str| text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    Ok(Cluster {
        endpoint: format!("https://{server}"),
        certificate_authority: pem("kubernetes_ca_cert", &config.kubernetes_ca_cert)?,
        dns: Dns {
            service_ips: list(&dns),
            domain: given("--cluster-domain"),
            search: list(&config.custom_search_domain_config.clone().unwrap_or_default().domain_name),
            ..Dns::default()
        },
        ..Cluster::default()
    })
}

/// Copies the flags, except those that have their own field in a `NodeConfig`.
fn kubelet(config: &Configuration) -> Result<Kubelet, RenderError> {
    let kubelet = config.kubelet_config.clone().unwrap_or_default();
    let mut flags = kubelet.kubelet_flags;
    let mut taints: Vec<Taint> = Vec::new();
    if let Some(texts) = flags.remove("--register-with-taints") {
        taints = texts.split(',').map(taint).collect::<Result<_, _>>()?;
    }
    for flag in ["--cluster-dns", "--cluster-domain", "--node-labels"] {
        flags.remove(flag);
    }
    Ok(Kubelet {
        version: config.kubernetes_version.clone(),
        flags,
        labels: kubelet.kubelet_node_labels,
        taints,
        ..Kubelet::default()
    })
}

fn os(config: &Configuration) -> Result<Os, RenderError> {
    let os = config.custom_linux_os_config.clone().unwrap_or_default();
    let proxy = config.http_proxy_config.clone().unwrap_or_default();
    let sysctls = os.sysctl_config.unwrap_or_default();
    let defaults = sysctl::DEFAULTS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let limits = os.ulimit_config.clone().unwrap_or_default();
    let limits = [("LimitNOFILE", limits.no_file), ("LimitMEMLOCK", limits.max_locked_memory)];
    let swap = if os.enable_swap_config { os.swap_file_size } else { 0 };
    let ca = |text: &String| pem("proxy_trusted_ca", text);
    Ok(Os {
        sysctl: defaults
            .chain(sysctls.kernel_settings().into_iter().map(|(key, value)| (key.to_owned(), value)))
            .collect(),
        swap: Swap { size_mib: u64::try_from(swap).unwrap_or_default(), ..Swap::default() },
        huge_pages: HugePages {
            transparent: os.transparent_hugepage_support,
            defrag: os.transparent_defrag,
            ..HugePages::default()
        },
        limits: limits.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
        proxy: Proxy {
            http: proxy_url("http_proxy", proxy.http_proxy.expose())?,
            https: proxy_url("https_proxy", proxy.https_proxy.expose())?,
            no_proxy: proxy.no_proxy_entries,
            certificate_authority: Some(&proxy.proxy_trusted_ca)
                .filter(|text| !text.is_empty())
                .map(ca)
                .transpose()?
                .unwrap_or_default(),
            ..Proxy::default()
        },
        certificate_authorities: config
            .custom_ca_certs
            .iter()
            .map(|text| pem("custom_ca_certs", text))
            .collect::<Result<_, _>>()?,
        ..Os::default()
    })
}

fn credential_from(config: &Configuration) -> CredentialFrom {
    let kind = match config.bootstrapping_config.clone().unwrap_or_default().bootstrapping_auth_method {
        BootstrappingAuthMethod::SecureTlsBootstrapping => CredentialKind::AttestedIdentity,
        BootstrappingAuthMethod::AzureMsi | BootstrappingAuthMethod::ArcMsi => CredentialKind::ManagedIdentity,
        _ => CredentialKind::CustomData,
    };
    CredentialFrom { kind, ..CredentialFrom::default() }
}
