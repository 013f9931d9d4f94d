//! Kernel settings and modules that a pod network needs, whoever wrote the document.
//!
//! The baseline is weaker than everything explicit: `spec.os.sysctl` wins, and so does a `sysctl.d` file of the image that sets the same
//! name. Its file sorts before the usual ones, so that this is true at every boot. A value of the image that breaks the pod network is
//! kept and reported. With the plugin `none` an agent in the cluster configures the network, and its settings are the agent's.

use std::fmt::Write as _;
use std::net::IpAddr;

use kiln_node_config::spec::Spec;

use super::draft::Draft;
use super::kernel::{module_of, path_of};
use super::{Setting, bridge};
use crate::file::DesiredFile;

/// Sorts before the files of images, such as `10-network-security.conf` and `99-kubernetes.conf`, so that they win.
const FILE: &str = "/etc/sysctl.d/05-kiln-network.conf";

/// Loaded for every pod network: `overlay` for containers, `nf_conntrack` for kube-proxy, which also reads its settings.
const MODULES: [&str; 2] = ["nf_conntrack", "overlay"];

/// Without it packets between two pods on a bridge bypass the rules of kube-proxy, and answers of Services are lost.
const BRIDGE_MODULE: &str = "br_netfilter";

/// The modules to load.
pub(super) fn modules(spec: &Spec) -> Vec<&'static str> {
    if !is_network_of_node(spec) {
        return Vec::new();
    }
    let bridge = has_bridge(spec).then_some(BRIDGE_MODULE);
    bridge.into_iter().chain(MODULES).collect()
}

/// The settings by name.
fn settings(spec: &Spec) -> Vec<&'static str> {
    let mut names = Vec::new();
    if is_network_of_node(spec) {
        names.push("net.ipv4.ip_forward");
        if has_ipv6(spec) {
            names.push("net.ipv6.conf.all.forwarding");
        }
        if has_bridge(spec) {
            names.extend(["net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"]);
        }
    }
    names
}

pub(super) fn render(draft: &mut Draft<'_>) {
    let mut text = String::new();
    let document: Vec<String> = draft.spec.os.sysctl.keys().map(|name| path_of(name)).collect();
    for name in settings(draft.spec) {
        let path = path_of(name);
        if document.contains(&path) {
            continue;
        }
        match draft.facts.sysctls.get(&path) {
            Some(image) if image.value != "1" => {
                draft.desired.warnings.push(format!(
                    "`{}` sets `{name}` to `{}`, but the pod network needs 1; set it in `spec.os.sysctl`, or remove it from the image",
                    image.file, image.value
                ));
                continue;
            }
            Some(_) => {}
            None => _ = writeln!(text, "{name} = 1"),
        }
        let module = module_of(&path);
        let optional = module.is_some();
        draft.desired.kernel.push(Setting {
            path: format!("/proc/sys/{path}"),
            value: "1".to_owned(),
            optional,
            module,
        });
    }
    if !text.is_empty() {
        draft.elsewhere(DesiredFile::plain(FILE, text));
    }
}

fn is_network_of_node(spec: &Spec) -> bool {
    bridge::is_used(spec) || spec.network.plugin == "azure"
}

fn has_bridge(spec: &Spec) -> bool {
    bridge::is_used(spec) || spec.network.mode == "bridge"
}

/// Whether Services or the node itself have an IPv6 address, as in every cluster whose pods have one.
fn has_ipv6(spec: &Spec) -> bool {
    let node = spec.kubelet.node_ip.split(',');
    let services = spec.cluster.dns.service_ips.iter().map(String::as_str);
    services.chain(node).any(|ip| ip.parse().is_ok_and(|ip: IpAddr| ip.is_ipv6()))
}
