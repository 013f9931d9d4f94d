//! Rendering of a `NodeConfig`.

use std::collections::BTreeMap;

use kiln_aks_formats::karpenter;
use kiln_aks_formats::nbv::kubelet::PAUSE_IMAGE;
use kiln_aks_formats::nbv::{labels, rules};
use kiln_aks_formats::{from_base64, gpu, sysctl};
use kiln_node_config::NodeConfig;
use kiln_node_config::spec::{
    Cluster, CredentialFrom, CredentialKind, CredentialProvider, Dns, File, HugePages, Kubelet, Network, Os, Platform,
    Proxy, Runtime, Spec, Swap, Taint, TaintEffect, User,
};
use serde_json::{Value, json};

use crate::bootstrapper::RenderError;
use crate::derive::DeriveError;
use crate::field::Field;
use crate::provenance::{SourceKind, SourcePosition};
use crate::resolve::Resolved;

/// Required inputs. The token is not one of them, because a `NodeConfig` only names where the credential is.
const NEEDED: [&str; 3] = ["clusterEndpoint", "kubernetesVersion", "caBundle"];

/// Renders a `NodeConfig` of the given generation. It contains no secrets; inputs that would put one into it are rejected.
pub fn node_config(inputs: &Resolved, generation: u64) -> Result<NodeConfig, RenderError> {
    let missing = inputs.missing(&NEEDED);
    if !missing.is_empty() {
        return Err(DeriveError::Missing(missing).into());
    }
    reject_secrets(inputs)?;
    if inputs.text("localDnsMode") == "Required" {
        return Err(RenderError::NotRepresentable {
            field: "localDnsMode",
            position: inputs.get("localDnsMode").map_or(SourcePosition::Program, |value| value.position.clone()),
            target: "a NodeConfig",
        });
    }
    let mut config = NodeConfig::default();
    inputs.text("nodePoolName").clone_into(&mut config.metadata.name);
    config.metadata.generation = generation;
    config.spec = Spec {
        cluster: cluster(inputs)?,
        kubelet: kubelet(inputs)?,
        runtime: Runtime {
            default_runtime: if installs_gpu(inputs) { "nvidia-container-runtime" } else { "runc" }.to_owned(),
            sandbox_image: PAUSE_IMAGE.to_owned(),
            systemd_cgroup: Some(true),
            ..Runtime::default()
        },
        network: Network {
            plugin: rules::network_plugin_of_node(
                inputs.text("networkPlugin"),
                inputs.text("networkPluginMode"),
                inputs.text("networkDataplane"),
            )
            .to_owned(),
            mode: inputs.text("networkPluginMode").to_owned(),
            dataplane: inputs.text("networkDataplane").to_owned(),
            policy: inputs.text("networkPolicy").to_owned(),
            // Written out, although they are on by default here: in a document, an absent field blocks nothing, so that documents from
            // before these fields keep their meaning.
            block_metadata: Some(inputs.is_true("blockMetadata")),
            block_wire_server: Some(inputs.is_true("blockWireServer")),
            ..Network::default()
        },
        os: os(inputs)?,
        platform: platform(inputs),
        files: message_of_the_day(inputs),
        credential_from: credential_from(inputs)?,
        ..Spec::default()
    };
    config.check()?;
    Ok(config)
}

/// Rejects explicitly set secrets that would be lost silently. The token is replaced by `credentialFrom`, and proxies are checked when
/// they are written.
fn reject_secrets(inputs: &Resolved) -> Result<(), RenderError> {
    for field in Field::all().iter().filter(|field| field.secret && field.config.is_none()) {
        if let Some(value) = inputs.get(field.name).filter(|value| !matches!(value.kind, SourceKind::Hardcoded(_)))
            && value.value.as_str() != Some("")
        {
            return Err(RenderError::Secret {
                field: field.name.to_owned(),
                position: value.position.clone(),
                target: "a NodeConfig",
            });
        }
    }
    Ok(())
}

fn installs_gpu(inputs: &Resolved) -> bool {
    gpu::installs_driver(inputs.text("vmSize")) && inputs.text("gpuMode") != "None"
}

