//! Lines that belong to one machine and stand in files that a clone would share.

use crate::os::{FileKind, Root};
use kiln_node_plan::FileState;
use kiln_types::FileLine;

/// Where a node's own name would act in a clone: units, their environment, kubelet's configuration.
const NAMED_IN: [&str; 5] =
    ["/etc/systemd/system", "/etc/default", "/etc/sysconfig", "/etc/kubernetes", "/var/lib/kubelet/config.yaml"];
/// Configurations of networks.
const NETWORKS: [&str; 5] = [
    "/etc/netplan",
    "/etc/systemd/network",
    "/etc/network",
    "/etc/sysconfig/network-scripts",
    "/etc/NetworkManager/system-connections",
];
/// A configuration file is smaller; larger ones are data.
const LARGEST: usize = 256 << 10;
/// Folders of configurations are not deeper.
const DEEPEST: usize = 4;
/// What is shown of a line.
const SHOWN: usize = 160;
/// A line with one of these may hold a secret and is not shown.
const SECRET: [&str; 8] = ["token", "password", "passwd", "secret", "key", "credential", "bearer", "authorization"];

/// Where the node's own name stands.
pub(super) fn host_names(root: &Root, name: &str) -> Result<Vec<FileLine>, crate::os::Error> {
    if name.is_empty() || name == "localhost" {
        return Ok(Vec::new());
    }
    lines(root, &NAMED_IN, |line| has_word(line, name))
}

/// Where an address of the node's own is configured.
pub(super) fn addresses(root: &Root) -> Result<Vec<FileLine>, crate::os::Error> {
    lines(root, &NETWORKS, is_static)
}

fn lines(root: &Root, places: &[&str], wanted: impl Fn(&str) -> bool) -> Result<Vec<FileLine>, crate::os::Error> {
    let mut files = Vec::new();
    for place in places {
        collect(root, place, 0, &mut files)?;
    }
    let mut found = Vec::new();
    for path in files {
        // Who may read it decides whether its lines are shown.
        let private = matches!(root.file_state(&path)?, FileState::File { mode, .. } if mode.trailing_zeros() >= 6);
        let bytes = root.read(&path)?;
        if bytes.len() > LARGEST || bytes.contains(&0) {
            continue;
        }
        for line in String::from_utf8_lossy(&bytes).lines().filter(|line| !is_comment(line) && wanted(line)) {
            found.push(FileLine { path: path.clone(), line: shown(line, private) });
        }
    }
    Ok(found)
}

/// Every file below, links left out: what they point at is shared by everybody.
fn collect(root: &Root, path: &str, depth: usize, into: &mut Vec<String>) -> Result<(), crate::os::Error> {
    match root.kind(path)? {
        Some(FileKind::File) => into.push(path.to_owned()),
        Some(FileKind::Folder) if depth < DEEPEST => {
            for name in root.names(path)? {
                collect(root, &format!("{path}/{name}"), depth + 1, into)?;
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

/// netplan's, networkd's, ifupdown's, and those of Red Hat's two.
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
    fn a_name_is_found_as_a_word_and_not_in_a_longer_one() {
        assert!(has_word("--hostname-override=node1 --v=2", "node1"));
        assert!(has_word("node1.example.com", "node1"));
        assert!(!has_word("node10", "node1") && !has_word("my-node1", "node1"));
    }

    #[test]
    fn addresses_of_every_notation_are_found_and_dhcp_is_none() {
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
    fn a_line_that_may_hold_a_secret_is_not_shown() {
        assert_eq!(shown("--token=abc --hostname-override=node1", false), "***");
        assert_eq!(shown("NAME=node1", true), "***");
        assert_eq!(shown(" NAME=node1 ", false), "NAME=node1");
    }
}
