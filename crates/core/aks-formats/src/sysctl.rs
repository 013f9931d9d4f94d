//! Kernel settings of a node.

use std::collections::BTreeMap;

/// What every node gets. The file of the Node Bootstrapping Variables keeps this order.
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

/// The port that the node keeps for itself, which the range for outgoing connections must not swallow.
const RESERVED_PORT: u32 = 65330;

// The bytes of the contract, comment and all: a node that compares files sees no difference.
const HEAD: &str = "\
# This is a partial workaround to this upstream Kubernetes issue:
# https://github.com/kubernetes/kubernetes/issues/41916#issuecomment-312428731
";

/// The file of the Node Bootstrapping Variables.
pub fn nbv_file() -> String {
    DEFAULTS.iter().fold(HEAD.to_owned(), |file, (key, value)| format!("{file}{key}={value}\n"))
}

/// The file of `AKSNodeConfig`: what is asked for over the defaults, sorted.
pub fn anc_file(asked: &BTreeMap<&str, String>) -> String {
    let mut all: BTreeMap<&str, String> = DEFAULTS.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    all.extend(asked.iter().map(|(key, value)| (*key, value.clone())));
    let last_port = asked
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
    fn the_file_of_the_variables_ends_with_its_last_line() {
        let file = nbv_file();
        assert!(file.starts_with("# This") && file.ends_with("gc_thresh3=16384\n"));
        assert_eq!(file.lines().count(), 10);
    }

    #[test]
    fn what_is_asked_for_wins_and_the_lines_are_sorted() {
        let file =
            anc_file(&BTreeMap::from([("net.core.somaxconn", "5".to_owned()), ("vm.swappiness", "1".to_owned())]));
        assert!(file.contains("net.core.somaxconn=5\n") && !file.contains("16384\nnet.core"));
        assert!(file.lines().is_sorted());
        assert!(file.ends_with("vm.swappiness=1\n"));
    }

    #[test]
    fn a_range_of_ports_past_the_reserved_one_reserves_it() {
        let range = |text: &str| anc_file(&BTreeMap::from([("net.ipv4.ip_local_port_range", text.to_owned())]));
        assert!(range("32768 65331").contains("ip_local_reserved_ports=65330\n"));
        assert!(!range("32768 65330").contains("reserved"));
        assert!(!range("nonsense").contains("reserved"));
    }
}
