//! What is in an image: versions and places of programs, so that nothing executes a big program to ask.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The file [`crate::layout::IMAGE`]. What it does not say has a default that an ordinary Debian or Ubuntu has, and then nothing is
/// known of versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Kubelets by version.
    pub kubelets: BTreeMap<String, String>,
    /// Runtimes (containerd) by version.
    pub runtimes: BTreeMap<String, String>,
    /// Programs that start containers (`runc`, `nvidia-container-runtime`) by name.
    pub container_runtimes: BTreeMap<String, String>,
    /// The folder of programs that answer for registries.
    pub credential_providers: String,
    /// The folder of network plugins.
    pub cni_plugins: String,
    /// The image of the pause container that is in the image.
    pub sandbox_image: String,
    /// Programs that fetch a credential to join with, by the kind of place.
    pub exec_plugins: BTreeMap<String, ExecPlugin>,
    /// The service that keeps the clock: `systemd-timesyncd.service`, `chrony.service`, `chronyd.service`.
    pub time_service: String,
    /// The file of name servers for pods, where it is not `/etc/resolv.conf`.
    pub resolv_conf: String,
    /// The folder of certificates that an administrator adds.
    pub certificates: String,
    /// The file of all certificates that programs trust.
    pub certificate_bundle: String,
    /// The disk that does not survive the machine.
    pub temporary_disk: String,
    /// The machine's interface to its network.
    pub interface: String,
}

/// A program that fetches a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecPlugin {
    pub command: String,
    /// Its arguments; `{name}` and `{endpoint}` stand for those of `credentialFrom`. An argument is left out where its text is empty.
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
            temporary_disk: "/dev/disk/azure/resource-part1".to_owned(),
            interface: "eth0".to_owned(),
        }
    }
}

impl Image {
    /// The kubelet of a version. An image that lists none has one, of whatever version.
    pub fn kubelet(&self, version: &str) -> Option<&str> {
        program(&self.kubelets, version, "/usr/bin/kubelet")
    }

    /// The runtime of a version; of the highest where none is asked for.
    pub fn runtime(&self, version: &str) -> Option<&str> {
        program(&self.runtimes, self.runtime_version(version), "/usr/bin/containerd")
    }

    /// The version of the runtime: the one that is asked for, else the highest of the image. Empty where nobody knows.
    pub fn runtime_version<'a>(&'a self, asked: &'a str) -> &'a str {
        if asked.is_empty() {
            self.runtimes.keys().max_by_key(|version| numbers(version)).map_or("", String::as_str)
        } else {
            asked
        }
    }
}

fn program<'a>(programs: &'a BTreeMap<String, String>, version: &str, usual: &'a str) -> Option<&'a str> {
    if programs.is_empty() { Some(usual) } else { programs.get(version).map(String::as_str) }
}

/// The numbers of a version, to compare.
pub(crate) fn numbers(version: &str) -> Vec<u64> {
    let plain = version.trim_start_matches('v').split(['-', '+', '~']).next().unwrap_or_default();
    plain.split('.').map(|part| part.parse().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_says_nothing_has_the_usual_programs() {
        let image: Image = serde_json::from_str("{}").expect("empty");
        assert_eq!(image, Image::default());
        assert_eq!(image.kubelet("1.33.7"), Some("/usr/bin/kubelet"));
        assert_eq!((image.runtime(""), image.runtime_version("")), (Some("/usr/bin/containerd"), ""));
    }

    #[test]
    fn an_image_that_lists_programs_has_no_others() {
        let image: Image = serde_json::from_str(
            r#"{"kubelets": {"1.33.7": "/opt/k"}, "runtimes": {"1.7.9": "/opt/c1", "1.7.27": "/opt/c2"}}"#,
        )
        .expect("an image");
        assert_eq!((image.kubelet("1.33.7"), image.kubelet("1.33.8")), (Some("/opt/k"), None));
        assert_eq!((image.runtime_version(""), image.runtime("")), ("1.7.27", Some("/opt/c2")));
        assert_eq!(image.runtime("2.0.0"), None);
    }
}