pub(super) fn pem(field: &'static str, encoded: &str) -> Result<String, RenderError> {
    let bytes = from_base64(encoded.trim()).map_err(|_| RenderError::Certificate { field })?;
    String::from_utf8(bytes).map_err(|_| RenderError::Certificate { field })
}

fn cluster(inputs: &Resolved) -> Result<Cluster, RenderError> {
    let endpoint = inputs.text("clusterEndpoint");
    let url = if endpoint.contains("://") { endpoint.to_owned() } else { format!("https://{endpoint}") };
    Ok(Cluster {
        name: inputs.text("clusterName").to_owned(),
        endpoint: url,
        certificate_authority: pem("caBundle", inputs.text("caBundle"))?,
        dns: Dns {
            service_ips: vec![inputs.text("dnsServiceIp").to_owned()],
            domain: "cluster.local".to_owned(),
            search: non_empty(inputs.text("CustomSearchDomainName")),
            ..Dns::default()
        },
        ..Cluster::default()
    })
}

fn non_empty(text: &str) -> Vec<String> {
    if text.is_empty() { Vec::new() } else { vec![text.to_owned()] }
}

fn kubelet(inputs: &Resolved) -> Result<Kubelet, RenderError> {
    let version = inputs.version()?;
    let all = inputs.node_labels()?;
    let taints = [inputs.list("taints"), inputs.list("startupTaints")].concat();
    let providers = if version.at_least(30) { vec![registry_credentials()] } else { Vec::new() };
    Ok(Kubelet {
        version: version.to_string(),
        configuration: configuration(inputs),
        flags: BTreeMap::from([("--cloud-provider".to_owned(), "external".to_owned())]),
        labels: all.into_iter().filter(|(key, _)| labels::kubelet_may_set(key)).collect(),
        taints: taints.iter().map(|text| taint(text)).collect::<Result<_, _>>()?,
        credential_providers: providers,
        ..Kubelet::default()
    })
}

pub(super) fn taint(text: &str) -> Result<Taint, RenderError> {
    let expected = "`key=value:Effect` or `key:Effect`";
    let invalid = || DeriveError::Choice { field: "taints", value: text.to_owned(), expected };
    let parsed: karpenter::Taint = text.parse().map_err(|_| invalid())?;
    let effect = match parsed.effect.as_str() {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        _ => TaintEffect::NoExecute,
    };
    Ok(Taint { key: parsed.key, value: parsed.value, effect, ..Taint::default() })
}

/// Credential provider for Azure container registries.
fn registry_credentials() -> CredentialProvider {
    CredentialProvider {
        name: "acr-credential-provider".to_owned(),
        match_images: ["*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"].map(str::to_owned).to_vec(),
        cache_duration: "10m".to_owned(),
        api_version: "credentialprovider.kubelet.k8s.io/v1".to_owned(),
        args: vec!["/etc/kubernetes/azure.json".to_owned()],
        ..CredentialProvider::default()
    }
}

