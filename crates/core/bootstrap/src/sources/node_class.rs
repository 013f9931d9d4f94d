//! Karpenter's `AKSNodeClass` as a source.

use std::collections::BTreeSet;

use kiln_aks_formats::karpenter::{AksNodeClass, KubeletConfiguration, NodeClassSpec};
use serde_json::Value;

use super::linux_os::{linux_os, local_dns};
use super::{SourceError, annotations, expect_kind};
use crate::document::Document;
use crate::provenance::SourceKind;
use crate::source::Source;

/// Returns the sources of a class: its spec, and the values detected in its status. The first image for the architecture is used.
pub fn node_class(document: &Document, arch: &str) -> Result<Vec<Source>, SourceError> {
    expect_kind(document, "AKSNodeClass")?;
    let class: AksNodeClass = document.parse()?;
    let mut class_source = Source::new(SourceKind::NodeClass);
    let written: BTreeSet<&str> = spec(&class.spec).into_iter().map(|(path, ..)| path).collect();
    // The API server fills in kubelet defaults; a file gets the same ones, so it means the same as in the cluster.
    let kubelet = class.spec.clone().with_defaults().kubelet;
    for (path, field, value) in spec(&NodeClassSpec { kubelet, ..class.spec.clone() }) {
        let path =
            if written.contains(path) { format!("spec.{path}") } else { format!("spec.{path} (server's default)") };
        class_source.set(field, value, document.position(&path))?;
    }
    if let Some(os) = &class.spec.linux_os_config {
        linux_os(document, os, &mut class_source)?;
    }
    if let Some(dns) = &class.spec.local_dns {
        local_dns(document, dns, &mut class_source)?;
    }
    annotations(document, &mut class_source)?;
    let mut detected = Source::new(SourceKind::Detected);
    if let Some(version) = &class.status.kubernetes_version {
        let plain = version.trim_start_matches('v');
        detected.set("kubernetesVersion", plain.into(), document.position("status.kubernetesVersion"))?;
    }
    let fits = |image: &&kiln_aks_formats::karpenter::Image| {
        image.requirements.iter().all(|r| r.key != "kubernetes.io/arch" || r.values.iter().any(|value| value == arch))
    };
    if let Some(image) = class.status.images.iter().find(fits) {
        detected.set("imageId", image.id.as_str().into(), document.position("status.images"))?;
    }
    Ok(vec![class_source, detected])
}

fn spec(spec: &NodeClassSpec) -> Vec<(&'static str, &'static str, Value)> {
    let tags: serde_json::Map<String, Value> =
        spec.tags.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let security = spec.security.clone().unwrap_or_default();
    let launch =
        security.trusted_launch.as_ref().map(|launch| launch.vtpm == Some(true) || launch.secure_boot == Some(true));
    let text = |value: &Option<String>| value.clone().map(Value::from);
    let mut all = vec![
        ("vnetSubnetID", "vnetSubnetId", text(&spec.vnet_subnet_id)),
        ("osDiskSizeGB", "osDiskSizeGb", spec.os_disk_size_gb.map(Value::from)),
        ("imageFamily", "imageFamily", text(&spec.image_family)),
        ("fipsMode", "fipsMode", text(&spec.fips_mode)),
        ("tags", "tags", (!tags.is_empty()).then_some(Value::Object(tags))),
        ("maxPods", "maxPods", spec.max_pods.map(Value::from)),
        ("security.encryptionAtHost", "encryptionAtHost", security.encryption_at_host.map(Value::from)),
        ("security.trustedLaunch", "trustedLaunch", launch.map(Value::from)),
        ("gpu.mode", "gpuMode", spec.gpu.as_ref().and_then(|gpu| text(&gpu.mode))),
        (
            "artifactStreaming.enabled",
            "artifactStreaming",
            spec.artifact_streaming.as_ref().and_then(|s| s.enabled).map(Value::from),
        ),
        ("localDNS.mode", "localDnsMode", spec.local_dns.as_ref().map(|dns| dns.mode.as_str().into())),
    ];
    all.extend(spec.kubelet.as_ref().map(kubelet).unwrap_or_default());
    all.into_iter().filter_map(|(path, field, value)| Some((path, field, value?))).collect()
}

