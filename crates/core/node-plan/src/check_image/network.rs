//! Resolver, kernel settings, pod networks and interfaces that match one machine.

use std::collections::BTreeMap;

use super::{Finding, Purpose, Severity, Tree};
use crate::Image;
use crate::desired::rendered_cni;
use crate::resolver::uses_stub;

const RESOLV_CONF: &str = "/etc/resolv.conf";
const STUB: &str = "/run/systemd/resolve/stub-resolv.conf";
/// Kernel settings without which pods have no network.
const BASELINE: [&str; 3] =
    ["net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"];
const MODULE: &str = "br_netfilter";
/// A file in an earlier folder hides those of the same name in later ones.
const SYSCTL_FOLDERS: [&str; 5] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];
const SYSCTL_CONF: &str = "/etc/sysctl.conf";

/// Files from which containerd reads the pod network.
const POD_NETWORKS: [&str; 3] = ["/etc/cni/net.d/*.conf", "/etc/cni/net.d/*.conflist", "/etc/cni/net.d/*.json"];

/// Files with the configuration of interfaces, and the keys with which they match a MAC address.
const INTERFACES: [(&str, &[&str]); 7] = [
    ("/etc/netplan/*.yaml", &["macaddress:"]),
    ("/etc/systemd/network/*.network", &["MACAddress=", "PermanentMACAddress="]),
    ("/etc/systemd/network/*.link", &["MACAddress=", "PermanentMACAddress="]),
    ("/etc/NetworkManager/system-connections/*", &["mac-address="]),
    ("/etc/sysconfig/network-scripts/ifcfg-*", &["HWADDR="]),
    ("/etc/udev/rules.d/*-persistent-net.rules", &["ATTR{address}=="]),
    ("/etc/udev/rules.d/*-net-*.rules", &["ATTR{address}=="]),
];

pub(super) fn check(tree: &dyn Tree, purpose: Purpose, image: &Image, findings: &mut Vec<Finding>) {
    resolver(tree, image, findings);
    settings(tree, findings);
    pod_networks(tree, purpose, findings);
    for (pattern, keys) in INTERFACES {
        for path in tree.glob(pattern) {
            let text = tree.text(&path).unwrap_or_default();
            let is_pinned = |line: &str| {
                keys.iter().any(|key| line.trim_start().starts_with(key) || key.ends_with("==") && line.contains(key))
            };
            // In `.network` files the section decides: `MACAddress=` in `[Link]` sets an address.
            if matching_lines(&path, &text).any(is_pinned) {
                let severity = if purpose == Purpose::Image { Severity::Blocker } else { Severity::Note };
                findings.push(Finding {
                    id: "network-pinned-to-mac",
                    severity,
                    message: format!("`{path}` matches the MAC address of one machine; others get no network"),
                    fix: "match the interface by name or driver, or delete the file".to_owned(),
                    path,
                });
            }
        }
    }
}

/// The lines that can match an interface: those of `[Match]` in networkd's files, all lines elsewhere.
fn matching_lines<'t>(path: &str, text: &'t str) -> impl Iterator<Item = &'t str> {
    let has_sections = path.starts_with("/etc/systemd/network/");
    let mut is_match = !has_sections;
    text.lines().filter(move |line| {
        if has_sections && line.starts_with('[') {
            is_match = line.trim() == "[Match]";
        }
        is_match
    })
}

/// `CoreDNS` forwards to the name servers of the node's resolver configuration. A loopback address there is `CoreDNS` itself. For the stub of
/// systemd-resolved kilnd uses the servers that systemd-resolved writes.
fn resolver(tree: &dyn Tree, image: &Image, findings: &mut Vec<Finding>) {
    let path = if image.resolv_conf.is_empty() { RESOLV_CONF } else { &image.resolv_conf };
    let (target, text) = (tree.link(path), tree.text(path).unwrap_or_default());
    let is_stub = path == STUB || uses_stub(target.as_deref(), &text);
    if is_stub && image.resolv_conf.is_empty() && tree.is_wanted("systemd-resolved.service") {
        return;
    }
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let is_loop = |server: &str| server.starts_with("127.") || server == "::1";
    if is_stub || servers.map(str::trim).any(is_loop) {
        findings.push(Finding {
            id: "resolv-conf-loop",
            severity: Severity::Warning,
            path: path.to_owned(),
            message: format!("`{path}` names a resolver on the loopback device, so CoreDNS would forward to itself"),
            fix: "name a file with the addresses of real name servers in `resolvConf` of `image.json`".to_owned(),
        });
    }
}

