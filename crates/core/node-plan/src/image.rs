//! The content of an image: versions and paths of programs, so that kilnd need not execute them to find out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The file [`crate::layout::IMAGE`]. Defaults are those of Debian and Ubuntu; without the file, versions are unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Paths of kubelets by version.
    pub kubelets: BTreeMap<String, String>,
    /// Paths of containerd by version.
    pub runtimes: BTreeMap<String, String>,
    /// Paths of OCI runtimes (`runc`, `nvidia-container-runtime`) by name.
    pub container_runtimes: BTreeMap<String, String>,
    /// The folder of credential providers.
    pub credential_providers: String,
    /// The folder of CNI plugins.
    pub cni_plugins: String,
    /// The pause image that the image contains.
    pub sandbox_image: String,
    /// Exec plugins by `spec.credentialFrom.kind`.
    pub exec_plugins: BTreeMap<String, ExecPlugin>,
    /// `systemd-timesyncd.service`, `chrony.service`, `chronyd.service`.
    pub time_service: String,
    /// The resolver configuration for pods. Empty means the one that systemd-resolved uses if `/etc/resolv.conf` names its stub, else
    /// `/etc/resolv.conf`.
    pub resolv_conf: String,
    /// The folder for additional certificates.
    pub certificates: String,
    /// The bundle of trusted certificates.
    pub certificate_bundle: String,
    /// The device of the temporary disk. Empty: the first of [`crate::TEMPORARY_DISKS`] that the machine has.
    pub temporary_disk: String,
    /// The primary network interface.
    pub interface: String,
}

/// A program that gets a join credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecPlugin {
    pub command: String,
    /// `{name}` and `{endpoint}` are replaced with the values of `credentialFrom`. An argument whose value is empty is left out.
    pub args: Vec<String>,
}

impl Default for Image {
    fn default() -> Self {
        Self {
            kubelets: BTreeMap::new(),
            runtimes: BTreeMap::new(),
            container_runtimes: BTreeMap::new(),
            credential_providers: "/usr/libexec/kubernetes/kubelet-plugins/credential-provider/exec".to_owned(),
            cni_plugins: "/opt/cni/bin".to_owned(),
            sandbox_image: String::new(),
            exec_plugins: BTreeMap::new(),
            time_service: "systemd-timesyncd.service".to_owned(),
            resolv_conf: String::new(),
            certificates: "/usr/local/share/ca-certificates".to_owned(),
            certificate_bundle: "/etc/ssl/certs/ca-certificates.crt".to_owned(),
            temporary_disk: String::new(),
            interface: "eth0".to_owned(),
        }
    }
}

impl Image {
    /// The path of a kubelet. An image that lists none has one of unknown version.
    pub fn kubelet(&self, version: &str) -> Option<&str> {
        program(&self.kubelets, version, "/usr/bin/kubelet")
    }

    /// The path of containerd; the highest version if `version` is empty.
    pub fn runtime(&self, version: &str) -> Option<&str> {
        program(&self.runtimes, self.runtime_version(version), "/usr/bin/containerd")
    }

    /// The version of containerd: the requested one, else the highest of the image. Empty if unknown.
    pub fn runtime_version<'a>(&'a self, requested: &'a str) -> &'a str {
        if requested.is_empty() {
            self.runtimes.keys().max_by_key(|version| numbers(version)).map_or("", String::as_str)
        } else {
            requested
        }
    }
}

fn program<'a>(programs: &'a BTreeMap<String, String>, version: &str, default: &'a str) -> Option<&'a str> {
    if programs.is_empty() { Some(default) } else { programs.get(version).map(String::as_str) }
}

/// The numbers of a version, for comparison.
pub(crate) fn numbers(version: &str) -> Vec<u64> {
    let plain = version.trim_start_matches('v').split(['-', '+', '~']).next().unwrap_or_default();
    plain.split('.').map(|part| part.parse().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_image_file_means_default_paths() {
        let image: Image = serde_json::from_str("{}").expect("empty");
        assert_eq!(image, Image::default());
        assert_eq!(image.kubelet("1.33.7"), Some("/usr/bin/kubelet"));
        assert_eq!((image.runtime(""), image.runtime_version("")), (Some("/usr/bin/containerd"), ""));
    }

    #[test]
    fn listed_programs_are_the_only_ones() {
        let image: Image = serde_json::from_str(
            r#"{"kubelets": {"1.33.7": "/opt/k"}, "runtimes": {"1.7.9": "/opt/c1", "1.7.27": "/opt/c2"}}"#,
        )
        .expect("an image");
        assert_eq!((image.kubelet("1.33.7"), image.kubelet("1.33.8")), (Some("/opt/k"), None));
        assert_eq!((image.runtime_version(""), image.runtime("")), ("1.7.27", Some("/opt/c2")));
        assert_eq!(image.runtime("2.0.0"), None);
    }
}