fn kubelet(kubelet: &KubeletConfiguration) -> Vec<(&'static str, &'static str, Option<Value>)> {
    let text = |value: &Option<String>| value.clone().map(Value::from);
    let boolean = |value: Option<bool>| value.map(|value| Value::from(value.to_string()));
    vec![
        ("kubelet.cpuManagerPolicy", "kubelet.cpuManagerPolicy", text(&kubelet.cpu_manager_policy)),
        ("kubelet.cpuCFSQuota", "kubelet.cpuCFSQuota", boolean(kubelet.cpu_cfs_quota)),
        (
            "kubelet.cpuCFSQuotaPeriod",
            "kubelet.cpuCFSQuotaPeriod",
            kubelet.cpu_cfs_quota_period.map(|p| p.to_string().into()),
        ),
        (
            "kubelet.imageGCHighThresholdPercent",
            "kubelet.imageGCHighThresholdPercent",
            kubelet.image_gc_high_threshold_percent.map(Value::from),
        ),
        (
            "kubelet.imageGCLowThresholdPercent",
            "kubelet.imageGCLowThresholdPercent",
            kubelet.image_gc_low_threshold_percent.map(Value::from),
        ),
        ("kubelet.topologyManagerPolicy", "kubelet.topologyManagerPolicy", text(&kubelet.topology_manager_policy)),
        (
            "kubelet.allowedUnsafeSysctls",
            "kubelet.allowedUnsafeSysctls",
            kubelet.allowed_unsafe_sysctls.clone().map(Value::from),
        ),
        ("kubelet.containerLogMaxSize", "kubelet.containerLogMaxSize", text(&kubelet.container_log_max_size)),
        (
            "kubelet.containerLogMaxFiles",
            "kubelet.containerLogMaxFiles",
            kubelet.container_log_max_files.map(Value::from),
        ),
        ("kubelet.podPidsLimit", "kubelet.podPidsLimit", kubelet.pod_pids_limit.map(Value::from)),
        ("kubelet.failSwapOn", "kubelet.failSwapOn", boolean(kubelet.fail_swap_on)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: &str = "\
apiVersion: karpenter.azure.com/v1beta1
kind: AKSNodeClass
metadata:
  name: default
  annotations:
    bootstrap.kiln.dev/DisableSSH: 'true'
spec:
  maxPods: 50
  kubelet:
    cpuManagerPolicy: static
    podPidsLimit: 99
status:
  kubernetesVersion: v1.33.7
  images:
  - id: /CommunityGalleries/g/images/arm/versions/1.0.0
    requirements:
    - {key: kubernetes.io/arch, operator: In, values: [arm64]}
  - id: /CommunityGalleries/g/images/amd/versions/1.0.0
    requirements:
    - {key: kubernetes.io/arch, operator: In, values: [amd64]}
";

    #[test]
    fn class_sets_spec_values_and_detected_status_values() {
        let sources = node_class(&Document::read("c.yaml", CLASS).unwrap(), "amd64").unwrap();
        let find = |source: &Source, name: &str| source.assignments.iter().find(|a| a.field == name).cloned().unwrap();
        assert_eq!(find(&sources[0], "maxPods").position.to_string(), "c.yaml:8 spec.maxPods");
        assert_eq!(find(&sources[0], "kubelet.podPidsLimit").value, 99);
        assert_eq!(find(&sources[0], "DisableSSH").value, true);
        let filled = find(&sources[0], "kubelet.containerLogMaxFiles");
        assert_eq!(filled.position.to_string(), "c.yaml:10 spec.kubelet.containerLogMaxFiles (server's default)");
        assert_eq!(sources[1].kind, SourceKind::Detected);
        assert_eq!(find(&sources[1], "kubernetesVersion").value, "1.33.7");
        assert_eq!(find(&sources[1], "imageId").value, "/CommunityGalleries/g/images/amd/versions/1.0.0");
    }

    #[test]
    fn wrong_type_is_reported_with_its_line() {
        let text = CLASS.replace("maxPods: 50", "maxPods: many");
        let error = node_class(&Document::read("c.yaml", &text).unwrap(), "amd64").unwrap_err().to_string();
        assert!(error.starts_with("c.yaml:8:12: at `spec.maxPods`: "), "{error}");
    }
}