/// Returns the kubelet settings as fields of a `KubeletConfiguration`.
fn configuration(inputs: &Resolved) -> BTreeMap<String, Value> {
    let settings = inputs.kubelet_settings();
    let period = settings.cpu_cfs_quota_period.map(|period| period.to_string());
    [
        ("clusterDNS", Some(json!([inputs.text("dnsServiceIp")]))),
        ("clusterDomain", Some(json!("cluster.local"))),
        ("maxPods", settings.max_pods.map(Value::from)),
        ("cpuManagerPolicy", settings.cpu_manager_policy.map(Value::from)),
        ("cpuCFSQuota", settings.cpu_cfs_quota.map(Value::from)),
        ("cpuCFSQuotaPeriod", period.map(Value::from)),
        ("imageGCHighThresholdPercent", settings.image_gc_high_threshold_percent.map(Value::from)),
        ("imageGCLowThresholdPercent", settings.image_gc_low_threshold_percent.map(Value::from)),
        ("topologyManagerPolicy", settings.topology_manager_policy.map(Value::from)),
        (
            "allowedUnsafeSysctls",
            Some(Value::from(settings.allowed_unsafe_sysctls))
                .filter(|list| list.as_array().is_some_and(|l| !l.is_empty())),
        ),
        ("containerLogMaxSize", settings.container_log_max_size.map(Value::from)),
        ("containerLogMaxFiles", settings.container_log_max_files.map(Value::from)),
        ("podPidsLimit", settings.pod_pids_limit.map(Value::from)),
        ("failSwapOn", settings.fail_swap_on.map(Value::from)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

fn os(inputs: &Resolved) -> Result<Os, RenderError> {
    let certificates = inputs.list("customCaCerts");
    let proxy_ca = match inputs.text("HTTPProxyTrustedCA") {
        "" => String::new(),
        encoded => pem("HTTPProxyTrustedCA", encoded)?,
    };
    Ok(Os {
        sysctl: sysctl::DEFAULTS
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .chain(inputs.map("sysctls"))
            .collect(),
        swap: Swap { size_mib: u64::try_from(inputs.number("SwapFileSizeMB")).unwrap_or_default(), ..Swap::default() },
        huge_pages: HugePages {
            transparent: inputs.text("THPEnabled").to_owned(),
            defrag: inputs.text("THPDefrag").to_owned(),
            ..HugePages::default()
        },
        proxy: Proxy {
            http: proxy_url("HTTPProxyURLs", inputs.text("HTTPProxyURLs"))?,
            https: proxy_url("HTTPSProxyURLs", inputs.text("HTTPSProxyURLs"))?,
            no_proxy: inputs
                .text("NoProxyURLs")
                .split(',')
                .filter(|host| !host.is_empty())
                .map(str::to_owned)
                .collect(),
            certificate_authority: proxy_ca,
            ..Proxy::default()
        },
        certificate_authorities: certificates
            .iter()
            .map(|text| pem("customCaCerts", text))
            .collect::<Result<_, _>>()?,
        ..Os::default()
    })
}

/// Checks that a proxy is a URL. Any other text may be a secret in the wrong field, and the document would disclose it.
pub(super) fn proxy_url(field: &'static str, text: &str) -> Result<String, RenderError> {
    let host = ["http://", "https://", "socks5://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    match host {
        _ if text.is_empty() => Ok(String::new()),
        Some(host) if !host.is_empty() => Ok(text.to_owned()),
        _ => Err(RenderError::Proxy { field }),
    }
}

fn platform(inputs: &Resolved) -> Platform {
    let keys = non_empty(inputs.text("sshPublicKey"));
    let user = User { name: inputs.text("adminUsername").to_owned(), ssh_keys: keys, sudo: true, ..User::default() };
    Platform { users: vec![user], grow_root: Some(true), ..Platform::default() }
}

fn message_of_the_day(inputs: &Resolved) -> Vec<File> {
    // Variables with several lines are in base64.
    let text = inputs.text("MessageOfTheDay");
    let file = |content: &str| File {
        path: "/etc/motd".to_owned(),
        content_base64: content.to_owned(),
        mode: "0644".to_owned(),
        ..File::default()
    };
    if text.is_empty() { Vec::new() } else { vec![file(text)] }
}

fn credential_from(inputs: &Resolved) -> Result<CredentialFrom, RenderError> {
    let kind = match inputs.text("credentialFrom") {
        "attestedIdentity" => CredentialKind::AttestedIdentity,
        "customData" => CredentialKind::CustomData,
        "managedIdentity" => CredentialKind::ManagedIdentity,
        other => {
            let expected = "`attestedIdentity`, `customData` or `managedIdentity`";
            return Err(DeriveError::Choice { field: "credentialFrom", value: other.to_owned(), expected }.into());
        }
    };
    let name = if kind == CredentialKind::ManagedIdentity {
        inputs.text("kubeletIdentityClientId").to_owned()
    } else {
        String::new()
    };
    Ok(CredentialFrom { kind, name, ..CredentialFrom::default() })
}