/// Other pod networks than that of `network.plugin: bridge`. containerd uses the first file by name, and renders kiln's only if there is none. On a
/// running node the file may be that of the network plugin in use.
fn pod_networks(tree: &dyn Tree, purpose: Purpose, findings: &mut Vec<Finding>) {
    let paths = POD_NETWORKS.iter().flat_map(|pattern| tree.glob(pattern));
    for path in paths.filter(|path| *path != rendered_cni()) {
        findings.push(Finding {
            id: "pod-network-configured",
            severity: if purpose == Purpose::Image { Severity::Warning } else { Severity::Note },
            message: format!(
                "with `network.plugin: bridge`, pods would get the network of `{path}` instead of a bridge"
            ),
            fix: "delete the file, or use another `network.plugin`".to_owned(),
            path,
        });
    }
}

fn settings(tree: &dyn Tree, findings: &mut Vec<Finding>) {
    let values = sysctl(tree);
    for key in BASELINE {
        match values.get(key) {
            Some((value, path)) if value != "1" => findings.push(Finding {
                id: "sysctl-conflict",
                severity: Severity::Warning,
                path: path.clone(),
                message: format!("`{path}` sets `{key}` to `{value}`; pods need `1`"),
                fix: "remove the line, or set `spec.os.sysctl` in the document".to_owned(),
            }),
            Some(_) => {}
            None => findings.push(Finding {
                id: "sysctl-baseline",
                severity: Severity::Note,
                path: key.to_owned(),
                message: format!("no file of the image sets `{key}`, which pods need"),
                fix: format!("put `{key} = 1` into a file of `/etc/sysctl.d`, or set it in `spec.os.sysctl`"),
            }),
        }
    }
    let is_loaded =
        ["/etc/modules-load.d/*.conf", "/usr/lib/modules-load.d/*.conf", "/run/modules-load.d/*.conf", "/etc/modules"]
            .iter()
            .flat_map(|pattern| tree.glob(pattern))
            .any(|path| tree.text(&path).is_some_and(|text| text.lines().any(|line| line.trim() == MODULE)));
    if !is_loaded {
        findings.push(Finding {
            id: "br-netfilter-not-loaded",
            severity: Severity::Note,
            path: MODULE.to_owned(),
            message: format!(
                "no file of the image loads the kernel module `{MODULE}`, without which bridge settings do not exist"
            ),
            fix: format!("put `{MODULE}` into a file of `/etc/modules-load.d`, or into `spec.os.kernelModules`"),
        });
    }
}

/// The settings of all files with the file that sets each last, as systemd-sysctl reads them: by file name across all folders.
fn sysctl(tree: &dyn Tree) -> BTreeMap<String, (String, String)> {
    let mut files = BTreeMap::new();
    for folder in SYSCTL_FOLDERS {
        for name in tree.names(folder).into_iter().filter(|name| name.strip_suffix(".conf").is_some()) {
            let path = format!("{folder}/{name}");
            files.entry(name).or_insert(path);
        }
    }
    let mut values = BTreeMap::new();
    let paths = files.into_values().chain(Some(SYSCTL_CONF.to_owned()).filter(|path| tree.exists(path)));
    for path in paths {
        let text = tree.text(&path).unwrap_or_default();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            if let Some((key, value)) = line.split_once('=') {
                // A dash means that errors are ignored; slashes and dots are equivalent.
                let key = key.trim().trim_start_matches('-').replace('/', ".");
                values.insert(key, (value.trim().to_owned(), path.clone()));
            }
        }
    }
    values
}
