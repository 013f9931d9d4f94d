//! The `.network` file with which systemd-networkd configures an interface: the first that matches, in the order of their names.
//!
//! networkd may not run yet, so its own answer is not available at a first boot. netplan writes
//! `/run/systemd/network/10-netplan-<name>.network` from a generator or from cloud-init, cloud-init itself
//! `/etc/systemd/network/10-cloud-init-<name>.network`.

use std::collections::BTreeMap;

/// The folders of `.network` files, strongest first: a file replaces the files with the same name in later folders.
pub const FOLDERS: [&str; 5] = [
    "/etc/systemd/network",
    "/run/systemd/network",
    "/usr/local/lib/systemd/network",
    "/usr/lib/systemd/network",
    "/lib/systemd/network",
];

/// The files that netplan and cloud-init write for an interface.
pub fn written_later(interface: &str) -> [String; 2] {
    [format!("10-netplan-{interface}.network"), format!("10-cloud-init-{interface}.network")]
}

/// A network interface, as `.network` files match it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// The MAC address in lower case with colons; empty if the interface does not exist yet.
    pub mac: String,
    /// The kernel driver; empty if unknown.
    pub driver: String,
}

/// The name of the file that matches an ethernet interface. `files` are names and texts, with the folders in the order of [`FOLDERS`].
pub fn find(files: &[(String, String)], interface: &Interface) -> Option<String> {
    let mut by_name: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".network")) {
        by_name.entry(name).or_insert(text);
    }
    by_name.into_iter().find(|(_, text)| is_match(text, interface)).map(|(name, _)| name.to_owned())
}

/// Whether the `[Match]` section matches. A condition that cannot be decided here counts as not met.
fn is_match(text: &str, interface: &Interface) -> bool {
    let mut section = "";
    let mut conditions = 0;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| section == "Match") {
            let value = value.trim();
            let met = match key.trim() {
                "Name" => is_listed(value, &interface.name),
                "MACAddress" | "PermanentMACAddress" => {
                    let addresses = value.to_ascii_lowercase().replace('-', ":");
                    !interface.mac.is_empty() && is_listed(&addresses, &interface.mac)
                }
                "Driver" => !interface.driver.is_empty() && is_listed(value, &interface.driver),
                "Type" => is_listed(value, "ether"),
                _ => false,
            };
            if !met {
                return false;
            }
            conditions += 1;
        }
    }
    conditions > 0
}

/// Whether one of several patterns matches; a leading `!` inverts the whole list.
fn is_listed(patterns: &str, text: &str) -> bool {
    let (patterns, inverted) = patterns.strip_prefix('!').map_or((patterns, false), |rest| (rest, true));
    patterns.split_whitespace().any(|pattern| is_glob(pattern.as_bytes(), text.as_bytes())) != inverted
}

/// Shell patterns with `*`, `?` and sets such as `[0-9]`.
fn is_glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skipped| is_glob(rest, &text[skipped..])),
        ([b'?', rest @ ..], [_, text @ ..]) => is_glob(rest, text),
        ([b'[', rest @ ..], [first, text @ ..]) => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            is_in_set(&rest[..end], *first) && is_glob(&rest[end + 1..], text)
        }
        ([wanted, rest @ ..], [first, text @ ..]) => wanted == first && is_glob(rest, text),
        _ => false,
    }
}

fn is_in_set(set: &[u8], byte: u8) -> bool {
    match set {
        [low, b'-', high, rest @ ..] => (*low..=*high).contains(&byte) || is_in_set(rest, byte),
        [first, rest @ ..] => *first == byte || is_in_set(rest, byte),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface() -> Interface {
        Interface { name: "eth0".to_owned(), mac: "00:0d:3a:aa:bb:cc".to_owned(), driver: "hv_netvsc".to_owned() }
    }

    fn found(files: &[(&str, &str)]) -> Option<String> {
        let files: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        find(&files, &interface())
    }

    #[test]
    fn netplan_and_cloud_init_files_are_found() {
        // As netplan.io 0.106 writes it for cloud-init's configuration on Azure.
        let netplan = "[Match]\nDriver=hv_netvsc\nMACAddress=00:0d:3a:aa:bb:cc\n\n[Link]\n\n[Network]\nDHCP=ipv4\n";
        assert_eq!(found(&[("10-netplan-eth0.network", netplan)]).as_deref(), Some("10-netplan-eth0.network"));
        let cloud_init = "[Match]\nMACAddress=00:0D:3A:AA:BB:CC\nName=eth0\n\n[Network]\nDHCP=ipv4\n";
        assert_eq!(found(&[("10-cloud-init-eth0.network", cloud_init)]).as_deref(), Some("10-cloud-init-eth0.network"));
        let donor = cloud_init.replace("AA:BB", "00:11");
        assert_eq!(found(&[("10-cloud-init-eth0.network", &donor)]), None);
    }

    #[test]
    fn first_file_by_name_wins() {
        let files = [
            ("80-dhcp.network", "[Match]\nName=e*\n"),
            ("01-sriov.network", "[Match]\nDriver=mlx4_en mlx5_core\n[Link]\nUnmanaged=yes\n"),
            ("50-others.network", "[Match]\nType=ether\nName=!eth0\n"),
            ("20-never.network", "[Match]\nHost=elsewhere\n"),
            ("15-empty.network", "[Network]\nName=eth0\n"),
            ("05-names.link", "[Match]\nName=eth0\n"),
        ];
        assert_eq!(found(&files).as_deref(), Some("80-dhcp.network"));
    }

    #[test]
    fn patterns_are_matched_as_by_a_shell() {
        assert!(is_listed("en* eth[0-9]", "eth0") && is_listed("eth?", "eth0"));
        assert!(!is_listed("!en* eth*", "eth0") && !is_listed("eth[1-9]", "eth0") && !is_listed("eth", "eth0"));
    }
}
