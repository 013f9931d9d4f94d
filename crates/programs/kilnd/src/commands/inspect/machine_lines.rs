//! Lines that are specific to one machine, in files that a clone would share.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::os::{FileKind, Root};
use kiln_node_plan::FileState;
use kiln_types::FileLine;

/// Files in which the host name would matter on a clone.
const HOST_NAME_FILES: [&str; 5] =
    ["/etc/systemd/system", "/etc/default", "/etc/sysconfig", "/etc/kubernetes", "/var/lib/kubelet/config.yaml"];
/// Files with the kubelet's arguments.
const KUBELET_FILES: [&str; 5] = [
    "/etc/default/kubelet",
    "/etc/sysconfig/kubelet",
    "/etc/systemd/system",
    "/usr/lib/systemd/system/kubelet.service.d",
    "/var/lib/kubelet/kubeadm-flags.env",
];
/// Network configuration.
const NETWORK_FILES: [&str; 5] = [
    "/etc/netplan",
    "/etc/systemd/network",
    "/etc/network",
    "/etc/sysconfig/network-scripts",
    "/etc/NetworkManager/system-connections",
];
/// Larger files are not configuration.
const LARGEST: usize = 256 << 10;
/// Depth limit.
const DEEPEST: usize = 4;
/// Maximum length of a shown line.
const SHOWN: usize = 160;
/// A line with one of these words is not shown.
const SECRET: [&str; 8] = ["token", "password", "passwd", "secret", "key", "credential", "bearer", "authorization"];

/// Lines with the host name.
pub(super) fn host_names(root: &Root, name: &str) -> Result<Vec<FileLine>, crate::os::Error> {
    if name.is_empty() || name == "localhost" {
        return Ok(Vec::new());
    }
    lines(root, &HOST_NAME_FILES, |line| has_word(line, name))
}

/// Lines with a static address.
pub(super) fn addresses(root: &Root) -> Result<Vec<FileLine>, crate::os::Error> {
    lines(root, &NETWORK_FILES, is_static)
}

/// Lines that give the kubelet a fixed address.
pub(super) fn node_ips(root: &Root) -> Result<Vec<FileLine>, crate::os::Error> {
    lines(root, &KUBELET_FILES, has_node_ip)
}

/// Whether a line has `--node-ip` with an address. A variable is set at each start, and `0.0.0.0` and `::` only choose the IP family.
fn has_node_ip(line: &str) -> bool {
    line.split("--node-ip").skip(1).any(|rest| {
        let value = rest.trim_start_matches(['=', ' ', '"', '\'']);
        let end = value.find(|c: char| !c.is_ascii_hexdigit() && !".:,".contains(c)).unwrap_or(value.len());
        let is_fixed = |address: &str| address.parse::<IpAddr>().is_ok_and(|address| !address.is_unspecified());
        value[..end].split(',').any(is_fixed)
    })
}

fn lines(root: &Root, paths: &[&str], wanted: impl Fn(&str) -> bool) -> Result<Vec<FileLine>, crate::os::Error> {
    let mut files = Vec::new();
    for path in paths {
        collect(root, Path::new(path), 0, &mut files)?;
    }
    let mut found = Vec::new();
    for path in files {
        // Lines of private files are not shown.
        let private = matches!(root.file_state(&path)?, FileState::File { mode, .. } if mode.trailing_zeros() >= 6);
        let bytes = root.read(&path)?;
        if bytes.len() > LARGEST || bytes.contains(&0) {
            continue;
        }
        for line in String::from_utf8_lossy(&bytes).lines().filter(|line| !is_comment(line) && wanted(line)) {
            found.push(FileLine { path: path.to_string_lossy().into_owned(), line: shown(line, private) });
        }
    }
    Ok(found)
}

/// Collects the files below a path, without links.
fn collect(root: &Root, path: &Path, depth: usize, into: &mut Vec<PathBuf>) -> Result<(), crate::os::Error> {
    match root.kind(path)? {
        Some(FileKind::File) => into.push(path.to_owned()),
        Some(FileKind::Folder) if depth < DEEPEST => {
            for name in root.names(path)? {
                collect(root, &path.join(name), depth + 1, into)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with(['#', ';'])
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '-' || character == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Recognizes netplan, networkd, ifupdown, network-scripts and NetworkManager.
fn is_static(line: &str) -> bool {
    let line = line.trim().trim_start_matches("- ");
    let value = |key: &str, separator: char| {
        line.strip_prefix(key).and_then(|rest| rest.trim_start().strip_prefix(separator)).map(str::trim)
    };
    value("addresses", ':').is_some_and(|list| list != "[]")
        || value("Address", '=').is_some_and(|address| !address.is_empty())
        || (line.starts_with("iface ") && line.ends_with(" static"))
        || value("IPADDR", '=').is_some_and(|address| !address.trim_matches('"').is_empty())
        || value("address1", '=').is_some()
}

fn shown(line: &str, private: bool) -> String {
    let line = line.trim();
    let small = line.to_ascii_lowercase();
    if private || SECRET.iter().any(|word| small.contains(word)) {
        return "***".to_owned();
    }
    line.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_name_is_matched_as_a_whole_word() {
        assert!(has_word("--hostname-override=node1 --v=2", "node1"));
        assert!(has_word("node1.example.com", "node1"));
        assert!(!has_word("node10", "node1") && !has_word("my-node1", "node1"));
    }

    #[test]
    fn fixed_node_ip_is_recognized() {
        for line in [
            "KUBELET_EXTRA_ARGS=--node-ip=10.0.0.4",
            "ARGS='--node-ip 10.0.0.4,fd00::4' --v=2",
            "X=\"--node-ip=fd00::4\"",
        ] {
            assert!(has_node_ip(line), "{line}");
        }
        for line in ["--node-ip=${NODE_IP}", "--node-ip=::", "--node-ip=0.0.0.0", "--node-ip", "--v=2", "--node-ip="] {
            assert!(!has_node_ip(line), "{line}");
        }
    }

    #[test]
    fn static_addresses_are_recognized_in_all_formats() {
        for line in [
            "      addresses: [10.0.0.4/24]",
            "      addresses:",
            "Address=10.0.0.4/24",
            "iface eth0 inet static",
            "IPADDR=10.0.0.4",
        ] {
            assert!(is_static(line), "{line}");
        }
        for line in ["dhcp4: true", "addresses: []", "iface eth0 inet dhcp", "IPADDR=\"\"", "DHCP=yes"] {
            assert!(!is_static(line), "{line}");
        }
    }

    #[test]
    fn lines_with_possible_secrets_are_hidden() {
        assert_eq!(shown("--token=abc --hostname-override=node1", false), "***");
        assert_eq!(shown("NAME=node1", true), "***");
        assert_eq!(shown(" NAME=node1 ", false), "NAME=node1");
    }
}
