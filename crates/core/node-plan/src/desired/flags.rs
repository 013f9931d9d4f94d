//! The kubelet's flags, in two environment files: those it runs with, and those that only matter when it registers.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::{KUBELET_ROOT, kubelet_root, providers, quote};
use crate::file::DesiredFile;
use crate::labels;
use crate::layout::{self, current};

/// Flags that kiln sets, and the fields they come from.
const OWN: [(&str, &str); 12] = [
    ("--bootstrap-kubeconfig", "spec.credentialFrom"),
    ("--cert-dir", "no field: the kubelet's certificate stays on the OS disk"),
    ("--config", "spec.kubelet.configuration"),
    ("--config-dir", "spec.kubelet.configuration"),
    ("--hostname-override", "spec.platform.hostName"),
    ("--image-credential-provider-bin-dir", "spec.kubelet.credentialProviders"),
    ("--image-credential-provider-config", "spec.kubelet.credentialProviders"),
    ("--kubeconfig", "spec.credentialFrom"),
    ("--node-ip", "spec.kubelet.nodeIp"),
    ("--node-labels", "spec.kubelet.labels"),
    ("--register-with-taints", "spec.kubelet.taints"),
    ("--root-dir", "spec.kubelet.root"),
];

pub(super) fn render(draft: &mut Draft<'_>) {
    let kubelet = &draft.spec.kubelet;
    for (flag, value) in &kubelet.flags {
        if let Some((_, field)) = OWN.iter().find(|(own, _)| own == flag) {
            draft.reject(format!("spec.kubelet.flags[{flag}]"), format!("kiln sets this flag from {field}"));
        }
        let has_control = value.chars().chain(flag.chars()).any(char::is_control);
        draft.reject_if(
            has_control,
            format!("spec.kubelet.flags[{flag}]"),
            "a flag must not contain control characters",
        );
    }
    let args: Vec<String> = run_flags(draft).into_iter().map(|(flag, value)| format!("{flag}={value}")).collect();
    let text = quote::words("KUBELET_ARGS", args.iter().map(String::as_str)) + &proxies(draft);
    draft.file(DesiredFile::plain(layout::KUBELET_ENV, text).restarts(layout::KUBELET_UNIT));
    let args = register_flags(draft);
    let text = quote::words("KUBELET_REGISTER_ARGS", args.iter().map(String::as_str));
    draft.file(DesiredFile::plain(layout::REGISTER_ENV, text));
}

fn run_flags(draft: &Draft<'_>) -> BTreeMap<String, String> {
    let spec = draft.spec;
    let mut flags = spec.kubelet.flags.clone();
    let mut set = |flag: &str, value: String| flags.insert(flag.to_owned(), value);
    set("--config", current(layout::KUBELET_CONFIG));
    set("--kubeconfig", current(layout::KUBECONFIG));
    set("--cert-dir", parent(layout::CLIENT_CERTIFICATE).to_owned());
    // Set even without a credential: a kubelet with a certificate does not read the file, and this way adding or removing a credential
    // does not restart the kubelet.
    set("--bootstrap-kubeconfig", current(layout::BOOTSTRAP_KUBECONFIG));
    if draft.desired.file(providers::FILE).is_some() {
        set("--image-credential-provider-config", current(providers::FILE));
        set("--image-credential-provider-bin-dir", draft.facts.image.credential_providers.clone());
    }
    let root = kubelet_root(spec);
    if root != KUBELET_ROOT {
        set("--root-dir", root);
    }
    if !spec.platform.host_name.is_empty() {
        set("--hostname-override", spec.platform.host_name.clone());
    }
    if !spec.kubelet.node_ip.is_empty() {
        set("--node-ip", spec.kubelet.node_ip.clone());
    }
    flags
}

fn register_flags(draft: &Draft<'_>) -> Vec<String> {
    let kubelet = &draft.spec.kubelet;
    let mut args = Vec::new();
    // The kubelet refuses to start with a label that a node may not set itself. Those labels are requested from the cluster.
    let own: Vec<String> = kubelet
        .labels
        .iter()
        .filter(|(key, _)| labels::node_may_set(key))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !own.is_empty() {
        args.push(format!("--node-labels={}", own.join(",")));
    }
    let taints: Vec<String> =
        kubelet.taints.iter().map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect.as_str())).collect();
    if !taints.is_empty() {
        args.push(format!("--register-with-taints={}", taints.join(",")));
    }
    args
}

/// The proxy variables, in upper and lower case: some programs read only one of them.
pub(super) fn proxies(draft: &Draft<'_>) -> String {
    let proxy = &draft.spec.os.proxy;
    let none = proxy.no_proxy.join(",");
    [("HTTP_PROXY", &proxy.http), ("HTTPS_PROXY", &proxy.https), ("NO_PROXY", &none)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| quote::variable(name, value) + &quote::variable(&name.to_lowercase(), value))
        .collect()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(parent, _)| parent)
}
