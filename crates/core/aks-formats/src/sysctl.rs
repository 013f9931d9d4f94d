//! The sysctl file of a node.

use std::collections::BTreeMap;

/// Sysctls of every node, in the order of the file that the Node Bootstrapping Variables contain.
pub const DEFAULTS: [(&str, &str); 8] = [
    ("net.ipv4.tcp_retries2", "8"),
    ("net.core.message_burst", "80"),
    ("net.core.message_cost", "40"),
    ("net.core.somaxconn", "16384"),
    ("net.ipv4.tcp_max_syn_backlog", "16384"),
    ("net.ipv4.neigh.default.gc_thresh1", "4096"),
    ("net.ipv4.neigh.default.gc_thresh2", "8192"),
    ("net.ipv4.neigh.default.gc_thresh3", "16384"),
];

/// Port that the node reserves, so that outgoing connections do not use it.
const RESERVED_PORT: u32 = 65330;

// Part of the format, including the comment, so that the file is identical to the one AKS writes.
const HEAD: &str = "\
# This is a partial workaround to this upstream Kubernetes issue:
# https://github.com/kubernetes/kubernetes/issues/41916#issuecomment-312428731
";

/// Renders the default file of the Node Bootstrapping Variables.
pub fn nbv_file() -> String {
    DEFAULTS.iter().fold(HEAD.to_owned(), |file, (key, value)| format!("{file}{key}={value}\n"))
}

/// Renders the file of `AKSNodeConfig`: defaults overridden by `settings`, sorted.
pub fn anc_file(settings: &BTreeMap<&str, String>) -> String {
    let mut all: BTreeMap<&str, String> = DEFAULTS.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    all.extend(settings.iter().map(|(key, value)| (*key, value.clone())));
    let last_port = settings
        .get("net.ipv4.ip_local_port_range")
        .and_then(|range| range.split_whitespace().nth(1)?.parse::<u32>().ok());
    if last_port.is_some_and(|port| port > RESERVED_PORT) {
        all.insert("net.ipv4.ip_local_reserved_ports", RESERVED_PORT.to_string());
    }
    all.iter().fold(String::new(), |file, (key, value)| format!("{file}{key}={value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_file_has_ten_lines() {
        let file = nbv_file();
        assert!(file.starts_with("# This") && file.ends_with("gc_thresh3=16384\n"));
        assert_eq!(file.lines().count(), 10);
    }

    #[test]
    fn settings_override_defaults_and_lines_are_sorted() {
        let file =
            anc_file(&BTreeMap::from([("net.core.somaxconn", "5".to_owned()), ("vm.swappiness", "1".to_owned())]));
        assert!(file.contains("net.core.somaxconn=5\n") && !file.contains("16384\nnet.core"));
        assert!(file.lines().is_sorted());
        assert!(file.ends_with("vm.swappiness=1\n"));
    }

    #[test]
    fn port_is_reserved_if_the_local_range_includes_it() {
        let range = |text: &str| anc_file(&BTreeMap::from([("net.ipv4.ip_local_port_range", text.to_owned())]));
        assert!(range("32768 65331").contains("ip_local_reserved_ports=65330\n"));
        assert!(!range("32768 65330").contains("reserved"));
        assert!(!range("nonsense").contains("reserved"));
    }
}
